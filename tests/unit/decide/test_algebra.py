"""The tables of the algebra, cell by cell, as the documentation prints them."""

from __future__ import annotations

import pytest

from torchspec.decide_algebra import (
    ELSES,
    OUTCOMES,
    RULES,
    fleet_decision,
    gate_contribution,
    gate_rule,
    rehearsal_contribution,
    row_decision,
    row_vote,
    worst,
    worst_outcome,
)


@pytest.mark.parametrize("otherwise", ELSES)
@pytest.mark.parametrize("waived", [False, True])
def test_contribution(otherwise: str, waived: bool) -> None:
    got = {o: gate_contribution(o, otherwise, waived) for o in OUTCOMES}  # type: ignore[arg-type]
    assert got["pass"] == "adopt"
    assert got["fail"] == ("isolate" if waived and otherwise == "defer" else otherwise)
    assert {got[o] for o in ("inconclusive", "not_run", "error")} == {"defer"}


def test_every_rule_that_a_gate_fires_is_explained() -> None:
    for outcome in OUTCOMES:
        for otherwise in ELSES:
            for waived in (False, True):
                assert gate_rule(outcome, otherwise, waived) in RULES


def test_nothing_at_all_is_defer() -> None:
    assert worst(()) == "defer"
    assert row_decision((), "required") == "defer"
    assert fleet_decision((), "pass") == "defer"
    assert worst_outcome(()) == "not_run"


@pytest.mark.parametrize(
    ("row", "required", "optional", "lane"),
    [
        ("adopt", "adopt", "adopt", "isolate"),
        ("isolate", "isolate", "isolate", "isolate"),
        ("defer", "defer", "isolate", "defer"),
        ("rollback", "rollback", "isolate", "rollback"),
    ],
)
def test_row_and_vote(row: str, required: str, optional: str, lane: str) -> None:
    assert row_vote("required", row_decision([row], "required")) == required  # type: ignore[list-item]
    assert row_vote("optional", row_decision([row], "optional")) == optional  # type: ignore[list-item]
    assert row_decision([row], "lane") == lane  # type: ignore[list-item]
    assert row_vote("lane", row_decision([row], "lane"), True) is None  # type: ignore[list-item]
    assert row_vote("lane", row_decision([row], "lane"), False) == "defer"  # type: ignore[list-item]


def test_rehearsal() -> None:
    assert {o: rehearsal_contribution(o) for o in OUTCOMES} == {
        o: "adopt" if o == "pass" else "defer" for o in OUTCOMES
    }


def test_outcomes_from_worst_to_best() -> None:
    order = ["fail", "error", "inconclusive", "not_run", "pass"]
    for index, outcome in enumerate(order):
        assert worst_outcome(order[index:]) == outcome  # type: ignore[arg-type]
