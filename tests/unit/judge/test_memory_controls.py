"""The control of a memory gate: bytes that are known to be there must be beyond the gate's own limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import CELL, Book, gate, plan_of

from torchspec.harness.planted_memory import shows
from torchspec.model.verdict import Judged

METRIC = "memory.driver_peak"
GROWTH, INCREASE = ("growth", 0.10), ("increase", 16e6)


def judged(limit: tuple[str, float], *more: dict[str, Any], **told: Any) -> Judged:
    book = Book(plan_of([gate(METRIC, limit[0], "<=", limit[1])]))
    book.environment("baseline")
    book.environment("candidate")
    book.samples(METRIC, [100e6, 101e6, 102e6], [100e6, 101e6, 102e6], control=False)
    for one in (told, *more) if told else ():
        control = {"cell": CELL, "candidate": "candidate", "metric": METRIC, "what": "planted", "planted": None}
        book.add("control", {**control, "timing": [], "error": None, "meter": "meter", **one})
    book.done()
    return book.judged()


@pytest.mark.parametrize(
    ("limit", "told", "outcome", "rule"),
    [
        (GROWTH, {"bytes": 20_000_000, "value": 121e6}, "pass", None),
        (INCREASE, {"bytes": 32_000_000, "value": 133e6}, "pass", None),
        (GROWTH, {"bytes": 20_000_000, "value": 102e6}, "inconclusive", "control failed"),
        (INCREASE, {"bytes": 32_000_000, "value": 116e6}, "inconclusive", "control failed"),
        (GROWTH, {"bytes": 20_000_000, "value": None, "error": "killed"}, "inconclusive", "control not measured"),
        (GROWTH, {}, "inconclusive", "control not measured"),
    ],
)
def test_bytes_that_were_planted_must_be_seen(
    limit: tuple[str, float], told: dict[str, Any], outcome: str, rule: str | None
) -> None:
    found = judged(limit, **told)
    (one,) = found.judgements
    assert one.outcome == outcome
    if rule is not None:
        assert one.rule == rule
    assert len(found.controls) == 1


def test_an_absolute_limit_needs_no_control_and_a_growth_of_ranks_needs_one() -> None:
    for line, axes, outcome in (
        (gate(METRIC, "absolute", "<=", 1e9), {}, "pass"),
        (gate(METRIC, "growth", "<=", 0.10), {"ranks": 2}, "inconclusive"),
    ):
        plan = plan_of([line])
        book = Book(replace(plan, cells=tuple(replace(cell, axes={**cell.axes, **axes}) for cell in plan.cells)))
        book.samples(METRIC, [100e6] * 3, [100e6] * 3, control=False)
        book.done()
        (one,) = book.judged().judgements
        assert one.outcome == outcome
        assert [control["outcome"] for control in book.judged().controls] == ([] if outcome == "pass" else ["error"])


def test_the_control_says_what_was_planted_and_what_was_seen() -> None:
    (control,) = judged(GROWTH, bytes=20_000_000, value=121e6).controls
    assert control["outcome"] == "pass"
    assert control["planted"] == pytest.approx(20 / 101)
    assert control["estimate"] == pytest.approx(20 / 101)
    (control,) = judged(GROWTH, bytes=20_000_000, value=102e6).controls
    assert control["outcome"] == "fail"
    assert "20.00\u202fMB" in control["reason"]
    assert "101.0\u202fMB without it and 102.0\u202fMB with it" in control["reason"]


@pytest.mark.parametrize(
    ("values", "outcome"), [((109e6, 121e6, 121.5e6), "pass"), ((109e6, 108e6, 121e6), "inconclusive")]
)
def test_of_several_processes_the_median_counts(values: tuple[float, ...], outcome: str) -> None:
    first, *more = ({"bytes": 20_000_000, "value": value} for value in values)
    found = judged(GROWTH, *more, **first)
    assert [one.outcome for one in found.judgements] == [outcome]
    (control,) = found.controls
    assert "the median of 3 processes" in control["reason"]
    assert len(control["evidence"]) == 3


def test_of_several_runs_what_was_measured_counts_and_not_what_failed() -> None:
    failed = {"bytes": 20_000_000, "value": None, "error": "killed"}
    found = judged(GROWTH, {"bytes": 20_000_000, "value": 121e6}, failed, **failed)
    assert [one.outcome for one in found.judgements] == ["pass"]


def test_a_peak_that_is_not_passed_says_what_of_it_is_loading() -> None:
    def told(first: float, later: float, modules: int) -> dict[str, Any]:
        return {"detail": {"first_step": first, "later_step": later, "modules_imported": modules}}

    book = Book(plan_of([gate(METRIC, "growth", "<=", 0.10)]))
    book.memory_seen(METRIC)
    for repeat in range(3):
        book.sample("baseline", METRIC, 100e6 + repeat, repeat=repeat, **told(90e6, 16e6, 818))
        book.sample("candidate", METRIC, 170e6 + repeat, repeat=repeat, **told(160e6, 17e6, 888))
    book.done()
    (one,) = book.judged().judgements
    assert one.outcome == "fail"
    assert one.detail["parts"] == {
        "baseline": {"first_step": 90e6, "later_step": 16e6, "modules_imported": 818},
        "candidate": {"first_step": 160e6, "later_step": 17e6, "modules_imported": 888},
    }
    says = (
        "a later step takes 16.00\u202fMB → 17.00\u202fMB more than what is there, and the first one imports 818 → 888"
    )
    assert says in one.reason
    book.sample("candidate", METRIC, 170e6, repeat=3)  # a process that does not tell
    assert "parts" not in book.judged().judgements[0].detail


@pytest.mark.parametrize("limit", [GROWTH, INCREASE])
@pytest.mark.parametrize("value", [101e6, 111.1e6, 111.2e6, 117e6, 117.1e6, 140e6])
def test_harness_and_judge_mean_the_same_by_beyond_the_limit(limit: tuple[str, float], value: float) -> None:
    (control,) = judged(limit, bytes=32_000_000, value=value).controls
    gate_of_harness = {"limit": {"form": limit[0], "value": limit[1]}}
    assert shows(gate_of_harness, 101e6, value) == (control["outcome"] == "pass")
