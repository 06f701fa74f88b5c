"""Comparisons from a pool of simulated pairs: each pair serves once, and verdicts follow the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from torchspec.bench import ours
from torchspec.bench.pool import PairOf
from torchspec.bench.rates import Answer


def _simulated_pool(log: float, pairs: int, spread: float = 0.005, seed: int = 3) -> list[PairOf]:
    """Pairs of one work with this true log ratio, simulated."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(pairs):
        value = math.exp(log + spread * rng.standard_normal())
        found.append(PairOf({"attention": {"latency.p50": {0.0: math.log(value)}}}, 2.0, 1.0))
    return found


def _asked(log: float, **more: object) -> list[Answer]:
    return ours.comparisons(
        _simulated_pool(log, 120, **more),  # type: ignore[arg-type]
        "attention",
        "latency.p50",
        0.0,
        0.03,
        design="torchspec",
        condition="quiet",
        truth=math.exp(log),
        min_pairs=3,
        max_pairs=8,
    )


def test_comparisons_use_each_pair_once_and_follow_the_truth() -> None:
    equal = _asked(0.0)
    assert {a.verdict for a in equal} == {"pass"}
    assert sum(a.pairs or 0 for a in equal) <= 120
    assert len(equal) >= 30
    slower = _asked(math.log(1.10))
    assert {a.verdict for a in slower} == {"fail"}
    assert all((a.pairs or 0) >= 6 for a in slower)  # three, and three fresh ones
    assert slower[0].ratio == pytest.approx(1.10, abs=0.02)
    noisy = _asked(0.0, spread=0.5)
    assert {a.verdict for a in noisy} == {"inconclusive"}
    assert all((a.pairs or 0) >= 8 for a in noisy)


def test_controls_of_a_runs_own_come_first_and_cost_their_time() -> None:
    pool = _simulated_pool(0.0, 120)
    common: dict[str, Any] = {"condition": "quiet", "truth": 1.0, "min_pairs": 2, "max_pairs": 8}
    alone = ours.comparisons(pool, "attention", "latency.p50", 0.0, 0.03, design="own", controls=3, **common)
    assert all((a.pairs or 0) >= 5 and a.together_s == 2.0 * (a.pairs or 0) for a in alone)
    as_run = ours.comparisons(
        pool, "attention", "latency.p50", 0.0, 0.03, design="own", controls=3, pair_s=1.5, control_s=4.0, **common
    )
    assert [a.together_s for a in as_run] == [3 * 4.0 + 1.5 * ((a.pairs or 0) - 3) for a in alone]
    known = ours.spread(pool, "attention", "latency.p50")
    assert known is not None
    assert (round(known[0], 4), known[1]) == (0.0054, 120)
    quick = ours.comparisons(
        pool, "attention", "latency.p50", 0.0, 0.03, design="known", known=known, pair_s=1.5, **common
    )
    assert {a.verdict for a in quick} == {"pass"}
    assert all(a.together_s == 1.5 * (a.pairs or 0) for a in quick)
    assert min(a.pairs or 0 for a in quick) == 2
    assert len(quick) > len(alone)
    assert ours.usual_seconds(pool) == 2.0
    assert ours.usual_seconds(pool[:1]) is None


def test_equal_pairs_are_called_different_as_often_as_the_interval_says() -> None:
    hits, n = ours.called_different(_simulated_pool(0.0, 3000), "attention", "latency.p50", 3)
    assert n == 1000
    assert 0.03 <= hits / n <= 0.07
    assert ours.off_by(_simulated_pool(0.0, 3000), "attention", "latency.p50") == pytest.approx(0.005, rel=0.05)
    assert ours.called_different(_simulated_pool(0.2, 30), "attention", "latency.p50", 3) == (10, 10)
