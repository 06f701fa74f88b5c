"""A run of ranks that is killed at random moments leaves nothing behind and ends with the same evidence.

`TORCHSPEC_TEST_KILLS` says how often (2 by default; 30 is the claim) and `TORCHSPEC_TEST_SEED` makes it repeatable.
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
from pathlib import Path
from typing import Any

import pytest

from torchspec import ledger as tool_ledger
from torchspec.harness.dist_processes import processes_with_token
from torchspec.model.plan import Limit, Plan

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HOLDS = Limit("holds", None, None, None, "holds")
LIMITS = {
    "collective.correct": HOLDS,
    "error.max_abs": Limit("absolute", "<=", 1.0, "1", "<= 1"),
    "checkpoint.resume": HOLDS,
}


def tokens(evidence: Path) -> list[str]:
    found = []
    for path in evidence.glob("logs/*/*/job.json"):
        found.append(json.loads(path.read_text())["token"])
    return found


def alive(evidence: Path) -> list[int]:
    return [pid for token in tokens(evidence) for pid in processes_with_token(token)]


def figures(evidence: Path) -> Counter[tuple[Any, ...]]:
    """How often each figure is in the ledger, whichever run it came from."""
    kinds = ("sample", "fact", "unsupported", "frozen.made", "cell.done")
    names = ("cell", "side", "metric", "against", "repeat", "status")
    return Counter(
        (record.kind, *(record.body.get(name) for name in names))
        for record in tool_ledger.read(evidence / "ledger.jsonl")
        if record.kind in kinds
    )


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
    kills = int(os.environ.get("TORCHSPEC_TEST_KILLS", "2"))
    rows = [
        ("reduce", "collective", "infer", {"operation": "all_reduce", "bytes": 4096, "dtype": "float32", "ranks": 2}),
        ("train", "ddp", "train", {"layers": 2, "hidden": 32, "batch": 4, "dtype": "float32", "ranks": 2}),
    ]
    plan = ranks_plan(rows, LIMITS)
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

    evidence = tmp_path / "killed"
    done = 0
    while done < kills:
        driver = start(evidence)
        kind = chance.choice(("driver", "launcher", "rank"))
        wait_s = chance.uniform(0.0, took)
        moment = time.monotonic() + wait_s
        victim = None
        while driver.poll() is None and (victim is None or time.monotonic() < moment):
            time.sleep(0.01)  # where there is none of the kind at the moment, the next one is taken
            victim = victim_of(kind, driver, evidence) if time.monotonic() >= moment else None
        if victim is None:
            assert driver.wait(1800) == 0  # it was over: begin anew
            assert figures(evidence) == wanted
            evidence = tmp_path / f"killed-{done}-{time.monotonic_ns()}"
            continue
        before = ports_of(alive(evidence))
        os.kill(victim, signal.SIGKILL)
        done += 1
        print(f"kill {done}: the {kind}, {wait_s:.1f} s from the start", flush=True)
        if kind == "driver":  # the next run goes on where this one was killed
            driver.wait()
            end = time.monotonic() + 10
            while alive(evidence) and time.monotonic() < end:
                time.sleep(0.02)
            assert alive(evidence) == [], f"after kill {done} of the {kind}"
            assert not before & ports_of()
            continue
        assert driver.wait(1800) == 0, f"after kill {done} of a {kind}"
        assert alive(evidence) == []
        assert figures(evidence) == wanted, f"after kill {done} of a {kind}"
        evidence = tmp_path / f"killed-{done}"
    assert start(evidence).wait(1800) == 0
    assert figures(evidence) == wanted
    assert tool_ledger.verify(evidence / "ledger.jsonl").problems == ()
