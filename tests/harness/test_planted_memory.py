"""The control of memory gates in the harness, with mock workers; a real one is in `test_pair_torch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mock_workers import BUDGET, WORK, Bench, MockWorker, never

from torchspec import ledger as tool_ledger
from torchspec.harness import dist_cells
from torchspec.harness.fresh import FreshCell
from torchspec.harness.planted_memory import LEAST_BYTES, PlantedMemory, planted_bytes
from torchspec.harness.progress import Estimate
from torchspec.harness.supervise import WorkerFailed
from torchspec.model.plan import Limit, Plan

DRIVER, TENSORS = "memory.driver_peak", "memory.allocated_peak"


@pytest.mark.parametrize(
    ("metric", "form", "value", "sees", "planted"),
    [
        (DRIVER, "growth", 0.10, None, 20_000_000),
        (DRIVER, "growth", 0.10, 0.12, 12_000_000),
        (DRIVER, "growth", 0.0, None, 5_000_000),
        (DRIVER, "increase", 16e6, None, 32_000_000),
        (DRIVER, "increase", 0.0, None, LEAST_BYTES),
        (DRIVER, "absolute", 1e9, None, None),
        (DRIVER, "report", None, None, None),
        ("memory.fragmentation", "growth", 0.10, None, None),
    ],
)
def test_what_is_planted(metric: str, form: str, value: float | None, sees: float | None, planted: int | None) -> None:
    gate = {"metric": metric, "limit": {"form": form, "op": "<=", "value": value}, "sees": sees, "against": "baseline"}
    assert planted_bytes(gate, 1e8) == planted
    assert planted_bytes({**gate, "against": "beside"}, 1e8) is None


@pytest.fixture
def bench(make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def made(fault: Any = never) -> tuple[Bench, FreshCell]:
        plan = make_plan(WORK[:1], [DRIVER, TENSORS], budget=BUDGET)
        limits = {DRIVER: Limit("increase", "<=", 16e6, "MB", ""), TENSORS: Limit("growth", "<=", 0.05, "%", "")}
        plan = replace(plan, gates=tuple(replace(gate, limit=limits[gate.metric]) for gate in plan.gates))
        found = Bench(plan, tmp_path, fault, monkeypatch)
        (cell,) = found.embedded.cells
        for metric in (DRIVER, TENSORS):
            body = {"cell": cell, "side": "baseline", "metric": metric, "value": 1e8, "against": None, "repeat": 0}
            found.run.write("sample", body)
        return found, FreshCell(found.run, cell, Estimate(found.run.progress, 1.0))

    return made


def controls(bench: Bench) -> list[dict[str, Any]]:
    bench.ledger.close()
    return [dict(record.body) for record in tool_ledger.read(bench.path) if record.kind == "control"]


def test_one_process_takes_the_controls_of_a_cell_once(bench: Callable[..., Any]) -> None:
    made, cell = bench()
    PlantedMemory(cell).take()
    PlantedMemory(cell).take()
    assert [purpose for purpose, _ in made.started] == ["planted-memory"]
    told = controls(made)
    assert [(one["metric"], one["bytes"], one["value"], one["error"]) for one in told] == [
        (DRIVER, 32_000_000, 1.32e8, None),  # the process's own meter first
        (TENSORS, 10_000_000, 1.1e8, None),
    ]


def test_a_control_that_fails_is_said_and_tried_again_by_the_next_run(bench: Callable[..., Any]) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "memory" and len(made.started) == 1:
            worker.fail("killed", "memory", "out of memory")

    made, cell = bench(fault)
    PlantedMemory(cell).take()
    PlantedMemory(cell).take()
    told = controls(made)
    assert ["out of memory" in (one["error"] or "") for one in told] == [True, True, False, False]
    assert len(made.started) == 2


@pytest.mark.parametrize(("ends", "values"), [(False, [1.0e8, 1.32e8, 1.32e8]), (True, [1.0e8])])
def test_where_the_first_process_does_not_show_it_two_more_are_asked(
    ends: bool, values: list[float], bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def measured(self: PlantedMemory, wanted: dict[str, int]) -> dict[str, tuple[float, str]]:
        asked.append(sorted(wanted))
        if ends and len(asked) == 2:
            raise WorkerFailed("killed", "memory", "out of memory")
        low = len(asked) == 1  # the process's meter is a block lower this time
        return {name: (1e8 if low and name == DRIVER else 1e8 + more, "mock") for name, more in wanted.items()}

    monkeypatch.setattr(PlantedMemory, "_measured", measured)
    made, cell = bench()
    PlantedMemory(cell).take()
    assert asked[0] == [TENSORS, DRIVER]
    assert asked[1:] == [[DRIVER]] * (1 if ends else 2)
    told = [(one["metric"], one["value"], one["error"]) for one in controls(made)]
    assert told == [*((DRIVER, value, None) for value in values), (TENSORS, 1.1e8, None)]


def test_no_time_is_said(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made, cell = bench()
    monkeypatch.setattr(made.run, "out_of_time", lambda: True)
    PlantedMemory(cell).take()
    assert made.started == []
    assert {one["error"] for one in controls(made)} == {"the time for the whole run was spent before it"}


def test_ranks_take_it_behind_all_figures_of_the_round_that_is_not_timed(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only the baseline's job is asked must come before no figure of another cell and before no timed pair."""
    work = [("one", "fsdp2", "train", {"ranks": 2}), ("two", "ddp", "train", {"ranks": 2})]
    made = Bench(make_plan(work, [DRIVER], backends=("distributed",), budget=BUDGET), tmp_path, never, monkeypatch)
    log: list[str] = []

    def name(cell: Any) -> str:
        return str(made.embedded.cells[cell.cell]["workload"])

    monkeypatch.setattr(made.run, "rank_counts", lambda cells: [2], raising=False)
    monkeypatch.setattr(dist_cells.RankCell, "round", lambda self, repeat: log.append(f"round {name(self)}"))
    monkeypatch.setattr(dist_cells.CheckpointFacts, "all", lambda self: log.append(f"checkpoints {name(self.cell)}"))
    monkeypatch.setattr(dist_cells.RankPlantedMemory, "take", lambda self: log.append(f"planted {name(self.cell)}"))
    monkeypatch.setattr(dist_cells.Pairs, "early", lambda self: log.append("pair"))
    monkeypatch.setattr(dist_cells.RankPool, "begin", lambda self, label, counts: log.append(label))
    monkeypatch.setattr(dist_cells.RankPool, "end", lambda self: log.append("end"))
    run: Any = made.run
    cells = dist_cells.RankCells(run, list(made.embedded.cells), Estimate(run.progress, 1.0))
    cells._round(0)
    cells._round(1)
    first = ["round one", "checkpoints one", "round two", "checkpoints two", "planted one", "planted two"]
    assert log == ["round0", *first, "end", "round1", "round one", "round two", "pair", "end"]
