"""Bits under deterministic algorithms: what is asked, what is a fact. Workers are mocks: nothing is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mock_workers import Bench, MockWorker, never

from torchspec import ledger as tool_ledger
from torchspec.harness.dist_cell import RankCell, RankPool
from torchspec.harness.forced import forced, same_bits
from torchspec.harness.fresh import FreshCell
from torchspec.harness.progress import Estimate
from torchspec.harness.supervise import Unable
from torchspec.model.plan import Plan

OUTPUT, GRADIENT = "determinism.output_forced", "determinism.gradient_forced"
REFUSED = "RuntimeError: put_ does not have a deterministic implementation"


class Forced:
    """One training cell whose workers are mocks; `asked` holds (purpose, request, whether gradients) in order."""

    def __init__(self, make_plan: Callable[..., Plan], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plan = make_plan([("loss", "linear_cross_entropy", "train", {})], [OUTPUT, GRADIENT])
        monkeypatch.setattr("torchspec.harness.fresh.usable_cores", lambda: [0])  # one side after the other
        self.bench = Bench(plan, folder, self._fault, monkeypatch)
        self.bench.answers = {
            "force_determinism": {"switches": {"deterministic_algorithms": True}},
            "repeats": {"digests": {"output": ["o", "o"], "gradient": ["g", "g"]}},
        }
        self.fault: Callable[[MockWorker, str, dict[str, Any]], None] = never
        self.asked: list[tuple[str, str, bool]] = []

    def _fault(self, worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        purpose = next(name for name, one in self.bench.started if one is worker)
        self.asked.append((f"{worker.side} {purpose}", do, bool(given.get("gradients"))))
        self.fault(worker, do, given)

    def take(self) -> None:
        (cell,) = self.bench.embedded.cells
        forced(FreshCell(self.bench.run, cell, Estimate(self.bench.run.progress, 6.0)))

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [dict(r.body) for r in tool_ledger.read(self.bench.path) if r.kind == kind]

    def facts(self) -> dict[tuple[str, str], tuple[bool, str | None]]:
        return {(b["side"], b["metric"]): (b["holds"], b["error"]) for b in self.bodies("fact")}


@pytest.fixture
def work(make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forced:
    return Forced(make_plan, tmp_path, monkeypatch)


def test_the_switch_is_thrown_before_the_work_is_opened_in_every_process(work: Forced) -> None:
    work.take()
    one = ["hello", "force_determinism", "open", "repeats", "repeats"]
    assert [do for _, do, _ in work.asked] == one * 6
    assert [name for name, _ in work.bench.started] == [
        "forced0",
        "forced0",
        "forced1",
        "forced1",
        "forced2",
        "forced2",
    ]
    assert [gradients for _, do, gradients in work.asked if do == "repeats"] == [False, True] * 6
    assert all(worker.ended for _, worker in work.bench.started)
    assert set(work.facts()) == {(side, m) for side in ("baseline", "candidate") for m in (OUTPUT, GRADIENT)}
    for body in work.bodies("fact"):
        assert body["holds"] is True
        assert body["detail"] == {"repeats": 6, "distinct": 1, "across_processes": 3, "distinct_within": 1}


def test_a_backward_pass_that_is_refused_leaves_the_output_its_fact(work: Forced) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "repeats" and given["gradients"] and worker.side == "candidate":
            worker.fail("raised", "repeats", REFUSED)

    work.fault = fault
    work.take()
    assert work.facts() == {
        ("baseline", OUTPUT): (True, None),
        ("baseline", GRADIENT): (True, None),
        ("candidate", OUTPUT): (True, None),
        ("candidate", GRADIENT): (False, REFUSED),
    }
    refused = [who for who, do, gradients in work.asked if gradients and who.startswith("candidate")]
    assert refused == ["candidate forced0"], "what torch refused once is not asked again"
    assert work.bodies("side.failed") == [], "to be refused is an answer"


def test_work_that_cannot_even_be_compiled_there_is_a_fact_of_every_part(work: Forced) -> None:
    work.bench.answers["open"] = {"inputs": "i", "weights": "w", "compiles": True}

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "compile":
            worker.fail("raised", "compile", REFUSED)

    work.fault = fault
    work.take()
    assert set(work.facts().values()) == {(False, REFUSED)}
    assert len(work.bench.started) == 2, "one process a side says it"


@pytest.mark.parametrize("how", ["killed", "hung"])
def test_who_is_ended_once_is_asked_again_and_twice_is_a_fact(work: Forced, how: str) -> None:
    left = [1]

    def once(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "repeats" and worker.side == "candidate" and left:
            left.pop()
            worker.fail(how, "repeats")

    work.fault = once
    work.take()
    assert {holds for holds, _ in work.facts().values()} == {True}
    assert [(b["side"], b["how"]) for b in work.bodies("side.failed")] == [("candidate", how)]


def test_who_is_ended_twice_does_not_hold(work: Forced) -> None:
    def always(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "repeats" and worker.side == "candidate":
            worker.fail("killed", "repeats", "the worker was killed by SIGKILL")

    work.fault = always
    work.take()
    found = work.facts()
    assert found["baseline", OUTPUT] == (True, None)
    assert found["candidate", OUTPUT] == found["candidate", GRADIENT] == (False, "the worker was killed by SIGKILL")
    details = [b["detail"] for b in work.bodies("fact") if b["side"] == "candidate"]
    assert {(d["how"], d["attempts"]) for d in details} == {("killed", 2)}
    assert len(work.bodies("side.failed")) == 4, "two a part"


def test_who_is_ended_at_the_gradient_has_given_its_output(work: Forced) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "repeats" and given["gradients"] and worker.side == "candidate":
            worker.fail("killed", "repeats", "the worker was killed by SIGKILL")

    work.fault = fault
    work.take()
    found = work.facts()
    assert found["candidate", OUTPUT] == found["baseline", OUTPUT] == (True, None)
    assert found["candidate", GRADIENT] == (False, "the worker was killed by SIGKILL")
    outputs = [who for who, do, gradients in work.asked if do == "repeats" and not gradients]
    assert outputs.count("candidate forced0") == 1, "what was said is not asked again"


def test_who_is_ended_at_the_output_is_still_asked_for_the_gradient(work: Forced) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "repeats" and not given["gradients"] and worker.side == "candidate":
            worker.fail("hung", "repeats")

    work.fault = fault
    work.take()
    found = work.facts()
    assert found["candidate", OUTPUT][0] is False
    assert found["candidate", GRADIENT] == (True, None)


def test_a_part_that_the_work_cannot_give_leaves_the_other_its_fact(work: Forced) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "repeats" and given["gradients"]:
            raise Unable("this work has no gradients", "version")

    work.fault = fault
    work.take()
    assert set(work.facts()) == {("baseline", OUTPUT), ("candidate", OUTPUT)}
    lacks = {(b["side"], b["metric"]): b["error"] for b in work.bodies("unsupported")}
    assert lacks == {(side, GRADIENT): "this work has no gradients" for side in ("baseline", "candidate")}


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_fewer_processes_than_planned_are_no_fact_unless_their_bits_differ(work: Forced, gone: int) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        purpose = next(name for name, one in work.bench.started if one is worker)
        if do == "hello" and worker.side == "candidate" and purpose == f"forced{gone}":
            worker.fail("exited", "starting", "no disk")

    work.fault = fault
    work.take()
    assert {side for side, _ in work.facts()} == {"baseline"}
    assert {(b["side"], b["metric"]) for b in work.bodies("unsupported")} == {
        ("candidate", OUTPUT), ("candidate", GRADIENT),
    }  # fmt: skip


def test_bits_that_differ_are_a_fact_of_however_few_processes(work: Forced) -> None:
    work.bench.answers["repeats"] = {"digests": {"output": ["o", "p"], "gradient": ["g", "g"]}}

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        purpose = next(name for name, one in work.bench.started if one is worker)
        if do == "hello" and purpose == "forced1":
            worker.fail("exited", "starting", "no disk")

    work.fault = fault
    work.take()
    assert work.facts() == {("baseline", OUTPUT): (False, None), ("candidate", OUTPUT): (False, None)}


def test_no_process_starts_when_the_time_of_the_run_is_spent(work: Forced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(work.bench.run), "out_of_time", lambda run: True)
    work.take()
    assert work.bench.started == []
    assert work.facts() == {}
    spent = {"the time for the whole run was spent before it"}
    assert {b["error"] for b in work.bodies("unsupported")} == spent
    assert len(work.bodies("unsupported")) == 4


def test_a_process_that_does_not_start_says_nothing_about_the_work(work: Forced) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "hello" and worker.side == "candidate":
            worker.fail("exited", "starting", "no disk")

    work.fault = fault
    work.take()
    assert {side for side, _ in work.facts()} == {"baseline"}
    lacks = {(b["side"], b["metric"]) for b in work.bodies("unsupported")}
    assert lacks == {("candidate", OUTPUT), ("candidate", GRADIENT)}


def test_a_run_that_was_stopped_goes_on_where_it_stopped(work: Forced) -> None:
    class Stopped(BaseException):
        pass

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if len(work.bench.started) == 4 and do == "repeats":
            raise Stopped

    work.fault = fault
    with pytest.raises(Stopped):
        work.take()
    assert len(work.bodies("sample")) == 3
    assert work.facts() == {}
    work.fault = never
    work.take()
    assert [f"{w.side} {name}" for name, w in work.bench.started[4:]] == [
        "candidate forced1", "baseline forced2", "candidate forced2",
    ]  # fmt: skip
    assert len(work.bodies("sample")) == 6
    assert {body["detail"]["across_processes"] for body in work.bodies("fact")} == {3}
    before = len(work.bench.started)
    work.take()
    assert len(work.bench.started) == before


def test_ranks_say_that_they_do_not_measure_it(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler refuses such a gate; a plan that was written otherwise is told so, and nothing is passed over."""
    work = [("step", "fsdp2", "train", {"ranks": 2})]
    bench = Bench(make_plan(work, [OUTPUT, GRADIENT], backends=("distributed",)), tmp_path, never, monkeypatch)
    (cell,) = bench.embedded.cells
    run: Any = bench.run
    RankCell(run, cell, Estimate(run.progress, 1.0), RankPool(run)).finish()
    lacks = {r.body["metric"]: r.body["error"] for r in tool_ledger.read(bench.path) if r.kind == "unsupported"}
    assert lacks == {m: f"this harness does not measure {m}" for m in (OUTPUT, GRADIENT)}
    assert bench.started == []


def test_other_bits_in_one_process_or_between_two_do_not_hold() -> None:
    assert same_bits([["a", "a"], ["a", "a"]])["holds"] is True
    within, between = same_bits([["a", "b"], ["a", "a"]]), same_bits([["a", "a"], ["b", "b"]])
    assert (within["holds"], within["distinct"], within["distinct_within"]) == (False, 2, 2)
    assert (between["holds"], between["distinct"], between["distinct_within"]) == (False, 2, 1)
