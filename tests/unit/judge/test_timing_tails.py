"""Gates on a tail: how many samples a quantile takes, which pairs are too short for it, and what it alone catches."""

from __future__ import annotations

import pytest
from evidence import book, gate
from timings import GROWTH, judged

from torchspec.harness import measure as harness_measure
from torchspec.judge import timing


@pytest.mark.parametrize(("quantile", "share"), [("p95", 0.95), ("p99", 0.99)])
def test_a_tail_needs_samples_that_reach_beyond_its_quantile(quantile: str, share: float) -> None:
    in_all, of_a_pair = timing.TAIL_SAMPLES[quantile]
    assert 1 - share**in_all >= 0.95 > 1 - share ** (in_all - 1)
    assert of_a_pair * (1 - share) == pytest.approx(1.0)
    assert harness_measure.TAIL_SAMPLES == timing.TAIL_SAMPLES, "the harness takes what the judge asks for"


def test_a_p99_is_not_judged_by_what_a_p95_takes() -> None:
    line = gate("latency.p99", "growth", "<=", 0.05)
    logs = [0.0, 0.001, -0.001]
    few = judged(logs, line=line, samples=8)  # ten rounds a pair: 80 in each, which is plenty for a p95
    assert (few.outcome, few.rule) == ("inconclusive", "too few samples for a tail")
    assert "240 samples a side in all and 80 in one pair" in few.reason
    assert "a p99 cannot be told from fewer than 299 in all and 100 in each pair" in few.reason
    assert judged(logs, line=gate("latency.p95", "growth", "<=", 0.05), samples=8).outcome == "pass"
    assert judged(logs, line=line, samples=60).outcome == "pass"


def test_a_pair_that_ended_early_is_left_out_of_the_tail_and_named() -> None:
    lines = (GROWTH, gate("latency.p95", "growth", "<=", 0.05))
    made = book(*lines)
    for line in lines:
        made.controls(line.metric)
    made.pairs([0.0, 0.001, -0.001], samples=60)
    made.pair(3, [[([1e6] * 19, [5e6] * 19)]])  # a worker died behind the first round of the first build
    made.done()
    centre, tail = made.judged().judgements
    assert centre.n is not None
    assert centre.n["pairs"] == 4
    assert (tail.outcome, tail.n["pairs"] if tail.n else None) == ("pass", 3)
    assert tail.detail is not None
    assert [(one["pair"], one["samples"]) for one in tail.detail["pairs_too_short_for_a_tail"]] == [(3, 19)]
    assert tail.candidate_value == pytest.approx(1e-3, rel=0.1), "its times are not in the figures either"


def test_a_tail_needs_59_samples_a_side() -> None:
    line = gate("latency.p95", "growth", "<=", 0.05)
    few = judged([0.0, 0.001], line=line, samples=2)  # ten rounds a pair: 40 in all
    assert (few.outcome, few.rule) == ("inconclusive", "too few samples for a tail")
    thin = judged([0.0, 0.001, -0.001, 0.002, 0.0, 0.001, 0.0], line=line, samples=1)
    assert (thin.outcome, thin.rule) == ("inconclusive", "too few samples for a tail")
    assert judged([0.0, 0.001, -0.001], line=line, samples=60).outcome == "pass"


def test_a_regression_of_the_tail_alone_is_caught_by_p95_only() -> None:
    made = book(GROWTH, gate("latency.p95", "growth", "<=", 0.05))
    made.controls()
    made.controls("latency.p95")
    for stage in ("measure", "confirm"):
        for number in range(3):
            jitter = [1 + 0.001 * ((k * 7 + number) % 5) for k in range(24)]
            plain = [1e6 * j for j in jitter]
            tail = [1e6 * j * (3.0 if k % 12 == 3 else 1.0) for k, j in enumerate(jitter)]
            builds = [[(plain, [v * (1 + 0.0003 * number) for v in tail])] * 10] * 2
            made.pair(number, builds, stage=stage)
    made.done()
    centre, tail_found = made.judged().judgements
    assert centre.outcome == "pass"
    assert tail_found.outcome == "fail"
    assert tail_found.estimate == pytest.approx(2.0, abs=0.1)


def test_too_few_samples_of_a_tail_are_the_reason_even_where_the_control_saw_nothing() -> None:
    made = book(gate("latency.p95", "growth", "<=", 0.05))
    made.pairs([0.0, 0.001], samples=2)
    made.done()
    assert made.only().rule == "too few samples for a tail"
