"""Going back as the driver rehearses it: its steps are those that the judge wants, and what each must find the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mock_workers import Bench, never

from torchspec import ledger as tool_ledger
from torchspec.harness.rehearsal import NO_WEIGHTS, Rehearsal, StepFailed
from torchspec.harness.restored import restored_problem
from torchspec.judge.records import read as evidence_of
from torchspec.judge.rehearsal_steps import wanted
from torchspec.model.plan import Lane, Plan, Rollback


def measured_bench(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare: Collection[str] = ()) -> Bench:
    """A bench on which every cell was measured; the workloads in `bare` have no weights."""
    bench = Bench(plan, tmp_path, never, monkeypatch)
    for cell, body in bench.embedded.cells.items():
        if body["workload"] in bare:
            bench.run.write("frozen.made", {"cell": cell, "inputs": "i", "weights": NO_WEIGHTS})
        bench.run.cell_done(cell, "measured", None)
    return bench


def steps_of(bench: Bench) -> list[tuple[str, str | None]]:
    return [(step, cell) for step, cell, _ in Rehearsal(bench.run).steps()]


def test_going_back_reads_no_checkpoint_of_what_keeps_no_state(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = [("talk", "collective", "infer", {"ranks": 2}), ("learn", "fsdp2", "train", {"ranks": 2})]
    plan = make_plan(work, ["runs"], reload=("checkpoint",))
    bench = measured_bench(plan, tmp_path, monkeypatch, bare={"talk"})
    talk, learn = bench.embedded.cells
    assert steps_of(bench) == [("restore", None), ("smoke", talk), ("smoke", learn), ("reload.checkpoint", learn)]
    bench.ledger.close()


def test_ranks_are_never_asked_for_a_program_and_go_back_in_their_largest_number(
    ranks_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ranks_plan([("learn", "fsdp2", "train", {"ranks": count}) for count in (1, 4, 2)], {})
    plan = dataclasses.replace(plan, rollback=Rollback("baseline", 600.0, ("checkpoint", "export")))
    bench = measured_bench(plan, tmp_path, monkeypatch)
    _, four, _ = bench.embedded.cells
    assert steps_of(bench) == [("restore", None), ("smoke", four), ("reload.checkpoint", four)]
    bench.ledger.close()


def test_a_checkpoint_is_of_what_trains(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = {"dtype": "float32"}
    work = [("loss", "linear_cross_entropy", mode, axes) for mode in ("infer", "train")]
    bench = measured_bench(make_plan(work, ["runs"], reload=("checkpoint",)), tmp_path, monkeypatch)
    infer, train = bench.embedded.cells
    assert steps_of(bench) == [("restore", None), ("smoke", infer), ("reload.checkpoint", train)]
    bench.ledger.close()


@pytest.mark.parametrize("backend", ["cpu", "distributed"])
def test_what_is_rehearsed_is_what_the_judge_wants(
    backend: str, make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"dtype": "float32"}
    modes = [("all", "export"), ("all", "infer"), ("all", "train"), ("late", "export"), ("late", "compile")]
    work = [(name, "python", mode, axes) for name, mode in modes for axes in (one, {**one, "ranks": 2})]
    plan = make_plan([*work, ("bare", "attention", "train", one)], reload=("checkpoint", "export"), backends=(backend,))
    lane = Lane("prototype", "kernels", (), {"FUSED": "0"})
    workloads = tuple(dataclasses.replace(w, lane="prototype" if w.name == "late" else None) for w in plan.workloads)
    plan = dataclasses.replace(plan, workloads=workloads, lanes=(lane,))
    bench = measured_bench(plan, tmp_path, monkeypatch, bare={"bare"})
    bench.ledger.close()
    told = [dataclasses.replace(r, body={**r.body, "plan": "p", "backend": backend}) if r.kind == "run.start" else r
            for r in tool_ledger.read(bench.path)]  # fmt: skip
    found = wanted(plan, evidence_of(told, "p"), "candidate")
    assert {(one.step, one.cell.id if one.cell else None) for one in found} == set(steps_of(bench))
    assert {one.backend for one in found} == {backend}
    assert len(found) == 1 + 3 + 2 + 2 + 1


def asked_of_ranks(read: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What a rehearsal's workers are asked about a checkpoint of ranks; they have `read` it, or raise StepFailed."""
    asked: list[tuple[str, dict[str, Any]]] = []

    class Worker:
        def ask(self, do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
            asked.append((do, given))
            digests = {"model": "m", "optimizer": "o"}
            answer = {"digests": digests, "losses": [1.0, 0.5], "path": "there", "bytes": 3}
            return {**answer, **read} if do == "checkpoint.read" else answer

    run = SimpleNamespace(candidate="candidate", timeout_s=1.0, scratch=Path("scratch"))
    run.embedded = SimpleNamespace(cells={"c": {"axes": {"ranks": 2}}})
    rehearsal = object.__new__(Rehearsal)
    rehearsal.run = run  # type: ignore[assignment]
    rehearsal._opened = lambda side, cell: Worker()  # type: ignore[method-assign,assignment,return-value]
    assert rehearsal._ranks_checkpoint("c")["ranks"] == 2
    return asked


def test_ranks_read_shards_and_whole_and_go_on() -> None:
    asked = asked_of_ranks({})
    assert [do for do, _ in asked] == ["checkpoint.write", "close", "checkpoint.read", "checkpoint.read", "close"]
    assert [given["form"] for do, given in asked if do == "checkpoint.read"] == ["sharded", "whole"]


@pytest.mark.parametrize(
    ("read", "says"),
    [
        ({"digests": {"model": "m", "optimizer": "other"}}, "sharded: the optimizer that the baseline loaded"),
        ({"digests": {"model": "other", "optimizer": "o"}}, "sharded: the model that the baseline loaded"),
        ({"losses": [0.5, "nan"]}, "sharded: the losses behind the candidate's checkpoint are not finite"),
    ],
)
def test_ranks_that_read_something_else_do_not_go_back(read: dict[str, Any], says: str) -> None:
    with pytest.raises(StepFailed, match=says):
        asked_of_ranks(read)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"weights": "other"}, "the weights that were loaded are not those that were saved"),
        ({"optimizer": "other"}, "the optimizer's state that was loaded is not what was saved"),
        ({"optimizer": None}, "nothing is told of the optimizer's state"),
        ({"next": ["nan", 1.0]}, "does not go on"),
        ({"next": [float("inf")]}, "does not go on"),
    ],
)
def test_state_is_held_where_weights_and_optimizer_are_and_it_goes_on(
    changed: dict[str, Any], says: str | None
) -> None:
    told = {"weights": "w", "expected": "w", "optimizer": "o", "expected_optimizer": "o", "next": [0.5, 1.0]}
    found = restored_problem({**told, **changed}, ["module", "optimizer"])
    assert (found is None) == (says is None)
    assert says is None or says in str(found)
    assert restored_problem({"weights": "w", "expected": "w"}, ["module"]) is None


