"""Limits as half-lines: direction of harm, strictness, reach."""

from __future__ import annotations

import pytest

from torchspec import catalog
from torchspec.limits import bound, points_at_harm, reach

METRICS = catalog.load().metrics


@pytest.mark.parametrize(
    ("metric", "form", "op", "value", "harm"),
    [
        ("latency.p50", "growth", "<=", 0.03, True),
        ("latency.p50", "growth", ">=", 0.03, False),
        ("latency.p50", "drop", "<=", 0.03, False),
        ("latency.p50", "drop", ">=", 0.03, True),
        ("latency.p50", "speedup", ">=", 1.2, True),
        ("latency.p50", "speedup", "<=", 1.2, False),
        ("throughput", "drop", "<=", 0.03, True),
        ("throughput", "growth", "<=", 0.03, False),
        ("throughput", "growth", ">=", 0.03, True),
        ("throughput", "speedup", ">=", 1.2, True),
        ("throughput", "absolute", ">=", 45.0, True),
        ("throughput", "absolute", "<=", 45.0, False),
        ("error.max_abs", "absolute", "<=", 1e-4, True),
        ("error.psnr", "absolute", ">=", 60.0, True),
        ("error.psnr", "decrease", "<=", 1.0, True),
        ("task.accuracy", "decrease", "<=", 0.002, True),
        ("task.accuracy", "drop", ">=", 0.002, False),
        ("compile.graph_breaks", "increase", "<=", 0.0, True),
        ("export.roundtrip", "holds", None, None, True),
    ],
)
def test_direction(metric: str, form: str, op: str | None, value: float | None, harm: bool) -> None:
    found = bound(METRICS[metric], form, op, value)
    assert found is not None
    assert points_at_harm(METRICS[metric], found) is harm


def test_growth_and_speedup_are_one_scale() -> None:
    growth = bound(METRICS["latency.p50"], "growth", "<=", 0.25)
    speedup = bound(METRICS["latency.p50"], "speedup", ">=", 0.8)
    assert growth == speedup
    faster = bound(METRICS["latency.p50"], "speedup", ">=", 1.2)
    assert growth is not None
    assert faster is not None
    assert faster.at_least_as_strict(growth)
    assert not growth.at_least_as_strict(faster)


def test_contradiction() -> None:
    most = bound(METRICS["latency.p50"], "growth", "<=", 0.03)
    least = bound(METRICS["latency.p50"], "growth", ">=", 0.05)
    fits = bound(METRICS["latency.p50"], "growth", ">=", 0.03)
    absolute = bound(METRICS["latency.p50"], "absolute", "<=", 0.01)
    assert most is not None
    assert least is not None
    assert fits is not None
    assert absolute is not None
    assert most.contradicts(least)
    assert least.contradicts(most)
    assert not most.contradicts(fits)
    assert not most.contradicts(most)
    assert not absolute.contradicts(least)


def test_report_allows_everything() -> None:
    assert bound(METRICS["latency.p50"], "report", None, None) is None


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_has_a_reach(name: str) -> None:
    for scale in ("value", "ratio", "difference"):
        can = reach(METRICS[name], scale, 600.0)  # type: ignore[arg-type]
        assert can.least < can.most
        assert can.why_least
        assert can.why_most
