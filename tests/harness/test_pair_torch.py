"""The emitted harness on two real versions of torch: a whole run, every way to fail, and going on where it stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from torchspec import ledger as tool_ledger
from torchspec.model.codec import schema_errors
from torchspec.model.plan import Budget, Plan

pytestmark = pytest.mark.torch

TINY = "(torch.nn.Linear(8, 8), (torch.randn(4, 8),))"
IS_CANDIDATE = "tuple(int(x) for x in torch.__version__.split('.')[:2]) >= (2, 14)"
FAULTY = """
import os, signal, sys, time
from pathlib import Path
import torch
CANDIDATE = {is_candidate}

class Work(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x):
        {fault}
        return self.inner(x)

def build():
    return Work(), (torch.randn(4, 8),)
"""
FAULTS = {
    "fine": "pass",
    "raises": "if CANDIDATE: raise ValueError('not any more')",
    "exits": "if CANDIDATE: sys.exit(7)",
    "killed": "if CANDIDATE: os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": "if CANDIDATE: time.sleep(600)",
    "stops": "if CANDIDATE: os.kill(os.getpid(), signal.SIGSTOP)",
    "noisy": "os.write(1, b'\\x00\\x00\\x00\\x05noise' * 50); print('{\"ok\": true}')",
    "old": "if not CANDIDATE: raise ValueError('the old one fails')",
    "flaky": (
        "mark = Path(__file__).with_name('flaky.mark')\n"
        "        if CANDIDATE and not mark.exists():\n"
        "            mark.touch()\n"
        "            raise ValueError('only once')"
    ),
}
SHORT = Budget(cell_s=4.0, run_s=900.0, min_pairs=2, max_pairs=2, builds=2, rounds=3, block_ms=2.0, timeout_s=15.0)


@pytest.fixture
def command(baseline_python: Path, candidate_python: Path, tmp_path: Path) -> Callable[..., list[str]]:
    def made(harness: Path, *more: str) -> list[str]:
        sides = ["--baseline", str(baseline_python), "--candidate", str(candidate_python)]
        return [sys.executable, "-I", str(harness), "pair", *sides, "--evidence", str(tmp_path / "ev"), *more]

    return made


def records(folder: Path) -> list[dict[str, Any]]:
    assert not tool_ledger.verify(folder / "ev" / "ledger.jsonl").problems
    held = [json.loads(line) for line in (folder / "ev" / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(r["seq"], schema_errors("evidence", r)) for r in held if schema_errors("evidence", r)] == []
    return held


def of_kind(held: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [record["body"] for record in held if record["kind"] == kind]


def processes(folder: Path) -> Iterator[int]:
    """Every process that was started for the evidence below `folder`, the driver itself apart."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                line = place.joinpath("cmdline").read_bytes()
            except OSError:
                continue
            if str(folder / "ev").encode() in line and b"worker" in line:
                yield int(place.name)


