"""The way from pairs to the outcome of a timing gate: pass, improvement, inconclusive, failure on fresh pairs."""

from __future__ import annotations

import math

import pytest
from evidence import book
from timings import GROWTH, judged


def test_equal_versions_pass_with_estimate_interval_and_counts() -> None:
    found = judged([0.001, -0.002, 0.0005])
    assert (found.outcome, found.rule, found.contribution) == ("pass", "upper bound below limit", "adopt")
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.estimate < found.high <= 0.03  # type: ignore[operator]
    assert found.n == {"pairs": 3, "builds": 6, "rounds": 30, "iterations": 960}
    assert found.baseline == pytest.approx(1e-3, rel=0.01)
    assert found.candidate_value == pytest.approx(1e-3, rel=0.01)
    assert found.unit == "s"
    assert found.confidence == pytest.approx(0.9)
    assert len(found.evidence) == 6
    assert found.measured_at is not None
    assert "inside the limit" in found.reason


def test_a_failure_needs_fresh_pairs() -> None:
    alone = judged([0.10, 0.101, 0.099])
    assert (alone.outcome, alone.rule, alone.contribution) == ("inconclusive", "not confirmed on fresh pairs", "defer")
    confirmed = judged([0.10, 0.101, 0.099], [0.10, 0.102, 0.098])
    assert (confirmed.outcome, confirmed.contribution) == ("fail", "isolate")
    assert confirmed.rule == "lower bound above limit, confirmed on fresh pairs"
    assert confirmed.low is not None
    assert confirmed.low > 0.03
    assert confirmed.n is not None
    assert confirmed.n["confirming_pairs"] == 3
    assert confirmed.detail is not None
    assert confirmed.detail["first_stage"]["estimate"] == pytest.approx(math.expm1(0.1), abs=0.01)
    assert confirmed.detail["p_holm"] >= confirmed.detail["p"] > 0
    refuted = judged([0.10, 0.101, 0.099], [0.0, 0.002, -0.002])
    assert (refuted.outcome, refuted.rule) == ("inconclusive", "not confirmed on fresh pairs")


def exactly(measured: list[float], fresh: list[float]) -> str:
    """The outcome of pairs whose log ratios are exactly these."""
    made = book(GROWTH)
    made.controls()
    for stage, values in (("measure", measured), ("confirm", fresh)):
        for number, value in enumerate(values):
            made.pair(number, [[([1e6], [1e6 * math.exp(value)])]], stage=stage)
    made.done()
    return made.only().outcome


def test_fresh_pairs_must_confirm_at_one_percent_and_not_at_five() -> None:
    first = [0.10, 0.101, 0.099]
    weak = [0.0320, 0.0331, 0.0339]  # beyond the limit at 5 %
    assert exactly(weak, first) == "fail"
    assert exactly(first, weak) == "inconclusive"
    assert exactly(first, [0.060, 0.061, 0.0605]) == "fail"


def test_an_interval_across_the_limit_is_inconclusive_and_says_what_it_would_take() -> None:
    found = judged([0.0, 0.05, 0.02])
    assert (found.outcome, found.rule, found.contribution) == ("inconclusive", "interval crosses limit", "defer")
    assert found.detail is not None
    assert found.detail["pairs_needed"] > 3
    assert "pairs would tell" in found.reason
    assert found.visible is not None
    assert found.visible > 0.03


def test_fresh_pairs_taken_for_another_gate_help_a_pass_and_cannot_fail_alone() -> None:
    helped = judged([0.0, 0.02, 0.015], [0.001, 0.0, 0.002, 0.001, 0.0, 0.001, 0.0, 0.001])
    assert helped.outcome == "pass"
    not_alone = judged([0.0, 0.09, 0.1], [0.09, 0.091, 0.092, 0.09, 0.091, 0.09, 0.092, 0.09])
    assert not_alone.outcome == "inconclusive"


def test_a_real_improvement_is_named() -> None:
    found = judged([-0.69, -0.70, -0.695])
    assert found.outcome == "pass"
    assert found.improvement
    assert "for the better" in found.reason
    assert found.estimate == pytest.approx(-0.5, abs=0.01)
    assert not judged([0.001, -0.002, 0.0005]).improvement


def test_an_improvement_of_99_percent() -> None:
    found = judged([math.log(0.01), math.log(0.0101), math.log(0.0099)])
    assert (found.outcome, found.improvement) == ("pass", True)
    assert found.estimate == pytest.approx(-0.99, abs=0.001)


@pytest.mark.parametrize("base_ns", [1.0, 1e13])
def test_samples_of_a_nanosecond_and_of_hours(base_ns: float) -> None:
    assert judged([0.001, -0.002, 0.0005], base_ns=base_ns).outcome == "pass"
    failing = judged([0.1, 0.101, 0.099], [0.1, 0.101, 0.099], base_ns=base_ns)
    assert failing.outcome == "fail"
    assert failing.baseline == pytest.approx(base_ns * 1e-9, rel=0.01)


def test_one_pair_and_two() -> None:
    assert (judged([0.0]).outcome, judged([0.0]).rule) == ("inconclusive", "too few pairs")
    assert judged([0.0, 0.0001], noise=0.0001).outcome == "pass"
