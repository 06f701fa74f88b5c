"""Limits as half-lines on a scale: which way harm lies, which of two limits is stricter, what a metric can reach.

Used where a spec is checked and where two plans are compared. Must not judge a measurement; the judge does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torchspec.catalog import Metric

#: Beyond these no measurement is worth the name: a hundredfold change, a pebibyte, a thousand million of anything.
MOST_GROWTH = 100.0
MOST_BYTES = 2.0**50
MOST = 1e9
LEAST_DB = -100.0

Scale = Literal["value", "ratio", "difference", "truth"]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a limit allows: on `scale`, at most `value` (`upper`) or at least `value`.

    `scale`: the candidate's own value, candidate over reference, candidate less reference, or a plain truth (whose
    value is 0). Bounds of different scales cannot be compared.
    """

    scale: Scale
    upper: bool
    value: float

    def comparable(self, other: Bound) -> bool:
        return self.scale == other.scale and self.upper == other.upper

    def at_least_as_strict(self, other: Bound) -> bool:
        """Whatever `other` refuses, this refuses too. False where the two cannot be compared."""
        if not self.comparable(other):
            return False
        return self.value <= other.value if self.upper else self.value >= other.value

    def contradicts(self, other: Bound) -> bool:
        """Nothing can meet both."""
        if self.scale != other.scale or self.upper == other.upper:
            return False
        most, least = (self.value, other.value) if self.upper else (other.value, self.value)
        return most < least


def harm_is_up(metric: Metric) -> bool:
    """Whether a rise of the figure is the bad direction."""
    return metric.better != "higher"


def bound(metric: Metric, form: str, op: str | None, value: float | None) -> Bound | None:
    """The half-line that a limit allows, in base units; None for a report.

    A `speedup` is a ratio of the figures themselves: 1.2 x on a time allows at most 1/1.2 of the reference.
    """
    if form == "report":
        return None
    if form in ("holds", "identical") or value is None:
        return Bound("truth", True, 0.0)
    upper = op == "<="
    if form == "growth":
        return Bound("ratio", upper, 1.0 + value)
    if form == "drop":
        return Bound("ratio", not upper, 1.0 - value)
    if form == "increase":
        return Bound("difference", upper, value)
    if form == "decrease":
        return Bound("difference", not upper, -value)
    if form == "speedup":
        if harm_is_up(metric):
            return Bound("ratio", not upper, 1.0 / value if value > 0 else math.inf)
        return Bound("ratio", upper, value)
    return Bound("value", upper, value)


def points_at_harm(metric: Metric, found: Bound) -> bool:
    """Whether crossing the limit is the bad direction: at most, where a rise is bad; at least, where a fall is."""
    return found.scale == "truth" or found.upper == harm_is_up(metric)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a figure can be: at least `least`, at most `most`, both with the reason in words."""

    least: float
    most: float
    why_least: str
    why_most: str


def reach(metric: Metric, scale: Scale, timeout_s: float) -> Reach:
    """The smallest and largest figure of `metric` on `scale` that a run could give, in base units."""
    if scale == "ratio":
        slow = f"a change by more than {MOST_GROWTH:g} times is not a measurement any more"
        return Reach(0.0, MOST_GROWTH, "nothing falls below zero", slow)
    own = _own_reach(metric, timeout_s)
    if scale == "difference":
        span = own.most - max(own.least, -MOST)
        return Reach(-span, span, own.why_most, own.why_most)
    return own


def _own_reach(metric: Metric, timeout_s: float) -> Reach:
    below = "it is never below zero"
    if metric.name.endswith("cosine"):
        return Reach(-1.0, 1.0, "a cosine is never below -1", "a cosine is never above 1")
    if metric.dimension == "ratio":
        return Reach(0.0, 1.0, "a share is never below 0 %", "a share is never above 100 %")
    if metric.dimension == "time":
        stop = f"a worker that takes longer than {timeout_s:g} s counts as hung, so no such time is ever recorded"
        return Reach(0.0, timeout_s, below, stop)
    if metric.dimension == "bytes":
        return Reach(0.0, MOST_BYTES, below, "no machine has that much memory")
    if metric.dimension == "db":
        return Reach(LEAST_DB, MOST, f"below {LEAST_DB:g} dB there is no signal left", "no measurement gets that high")
    return Reach(0.0, MOST, below, "no measurement gets that high")
