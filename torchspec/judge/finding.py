"""What every part of the judge takes and gives: a question about one metric of one cell, and a finding.

Holds the algebra between a limit's form and the scale on which it is compared. Must not read records or measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torchspec import limits
from torchspec.catalog import Metric
from torchspec.judge import words
from torchspec.model.plan import Limit
from torchspec.model.verdict import Outcome


@dataclass(frozen=True, slots=True)
class Question:
    """One metric of one cell for one candidate, against one reference, in one form."""

    metric: Metric
    limit: Limit
    against: str | None
    cell: str
    candidate: str
    label: str
    first: int  # pairs before the first look
    last: int  # pairs of the budget
    repeats: int | None = None
    sees: float | None = None

    @property
    def bound(self) -> limits.Bound | None:
        if self.limit.form not in ("report", "holds", "identical") and self.limit.value is None:
            return None  # a claim's statement: the form without a limit
        return limits.bound(self.metric, self.limit.form, self.limit.op, self.limit.value)

    @property
    def scale(self) -> str:
        """ratio, difference or value; a report of something that has a baseline shows a ratio."""
        form = self.limit.form
        if form in ("increase", "decrease"):
            return "difference"
        if form == "absolute":
            return "value"
        return "ratio"

    @property
    def says(self) -> str:
        """The limit in the author's words."""
        return self.limit.text.strip() or self.limit.form


@dataclass(frozen=True, slots=True)
class Finding:
    """An outcome with its reason and figures; the figures are in the terms of the limit's form."""

    outcome: Outcome
    rule: str
    reason: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    baseline: float | None = None
    candidate_value: float | None = None
    unit: str | None = None
    n: dict[str, int] | None = None
    visible: float | None = None
    improvement: bool = False
    detail: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[int, ...] = ()
    p: float | None = None  # one-sided p value of a failure, for the correction over one memo


def to_form(question: Question, value: float) -> float:
    """A value on the question's scale (candidate over reference, difference, own value) in the form's terms."""
    form = question.limit.form
    if form in ("growth", "report"):
        return value - 1.0
    if form == "drop":
        return 1.0 - value
    if form == "speedup":
        if not limits.harm_is_up(question.metric):
            return value
        return 1.0 / value if value > 0 else math.inf
    return -value if form == "decrease" else value


def in_form(question: Question, estimate: float, low: float, high: float) -> tuple[float, float, float]:
    """Estimate and interval in the form's terms, the interval's ends in order."""
    ends = sorted((to_form(question, low), to_form(question, high)))
    return to_form(question, estimate), ends[0], ends[1]


def crossing(bound: limits.Bound, low: float, high: float) -> str:
    """Where the interval lies: "inside", "beyond" or "crosses". A value on the limit is inside."""
    if bound.upper:
        return "inside" if high <= bound.value else "beyond" if low > bound.value else "crosses"
    return "inside" if low >= bound.value else "beyond" if high < bound.value else "crosses"


def better(question: Question, low: float, high: float, *, mirrored: bool = False) -> bool:
    """The whole interval lies on the good side of no change. Only where the baseline is what it is compared with: that
    one path of a version is faster than another path of the same version is nothing that the upgrade brought.

    `mirrored` asks for more: as far on the good side as the limit lies on the bad one.
    """
    if question.scale == "value" or question.against not in (None, "baseline"):
        return False
    least = 1.0 if question.scale == "ratio" else 0.0
    bound = question.bound
    if mirrored and bound is not None and bound.value > 0:
        least = min(1 / bound.value, bound.value) if question.scale == "ratio" else -bound.value
    if question.metric.better == "higher":
        return low > (1 / least if question.scale == "ratio" else -least)
    return question.metric.better == "lower" and high < least


def figures(question: Question, shown: Finding) -> str:
    """`93.1 MB → 164.2 MB, +76.3 % [+71.0, +80.2]`: the figures of a finding. A drop is written as the change it is."""
    form = {"report": "growth", "drop": "growth", "decrease": "increase"}.get(question.limit.form, question.limit.form)
    estimate = shown.estimate if shown.estimate is not None else math.nan
    low = shown.low if shown.low is not None else estimate
    high = shown.high if shown.high is not None else estimate
    if question.limit.form in ("drop", "decrease"):
        estimate, low, high = -estimate, -high, -low
    text = words.figure(form, estimate, shown.unit)
    if not low == high == estimate:
        text += f" {words.interval(form, low, high, shown.unit)}"
    if question.scale == "value" or shown.baseline is None or shown.candidate_value is None:
        return text
    change = words.change(shown.baseline, shown.candidate_value, shown.unit)
    return change if low == estimate == high == 0 else f"{change}, {text}"
