"""Which steps a rehearsal of going back must hold: on each backend, of each workload, and none for another's sake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import RUN, Book, gate, plan_of

from torchspec.judge.rehearsal_steps import NO_WEIGHTS
from torchspec.model.plan import Backend, Cell, Lane, Plan, Rollback
from torchspec.model.verdict import Rehearsal

PEAK = gate("memory.driver_peak", "growth", "<=", 0.05, decision="defer")
RANKS = "r-2"


def plan(cells: list[tuple[str, str, str, dict[str, Any]]], reload: tuple[str, ...] = ("checkpoint",)) -> Plan:
    """A plan of cells (workload, backend, mode, axes); a cell's id and label say all of it."""
    names = list(dict.fromkeys(workload for workload, *_ in cells))
    made = plan_of([PEAK], workloads=names)
    found = []
    for workload, backend, mode, axes in cells:
        label = " ".join([workload, backend, mode, *map(str, axes.values())])
        found.append(Cell(label, workload, backend, mode, axes, label))  # type: ignore[arg-type]
    backends = tuple(Backend(name, "required", 1) for name in dict.fromkeys(cell.backend for cell in found))
    rollback = Rollback("baseline", 600.0, reload)  # type: ignore[arg-type]
    return replace(made, cells=tuple(found), gates=(), backends=backends, rollback=rollback)


def measured(plan: Plan, *, weights: str = "ab" * 32, tool: str | None = None, left: tuple[str, ...] = ()) -> Book:
    """Every cell but `left` was measured, on cpu in one run and over ranks in the next."""
    made = Book(plan, started=False)
    for backend in plan.backends:
        run = RANKS if backend.name == "distributed" else RUN
        made.start(run, backend=backend.name, tool=tool)
        for cell in plan.cells:
            if cell.backend == backend.name and cell.id not in left:
                made.add("frozen.made", {"cell": cell.id, "inputs": "i", "weights": weights}, run)
                made.done(cell=cell.id, run=run)
    return made


def step(made: Book, name: str, cell: str | None = None, error: str | None = None, run: str = RUN) -> None:
    body = {"candidate": "candidate", "step": name, "cell": cell, "ok": error is None, "seconds": 1.0, "detail": {}}
    made.add("rehearsal.step", {**body, "error": error}, run)


def found(made: Book) -> Rehearsal:
    return made.judged().rehearsals["candidate"]


def test_every_workload_that_was_measured_is_rehearsed() -> None:
    cells = [("one", "cpu", "infer", {}), ("two", "cpu", "infer", {}), ("three", "cpu", "train", {})]
    made = measured(plan(cells))
    step(made, "restore")
    step(made, "smoke", "one cpu infer")
    step(made, "reload.checkpoint", "one cpu infer")  # and the driver was killed here
    assert (found(made).outcome, found(made).contribution) == ("not_run", "defer")
    assert found(made).reason == (
        "not rehearsed: the smoke work on the baseline (two cpu infer, three cpu train), "
        "the baseline reading the candidate's checkpoint (two cpu infer, three cpu train)"
    )
    for cell in ("two cpu infer", "three cpu train"):
        step(made, "smoke", cell)
        step(made, "reload.checkpoint", cell)
    assert found(made).outcome == "pass"


def test_a_workload_that_was_not_measured_is_not_missed() -> None:
    made = measured(plan([("one", "cpu", "infer", {}), ("two", "cpu", "infer", {})]), left=("two cpu infer",))
    made.done("failed", cell="two cpu infer")
    step(made, "restore")
    step(made, "smoke", "one cpu infer")
    step(made, "reload.checkpoint", "one cpu infer")
    assert found(made).outcome == "pass"


def on_two_backends() -> Book:
    made = measured(plan([("one", "cpu", "infer", {}), ("two", "distributed", "train", {"ranks": 2})]))
    for name in ("smoke", "reload.checkpoint"):
        step(made, name, "one cpu infer")
        step(made, name, "two distributed train 2", run=RANKS)
    return made


def test_no_backend_hides_the_failure_of_another() -> None:
    made = on_two_backends()
    step(made, "restore", error="the baseline's packages is no longer what was measured")
    step(made, "restore", run=RANKS)
    assert found(made).outcome == "fail"
    assert found(made).reason.startswith("restoring the baseline on cpu failed: ")
    assert [(one["step"], one["backend"]) for one in found(made).steps][-2:] == [
        ("restore", "cpu"),
        ("restore", "distributed"),
    ]
    step(made, "restore")
    assert found(made).outcome == "pass"


def test_each_backend_is_restored() -> None:
    made = on_two_backends()
    step(made, "restore", run=RANKS)
    assert (found(made).outcome, found(made).reason) == ("not_run", "not rehearsed: restoring the baseline (on cpu)")


def test_a_backend_without_a_measured_cell_has_no_steps() -> None:
    made = measured(
        plan([("one", "cpu", "infer", {}), ("two", "distributed", "train", {"ranks": 2})]),
        left=("two distributed train 2",),
    )
    step(made, "restore")
    step(made, "smoke", "one cpu infer")
    step(made, "reload.checkpoint", "one cpu infer")
    assert found(made).outcome == "pass"


