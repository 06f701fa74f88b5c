"""A canary's intervals: how often they miss the truth, by simulation, and what few requests or groups cannot tell."""

from __future__ import annotations

import random
from typing import Any

import pytest

from torchspec import catalog
from torchspec.judge import canary
from torchspec.judge.finding import Finding, Question
from torchspec.judge.stats import ALPHA
from torchspec.model.evidence import GENESIS, Record
from torchspec.model.plan import Limit

METRICS = catalog.load().metrics
Groups = dict[str, list[tuple[float, int | None]]]  # group -> (figure, requests) of each window


def question(metric: str, form: str, value: float | None, op: str = "<=") -> Question:
    limit = Limit(form, None if value is None else op, value, None, f"{form} {op} {value}")  # type: ignore[arg-type]
    return Question(METRICS[metric], limit, "baseline", "c", "candidate", "canary", 3, 8)


def records(metric: str, sides: dict[str, Groups]) -> list[Record]:
    made: list[Record] = []
    for side, groups in sides.items():
        for group, windows in groups.items():
            for value, requests in windows:
                detail = {"group": group, "grouped_by": "hours", "requests": requests, "share": 0.05}
                body = {"metric": metric, "side": side, "value": value, "unit": "1", "meter": "m", "detail": detail}
                made.append(Record(len(made), "", "r-1", "sample", body, GENESIS, GENESIS))
    return made


def found(asked: Question, sides: dict[str, Groups]) -> Finding:
    finding = canary.find(asked, records(asked.metric.name, sides))
    assert finding is not None
    return finding


def rates(noise: random.Random, hours: int, requests: int, change: float, *, paired: bool) -> dict[str, Groups]:
    """Hours of traffic, each with a level of its own; errors are counted one by one."""
    sides: dict[str, Groups] = {"baseline": {}, "candidate": {}}
    for number in range(hours):
        level = noise.uniform(0.002, 0.006)
        for side in sides:
            rate = (level if paired else noise.uniform(0.002, 0.006)) + (change if side == "candidate" else 0.0)
            errors = sum(noise.random() < rate for _ in range(requests))
            name = f"{number}" if paired else f"{side} {number}"
            sides[side][name] = [(errors / requests, requests)]
    return sides


@pytest.mark.parametrize(("paired", "seed"), [(True, 11), (False, 12)])
def test_a_truth_at_the_limit_is_rarely_decided(paired: bool, seed: int) -> None:
    noise = random.Random(seed)
    asked = question("error.rate", "increase", 0.002)
    outcomes = [found(asked, rates(noise, 6, 1500, 0.002, paired=paired)).outcome for _ in range(150)]
    assert outcomes.count("fail") <= 11  # 5 % is 7.5; 11 is the 93rd point
    assert outcomes.count("pass") <= 11


def test_a_large_change_fails_and_none_passes() -> None:
    noise = random.Random(5)
    asked = question("error.rate", "increase", 0.002)
    worse = [found(asked, rates(noise, 8, 4000, 0.006, paired=True)).outcome for _ in range(20)]
    same = [found(asked, rates(noise, 8, 9000, 0.0, paired=True)).outcome for _ in range(20)]
    assert worse.count("fail") >= 19
    assert same.count("pass") >= 17
    assert "fail" not in same


def test_no_error_in_a_few_requests_is_no_proof() -> None:
    none: dict[str, Groups] = {s: {f"{h}": [(0.0, 100)] for h in range(8)} for s in ("baseline", "candidate")}
    few = found(question("error.rate", "increase", 0.001), none)
    assert few.outcome == "inconclusive"
    assert few.high == pytest.approx(1 - 0.05 ** (1 / 800), rel=1e-6)  # no error in 800 requests
    many: dict[str, Groups] = {s: {g: [(0.0, 10_000)] for g in none[s]} for s in none}
    assert found(question("error.rate", "increase", 0.001), many).outcome == "pass"


def test_many_requests_of_few_groups_are_not_many_groups() -> None:
    """Hosts that differ among themselves: a million requests on each do not tell them from the version."""
    hosts = {"baseline": (0.001, 0.004, 0.002), "candidate": (0.003, 0.005, 0.001)}
    sides: dict[str, Groups] = {s: {f"{s}{n}": [(v, 1_000_000)] for n, v in enumerate(own)} for s, own in hosts.items()}
    assert found(question("error.rate", "increase", 0.001), sides).outcome == "inconclusive"


def test_the_windows_of_a_group_are_one_figure() -> None:
    windows: dict[str, Groups] = {
        "baseline": {str(n): [(0.10, 1000), (0.20, 3000)] for n in range(4)},
        "candidate": {str(n): [(0.175, 4000)] for n in range(4)},
    }
    same = found(question("task.accuracy", "decrease", 0.05), windows)
    assert (same.n, same.outcome) == ({"repeats": 4}, "pass")
    assert same.baseline == pytest.approx(0.175)