def test_work_that_is_only_compiled_or_exported_is_rehearsed_too(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = {"dtype": "float32"}
    work = [("both", "attention", "compile", axes), ("both", "attention", "infer", axes),
            ("compiled", "attention", "export", axes), ("compiled", "attention", "compile", axes),
            ("fitted", "attention", "compile", axes), ("fitted", "attention", "train_compiled", axes),
            ("exported", "attention", "export", axes)]  # fmt: skip
    bench = Bench(make_plan(work, ["runs"], reload=("checkpoint", "export")), tmp_path, never, monkeypatch)
    for cell in bench.embedded.cells:
        bench.run.cell_done(cell, "measured", None)
    rehearsal = Rehearsal(bench.run)
    cells = {cell: (body["workload"], body["mode"]) for cell, body in bench.embedded.cells.items()}
    found: dict[str, list[tuple[str, str]]] = {}
    for step, cell, _ in rehearsal.steps():
        if cell is not None:
            found.setdefault(step, []).append(cells[cell])
    read = [("both", "infer"), ("compiled", "compile"), ("exported", "export"), ("fitted", "train_compiled")]
    assert sorted(found["reload.checkpoint"]) == read
    assert sorted(found["smoke"]) == [*read[:3], ("fitted", "compile")]
    assert sorted(found["reload.export"]) == [("compiled", "export"), ("exported", "export")]

    asked: list[str] = []

    class Asked:
        def ask(self, do: str, *timeout: float, **more: Any) -> dict[str, Any]:
            asked.append(do)
            return {"same": True, "bit_identical": True, "max_rel": 0.0}

    for cell, (_, mode) in cells.items():
        with pytest.raises(StepFailed, match="gave no output of this cell"):
            rehearsal._same_output(Asked(), cell, "smoke")  # type: ignore[arg-type]
        output = bench.run.output_file(cell, "baseline")
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
        asked.clear()
        rehearsal._same_output(Asked(), cell, "smoke")  # type: ignore[arg-type]
        first = {"export": ["exported"]}.get(mode, ["compile"] if "compile" in mode else [])
        assert asked == [*first, "outputs", "same", "close"], "as it was measured"
    bench.ledger.close()
