"""Which runs count, what is pooled, and that the same ledger gives the same bits."""

from __future__ import annotations

import json

import pytest
from evidence import Book, book, gate, plan_of

from torchspec.core.canon import canonical
from torchspec.judge import judge
from torchspec.model.codec import to_json

P50 = gate("latency.p50", "growth", "<=", 0.03)
PEAK = gate("memory.driver_peak", "growth", "<=", 0.05, decision="defer")


def runs(made: Book) -> dict[str, dict[str, object]]:
    return {str(run["run"]): run for run in made.judged().runs}


def test_a_resumed_run_adds_its_pairs() -> None:
    made = book(P50)
    made.controls()
    made.pairs([0.001, -0.002])
    made.start("r-2")
    made.pairs([0.0005, 0.0], first=2, run="r-2")
    made.memory_seen("memory.driver_peak", run="r-2")
    made.done(run="r-2")
    found = made.only()
    assert found.outcome == "pass"
    assert found.n is not None
    assert found.n["pairs"] == 4
    assert runs(made)["r-1"]["why"] == "pooled with r-2"


def test_pairs_of_the_same_number_in_two_runs_are_different_pairs() -> None:
    made = book(P50)
    made.controls()
    made.pairs([0.001, -0.002])
    made.start("r-2")
    made.pairs([0.0005, 0.0], run="r-2", seed=4)
    made.memory_seen("memory.driver_peak", run="r-2")
    made.done(run="r-2")
    n = made.only().n
    assert n is not None
    assert n["pairs"] == 4


def test_runs_of_another_plan_are_left_out_and_named() -> None:
    made = Book(plan_of([PEAK]), started=False)
    made.start("r-0", plan="f" * 64)
    for repeat in range(3):
        made.sample("baseline", "memory.driver_peak", 1e8, repeat=repeat, run="r-0")
        made.sample("candidate", "memory.driver_peak", 9e8, repeat=repeat, run="r-0")
    made.done(run="r-0")
    assert made.only().outcome == "not_run"
    assert runs(made)["r-0"]["used"] is False
    assert "another plan" in str(runs(made)["r-0"]["why"])
    made.start("r-1")
    made.samples("memory.driver_peak", [1e8] * 3, [1e8] * 3)
    made.done()
    assert made.only().outcome == "pass"


def test_records_without_a_start_are_left_out() -> None:
    made = Book(plan_of([PEAK]), started=False)
    made.samples("memory.driver_peak", [1e8] * 3, [1e8] * 3)
    made.done()
    assert made.only().outcome == "not_run"
    assert "its start was not recorded" in str(runs(made)["r-1"]["why"])


@pytest.mark.parametrize("change", [{"harness": "other"}, {"cpu": "cpu-2"}])
def test_another_harness_or_machine_is_not_pooled_and_the_later_ending_speaks(change: dict[str, str]) -> None:
    made = book(PEAK)
    made.samples("memory.driver_peak", [1e8] * 3, [9e8] * 3)
    made.done()
    assert made.only().outcome == "fail"
    made.start("r-2", **change)  # type: ignore[arg-type]
    for repeat in range(3):
        made.sample("baseline", "memory.driver_peak", 1e8, repeat=repeat, run="r-2")
        made.sample("candidate", "memory.driver_peak", 1e8, repeat=repeat, run="r-2")
    made.memory_seen("memory.driver_peak", run="r-2")
    made.done(run="r-2")
    found = made.only()
    assert found.outcome == "pass"
    assert found.n == {"repeats": 3}
    assert runs(made)["r-1"]["used"] is False
    assert "measured again later" in str(runs(made)["r-1"]["why"])
    assert runs(made)["r-2"]["used"] is True


def test_a_later_run_that_did_not_get_there_does_not_silence_an_earlier_one() -> None:
    made = book(PEAK)
    made.samples("memory.driver_peak", [1e8] * 3, [1e8] * 3)
    made.done()
    made.start("r-2", cpu="cpu-2")
    made.sample("baseline", "memory.driver_peak", 1e8, run="r-2")
    assert made.only().outcome == "pass"


def test_an_environment_that_changed_is_another_group() -> None:
    made = book(PEAK)
    made.environment("baseline")
    made.environment("candidate")
    made.samples("memory.driver_peak", [1e8] * 3, [9e8] * 3)
    made.done()
    made.start("r-2")
    for side in ("baseline", "candidate"):
        torch = {"version": "2.13.0" if side == "baseline" else "2.14.1"}
        packages = {"numpy": "2.4.1", "torch": torch["version"], "triton": torch["version"]}
        made.environment(side, run="r-2", packages=packages)
    for repeat in range(3):
        made.sample("baseline", "memory.driver_peak", 1e8, repeat=repeat, run="r-2")
        made.sample("candidate", "memory.driver_peak", 1e8, repeat=repeat, run="r-2")
    made.memory_seen("memory.driver_peak", run="r-2")
    made.done(run="r-2")
    assert made.only().outcome == "pass"


def test_a_broken_control_spoils_its_own_run_only() -> None:
    made = book(PEAK)
    made.add("control.broken", {"candidate": "candidate", "cell": None, "what": "python", "reason": "Python differs"})
    made.done("error", "broken control: Python differs")
    broken = made.only()
    assert (broken.outcome, broken.rule) == ("error", "broken control")
    assert len(made.judged().broken_controls) == 1
    made.start("r-2")
    for repeat in range(3):
        for side in ("baseline", "candidate"):
            made.sample(side, "memory.driver_peak", 1e8, repeat=repeat, run="r-2")
    made.memory_seen("memory.driver_peak", run="r-2")
    made.done(run="r-2")
    assert made.only().outcome == "pass"
    assert len(made.judged().broken_controls) == 1


def test_every_gate_cell_and_candidate_has_one_judgement_even_from_an_empty_ledger() -> None:
    plan = plan_of([P50, PEAK, gate("runs", "holds")], workloads=("one", "two"))
    found = judge(plan, []).judgements
    assert len(found) == 3
    assert {one.outcome for one in found} == {"not_run"}
    assert {one.contribution for one in found} == {"defer"}
    assert judge(plan, []).ledger_head == "0" * 64


def test_records_may_be_streamed_and_the_same_ledger_gives_the_same_bits() -> None:
    made = book(P50, PEAK, gate("latency.p95", "growth", "<=", 0.05))
    made.controls()
    made.pairs([0.0, 0.02, 0.01, 0.03], samples=64)
    made.samples("memory.driver_peak", [1e8, 1.1e8, 1.05e8], [1e8, 1.2e8, 1.04e8])
    made.done()
    once = canonical(to_json(made.judged()))
    again = canonical(to_json(judge(made.plan, iter(made.records))))
    assert once == again
    assert json.loads(once)["last_evidence_at"] == made.records[-1].time


def test_a_ledger_with_one_record_more_changes_the_head_and_nothing_else() -> None:
    made = book(PEAK)
    made.samples("memory.driver_peak", [1e8] * 3, [1e8] * 3)
    made.done()
    before = made.judged()
    made.add("note", {"text": "checked by hand", "by": "me", "reason": "asked"})
    after = made.judged()
    assert before.judgements == after.judgements
    assert before.ledger_head != after.ledger_head == made.records[-1].hash
