"""Gates on counts: graph breaks, recompiles, fallbacks. Three fresh runs that agree are exact; otherwise inconclusive.

Must not average: a count that changes from run to run is itself the finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchspec import limits
from torchspec.judge import words
from torchspec.judge.finding import Finding, Question, crossing, to_form
from torchspec.judge.samples import ENOUGH, Samples, concluded, described, limit_is_wrong, take
from torchspec.model.evidence import Record


def find(question: Question, records: Sequence[Record]) -> Finding | None:
    """The finding from count samples of one cell; None where the candidate sent none."""
    highest = limits.harm_is_up(question.metric)
    name = question.metric.name
    new = take(records, name, question.candidate, None, highest)
    base = take(records, name, "baseline", None, highest)
    if not new.values:
        return None
    shown = described(new, base)
    if new.odd or base.odd or min((*new.values, *base.values)) < 0:
        return replace(shown, outcome="error", rule="not a count", reason="a figure is not a count")
    for who, samples in (("the candidate", new), ("the baseline", base)):
        if samples.values and (who == "the candidate" or question.scale != "value"):
            trouble = _trouble(who, samples, shown)
            if trouble is not None:
                return trouble
    value = new.values[0]
    if question.scale == "value":
        found = concluded(question, replace(shown, estimate=value, low=value, high=value), value, value, True, 0)
        bound = question.bound
        beyond = base.exact and bound is not None and crossing(bound, base.median, base.median) == "beyond"
        return limit_is_wrong(question, found, base.median) if found.outcome == "fail" and beyond else found
    if not base.values:
        return replace(shown, outcome="error", rule="no reference", reason="the baseline has no count to compare with")
    return _compared(question, shown, value, base.values[0])


def _trouble(who: str, samples: Samples, shown: Finding) -> Finding | None:
    listed = ", ".join(words.plain(v, "count") for v in samples.values)
    if len(set(samples.values)) > 1:
        reason = f"not deterministic: fresh runs of {who} counted {listed}"
        return replace(shown, rule="not deterministic", reason=reason)
    if len(samples.values) < ENOUGH:
        reason = f"{who} was counted {len(samples.values)} of {ENOUGH} times, so nothing says that the count is stable"
        return replace(shown, rule="too few runs", reason=reason)
    return None


def _compared(question: Question, shown: Finding, new: float, base: float) -> Finding:
    if question.scale == "ratio":
        if base == 0:
            if question.limit.form == "report":
                says = f"{words.plain(new, 'count')}: reported, not judged"
                return replace(shown, outcome="pass", rule="report", reason=says)
            reason = (
                f"a relative limit ({question.says}) has no meaning on a baseline of 0: "
                "give an absolute one, such as `increase <= 0`"
            )
            return replace(shown, outcome="error", rule="relative limit on a baseline of zero", reason=reason)
        value = new / base
    else:
        value = new - base
    term = to_form(question, value)
    return concluded(question, replace(shown, estimate=term, low=term, high=term), value, value, True, 0)