def gone(folder: Path, within_s: float = 10.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not list(processes(folder)):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_a_whole_run_gives_every_figure(
    make_plan: Callable[..., Plan], harness_file: Callable[..., Path], command: Callable[..., list[str]], tmp_path: Path
) -> None:
    metrics = ("runs", "latency.p50", "throughput", "memory.driver_peak", "memory.allocated_peak", "error.max_abs")
    plan = make_plan(
        [("attention", "attention", "infer", {"dtype": "float32", "seq": 64, "mask": "causal"}),
         ("loss", "linear_cross_entropy", "train", {"dtype": "float32", "tokens": 16, "hidden": 8, "vocabulary": 50})],
        (*metrics, "determinism.output"),
        torch=("2.13.0", "2.14.1"),
        reload=("checkpoint",),
    )  # fmt: skip
    done = subprocess.run(command(harness_file(plan)), capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    held = records(tmp_path)
    assert {body["status"] for body in of_kind(held, "cell.done")} == {"measured"}
    samples = Counter((b["cell"], b["side"], b["metric"], b["against"]) for b in of_kind(held, "sample"))
    for cell in plan.cells:
        for side in ("baseline", "candidate"):
            assert samples[cell.id, side, "memory.driver_peak", None] == 3
            assert samples[cell.id, side, "memory.allocated_peak", None] == 3
            assert samples[cell.id, side, "error.max_abs", "cpu.float64"] == 1
        assert samples[cell.id, "candidate", "error.max_abs", "baseline"] == 1
        timings = [b for b in of_kind(held, "timing") if b["cell"] == cell.id]
        stages = Counter((b["stage"], b["planted"]) for b in timings)
        assert stages["measure", None] >= 2
        assert stages["same", None] >= 2
        assert stages["planted", 1.0] == stages["same", None]
        assert {b["pair"] for b in timings if b["stage"] == "measure"} == {0, 1}
        facts = [b for b in of_kind(held, "fact") if b["cell"] == cell.id]
        assert {(b["side"], b["metric"], b["holds"]) for b in facts} == {
            (side, "determinism.output", True) for side in ("baseline", "candidate")
        }
    assert samples[plan.cells[1].id, "candidate", "error.gradient_max_abs", "baseline"] == 1
    for body in of_kind(held, "sample"):
        if body["metric"] == "memory.driver_peak":
            detail = body["detail"]
            assert 0 <= detail["first_step"] <= body["value"]
            assert detail["later_step"] >= 0
            assert detail["modules_imported"] >= 0
    planted: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for body in of_kind(held, "control"):
        if body["metric"].startswith("memory."):
            assert body["error"] is None
            planted.setdefault((body["cell"], body["metric"]), []).append(body)
    assert len(planted) == 2 * len(plan.cells)
    for (cell_id, metric), bodies in planted.items():
        plain = median(
            b["value"]
            for b in of_kind(held, "sample")
            if (b["cell"], b["side"], b["metric"]) == (cell_id, "baseline", metric)
        )
        assert len(bodies) in (1, 3), "one process, and two more where its meter did not show it"
        assert median(b["value"] for b in bodies) > plain + 0.5 * bodies[0]["bytes"], bodies
    steps = of_kind(held, "rehearsal.step")
    assert {b["step"] for b in steps} == {"restore", "smoke", "reload.checkpoint"}
    assert all(b["ok"] for b in steps), steps
    made = {b["cell"]: (b["inputs"], b["weights"]) for b in of_kind(held, "frozen.made")}
    seen = [(b["cell"], (b["inputs"], b["weights"])) for b in of_kind(held, "frozen.seen")]
    assert len(seen) == 4
    assert all(made[cell] == digests for cell, digests in seen)
    assert not of_kind(held, "control.broken")
    assert of_kind(held, "run.end")[0]["status"] == "completed"
    assert gone(tmp_path)
    assert not (tmp_path / "ev" / "scratch").is_dir() or not list((tmp_path / "ev" / "scratch").iterdir())


@pytest.mark.slow
def test_no_side_that_fails_takes_the_run_down(
    make_plan: Callable[..., Plan], harness_file: Callable[..., Path], command: Callable[..., list[str]], tmp_path: Path
) -> None:
    team = {f"{name}.py": FAULTY.format(is_candidate=IS_CANDIDATE, fault=fault) for name, fault in FAULTS.items()}
    plan = make_plan(
        [(name, "python", "infer", {}) for name in FAULTS], ("runs", "error.max_abs"), team=team, budget=SHORT
    )
    done = subprocess.run(command(harness_file(plan)), capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    held = records(tmp_path)
    names = {cell.id: cell.workload for cell in plan.cells}
    status = {names[b["cell"]]: b["status"] for b in of_kind(held, "cell.done")}
    assert status == {
        "fine": "measured",
        "raises": "failed",
        "exits": "failed",
        "killed": "failed",
        "hangs": "failed",
        "stops": "failed",
        "noisy": "measured",
        "old": "error",
        "flaky": "measured",
    }
    failures: dict[str, list[dict[str, Any]]] = {}
    for body in of_kind(held, "side.failed"):
        failures.setdefault(names[body["cell"]], []).append(body)
    expected = {"raises": "raised", "exits": "exited", "killed": "killed", "hangs": "hung", "stops": "hung"}
    for name, how in expected.items():
        assert [b["how"] for b in failures[name]] == [how, how], name
        assert [b["attempt"] for b in failures[name]] == [0, 1]
        assert all(b["side"] == "candidate" and b["other_side_ran"] for b in failures[name])
    assert failures["raises"][0]["error"] == "ValueError: not any more"
    assert "not any more" in failures["raises"][0]["log"]["tail"]
    assert failures["exits"][0]["exit"] == 7
    assert failures["killed"][0]["signal"] == "SIGKILL"
    assert "SIGSTOP" in failures["stops"][0]["error"]
    assert {b["side"] for b in failures["old"]} == {"baseline"}
    assert [b["attempt"] for b in failures["flaky"]] == [0]
    assert set(failures) == {*expected, "old", "flaky"}
    assert gone(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_leaves_no_process_and_goes_on(
    make_plan: Callable[..., Plan],
    harness_file: Callable[..., Path],
    command: Callable[..., list[str]],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    team = {f"{name}.py": f"import torch\n\ndef build():\n    return {TINY}\n" for name in ("one", "two")}
    plan = make_plan(
        [(name, "python", "infer", {}) for name in ("one", "two")],
        ("runs", "error.max_abs", "determinism.output", "latency.p50"),
        team=team,
    )
    asked = command(harness_file(plan), "--progress", "json")
    driver = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    for line in driver.stdout:
        event = json.loads(line)
        if event["event"] == "doing" and "pair 2" in event["what"]:
            break
    driver.send_signal(number)  # at once: a pair of work as small as this takes a few tenths of a second
    driver.communicate(timeout=60)
    assert driver.returncode == (-number if number is signal.SIGKILL else 130)
    assert gone(tmp_path)
    before = records(tmp_path)
    if number is not signal.SIGKILL:
        assert before[-1]["kind"] == "run.end"
        assert before[-1]["body"]["status"] == "interrupted"
    done = subprocess.run(asked, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    held = records(tmp_path)
    starts = of_kind(held, "run.start")
    assert starts[1]["resumes"] == before[0]["run"]
    assert Counter(b["cell"] for b in of_kind(held, "cell.done")) == {cell.id: 1 for cell in plan.cells}
    keys = Counter((b["cell"], b["side"], b["metric"], b["against"], b["repeat"]) for b in of_kind(held, "sample"))
    assert set(keys.values()) == {1}
    pairs = Counter((b["cell"], b["stage"], b["planted"], b["pair"], b["build"]) for b in of_kind(held, "timing"))
    assert set(pairs.values()) == {1}
    assert len(of_kind(held, "frozen.made")) == 2
    assert gone(tmp_path)
    third = subprocess.run(asked, capture_output=True, text=True, timeout=100)
    assert third.returncode == 0
    assert not re.search(r'"event": "cell"', third.stdout)


def test_a_version_that_is_not_the_plans_is_a_broken_control(
    make_plan: Callable[..., Plan], harness_file: Callable[..., Path], command: Callable[..., list[str]], tmp_path: Path
) -> None:
    plan = make_plan([("attention", "attention", "infer", {"seq": 16})], torch=("2.13.0", "2.14.0"))
    done = subprocess.run(command(harness_file(plan)), capture_output=True, text=True, timeout=200)
    assert done.returncode == 3
    held = records(tmp_path)
    assert [b["what"] for b in of_kind(held, "control.broken")] == ["torch of candidate"]
    assert [b["status"] for b in of_kind(held, "cell.done")] == ["error"]
    assert not of_kind(held, "timing")


@pytest.mark.parametrize(
    ("backend", "why", "sides"),
    [
        ("cuda", "baseline: this", {"baseline", "candidate"}),
        ("rocm", "baseline: this", {"baseline", "candidate"}),
        ("mps", "baseline: this", {"baseline", "candidate"}),
        # Ranks are here, but this kind has no way to run on them: the first side to open it says so, and ends the cell.
        ("distributed", "baseline: the kind attention cannot run on ranks", {"baseline"}),
    ],
)
def test_a_backend_that_is_not_here_ends_in_not_run(
    make_plan: Callable[..., Plan],
    harness_file: Callable[..., Path],
    command: Callable[..., list[str]],
    tmp_path: Path,
    backend: str,
    why: str,
    sides: set[str],
) -> None:
    plan = make_plan([("attention", "attention", "infer", {"seq": 16})], backends=(backend,))
    done = subprocess.run(command(harness_file(plan)), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    held = records(tmp_path)
    (ending,) = of_kind(held, "cell.done")
    assert ending["status"] == "not_run"
    assert ending["reason"].startswith(why)
    assert {b["side"] for b in of_kind(held, "unsupported")} == sides
    assert not of_kind(held, "side.failed")
    assert os.path.isdir(tmp_path / "ev")