def test_a_program_is_read_where_one_was_exported_and_nowhere_else() -> None:
    cells = [("one", "cpu", "infer", {}), ("one", "cpu", "export", {}), ("two", "distributed", "train", {"ranks": 2})]
    made = measured(plan(cells, ("export",)))
    for run in (RUN, RANKS):
        step(made, "restore", run=run)
    step(made, "smoke", "one cpu infer")
    step(made, "smoke", "two distributed train 2", run=RANKS)
    assert found(made).reason == (
        "not rehearsed: the baseline reading the candidate's exported program (one cpu export)"
    )
    step(made, "reload.export", "one cpu export")
    assert found(made).outcome == "pass"


@pytest.mark.parametrize(
    ("what", "why"),
    [("checkpoint", "no measured cell has weights"), ("export", "no cell was measured in the mode export")],
)
def test_what_the_spec_asks_for_and_nothing_writes_is_not_rehearsed(what: str, why: str) -> None:
    made = measured(plan([("one", "cpu", "infer", {})], (what,)), weights=NO_WEIGHTS)
    step(made, "restore")
    step(made, "smoke", "one cpu infer")
    assert found(made).outcome == "not_run"
    assert found(made).reason.endswith(f"({why})")


def test_a_checkpoint_is_wanted_of_what_trains_and_ranks_are_as_many_as_there_are() -> None:
    cells = [("one", "cpu", "infer", {}), ("one", "cpu", "train", {})]
    cells += [("two", "distributed", "train", {"ranks": count}) for count in (1, 2)]
    made = measured(plan(cells))
    for run in (RUN, RANKS):
        step(made, "restore", run=run)
    step(made, "smoke", "one cpu infer")
    for name in ("smoke", "reload.checkpoint"):
        step(made, name, "two distributed train 1", run=RANKS)
    assert found(made).reason == (
        "not rehearsed: the baseline reading the candidate's checkpoint (one cpu train, two distributed train 2), "
        "the smoke work on the baseline (two distributed train 2)"
    )


def test_a_step_of_a_cell_that_is_no_longer_gone_back_on_is_shown_and_decides_nothing() -> None:
    """A resumed run has measured more ranks: those are gone back on, and an old failure of fewer cannot be cleared."""
    cells = [("train", "distributed", "train", {"ranks": 2}), ("train", "distributed", "train", {"ranks": 4})]
    fewer, more = "train distributed train 2", "train distributed train 4"
    made = measured(plan(cells), left=(more,))
    step(made, "restore", run=RANKS)
    step(made, "smoke", fewer, "it took too long", run=RANKS)
    assert found(made).outcome == "fail"
    made.add("frozen.made", {"cell": more, "inputs": "i", "weights": "ab" * 32}, RANKS)
    made.done(cell=more, run=RANKS)
    assert found(made).outcome == "not_run"
    step(made, "smoke", more, run=RANKS)
    step(made, "reload.checkpoint", more, run=RANKS)
    told = found(made)
    assert (told.outcome, told.seconds) == ("pass", 3.0)
    assert [shown["cell"] for shown in told.steps] == [None, fewer, more, more]


def test_the_environment_is_made_again_both_ways_where_torchspec_made_it() -> None:
    cells = [("one", "cpu", "infer", {})]

    def rehearsed(made: Book) -> Book:
        step(made, "restore")
        step(made, "smoke", "one cpu infer")
        step(made, "reload.checkpoint", "one cpu infer")
        return made

    made = rehearsed(measured(plan(cells), tool="0.1.0"))
    assert found(made).reason == (
        "not rehearsed: rebuilding the baseline from the cache's archives, rebuilding the baseline from scratch"
    )
    step(made, "rebuild.cache")
    assert found(made).reason == "not rehearsed: rebuilding the baseline from scratch"
    step(made, "rebuild.scratch")
    assert found(made).outcome == "pass"

    interpreter = plan(cells)
    interpreter = replace(interpreter, baseline=replace(interpreter.baseline, python="env/bin/python"))
    assert found(rehearsed(measured(interpreter, tool="0.1.0"))).outcome == "pass"
    assert found(rehearsed(measured(plan(cells)))).outcome == "pass", "the harness ran without torchspec"


def test_a_switch_is_thrown_for_each_workload_of_its_lane() -> None:
    held = plan([("one", "cpu", "infer", {}), ("two", "cpu", "infer", {})], ())
    lane = Lane("prototype", "kernels", (), {"FUSED": "0"})
    held = replace(held, lanes=(lane,), workloads=tuple(replace(w, lane="prototype") for w in held.workloads))
    made = measured(held)
    step(made, "restore")
    for cell in ("one cpu infer", "two cpu infer"):
        step(made, "smoke", cell)
    step(made, "switch", "one cpu infer")
    assert found(made).reason == "not rehearsed: the candidate's work with the off switch thrown (two cpu infer)"
    (switch,) = made.judged().switches
    assert (switch.outcome, switch.reason) == ("not_run", "the switch was not thrown for two cpu infer")
    step(made, "switch", "two cpu infer")
    assert found(made).outcome == "pass"
    assert made.judged().switches[0].outcome == "pass"


def test_of_many_that_are_missing_six_are_named() -> None:
    made = measured(plan([(f"w{n}", "cpu", "infer", {}) for n in range(9)], ()))
    step(made, "restore")
    assert found(made).reason.endswith("w4 cpu infer, w5 cpu infer and 3 more)")
