"""Intervals and tests of the judge against scipy, against the driver's own form, and against brute force."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from evidence import book, gate
from scipy import stats as reference

from torchspec.harness import sequential
from torchspec.judge import pairs as pairing
from torchspec.judge import stats, timing
from torchspec.judge.timing import scale_of
from torchspec.model.codec import to_json


def test_the_table_is_the_drivers() -> None:
    assert stats.NOMINAL == sequential.NOMINAL
    for name in ("ALPHA", "CONFIRM_ALPHA", "NOISIER", "NOISIER_BEYOND", "NOISIER_DAY", "QUIETER"):
        assert getattr(stats, name) == getattr(sequential, name), name


@pytest.mark.parametrize("df", [1, 2, 6, 9.5, 40])
@pytest.mark.parametrize("level", [0.2, 0.0159, 0.001])
def test_points_of_t(df: float, level: float) -> None:
    assert stats.t_point(level, df) == pytest.approx(reference.t.isf(level, df), rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_agree_with_the_drivers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = list(rng.standard_t(3, int(rng.integers(2, 12))) * 0.01)
    level = float(rng.choice([0.05, 0.0159, 0.0025]))
    calibration = stats.Calibration(0.01, int(rng.integers(1, 9))) if seed % 2 else None
    known = (calibration.s0, calibration.n0) if calibration else (None, 0)
    for above in (stats.NOISIER, stats.NOISIER_BEYOND):
        found = stats.mean_bounds(values, level, calibration, above)
        theirs = sequential.bounds(values, level, *known, above)
        assert (found.mean, found.low, found.high) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("direction", ["growth", "drop"])
@pytest.mark.parametrize(
    ("first", "fresh", "outcome", "rule"),
    [
        # Two pairs, 1.4 times as noisy as the equal ones (F 2.0: between its 5 and its 50 % point).
        ((0.050, 0.058), (0.050, 0.058), "fail", "confirmed on fresh pairs"),
        ((0.050, 0.058), (0.030, 0.038), "inconclusive", "not confirmed on fresh pairs"),
        ((0.004, 0.012), (), "inconclusive", "interval crosses limit"),  # what may pass does without the other spread
        ((0.040, 0.068), (), "inconclusive", "interval crosses limit"),  # too noisy for either (F 24)
    ],
)
def test_what_is_beyond_keeps_the_spread_of_equal_pairs_in_judge_and_driver(  # type: ignore[no-untyped-def]
    direction: str, first, fresh, outcome: str, rule: str
) -> None:
    line = gate("latency.p50" if direction == "growth" else "throughput", direction, "<=", 0.03)
    sign = 1.0 if direction == "growth" else -math.log(0.97) / math.log(1.03)  # as far beyond on either scale
    made = book(line)
    for stage, logs in (("measure", first), ("confirm", fresh)):
        made.pairs([sign * log for log in logs], stage=stage, noise=0.0, items=8)
    known = stats.Calibration(0.004 * sign, 8)
    question = replace(_question(line), first=2)
    found = timing.find(question, pairing.Timed(made.records_of("timing")), known)
    assert found is not None
    assert (found.outcome, found.rule.split(", ")[-1]) == (outcome, rule)
    limit = to_json(line)["limit"]
    held = [[b["rounds"] for r in made.records if (b := r.body).get("stage") == s] for s in ("measure", "confirm")]
    shape = {"min_pairs": 2, "max_pairs": 8, "s0": known.s0, "n0": known.n0}

    def series(bodies):  # type: ignore[no-untyped-def]
        pairs = [bodies[i : i + 2] for i in range(0, len(bodies), 2)]  # two builds a pair
        return sequential.series(line.metric, limit, pairs, 8)

    said = sequential.decide(*series(held[0]), **shape)
    if rule == "interval crosses limit":
        assert said == "continue"
        return
    assert said == "fail-candidate"
    again = sequential.confirm(*series(held[1]), **shape)
    assert (again == "confirmed") is (outcome == "fail")


LINES = [
    gate("latency.p50", "growth", "<=", 0.03),
    gate("latency.p50", "speedup", ">=", 1.2),
    gate("latency.p95", "growth", "<=", 0.05),
    gate("latency.p99", "drop", ">=", 0.05),
    gate("throughput", "drop", "<=", 0.03),
    gate("throughput", "absolute", ">=", 1000.0),
    gate("throughput", "speedup", ">=", 1.1),
    gate("step.time", "increase", "<=", 1e-5),
    gate("step.time", "decrease", ">=", 1e-5),
    gate("latency.p50", "absolute", "<=", 1e-3),
]


@pytest.mark.parametrize("line", LINES, ids=lambda g: g.id)
def test_figures_limit_and_verdict_agree_with_the_drivers(line) -> None:  # type: ignore[no-untyped-def]
    """The same timing records give driver and judge the same figures, the same limit and the same side of it."""
    made = book(line)
    for number, log in enumerate([0.01, 0.02, 0.04, 0.03, -0.01]):
        made.pairs([log], first=number, seed=number, samples=24, noise=0.05, items=8)
    bodies = [r.body for r in made.records if r.kind == "timing"]
    held = [[b["rounds"] for b in bodies if b["pair"] == n] for n in range(5)]
    theirs = sequential.series(line.metric, to_json(line)["limit"], held, 8)
    assert theirs is not None
    question = _question(line)
    scale = scale_of(question)
    found = pairing.Timed(made.records_of("timing")).pairs("measure", "baseline", None)
    assert scale.values(found) == pytest.approx(theirs[0], rel=1e-9, abs=1e-12)
    assert scale.tau == pytest.approx(theirs[1], rel=1e-12)
    assert scale.upper == (theirs[2] == "<=")
    ours = stats.mean_bounds(scale.values(found), stats.nominal_level(0.05, 3, 8))
    side = timing.side_of(ours, theirs[1], scale.upper)
    said = sequential.decide(theirs[0], theirs[1], theirs[2], min_pairs=3, max_pairs=8)
    assert {"inside": "pass", "beyond": "fail-candidate", "crosses": "continue"}[side] == said


def _question(line):  # type: ignore[no-untyped-def]
    from torchspec.catalog import load
    from torchspec.judge.finding import Question

    metric = load().metrics[line.metric]
    return Question(metric, line.limit, line.against, "c", "candidate", "work", 3, 8)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (3, 5), (4, 4), (6, 5)])
def test_rank_sum_counts_by_brute_force(n: int, m: int) -> None:
    counted = [0] * (n * m + 1)
    for places in itertools.combinations(range(n + m), n):
        counted[sum(place - i for i, place in enumerate(places))] += 1
    assert stats.rank_sum_counts(n, m) == counted


def test_three_against_three_give_the_extreme_differences_at_five_percent() -> None:
    assert stats.shift_ends(3, 3, 0.05) == 0
    assert stats.shift_ends(2, 3, 0.05) is None
    assert stats.shift_ends(4, 4, 0.05) == 1
    assert stats.shift_interval([1.0, 2.0, 4.0], [8.0, 16.0, 9.0], 0.05, ratio=True) == (2.0, 16.0)
    assert stats.shift_interval([1.0, 2.0, 4.0], [8.0, 16.0, 9.0], 0.05, ratio=False) == (4.0, 15.0)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 5), (6, 6)])
def test_the_shift_interval_misses_at_most_five_percent_at_each_end(n: int, m: int) -> None:
    rng = np.random.default_rng(n * 10 + m)
    misses = [0, 0]
    trials = 4000
    for _ in range(trials):
        base = 100 + rng.standard_t(3, n)
        new = 107 + rng.standard_t(3, m)
        found = stats.shift_interval(list(base), list(new), 0.05, ratio=False)
        assert found is not None
        misses[0] += found[0] > 7
        misses[1] += found[1] < 7
    assert max(misses) / trials < 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_a_blend_is_dropped_where_the_pairs_are_much_noisier() -> None:
    quiet = stats.Calibration(0.001, 8)
    found = stats.mean_bounds([0.0, 0.02, -0.02, 0.01], 0.05, quiet)
    assert found.noisier
    assert not found.calibrated
    assert found.df == 3
    blended = stats.mean_bounds([0.0, 0.0008, -0.0008], 0.05, quiet)
    assert blended.calibrated
    assert blended.df == 10


@pytest.mark.parametrize("n", [0, 1, 3, 8])
@pytest.mark.parametrize("before", [None, (0.01, 10), (0.001, 10), (0.1, 8), (0.0, 10), (0.01, 0)])
def test_the_spread_of_equals_agrees_with_the_drivers(n: int, before: tuple[float, int] | None) -> None:
    values = list(0.01 * np.random.default_rng(n).standard_normal(n))
    ours = stats.spread_of_equals(values, stats.Calibration(*before) if before else None)
    theirs = sequential.spread_of_equals(values, before)
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert ours.s0 == pytest.approx(theirs[0], rel=1e-12)
        assert ours.n0 == theirs[1]


def test_holm_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([]) == []
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0]


def test_pairs_needed_would_decide_and_no_fewer() -> None:
    found = stats.mean_bounds([0.0, 0.02, 0.01, 0.015], stats.nominal_level(0.05, 3, 8))
    need = stats.pairs_needed(found, math.log(1.03), 3)
    assert need is not None
    spread = found.error * 2

    def reach(n: int) -> float:
        return stats.t_point(stats.nominal_level(0.05, 3, n), n - 1) * spread / math.sqrt(n)

    gap = abs(found.mean - math.log(1.03))
    assert reach(need) < gap
    far = stats.mean_bounds([-1.0, 1.0, 0.0], 0.05)
    assert stats.pairs_needed(far, 0.0001, 3) is None
