"""How a run goes through its two sides, with mock workers: who waits for whom, and what the last record says."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mock_workers import Bench, never

from torchspec import ledger as tool_ledger
from torchspec.harness.driver import Driver
from torchspec.harness.fresh import FreshCell
from torchspec.harness.progress import Estimate, Progress
from torchspec.model.plan import Plan


@pytest.mark.parametrize(("shared", "metric", "overlap"), [
    (True, "memory.driver_peak", False), (False, "memory.driver_peak", True), (True, "error.max_abs", True),
])  # fmt: skip
def test_where_one_meter_reads_for_all_processes_the_sides_take_turns(
    shared: bool, metric: str, overlap: bool, make_plan: Callable[..., Plan], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Else one side's context, weights and peak would be in the other's figure."""
    plan = make_plan([("one", "attention", "infer", {"seq": 16})], [metric])
    monkeypatch.setattr("torchspec.harness.fresh.usable_cores", lambda: list(range(8)))
    bench = Bench(plan, tmp_path, never, monkeypatch)
    bench.run.shared_meter = shared
    (name,) = bench.embedded.cells
    cell = FreshCell(bench.run, name, Estimate(bench.run.progress, 1.0))
    inside: list[int] = []
    most: list[int] = []

    def turn(side: str, repeat: int, failed: dict[str, Any]) -> None:
        inside.append(1)
        end = time.monotonic() + (5.0 if overlap else 0.3)
        while len(inside) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        most.append(len(inside))
        if not overlap:
            inside.pop()

    monkeypatch.setattr(cell, "_turn", turn)
    cell._both_sides(0, 1)
    assert max(most) == (2 if overlap else 1)


def test_a_run_that_ends_in_our_own_bug_does_not_say_completed(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    plan = make_plan([("one", "attention", "infer", {"seq": 16})], ["error.max_abs"])
    held = Bench(plan, tmp_path, never, monkeypatch).embedded
    held.source.write_text("# a harness\n", encoding="utf-8")
    driver = Driver(held, {"baseline": "a", "candidate": "b"}, "candidate", tmp_path / "evidence", [], None, None, {},
                    Progress("json"))  # fmt: skip

    def bug() -> None:
        raise KeyError("unheard of")

    monkeypatch.setattr(driver, "_measure", bug)
    with pytest.raises(KeyError):
        driver.go()
    (end,) = [r.body for r in tool_ledger.read(tmp_path / "evidence" / "ledger.jsonl") if r.kind == "run.end"]
    assert (end["status"], end["reason"]) == ("failed", "KeyError: 'unheard of'")
