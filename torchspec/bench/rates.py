"""From answers to rates: how often each design said pass, fail or nothing, with exact binomial intervals.

Must not measure. A rate from a few comparisons has a wide interval, and the table shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy import special

VERDICTS = ("pass", "inconclusive", "fail")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one design said of one comparison. `truth` is the true ratio of time, 1.0 for equal versions.

    `condition` is "as the machine was" or what disturbed it; `ratio` the design's own estimate, None where it gives
    none. `seconds` is the cost of this work's answer, `together_s` that of all works measured in the same processes.
    """

    design: str
    work: str
    metric: str
    condition: str
    truth: float
    verdict: str
    ratio: float | None
    seconds: float
    pairs: int | None = None
    together_s: float | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """One row of the table: counts of each verdict, the shares with their 95 % interval, and the mean cost."""

    design: str
    work: str
    metric: str
    condition: str
    truth: float
    n: int
    shares: dict[str, tuple[float, float, float]]  # verdict -> share, low, high
    seconds: float
    together_s: float
    pairs: float | None
    error: float | None  # root mean square error of the log ratio
    within: dict[float, float | None]  # seconds for all works together -> share of right verdicts by then


def interval(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's exact interval of a share."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(special.betaincinv(hits + 1, n - hits, 1 - tail))
    return low, high


def rates(answers: Iterable[Answer], limit: float = 0.0) -> list[Rate]:
    """One rate for each design, work, metric, condition and truth, in the order in which they first come.

    `limit` is the growth that the gate allows: at a truth that is just the limit no verdict is the right one.
    """
    groups: dict[tuple[str, str, str, str, float], list[Answer]] = {}
    for one in answers:
        groups.setdefault((one.design, one.work, one.metric, one.condition, one.truth), []).append(one)
    return [_rate(key, found, limit) for key, found in groups.items()]


def _rate(key: tuple[str, str, str, str, float], found: Sequence[Answer], allowed: float) -> Rate:
    import math

    n = len(found)
    shares = {}
    for verdict in VERDICTS:
        hits = sum(one.verdict == verdict for one in found)
        shares[verdict] = (hits / n, *interval(hits, n))
    pairs = [one.pairs for one in found if one.pairs is not None]
    told = [math.log(one.ratio / one.truth) for one in found if one.ratio is not None and one.ratio > 0]
    return Rate(
        *key,
        n=n,
        shares=shares,
        seconds=sum(one.seconds for one in found) / n,
        together_s=sum(one.seconds if one.together_s is None else one.together_s for one in found) / n,
        pairs=sum(pairs) / len(pairs) if pairs else None,
        error=math.sqrt(sum(v * v for v in told) / len(told)) if told else None,
        within={seconds: _within(found, seconds, 1.0 + allowed) for seconds in (30.0, 60.0)},
    )


def _within(found: Sequence[Answer], limit_s: float, allowed: float) -> float | None:
    """The share of comparisons that came to the right verdict in that time: pass of equals, fail beyond the limit."""
    truth = found[0].truth
    right = "pass" if truth == 1.0 else "fail"
    if truth != 1.0 and truth <= allowed + 1e-9:
        return None
    if any(one.together_s is None for one in found):
        return None
    return sum(one.verdict == right and (one.together_s or 0.0) <= limit_s for one in found) / len(found)
