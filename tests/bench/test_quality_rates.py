"""Rates of verdicts with their exact intervals, and the report that shows them."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from torchspec.bench import peers, report
from torchspec.bench.rates import Answer, interval, rates


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"), [(0, 300, 0.0, 0.01222), (300, 300, 0.98778, 1.0), (5, 20, 0.08657, 0.49105)]
)
def test_exact_binomial_intervals(hits: int, n: int, low: float, high: float) -> None:
    found = interval(hits, n)
    assert found[0] == pytest.approx(low, abs=1e-5)
    assert found[1] == pytest.approx(high, abs=1e-5)


def test_rates_count_by_design_and_truth() -> None:
    answers = [Answer("d", "w", "m", "quiet", 1.0, v, 1.02, 3.0, 4) for v in ("pass", "pass", "fail", "inconclusive")]
    answers.append(Answer("d", "w", "m", "quiet", 1.05, "fail", None, 5.0))
    equal, slower = rates(answers)
    assert (equal.n, equal.shares["pass"][0], equal.pairs, equal.seconds) == (4, 0.5, 4.0, 3.0)
    assert equal.error == pytest.approx(math.log(1.02))
    assert (slower.n, slower.error, slower.pairs) == (1, None, None)
    assert slower.shares["fail"][1] > 0


def test_right_verdicts_in_time_are_counted_by_what_all_works_took() -> None:
    made = [Answer("d", "w", "m", "quiet", 1.0, "pass", 1.0, 3.0, 3, seconds) for seconds in (20.0, 29.0, 31.0, 61.0)]
    made.append(Answer("d", "w", "m", "quiet", 1.0, "fail", 1.1, 3.0, 3, 20.0))
    (equal,) = rates(made)
    assert equal.within == {30.0: 0.4, 60.0: 0.6}
    (slower,) = rates([Answer("d", "w", "m", "quiet", 1.05, "fail", 1.1, 3.0, 3, 20.0)])
    assert slower.within[30.0] == 1.0
    (edge,) = rates([Answer("d", "w", "m", "quiet", 1.03, "fail", 1.1, 3.0, 3, 20.0)], 0.03)
    assert edge.within == {30.0: None, 60.0: None}  # at the limit nothing is right or wrong
    (unknown,) = rates([Answer("d", "w", "m", "quiet", 1.05, "fail", 1.1, 3.0)])
    assert unknown.within == {30.0: None, 60.0: None}


def test_the_report_names_everything_and_its_picture_is_well_formed() -> None:
    found = rates([Answer("a < b", "w", "m", "quiet", 1.0, "pass", 1.0, 3.0, 4, 9.0)])
    text = report.table(
        found, {"asv, best": "not there"}, {"limit": "3 %"}, peers.HOW, {"w": (1, 20)}, 3, {("busy", "w"): (8, 0.012)}
    )
    assert "| a < b | w | m | quiet | equal | 1 | 100 % [" in text
    assert "- asv, best: not there" in text
    assert "of 3 equal pairs each: w 1 of 20" in text
    assert "- w, busy: 1.20 % (8 pairs)" in text
    for name in peers.PEERS:
        assert f"- {name}: " in text
    ElementTree.fromstring(report.picture(found))