@pytest.mark.parametrize(
    ("sides", "outcome", "rule"),
    [
        ({"candidate": {"a": [(1.0, None)], "b": [(1.0, None)], "c": [(1.0, None)]}}, "error", "no reference"),
        (
            {s: {"a": [(1.0, None)], "b": [(1.1, None)]} for s in ("baseline", "candidate")},
            "inconclusive",
            "too few groups",
        ),
        (
            {
                "baseline": {g: [(0.0, None)] for g in "abc"},
                "candidate": {g: [(1.0, None)] for g in "abc"},
            },
            "error",
            "relative limit on a baseline of zero",
        ),
    ],
)
def test_what_cannot_be_compared(sides: dict[str, Groups], outcome: str, rule: str) -> None:
    got = found(question("latency.p95", "growth", 0.05), sides)
    assert (got.outcome, got.rule) == (outcome, rule)


def test_an_absolute_limit_that_the_baseline_fails_too() -> None:
    slow: dict[str, Groups] = {
        s: {g: [(0.2 + 0.001 * n, None)] for n, g in enumerate("abcd")} for s in ("baseline", "candidate")
    }
    got = found(question("latency.p95", "absolute", 0.18), slow)
    assert (got.outcome, got.rule) == ("inconclusive", "baseline fails too")
    fast: dict[str, Groups] = {**slow, "baseline": {g: [(0.1 + 0.001 * n, None)] for n, g in enumerate("abcd")}}
    assert found(question("latency.p95", "absolute", 0.18), fast).outcome == "fail"


def test_an_improvement_is_named() -> None:
    sides: dict[str, Groups] = {
        "baseline": {str(n): [(0.2 + 0.001 * n, None)] for n in range(6)},
        "candidate": {str(n): [(0.1 + 0.001 * n, None)] for n in range(6)},
    }
    got = found(question("latency.p95", "growth", 0.05), sides)
    assert (got.outcome, got.improvement) == ("pass", True)
    assert found(question("latency.p95", "report", None), sides).outcome == "pass"


def reach(values: list[float]) -> tuple[float, float]:
    bounds = canary.signed_rank_interval(values, ALPHA)
    assert bounds is not None
    return bounds


def test_signed_ranks_by_hand() -> None:
    assert reach([1, 2, 3, 4, 5]) == (1, 5)  # 1 in 32 is beyond the least of five
    assert reach([1, 2, 3, 4, 5, 6]) == (2, 5)  # 3 of 64 are at most 2: the third mean from each end
    noise = random.Random(2)
    misses = 0
    for _ in range(400):
        low, high = reach([noise.gauss(0.5, 1) for _ in range(12)])
        misses += not low <= 0.5 <= high
    assert misses <= 52  # 10 % is 40; 52 is the 98th point
    wide: Any = reach([noise.gauss(0, 1) for _ in range(60)])
    assert wide[0] < 0 < wide[1]


def test_a_level_that_so_few_groups_do_not_reach() -> None:
    assert canary.signed_rank_interval([1, 2, 3, 4], ALPHA) is None  # 1 in 16 is beyond the least of four
    assert canary.signed_rank_interval([1, 2, 3, 4, 5, 6], ALPHA / 4) is None
    assert canary.signed_rank_interval([1, 2, 3, 4, 5, 6, 7], ALPHA / 4) == (1, 7)


def test_looking_again_and_again_is_paid_for() -> None:
    """A truth at the limit, twelve hours and then three hours more at each of six looks: stopped at the first pass."""
    noise, asked = random.Random(21), question("latency.p95", "growth", 0.05)
    passed = corrected = 0
    for _ in range(150):
        hours = [(noise.gauss(1.0, 0.05), noise.gauss(1.05, 0.05)) for _ in range(27)]
        looks: list[list[Record]] = []
        for count in range(12, 28, 3):
            own = {
                s: {f"{h}": [(hours[h][k], None)] for h in range(count)}
                for k, s in enumerate(("baseline", "candidate"))
            }
            looks.append(records("latency.p95", own))
        passed += any(_outcome(asked, look, []) == "pass" for look in looks)
        corrected += any(_outcome(asked, look, looks[:number]) == "pass" for number, look in enumerate(looks))
    assert passed >= 15
    assert corrected <= 17  # 8.3 % is 12.4; 17 is the 93rd point


def _outcome(asked: Question, look: list[Record], earlier: list[list[Record]]) -> str:
    finding = canary.find(asked, look, earlier)
    assert finding is not None
    return finding.outcome
