"""Every form of limit on times and rates: what each is held against, and in which unit."""

from __future__ import annotations

import math

import pytest
from evidence import book, gate
from timings import judged


def test_a_limit_of_zero_percent_passes_only_what_is_clearly_not_slower() -> None:
    line = gate("latency.p50", "growth", "<=", 0.0)
    assert judged([0.001, -0.001, 0.0], line=line).outcome == "inconclusive"
    assert judged([-0.05, -0.051, -0.049], line=line).outcome == "pass"
    assert judged([0.05, 0.051, 0.049], [0.05, 0.052, 0.048], line=line).outcome == "fail"


def test_a_call_without_items_has_no_rate() -> None:
    line = gate("throughput", "absolute", ">=", 10.0)
    for items in (-1, -8):
        made = book(line)
        made.pairs([0.001, -0.002, 0.0005], items=items)
        made.done()
        found = made.only()
        assert (found.outcome, found.rule) == ("error", "negative figure")


def test_throughput_drop_and_its_absolute_values() -> None:
    line = gate("throughput", "drop", "<=", 0.03)
    found = judged([0.10, 0.101, 0.099], [0.1, 0.102, 0.098], line=line, items=64)
    assert found.outcome == "fail"
    assert found.rule == "upper bound below limit, confirmed on fresh pairs"
    assert found.estimate == pytest.approx(1 - math.exp(-0.1), abs=0.005)
    assert found.baseline == pytest.approx(64_000, rel=0.01)
    assert found.unit == "calls/s"
    assert "calls/s, −9.6" in found.reason
    assert judged([0.001, -0.002, 0.0005], line=line).outcome == "pass"
    faster = judged([-0.1, -0.101, -0.102], line=line)
    assert (faster.outcome, faster.improvement) == ("pass", True)


def test_speedup_against_the_old_path_uses_its_own_pairs() -> None:
    line = gate("latency.p50", "speedup", ">=", 1.2, against="beside")
    made = book(line)
    made.pairs([0.0, 0.001, -0.001])
    logs = [-math.log(1.5), -math.log(1.51), -math.log(1.49)]
    made.pairs(logs, against="beside", seed=5)
    made.done()
    found = made.only()
    assert (found.outcome, found.improvement) == ("pass", False)  # faster than its own old path, not than the baseline
    assert found.estimate == pytest.approx(1.5, abs=0.02)
    lacking = book(line)
    lacking.pairs([0.0, 0.001, -0.001])
    lacking.done()
    assert lacking.only().outcome == "not_run"
    assert "against beside" in lacking.only().reason


def test_an_absolute_limit_judges_the_candidate_alone() -> None:
    line = gate("latency.p50", "absolute", "<=", 1.05e-3)
    assert judged([0.0, 0.001, 0.002], line=line).outcome == "pass"
    slow = judged([0.2, 0.201, 0.199], [0.2, 0.201, 0.202], line=line)
    assert slow.outcome == "fail"
    assert slow.estimate == pytest.approx(1e-3 * math.exp(0.2), rel=0.01)
    both = judged([0.0, 0.001, 0.002], [0.0, 0.001, 0.002], line=gate("latency.p50", "absolute", "<=", 1e-4))
    assert (both.outcome, both.rule) == ("inconclusive", "baseline fails too")
    assert "the limit is wrong, not the candidate" in both.reason


def test_an_increase_in_seconds() -> None:
    line = gate("latency.p50", "increase", "<=", 5e-5)
    assert judged([0.001, 0.002, 0.003], line=line).outcome == "pass"
    found = judged([0.2, 0.201, 0.199], [0.2, 0.201, 0.202], line=line)
    assert found.outcome == "fail"
    assert found.estimate == pytest.approx(1e-3 * math.expm1(0.2), rel=0.05)


def test_a_report_has_figures_and_no_vote() -> None:
    found = judged([0.001, -0.002, 0.0005], line=gate("latency.p50", "report"))
    assert (found.outcome, found.contribution, found.rule) == ("pass", None, "report")
    assert found.estimate == pytest.approx(0.0, abs=0.005)
    assert found.low is not None
