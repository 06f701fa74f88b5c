"""What belongs to a candidate and not to one gate: rehearsal, off switches, claims, many comparisons in one memo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import Book, book, gate, plan_of

from torchspec.judge import multiplicity
from torchspec.judge.claims import band
from torchspec.judge.finding import Finding
from torchspec.model.plan import Claim, Lane, Plan, Rollback, Statement

PEAK = gate("memory.driver_peak", "growth", "<=", 0.05, decision="defer")


def rolling(**changes: Any) -> Book:
    plan = replace(plan_of([PEAK]), rollback=replace(Rollback("baseline", 60.0, ("checkpoint",)), **changes))
    return Book(plan)


def step(made: Book, name: str, ok: bool = True, seconds: float = 5.0, cell: str | None = None, **more: Any) -> None:
    body = {"candidate": "candidate", "step": name, "cell": cell, "ok": ok, "seconds": seconds, "detail": {}}
    made.add("rehearsal.step", {**body, "error": None if ok else "weights differ"} | more)


def all_steps(made: Book) -> None:
    made.done()
    step(made, "restore")
    step(made, "smoke", cell="c")
    step(made, "reload.checkpoint", cell="c")


def test_a_rehearsal_passes_when_every_step_is_well_and_in_time() -> None:
    made = rolling()
    all_steps(made)
    found = made.judged().rehearsals["candidate"]
    assert (found.outcome, found.contribution, found.seconds, found.within_s) == ("pass", "adopt", 15.0, 60.0)
    assert len(found.steps) == len(found.evidence) == 3


@pytest.mark.parametrize("name", ["restore", "smoke", "reload.checkpoint"])
def test_a_step_that_was_not_rehearsed_is_not_run(name: str) -> None:
    made = rolling()
    made.done()
    for one in {"restore", "smoke", "reload.checkpoint"} - {name}:
        step(made, one, cell=None if one == "restore" else "c")
    found = made.judged().rehearsals["candidate"]
    assert (found.outcome, found.contribution) == ("not_run", "defer")
    assert found.reason.startswith("not rehearsed: ")


def test_a_step_that_fails_fails_the_rehearsal_until_it_is_done_again() -> None:
    made = rolling()
    all_steps(made)
    step(made, "reload.checkpoint", ok=False, cell="c")
    found = made.judged().rehearsals["candidate"]
    assert found.outcome == "fail"
    assert "weights differ" in found.reason
    step(made, "reload.checkpoint", cell="c")
    assert made.judged().rehearsals["candidate"].outcome == "pass"


def test_too_slow_and_by_hand() -> None:
    slow = rolling(within_s=10.0)
    all_steps(slow)
    assert slow.judged().rehearsals["candidate"].outcome == "fail"
    assert "10.00" in slow.judged().rehearsals["candidate"].reason
    manual = rolling(manual=("ask the operator",))
    all_steps(manual)
    assert manual.judged().rehearsals["candidate"].outcome == "fail"
    assert manual.judged().rehearsals["candidate"].reason.startswith("heroics: going back needs a step by hand")


def test_the_slower_way_to_rebuild_counts_and_each_must_hold() -> None:
    made = rolling(within_s=60.0)
    step(made, "rebuild.cache", seconds=20.0)
    step(made, "rebuild.scratch", seconds=40.0)
    all_steps(made)
    found = made.judged().rehearsals["candidate"]
    assert (found.outcome, found.seconds, len(found.steps)) == ("pass", 55.0, 5)
    slow = rolling(within_s=50.0)
    step(slow, "rebuild.scratch", seconds=40.0)
    all_steps(slow)
    assert slow.judged().rehearsals["candidate"].outcome == "fail"
    step(made, "rebuild.scratch", ok=False, error="the package index cannot be reached")
    found = made.judged().rehearsals["candidate"]
    assert (found.outcome, found.contribution) == ("fail", "defer")
    assert found.reason.startswith("rebuilding the baseline from scratch failed: the package index")


def test_an_off_switch_that_does_not_hold_fails_the_rehearsal() -> None:
    made = rolling()
    all_steps(made)
    step(made, "switch", cell="c")
    assert made.judged().rehearsals["candidate"].outcome == "pass"
    step(made, "switch", ok=False, cell="c", error="no fallback")
    found = made.judged().rehearsals["candidate"]
    assert found.outcome == "fail"
    assert "off switch" in found.reason


def test_without_a_rollback_block_nothing_was_rehearsed() -> None:
    made = book(PEAK)
    assert made.judged().rehearsals["candidate"].outcome == "not_run"


def test_off_switches() -> None:
    plan = plan_of([PEAK])
    lane = Lane("prototype", "kernels", ("H100",), {"FUSED": "0"})
    plan = replace(plan, workloads=(replace(plan.workloads[0], lane="prototype"),), lanes=(lane,))
    made = Book(plan)
    assert made.judged().switches == ()
    step(made, "switch", cell="c")
    (found,) = made.judged().switches
    assert (found.lane, found.backend, found.outcome) == ("prototype", "cpu", "pass")
    step(made, "switch", ok=False, cell="c", error="no fallback")
    (found,) = made.judged().switches
    assert found.outcome == "fail"
    assert "no fallback" in found.reason


# Claims.


def claiming(statement: Statement, basis: dict[str, Any] | None = None, on: tuple[str, ...] = ()) -> Plan:
    plan = plan_of([PEAK])
    cells = tuple(replace(c, axes={"dtype": "float32"}) for c in plan.cells)
    claim = Claim("claimed", "notes", basis or {}, (statement,), "work", on)
    return replace(plan, cells=cells, claims=(claim,))


def saved(value: float, tolerance: float | None = 0.05, form: str | None = "pp") -> Statement:
    return Statement("memory.driver_peak", "drop", value, "%", tolerance, form, {}, "drop")  # type: ignore[arg-type]


def verdict(plan: Plan, baseline: list[float], candidate: list[float], environment: bool = False) -> Any:
    made = Book(plan)
    if environment:
        made.environment("baseline")
        made.environment("candidate")
    made.samples("memory.driver_peak", baseline, candidate)
    made.done()
    (found,) = made.judged().claims["candidate"]
    return found


def test_a_claim_is_reproduced_or_not() -> None:
    yes = verdict(claiming(saved(0.5)), [200.0] * 3, [100.0] * 3)
    assert (yes.verdict, yes.estimate) == ("reproduced", pytest.approx(0.5))
    assert yes.evidence
    no = verdict(claiming(saved(0.5)), [200.0] * 3, [190.0] * 3)
    assert no.verdict == "not reproduced"
    assert "outside what the claim allows" in no.reason
    wide = verdict(claiming(saved(0.5)), [200.0, 210.0, 190.0], [100.0, 120.0, 80.0])
    assert wide.verdict == "not reproduced"
    assert "reaches beyond" in wide.reason


@pytest.mark.parametrize(
    ("basis", "says"),
    [
        ({"dtype": "bfloat16"}, "dtype: bfloat16 there, float32 here"),
        ({"vocabulary": 128256}, "vocabulary: 128256 there, not stated here"),
        ({"device": "H100"}, "device: H100 there, cpu-1 here"),
        ({"mode": "train"}, "mode: train there, infer here"),
    ],
)
def test_a_basis_that_is_not_met_is_not_comparable_and_named(basis: dict[str, Any], says: str) -> None:
    found = verdict(claiming(saved(0.5), basis), [200.0] * 3, [100.0] * 3, environment=True)
    assert found.verdict == "not comparable here"
    assert says in found.reason


def test_a_basis_that_is_met() -> None:
    basis = {"dtype": "float32", "device": "CPU-1", "mode": "infer"}
    assert verdict(claiming(saved(0.5), basis), [200.0] * 3, [100.0] * 3, environment=True).verdict == "reproduced"


def test_a_claim_on_a_backend_without_cells_or_evidence() -> None:
    assert verdict(claiming(saved(0.5), on=("cuda",)), [2.0] * 3, [1.0] * 3).verdict == "not comparable here"
    made = Book(claiming(saved(0.5)))
    (found,) = made.judged().claims["candidate"]
    assert (found.verdict, found.evidence) == ("not comparable here", ())


def test_a_claim_on_a_cell_that_was_not_finished_rests_on_nothing() -> None:
    made = Book(claiming(saved(0.5)))
    made.samples("memory.driver_peak", [200.0] * 3, [100.0] * 3)
    (found,) = made.judged().claims["candidate"]
    assert found.verdict == "not comparable here"
    assert "stopped before" in found.reason


def test_the_band_of_a_statement() -> None:
    assert band(saved(0.5)) == pytest.approx((0.45, 0.55))
    ratio = replace(saved(50.0), tolerance_form="ratio", form="absolute")
    assert band(ratio) == pytest.approx((47.5, 52.5))
    assert band(saved(0.5, None, None)) == (0.5, float("inf"))


# Many comparisons.


def test_failures_carry_holms_p_over_all_intervals_of_the_memo() -> None:
    passed = Finding("pass", "upper bound below limit", "", confidence=0.9)
    failed = Finding("fail", "lower bound above limit, confirmed on fresh pairs", "", confidence=0.98, p=0.001)
    exact = Finding("fail", "value beyond limit", "")
    found = multiplicity.adjust([passed, failed, exact, passed])
    assert found[1].detail == {"p": 0.001, "p_holm": pytest.approx(0.003)}
    assert found[2].detail == {}
    assert [f.outcome for f in found] == ["pass", "fail", "fail", "pass"]


def test_the_expected_number_of_wrong_verdicts() -> None:
    timed = Finding("pass", "upper bound below limit", "", confidence=0.9, n={"pairs": 3})
    once = Finding("inconclusive", "interval crosses limit", "", confidence=0.9, n={"repeats": 3})
    exact = Finding("pass", "exact", "")
    told = multiplicity.expected([timed] * 40 + [once] * 10 + [exact] * 5)
    assert told["weighed"] == 50
    assert told["false_passes"] == pytest.approx(40 * 0.07 + 10 * 0.05)
    assert told["false_failures"] == pytest.approx(40 * 0.014 + 10 * 0.05)
