"""A run of ranks that is killed at random moments leaves nothing behind and ends with the same evidence.

`TORCHSPEC_TEST_KILLS` says how often (once by default; 30 is the claim) and `TORCHSPEC_TEST_SEED` makes it repeatable.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchspec import ledger as tool_ledger
from torchspec.harness.dist_processes import processes_with_token
from torchspec.model.plan import Limit, Plan

KILLS = int(os.environ.get("TORCHSPEC_TEST_KILLS", "1"))
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900 + 180 * KILLS)]

HOLDS = Limit("holds", None, None, None, "holds")
#: The timed limit is one that no noise crosses, so that every run takes the same pairs.
LIMITS = {
    "collective.correct": HOLDS,
    "collective.rank_late": HOLDS,
    "comm.latency_p50": Limit("growth", "<=", 9.0, "%", "growth <= 900 %"),
    "error.max_abs": Limit("absolute", "<=", 1.0, "1", "<= 1"),
    "checkpoint.resume": HOLDS,
    "recovery.rank_killed": HOLDS,
}
#: kind -> what tells its records apart and must be the same however often a run was killed.
KEYS = {
    "sample": ("cell", "side", "metric", "against", "repeat"),
    "fact": ("cell", "side", "metric", "against", "holds", "error"),
    "unsupported": ("cell", "side", "metric", "against", "where"),
    "frozen.made": ("cell", "inputs", "weights"),
    "control": ("cell", "metric", "what", "planted", "error"),
    "cell.done": ("cell", "status", "reason"),
}


def tokens(evidence: Path) -> list[str]:
    found = []
    for path in evidence.glob("logs/*/*/job.json"):
        found.append(json.loads(path.read_text())["token"])
    return found


def alive(evidence: Path) -> list[int]:
    return [pid for token in tokens(evidence) for pid in processes_with_token(token)]


def figures(evidence: Path) -> Counter[tuple[Any, ...]]:
    """How often each figure is in the ledger, whichever run it came from: with its value, where a run without a kill
    gives the same one each time (facts, errors, digests of results), and without, where it is a time. A pair that was
    cut short is no pair: another is taken in its place, under the next number."""
    found: Counter[tuple[Any, ...]] = whole_pairs(evidence)
    for record in tool_ledger.read(evidence / "ledger.jsonl"):
        if record.kind not in KEYS:
            continue
        body, more = record.body, []
        if record.kind == "sample" and body["metric"].startswith("error."):
            more.append(body["value"])
        if record.kind == "sample" and body["metric"] == "process":
            more.append(json.dumps(body["detail"]["digests"], sort_keys=True))
        found[(record.kind, *(body.get(name) for name in KEYS[record.kind]), *more)] += 1
    return found


def whole_pairs(evidence: Path) -> Counter[tuple[Any, ...]]:
    """Each build of each whole pair of ranks, with how many rounds it has; pairs are counted in their order."""
    builds: dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = {}
    for body in of_kind(evidence, "timing"):
        comparison = tuple(body[name] for name in ("cell", "against", "stage", "planted", "a", "b"))
        builds.setdefault(comparison, {}).setdefault(body["pair"], []).append(body)
    found: Counter[tuple[Any, ...]] = Counter()
    for comparison, pairs in builds.items():
        meant = [
            held
            for _, held in sorted(pairs.items())
            if len(held) >= held[0]["of"]["builds"] and all(len(b["rounds"]) >= b["of"]["rounds"] for b in held)
        ]
        for number, held in enumerate(meant):
            for body in held:
                found["timing", *comparison, number, body["build"], len(body["rounds"])] += 1
    return found


def of_kind(evidence: Path, kind: str) -> list[dict[str, Any]]:
    return [dict(record.body) for record in tool_ledger.read(evidence / "ledger.jsonl") if record.kind == kind]


def differences(found: Counter[tuple[Any, ...]], wanted: Counter[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """What is lost and what is too much; empty where the two are the same."""
    said = {
        "lost": sorted(map(str, (wanted - found).elements())),
        "more": sorted(map(str, (found - wanted).elements())),
    }
    return {name: rows for name, rows in said.items() if rows}


def victim_of(kind: str, driver: subprocess.Popen[bytes], evidence: Path) -> int | None:
    """A process to kill: the driver, a launcher or a rank; None while there is none of the kind."""
    if kind == "driver":
        return driver.pid
    for pid in alive(evidence):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if (b"torch.distributed.run" in line) == (kind == "launcher"):
            return pid
    return None


def test_killed_at_random_moments(
    tmp_path: Path, ranks_plan: Callable[..., Plan], harness_file: Callable[..., Path], baseline_python: Path,
    candidate_python: Path, ports_of: Callable[..., set[int]],
) -> None:  # fmt: skip
    chance = random.Random(os.environ.get("TORCHSPEC_TEST_SEED", "ranks"))
    rows = [
        ("reduce", "collective", "infer", {"operation": "all_reduce", "bytes": 4096, "dtype": "float32", "ranks": 2}),
        ("train", "ddp", "train", {"layers": 2, "hidden": 32, "batch": 4, "dtype": "float32", "ranks": 2}),
    ]
    plan = ranks_plan(rows, LIMITS)
    plan = replace(plan, budget=replace(plan.budget, builds=2))
    harness = harness_file(plan)

    def start(evidence: Path) -> subprocess.Popen[bytes]:
        argv = [sys.executable, str(harness), "pair", "--baseline", str(baseline_python)]
        argv += ["--candidate", str(candidate_python), "--evidence", str(evidence)]
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL)

    whole = tmp_path / "whole"
    begin = time.monotonic()
    assert start(whole).wait(1800) == 0
    took = time.monotonic() - begin
    wanted = figures(whole)
    assert set(wanted.values()) == {1}
    kinds = Counter(kind for kind, *_ in wanted)
    assert {"fact", "timing", "control", "frozen.made", "cell.done"} <= set(kinds), kinds
    assert all(body["holds"] for body in of_kind(whole, "fact"))

    evidence = tmp_path / "killed"
    done, spent_s = 0, 0.0  # kills, and how far this evidence is
    while done < KILLS:
        driver = start(evidence)
        kind = chance.choice(("driver", "launcher", "rank"))
        wait_s = chance.uniform(0.0, max(took / 10, took - spent_s))
        moment = time.monotonic() + wait_s
        victim = None
        while driver.poll() is None and (victim is None or time.monotonic() < moment):
            time.sleep(0.01)  # where there is none of the kind at the moment, the next one is taken
            victim = victim_of(kind, driver, evidence) if time.monotonic() >= moment else None
        if victim is None:
            assert driver.wait(1800) == 0  # it was over: begin anew
            assert differences(figures(evidence), wanted) == {}
            evidence, spent_s = tmp_path / f"killed-{done}-{time.monotonic_ns()}", 0.0
            continue
        before = ports_of(alive(evidence))
        os.kill(victim, signal.SIGKILL)
        done += 1
        print(f"kill {done}: the {kind}, {wait_s:.1f} s from the start", flush=True)
        if kind == "driver":  # the next run goes on where this one was killed
            driver.wait()
            spent_s += wait_s
            end = time.monotonic() + 10  # a process that is ending gives up its memory first, and then its ports
            while (alive(evidence) or before & ports_of()) and time.monotonic() < end:
                time.sleep(0.02)
            assert alive(evidence) == [], f"after kill {done} of the {kind}"
            assert not before & ports_of(), f"after kill {done} of the {kind}"
            continue
        assert driver.wait(1800) == 0, f"after kill {done} of a {kind}"
        assert alive(evidence) == []
        assert differences(figures(evidence), wanted) == {}, f"after kill {done} of a {kind}"
        assert tool_ledger.verify(evidence / "ledger.jsonl").problems == ()
        evidence, spent_s = tmp_path / f"killed-{done}", 0.0
    if evidence.exists():  # the last kill was the driver's
        assert start(evidence).wait(1800) == 0
        assert differences(figures(evidence), wanted) == {}
        assert tool_ledger.verify(evidence / "ledger.jsonl").problems == ()
