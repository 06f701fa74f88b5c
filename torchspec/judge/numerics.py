"""Gates on numbers that the frozen work gives: errors against a reference, losses, scores. NaN never passes.

The inputs are frozen, so one figure is what it is; where there are several (ranks, repeats), the worst one counts. Must
not take a noise interval where there is no noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torchspec import limits
from torchspec.judge import words
from torchspec.judge.finding import Finding, Question, better, crossing, figures, in_form
from torchspec.judge.samples import Samples, described, limit_is_wrong, take
from torchspec.model.evidence import Record

#: What the harness counts of places that are not finite, as a reader takes it.
_ODD = {"nonfinite": "NaN or infinite on one side only", "nan_on_both": "NaN on both sides"}
VISIBLE = 5e-4  # of a ratio: what a per cent with one decimal can show; less is rounding, and not called better


def find(question: Question, records: Sequence[Record]) -> Finding | None:
    """The finding from numeric samples of one cell; None where the candidate sent none."""
    highest = limits.harm_is_up(question.metric)
    name = question.metric.name
    reference = question.against if name.startswith("error.") else None
    new = take(records, name, question.candidate, reference, highest)
    base = take(records, name, "baseline", reference, highest)
    if not new.values:
        return None
    worst = max if highest else min
    shown = described(new, base)
    value = math.nan if any(math.isnan(v) for v in new.values) else worst(new.values)
    known = None if not base.values else math.nan if any(math.isnan(v) for v in base.values) else worst(base.values)
    told = _places(records, name, question.candidate, reference)
    shown = replace(shown, n={"repeats": len(new.values)}, detail=shown.detail | told)
    if math.isnan(value):
        same_places = "nan_on_both" in told and "nonfinite" not in told
        return _not_a_number(question, shown, same_places or (known is not None and math.isnan(known)))
    shown = replace(shown, candidate_value=value if math.isfinite(value) else None)
    found = _finite(question, shown, new, value, known)
    if found.outcome == "pass" and question.bound is not None and "nan_on_both" in shown.detail:
        return _not_a_number(question, shown, on_both=True)
    return found


def _finite(question: Question, shown: Finding, new: Samples, value: float, known: float | None) -> Finding:
    """The finding from a figure that is a number."""
    if question.scale == "value":
        return _own(question, shown, value, known)
    if known is None and question.limit.form == "report":
        reason = f"{words.plain(value, shown.unit)}: reported, not judged"
        return replace(shown, outcome="pass", rule="report", reason=reason)
    if known is None:
        reason = "the baseline has no figure to compare with"
        return replace(shown, outcome="error", rule="no reference", reason=reason)
    return _compared(question, shown, new, value, known)


def _places(records: Sequence[Record], metric: str, candidate: str, reference: str | None) -> dict[str, Any]:
    """The tensor in which the candidate's figure is worst, and what made a comparison impossible, where recorded."""
    for record in reversed(records):
        body = record.body
        if (body.get("metric"), body.get("side"), body.get("against")) == (metric, candidate, reference):
            detail = body.get("detail") or {}
            told: dict[str, Any] = {key: str(detail[key]) for key in ("tensor", "problem") if detail.get(key)}
            told |= {key: int(detail[key]) for key in _ODD if detail.get(key)}
            if detail.get("by_scale"):
                told["by_scale"] = ", ".join(str(name) for name in detail["by_scale"])
            return told
    return {}


def _not_a_number(question: Question, shown: Finding, on_both: bool) -> Finding:
    """`on_both`: the baseline's figure, or the reference at the same places, is not a number either."""
    told = _odd_places(shown)
    if on_both:
        reason = f"NaN on both sides{told}: {question.metric.name} cannot be told, and NaN never passes"
        return replace(shown, rule="NaN on both sides", reason=reason)
    reason = f"NaN{told}: a figure that is not a number never passes"
    if question.limit.form == "report":
        return replace(shown, outcome="inconclusive", rule="NaN", reason=reason)
    return replace(shown, outcome="fail", rule="NaN never passes", reason=reason)


def _odd_places(shown: Finding) -> str:
    """How many places are not finite and where, in brackets, as far as the harness counted them."""
    told = [f"{shown.detail[key]} {what}" for key, what in _ODD.items() if key in shown.detail]
    return f" ({' and '.join(told)})" if told else ""


def _own(question: Question, shown: Finding, value: float, known: float | None) -> Finding:
    bound = question.bound
    unit = "1" if shown.unit == "count" else shown.unit
    text = words.plain(value, unit)
    shown = replace(shown, estimate=value, low=value, high=value)
    if bound is None:
        return replace(shown, outcome="pass", rule="report", reason=f"{text}: reported, not judged")
    far = (f" against {question.against}" if question.against else "") + _by_scale(shown)
    if crossing(bound, value, value) == "inside":
        return replace(shown, outcome="pass", rule="value inside limit", reason=_inside(text + far, question))
    if known is not None and (math.isnan(known) or crossing(bound, known, known) == "beyond"):
        return limit_is_wrong(question, shown, known)
    reason = f"{text}{far}: beyond the limit ({question.says})"
    if known is not None:
        reason += f"; the baseline is at {words.plain(known, unit)}"
    return replace(shown, outcome="fail", rule="value beyond limit", reason=reason)


def _by_scale(shown: Finding) -> str:
    names = str(shown.detail.get("by_scale") or "")
    if not names:
        return ""
    few = names if names.count(", ") < 3 else f"{names.count(', ') + 1} gradients"
    return f" (held by the scale of the whole pass: {few}, nothing but rounding beside float64)"


def _inside(text: str, question: Question) -> str:
    return f"{text}: inside the limit ({question.says})"


def _compared(question: Question, shown: Finding, new: Samples, value: float, known: float) -> Finding:
    if math.isnan(known) or not math.isfinite(known):
        reason = f"the baseline's figure is {words.plain(known, None)}, so nothing can be compared with it"
        return replace(shown, outcome="error", rule="baseline is not a number", reason=reason)
    if question.scale == "ratio":
        if known <= 0:
            if question.limit.form == "report":
                says = f"{words.plain(value, shown.unit)}: reported, not judged"
                return replace(shown, outcome="pass", rule="report", reason=says)
            word = "zero" if known == 0 else "a negative value"
            reason = (
                f"a relative limit ({question.says}) has no meaning on a baseline of {words.plain(known, shown.unit)}: "
                "give an absolute one, such as `increase <= ...`"
            )
            return replace(shown, outcome="error", rule=f"relative limit on a baseline of {word}", reason=reason)
        change = value / known
    else:
        change = value - known
    term, _, _ = in_form(question, change, change, change)
    shown = replace(shown, estimate=term, low=term, high=term)
    text = figures(question, shown)
    real = better(question, change, change) and (question.scale != "ratio" or abs(change - 1) >= VISIBLE)
    bound = question.bound
    if bound is None:
        return replace(shown, outcome="pass", rule="report", improvement=real, reason=f"{text}: reported, not judged")
    if crossing(bound, change, change) == "inside":
        reason = _inside(text, question)
        return replace(shown, outcome="pass", rule="value inside limit", improvement=real, reason=reason)
    reason = f"{text}: beyond the limit ({question.says})"
    return replace(shown, outcome="fail", rule="value beyond limit", reason=reason)
