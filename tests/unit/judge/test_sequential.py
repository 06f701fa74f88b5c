"""The driver's stopping rule: its t quantile against scipy, its error rates by simulation, its edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from torchspec.harness import sequential


@pytest.mark.parametrize("df", [1, 2, 3, 5, 7.5, 20, 200])
@pytest.mark.parametrize("level", [0.4, 0.05, 0.0159, 0.00257, 1e-5])
def test_t_quantile_agrees_with_scipy(df: float, level: float) -> None:
    assert sequential.t_quantile(level, df) == pytest.approx(stats.t.isf(level, df), rel=1e-9)


@pytest.mark.parametrize(("above", "below"), [(2, 3), (7, 8), (3, 1)])
@pytest.mark.parametrize("value", [0.01, 1.0, 4.5, 100.0])
def test_f_tail_agrees_with_scipy(value: float, above: int, below: int) -> None:
    assert sequential.f_tail(value, above, below) == pytest.approx(stats.f.sf(value, above, below), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize(("first", "last"), [(2, 8), (3, 8), (3, 12), (4, 24)])
def test_the_nominal_level_keeps_the_error_over_all_looks(alpha: float, first: int, last: int) -> None:
    rng = np.random.default_rng(20261)
    x = rng.standard_normal((200_000, last))
    n = np.arange(1, last + 1)
    mean = np.cumsum(x, 1) / n
    with np.errstate(all="ignore"):
        t = mean * np.sqrt(n) / np.sqrt((np.cumsum(x * x, 1) - n * mean**2) / (n - 1))
    level = sequential.nominal_level(alpha, first, last)
    crossed = (t[:, first - 1 :] > stats.t.isf(level, n[first - 1 :] - 1)).any(1).mean()
    assert crossed == pytest.approx(alpha, rel=0.05)


def test_levels_between_and_beyond_the_table_are_the_careful_ones() -> None:
    assert sequential.nominal_level(0.05, 3, 11) == sequential.nominal_level(0.05, 3, 12)
    assert sequential.nominal_level(0.05, 3, 96) == sequential.nominal_level(0.05, 3, 48) / 2
    assert sequential.nominal_level(0.05, 9, 9) == sequential.nominal_level(0.05, 4, 9)
    assert sequential.nominal_level(0.05, 1, 1) == sequential.nominal_level(0.05, 2, 2)


def test_decide_continues_passes_fails_and_ends() -> None:
    tau = math.log(1.03)
    assert sequential.decide([0.0, 0.001], tau) == "continue"
    assert sequential.decide([0.0, 0.001, -0.001], tau) == "pass"
    assert sequential.decide([0.10, 0.101, 0.099], tau) == "fail-candidate"
    assert sequential.decide([0.10, -0.1, 0.03] + [0.0, 0.06] * 3, tau) == "budget"
    assert sequential.decide([0.10, 0.101, 0.099], tau, ">=") == "pass"
    assert sequential.decide([0.0, 0.001, -0.001], tau, ">=") == "fail-candidate"
    assert sequential.decide([], tau) == "continue"
    assert sequential.decide([], tau, max_pairs=0) == "budget"


def test_pairs_that_agree_to_the_last_digit_never_decide() -> None:
    assert sequential.decide([0.0] * 5, 0.03) == "continue"
    assert sequential.decide([0.0] * 8, 0.03) == "budget"
    assert sequential.decide([0.5] * 8, 0.03) == "budget"


def test_confirmation_is_stricter_than_the_first_stage() -> None:
    tau = math.log(1.03)
    values = [0.040, 0.043, 0.0415]
    assert sequential.decide(values, tau) == "fail-candidate"
    assert sequential.confirm(values, tau) == "continue"
    assert sequential.confirm([0.1, 0.101, 0.0995], tau) == "confirmed"
    assert sequential.confirm([0.0, 0.001, -0.001], tau) == "not confirmed"
    assert sequential.confirm([0.02, 0.03, 0.04] * 3, tau) == "not confirmed"
    assert sequential.confirm([-0.1, -0.101, -0.0995], -tau, ">=") == "confirmed"


def _pair(a: list[float], b: list[float], builds: int = 4, rounds: int = 10) -> sequential.Pair:
    return [[{"a_ns": a, "b_ns": b} for _ in range(rounds)] for _ in range(builds)]


LIMITS = [
    ("latency.p50", "growth", "<=", 0.03, math.log(1.03), "<="),
    ("latency.p50", "drop", ">=", 0.5, math.log(0.5), "<="),
    ("latency.p50", "speedup", ">=", 1.25, -math.log(1.25), "<="),
    ("throughput", "drop", "<=", 0.03, math.log(0.97), ">="),
    ("throughput", "growth", ">=", 0.05, math.log(1.05), ">="),
    ("throughput", "speedup", ">=", 1.25, math.log(1.25), ">="),
    ("throughput", "absolute", ">=", 45.0, math.log(45.0), ">="),
    ("latency.p95", "absolute", "<=", 0.18, math.log(0.18), "<="),
    ("step.time", "increase", "<=", 1e-3, 1e-3, "<="),
    ("step.time", "decrease", ">=", 1e-3, -1e-3, "<="),
]


@pytest.mark.parametrize(("metric", "form", "op", "value", "tau", "direction"), LIMITS)
def test_series_puts_the_limit_on_the_figures_scale(
    metric: str, form: str, op: str, value: float, tau: float, direction: str
) -> None:
    got = sequential.series(metric, {"form": form, "op": op, "value": value}, [_pair([1e6] * 9, [2e6] * 9)] * 3, 8)
    assert got is not None
    figures, limit, side = got
    assert (limit, side) == (pytest.approx(tau), direction)
    rate = metric == "throughput"
    expected = {
        "absolute": math.log(8 / 2e-3 if rate else 2e-3),
        "increase": 1e-3,
        "decrease": 1e-3,
    }.get(form, -math.log(2) if rate else math.log(2))
    assert figures == [pytest.approx(expected)] * 3


def test_a_report_has_no_series() -> None:
    assert sequential.series("latency.p50", {"form": "report", "op": None, "value": None}, []) is None


def test_a_tail_regression_shows_in_p95_and_not_in_p50() -> None:
    rng = np.random.default_rng(5)
    slow = np.where(np.arange(24) % 12 == 0, 3.0, 1.0)
    pair = [
        [
            {
                "a_ns": list(1e6 * np.exp(0.01 * rng.standard_normal(24))),
                "b_ns": list(1e6 * slow * np.exp(0.01 * rng.standard_normal(24))),
            }
            for _ in range(10)
        ]
        for _ in range(4)
    ]
    assert sequential.pair_ratio("latency.p50", pair) == pytest.approx(0.0, abs=0.01)
    assert sequential.pair_ratio("latency.p95", pair) == pytest.approx(math.log(3), abs=0.05)


@pytest.mark.parametrize("bad", [0, -5, "nan", math.inf, math.nan, 1e-311, 1e300])
def test_rounds_with_a_time_that_is_not_one_are_left_out(bad: object) -> None:
    good = {"a_ns": [1e6], "b_ns": [2e6]}
    assert sequential.pair_ratio("latency.p50", [[good, {"a_ns": [1e6], "b_ns": [bad]}]]) == pytest.approx(math.log(2))
    assert sequential.pair_ratio("latency.p50", [[{"a_ns": [bad], "b_ns": [1e6]}]]) is None
    assert sequential.pair_level("latency.p95", [[{"a_ns": [], "b_ns": [1e6]}]]) is None


def test_the_module_needs_nothing_but_the_standard_library() -> None:
    import ast
    from pathlib import Path

    tree = ast.parse(Path(sequential.__file__).read_text(encoding="utf-8"))
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    imported |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert imported == {"__future__", "math", "typing"}
