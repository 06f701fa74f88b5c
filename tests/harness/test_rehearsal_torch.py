"""The rehearsal of going back: on what was rebuilt, and taken up where a run was killed in the middle of it; and that
state which was read is told from state which was not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchspec import ledger as tool_ledger
from torchspec.judge import judge
from torchspec.model.plan import Budget, Plan, Rollback

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SHORT = Budget(cell_s=2.0, run_s=1200.0, min_pairs=2, max_pairs=2, builds=1, rounds=2, block_ms=1.0, timeout_s=300.0)


def test_going_back_happens_on_what_was_rebuilt_and_goes_on_where_it_was_killed(
    make_plan: Callable[..., Plan], harness_file: Callable[..., Path], tmp_path: Path, baseline_python: Path,
    candidate_python: Path,
) -> None:  # fmt: skip
    axes = {"dtype": "float32", "tokens": 16, "hidden": 8, "vocabulary": 50}
    plan = make_plan([("loss", "linear_cross_entropy", "train", axes)], reload=("checkpoint",), budget=SHORT)
    marks, rebuilt = tmp_path / "marks", tmp_path / "rebuilt"
    rebuilt.write_text(f'#!/bin/sh\necho used >> "{marks}"\nexec "{baseline_python}" "$@"\n')
    rebuilt.chmod(0o755)
    rebuilding = [
        {"step": f"rebuild.{way}", "cell": None, "ok": True, "seconds": 30.0, "detail": {}, "error": None}
        for way in ("cache", "scratch")
    ]
    context = tmp_path / "context.json"
    path = tmp_path / "ev" / "ledger.jsonl"
    argv = [sys.executable, "-I", str(harness_file(plan)), "pair", "--baseline", str(baseline_python)]
    argv += ["--candidate", str(candidate_python), "--evidence", str(tmp_path / "ev"), "--context", str(context)]

    def steps(told: dict[str, Any]) -> list[tuple[str, bool]]:
        context.write_text(json.dumps(told))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        assert tool_ledger.verify(path).problems == ()
        found = [r.body for r in tool_ledger.read(path) if r.kind == "rehearsal.step"]
        return [(body["step"], body["ok"]) for body in found]

    whole = [(step, True) for step in ("rebuild.cache", "rebuild.scratch", "restore", "smoke", "reload.checkpoint")]
    assert steps({"rebuilt": {"python": str(rebuilt), "steps": rebuilding}}) == whole
    assert marks.read_text() == "used\n"  # nothing but the rehearsal ran on it
    (restored,) = [r.body for r in tool_ledger.read(path) if r.body.get("step") == "restore"]
    assert restored["detail"]["environment"] == "rebuilt from its lock"
    rehearsal = judge(plan, tool_ledger.read(path)).rehearsals["candidate"]
    assert rehearsal.outcome == "pass"
    assert rehearsal.seconds == pytest.approx(sum(step["seconds"] for step in rehearsal.steps) - 30.0)  # one way of two

    lines = path.read_text().splitlines(keepends=True)
    end = next(i for i, line in enumerate(lines) if json.loads(line)["body"].get("step") == "restore")
    path.write_text("".join(lines[: end + 1]))  # as a driver leaves it that was killed just behind a step
    assert steps({}) == whole


def test_state_is_held_bit_for_bit_and_goes_on_or_the_reason_is_said(baseline_python: Path, tmp_path: Path) -> None:
    here = Path(__file__).resolve()
    program, harness = here.with_name("restored_program.py"), here.parents[2] / "torchspec" / "harness"
    argv = [str(baseline_python), "-I", str(program), str(harness), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.rsplit("FOUND ", 1)[1])
    odd = {name: why for name, why in found.items() if why is not None}
    assert len(found) == len(odd) + 7
    state = "the optimizer's state that was loaded is not what was saved"
    stuck = "the work does not go on from what was loaded: its next loss or weights are not finite"
    assert odd == {
        "forgetful": state,
        "other setting": state,
        "weights that are NaN": stuck,
        "moments that are infinite": stuck,
    }


def test_ranks_go_back_in_their_largest_number_and_export_nothing(
    ranks_plan: Callable[..., Plan], harness_file: Callable[..., Path], tmp_path: Path, baseline_python: Path,
    candidate_python: Path,
) -> None:  # fmt: skip
    axes = {"layers": 1, "hidden": 16, "batch": 2, "dtype": "float32"}
    plan = ranks_plan([("learn", "fsdp2", "train", {**axes, "ranks": count}) for count in (1, 2)], {})
    plan = replace(plan, rollback=Rollback("baseline", 600.0, ("checkpoint", "export")))
    argv = [sys.executable, "-I", str(harness_file(plan)), "pair", "--baseline", str(baseline_python)]
    argv += ["--candidate", str(candidate_python), "--evidence", str(tmp_path / "ev")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    path = tmp_path / "ev" / "ledger.jsonl"
    steps = [r.body for r in tool_ledger.read(path) if r.kind == "rehearsal.step"]
    two = plan.cells[1].id
    assert [(step["step"], step["cell"], step["error"]) for step in steps] == [
        ("restore", None, None),
        ("smoke", two, None),
        ("reload.checkpoint", two, None),
    ]
    assert set(steps[-1]["detail"]["losses"]) == {"written", "sharded", "whole"}
    rehearsal = judge(plan, tool_ledger.read(path)).rehearsals["candidate"]
    assert rehearsal.reason == (
        "not rehearsed: the baseline reading the candidate's exported program (no cell was measured in the mode export)"
    )
