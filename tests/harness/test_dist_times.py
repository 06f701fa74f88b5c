"""Times of checkpoints: three figures a side, in the rounds' own jobs, so that a gate on them can pass and fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness import device_distributed
from torchspec.harness.dist_cells import RankCells
from torchspec.harness.dist_checks import CheckpointFacts
from torchspec.harness.dist_times import CheckpointTimes
from torchspec.harness.needs import Needs
from torchspec.harness.supervise import Unable, WorkerFailed
from torchspec.model.plan import Limit, Plan

SIDES = ("baseline", "candidate")
TIMES = ("checkpoint.save_time", "checkpoint.load_time")
TURN = [{"save_s": 0.2, "load_s": 0.1, "bytes": 5}, {"save_s": 0.3, "load_s": 0.05, "bytes": 5}]


class MockRun:
    """Keeps what is written."""

    sides, candidate = SIDES, "candidate"
    timeout_s = start_timeout_s = 1.0
    progress = SimpleNamespace(event=lambda *given, **more: None)
    scratch = Path("scratch")

    def __init__(self, held: Callable[..., bool] = lambda kind, **key: False) -> None:
        self.past = SimpleNamespace(has=held)
        self.wrote: list[dict[str, Any]] = []
        self.lacks: list[tuple[str, str, str, str]] = []
        self.failed: list[str] = []

    def unsupported(self, cell: str, side: str, metric: str, reason: Unable) -> None:
        self.lacks.append((side, metric, str(reason), reason.where))

    def side_failed(self, *given: Any, **more: Any) -> int:
        self.failed.append(str(given[2]))
        return len(self.failed)

    def write(self, kind: str, body: dict[str, Any]) -> None:
        self.wrote.append(body)

    def frozen_file(self, cell: str) -> Path:
        return Path(f"{cell}.pt")


class MockWorker:
    """A side's jobs of two ranks; `faults` [(what is done, load or not, how)] are raised in turn, each once."""

    def __init__(self, side: str, faults: list[tuple[bool, str]]) -> None:
        self.side, self.faults, self.ended = side, faults, False
        self.names: list[str] = []
        self.asked: list[tuple[str, str]] = []

    def open_names(self) -> list[str]:
        return self.names

    def ask(self, do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
        self.asked.append((do, str(given.get("cell", given.get("name", "")))))
        if do == "open":
            self.names.append(given["name"])
        if do == "close":
            self.names.remove(given["name"])
        return {}

    def each(self, do: str, timeout_s: float, given: dict[str, Any]) -> list[Any]:
        assert given["name"] in self.names
        self.asked.append((do, "load" if given.get("load") else "save"))
        for fault in self.faults:
            if fault[0] == given.get("load"):
                self.faults.remove(fault)
                failure = WorkerFailed(fault[1], do, "no room")
                failure.worker = self  # type: ignore[assignment]
                raise failure
        return [{part: value for part, value in one.items() if part != "load_s" or given.get("load")} for one in TURN]


class MockPool:
    def __init__(self, **faults: list[tuple[bool, str]]) -> None:
        self.workers = {side: MockWorker(side, faults.get(side, [])) for side in SIDES}

    def worker(self, side: str) -> MockWorker:
        return self.workers[side]


def cell_of(run: MockRun, pool: MockPool, *metrics: str, name: str = "c") -> Any:
    def figure(side: str, metric: str, value: float, unit: str, repeat: int, meter: str, **detail: Any) -> Any:
        return "sample", {"cell": name, "side": side, "metric": metric, "value": value, "repeat": repeat,
                          "detail": detail}  # fmt: skip

    needs = SimpleNamespace(wants=lambda metric: metric in metrics)
    return SimpleNamespace(
        cell=name, count=2, ran=set(SIDES), needs=needs, figure=figure, run=run, ranks=run, pool=pool
    )


def test_each_round_gives_each_side_a_figure_of_its_slowest_rank() -> None:
    run, pool = MockRun(), MockPool()
    for repeat in range(3):
        CheckpointTimes(cell_of(run, pool, *TIMES)).take(repeat)
    got = {(body["side"], body["metric"], body["repeat"]): body["value"] for body in run.wrote}
    assert got == {(side, metric, repeat): 0.3 if metric.endswith("save_time") else 0.1
                   for side in SIDES for metric in TIMES for repeat in range(3)}  # fmt: skip
    assert all(body["detail"]["form"] == "sharded" and body["detail"]["world"] == 2 for body in run.wrote)
    for worker in pool.workers.values():  # a timed pair follows in these jobs
        assert worker.names == []
    one, two = (worker.asked for worker in pool.workers.values())
    assert one == two  # both sides were asked the same


def test_what_is_there_or_not_wanted_is_not_asked_for() -> None:
    run = MockRun(lambda kind, **key: key["repeat"] == 0 and key["side"] == "baseline")
    pool = MockPool()
    CheckpointTimes(cell_of(run, pool, "checkpoint.save_time")).take(0)
    assert [(body["side"], body["metric"]) for body in run.wrote] == [("candidate", "checkpoint.save_time")]
    assert pool.workers["baseline"].asked == []
    assert ("checkpoint.time", "load") not in pool.workers["candidate"].asked
    CheckpointTimes(cell_of(run, pool, "checkpoint.resume")).take(1)
    assert len(run.wrote) == 1


def test_a_time_that_cannot_be_had_is_unsupported_and_the_other_one_is_taken() -> None:
    run, pool = MockRun(), MockPool(candidate=[(True, "raised")])
    CheckpointTimes(cell_of(run, pool, *TIMES)).take(0)
    assert [(body["side"], body["metric"]) for body in run.wrote if body["side"] == "candidate"] == [
        ("candidate", "checkpoint.save_time")
    ]
    ((side, metric, why, where),) = run.lacks
    assert (side, metric, where) == ("candidate", "checkpoint.load_time", "version")
    assert "no room" in why


def test_one_stray_kill_costs_no_figure() -> None:
    run, pool = MockRun(), MockPool(baseline=[(True, "killed")])
    CheckpointTimes(cell_of(run, pool, *TIMES)).take(2)
    assert len(run.wrote) == 4
    assert run.failed == ["baseline"]


def test_three_rounds_are_asked_where_such_a_gate_is_wanted(ranks_plan: Callable[..., Plan]) -> None:
    assert device_distributed.Distributed.name == "distributed"  # loading it adds what ranks measure
    rows = [("train", "fsdp2", "train", {"layers": 2, "hidden": 32, "batch": 4, "dtype": "float32", "ranks": 2})]
    for metric in TIMES:
        plan = ranks_plan(rows, {metric: Limit("growth", "<=", 0.5, "%", "growth <= 50 %")})
        (cell,) = plan.cells
        gates = [{"metric": gate.metric, "against": None, "repeats": None} for gate in plan.gates]
        embedded = SimpleNamespace(
            cells={cell.id: {"mode": "train", "workload": "train"}},
            workloads={"train": {"beside": None}},
            gates=lambda name, gates=gates: gates,
        )
        assert Needs(embedded, cell.id, "candidate").processes == 3  # type: ignore[arg-type]


def test_the_rounds_really_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr("torchspec.harness.dist_cells.CheckpointFacts", lambda cell: SimpleNamespace(
        all=lambda: asked.append(("facts", cell.asked[-1]))))  # fmt: skip
    monkeypatch.setattr("torchspec.harness.dist_cells.CheckpointTimes", lambda cell: SimpleNamespace(
        take=lambda repeat: asked.append(("times", repeat))))  # fmt: skip
    monkeypatch.setattr(
        "torchspec.harness.dist_cells.RankPlantedMemory", lambda cell: SimpleNamespace(take=lambda: None)
    )
    cells = object.__new__(RankCells)
    needs = SimpleNamespace(processes=3)
    cell = SimpleNamespace(cell="c", needs=needs, asked=[])
    cell.round = cell.asked.append
    cells.open = {"c": cell}  # type: ignore[dict-item]
    cells.run = SimpleNamespace(  # type: ignore[assignment]
        rank_counts=lambda names: [2], embedded=SimpleNamespace(cells={"c": {"label": "l"}}), candidate="candidate",
        progress=SimpleNamespace(event=lambda *given, **more: None), out_of_time=lambda: False,
    )  # fmt: skip
    cells.pool = SimpleNamespace(begin=lambda *given: None, end=lambda: None)  # type: ignore[assignment]
    early = lambda: asked.append(("pair", cell.asked[-1]))  # noqa: E731
    cells.pairs = SimpleNamespace(timed=[], early=early)  # type: ignore[assignment]
    for repeat in range(3):
        cells._round(repeat)
    assert asked == [("facts", 0), ("times", 0), ("times", 1), ("pair", 1), ("times", 2), ("pair", 2)]


def test_the_checkpoint_of_one_cell_is_not_asked_of_the_next_ones_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round's jobs serve all cells: what one of them opened is closed when its facts are there."""

    def opening(facts: CheckpointFacts, metric: str, side: str) -> tuple[str, dict[str, Any]]:
        facts.opened(side)
        return "fact", {"side": side, "detail": {}}

    run, pool = MockRun(), MockPool()
    run.embedded = SimpleNamespace(  # type: ignore[attr-defined]
        cells={"one": {"workload": "w"}, "two": {"workload": "w"}}, workloads={"w": {"options": {}}}
    )
    for name in ("one", "two"):
        cell = cell_of(run, pool, "checkpoint.resume", name=name)
        facts = CheckpointFacts(cell)
        monkeypatch.setattr(facts, "one", partial(opening, facts))
        facts.all()
    for worker in pool.workers.values():
        assert [cell for do, cell in worker.asked if do == "open"] == ["one", "two"]
