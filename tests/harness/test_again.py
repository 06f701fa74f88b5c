"""When three fresh processes a side are not enough, and that two looks are wrong no more often than is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torchspec.harness.again import MORE_PROCESSES, look_again, undecided
from torchspec.judge.samples import level_of
from torchspec.judge.stats import shift_interval

GROWTH = {"form": "growth", "op": "<=", "value": 0.1}


@pytest.mark.parametrize(
    ("limit", "base", "new", "open_still"),
    [
        (GROWTH, [100, 101, 102], [103, 104, 105], False),
        (GROWTH, [100, 101, 102], [130, 131, 132], False),
        (GROWTH, [100, 101, 102], [101, 102, 120], True),  # one odd process of six
        (GROWTH, [100, 100, 100], [200, 200, 200], False),
        (GROWTH, [0, 0, 0], [0, 0, 1], False),  # no ratio: the judge says why
        (GROWTH, [100.0, float("nan"), 100.0], [101, 102, 120], False),
        (GROWTH, [], [101, 102, 120], False),
        ({"form": "increase", "op": "<=", "value": 5}, [0, 0, 1], [2, 3, 9], True),
        ({"form": "absolute", "op": "<=", "value": 5}, [1, 1, 1], [2, 3, 9], True),
        ({"form": "absolute", "op": "<=", "value": 5}, [1, 1, 1], [2, 3, 4], False),
        ({"form": "report", "op": None, "value": None}, [1, 2, 3], [1, 2, 9], False),
    ],
)
def test_what_three_a_side_leave_open(
    limit: dict[str, Any], base: list[float], new: list[float], open_still: bool
) -> None:
    assert undecided(limit, base, new) is open_still


def test_only_figures_that_a_process_gives_once_are_looked_at_again() -> None:
    gate = {"metric": "memory.driver_peak", "limit": GROWTH, "against": None}
    base, new = [100.0, 101.0, 102.0], [101.0, 102.0, 120.0]
    for metric, against, again in (
        ("memory.driver_peak", None, True),
        ("latency.first_call", "baseline", True),
        ("memory.driver_peak", "beside", False),
        ("compile.time", None, False),
        ("latency.p50", None, False),
    ):
        asked = [{**gate, "metric": metric, "against": against}]
        assert look_again(asked, {metric: base}, {metric: new}) is again


def _said(base: Any, new: Any, level: float) -> str:
    found = shift_interval(list(base), list(new), level, True)
    assert found is not None
    return "pass" if found[1] <= 1.1 else "fail" if found[0] > 1.1 else "open"


@pytest.mark.parametrize("noise", ["normal", "one odd process in eight", "heavy tails"])
def test_two_looks_at_a_truth_on_the_limit_are_rarely_decided(noise: str) -> None:
    rng = np.random.default_rng(7)
    trials, both = 6000, 2 * MORE_PROCESSES

    def draw() -> Any:
        if noise == "heavy tails":
            return np.exp(0.03 * rng.standard_t(3, (trials, both)))
        found = np.exp(0.01 * rng.standard_normal((trials, both)))
        return found if noise == "normal" else found * np.where(rng.random((trials, both)) < 1 / 8, 1.3, 1.0)

    figures = draw()
    base, new = figures[:, :MORE_PROCESSES], 1.1 * figures[:, MORE_PROCESSES:]
    counts = {"pass": 0, "fail": 0, "open": 0}
    for one, two in zip(base, new, strict=True):
        said = _said(one[:3], two[:3], level_of(3))
        counts[_said(one, two, level_of(MORE_PROCESSES)) if said == "open" else said] += 1
    assert counts["pass"] / trials <= 0.065
    assert counts["fail"] / trials <= 0.065


def test_one_odd_process_of_sixteen_decides_nothing() -> None:
    base, new = [100.0 + k / 10 for k in range(8)], [101.0 + k / 10 for k in range(7)] + [125.0]
    assert _said(base[:3], [*new[:2], new[-1]], level_of(3)) == "open"
    assert _said(base, new, level_of(8)) == "pass"
