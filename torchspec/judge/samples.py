"""Gates on figures that a fresh process gives once: memory, import, first call, compile time.

Compares medians with a distribution-free interval (Mann and Whitney's, one-sided 5 % at each end: with three against
three, the extreme differences; more than three are a second look, at 1 %). Where three of a side agree to the last
digit they are compared exactly. Must not read timing; counts and errors have their own rules.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchspec import limits
from torchspec.judge import words
from torchspec.judge.finding import Finding, Question, better, crossing, figures, in_form
from torchspec.judge.stats import ALPHA, CONFIRM_ALPHA, centre_interval, shift_ends, shift_interval
from torchspec.model.evidence import Record

ENOUGH = 3
#: What the harness tells beside a peak of the process: that of the first step, that of a later one above what the steps
#: before have left, and how many modules the first one imported.
PARTS = ("first_step", "later_step", "modules_imported")


def level_of(n: int) -> float:
    """The one-sided level for so many processes a side: more than three are taken where three did not tell."""
    return ALPHA if n <= ENOUGH else CONFIRM_ALPHA


@dataclass(frozen=True, slots=True)
class Samples:
    """The figures of one side, one a process (the worst rank where there are several), with their records."""

    values: tuple[float, ...]
    unit: str | None
    meter: str | None
    seqs: tuple[int, ...]

    @property
    def exact(self) -> bool:
        return len(self.values) >= ENOUGH and len(set(self.values)) == 1

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def odd(self) -> bool:
        return any(not math.isfinite(v) for v in self.values)


def number(value: Any) -> float:
    """A recorded figure, with "nan", "inf" and "-inf" as floats."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def take(records: Sequence[Record], metric: str, side: str, against: str | None, highest: bool) -> Samples:
    """The samples of one metric on one side. A repeat recorded twice counts once, by its later record."""
    repeats: dict[tuple[str, int], dict[Any, tuple[float, Record]]] = {}
    for record in records:
        body = record.body
        if body.get("metric") == metric and body.get("side") == side and body.get("against") == against:
            rank = (body.get("detail") or {}).get("rank")
            place = repeats.setdefault((record.run, int(body.get("repeat") or 0)), {})
            place[rank] = (number(body.get("value")), record)
    worst = []
    for ranks in repeats.values():
        each = [value for value, _ in ranks.values()]
        worst.append(math.nan if any(math.isnan(v) for v in each) else max(each) if highest else min(each))
    found = [record for ranks in repeats.values() for _, record in ranks.values()]
    return Samples(
        tuple(worst),
        found[-1].body.get("unit") if found else None,
        found[-1].body.get("meter") if found else None,
        tuple(sorted(r.seq for r in found)),
    )


def parts(records: Sequence[Record], metric: str, side: str) -> dict[str, float] | None:
    """Medians of the parts of a peak over a side's processes; None where a process does not tell all of them."""
    told = [
        [number((r.body.get("detail") or {}).get(part)) for part in PARTS]
        for r in records
        if r.body.get("metric") == metric and r.body.get("side") == side and r.body.get("against") is None
    ]
    if not told or any(not math.isfinite(value) for one in told for value in one):
        return None
    return {part: statistics.median(one[place] for one in told) for place, part in enumerate(PARTS)}


def find(question: Question, records: Sequence[Record]) -> Finding | None:
    """The finding from `sample` records of one cell; None where the candidate sent none."""
    highest = limits.harm_is_up(question.metric)
    name = question.metric.name
    reference = question.against if question.against in ("beside", "eager") else None
    new = take(records, name, question.candidate, None, highest)
    base = (
        take(records, name, question.candidate, reference, highest)
        if reference
        else take(records, name, "baseline", None, highest)
    )
    if not new.values:
        return None
    shown = described(new, base)
    both = {side: parts(records, name, side) for side in ("baseline", question.candidate)} if not reference else {}
    one, two = both.get("baseline"), both.get(question.candidate)
    if one is not None and two is not None:
        shown = replace(shown, detail=shown.detail | {"parts": {"baseline": one, "candidate": two}})
    if new.odd or base.odd:
        return replace(shown, outcome="error", rule="not a number", reason="a meter gave a figure that is not a number")
    negative = [v for v in (*new.values, *base.values) if v < 0]
    if negative and question.metric.dimension in ("bytes", "time", "count"):
        reason = f"a meter gave {words.plain(negative[0], shown.unit)}, below zero, which cannot be"
        return replace(shown, outcome="error", rule="negative figure", reason=reason)
    if question.scale == "value":
        return _own(question, shown, new, base)
    if not base.values:
        who = f"the work done {reference}" if reference else "the baseline"
        return replace(shown, outcome="error", rule="no reference", reason=f"{who} has no figure to compare with")
    found = _compared(question, shown, new, base)
    if found.outcome == "pass" or one is None or two is None:
        return found
    return replace(found, reason=f"{found.reason}; {words.of_parts(one, two)}")


def described(new: Samples, base: Samples) -> Finding:
    """The absolute figures, counts and records that every outcome carries."""
    detail: dict[str, Any] = {"meter": new.meter, "candidate_values": list(new.values), "maximum": max(new.values)}
    if base.values:
        detail |= {"baseline_values": list(base.values), "baseline_maximum": max(base.values)}
    return Finding(
        "inconclusive",
        "",
        "",
        baseline=base.median if base.values and not base.odd else None,
        candidate_value=new.median if not new.odd else None,
        unit=new.unit,
        n={"repeats": min(len(new.values), len(base.values)) if base.values else len(new.values)},
        detail={key: _plain(value) for key, value in detail.items()},
        evidence=tuple(sorted((*new.seqs, *base.seqs))),
    )


def _plain(value: Any) -> Any:
    """Detail that JSON can hold: a float that is not finite becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _own(question: Question, shown: Finding, new: Samples, base: Samples) -> Finding:
    """An absolute limit on the candidate; the baseline, held to it too, tells whether the limit fits the work."""
    level = level_of(len(new.values))
    low, high = (new.median, new.median) if new.exact else centre_interval(new.values, level)
    shown = replace(shown, estimate=new.median, low=low, high=high, confidence=None if new.exact else 1 - 2 * level)
    found = concluded(question, shown, low, high, new.exact, len(new.values))
    bound = question.bound
    if found.outcome == "fail" and bound is not None and len(base.values) >= 2:
        low, high = (base.median, base.median) if base.exact else centre_interval(base.values, level)
        if crossing(bound, low, high) == "beyond":
            return limit_is_wrong(question, found, base.median)
    return found


def limit_is_wrong(question: Question, found: Finding, baseline: float) -> Finding:
    """What becomes of a failure of an absolute limit that the baseline fails too."""
    reason = (
        f"the baseline, at {words.plain(baseline, found.unit)}, is beyond the limit ({question.says}) too: "
        "the limit is wrong, not the candidate"
    )
    return replace(found, outcome="inconclusive", rule="baseline fails too", reason=reason)


def _compared(question: Question, shown: Finding, new: Samples, base: Samples) -> Finding:
    ratio = question.scale == "ratio"
    if ratio and base.median <= 0:
        if question.limit.form == "report":
            reason = f"{words.plain(new.median, new.unit)}: reported, not judged; the baseline is at zero"
            return replace(shown, outcome="pass", rule="report", reason=reason)
        reason = (
            f"a relative limit ({question.says}) has no meaning on a baseline of {words.plain(base.median, new.unit)}: "
            "give an absolute one, such as `increase <= ...`"
        )
        return replace(shown, outcome="error", rule="relative limit on a baseline of zero", reason=reason)
    exact = new.exact and base.exact
    level = level_of(max(len(new.values), len(base.values)))
    estimate = new.median / base.median if ratio else new.median - base.median
    ends = (estimate, estimate) if exact else shift_interval(base.values, new.values, level, ratio)
    if ends is None:
        reason = (
            f"{words.count_of(len(base.values), 'process')} of the baseline and {len(new.values)} of the candidate are "
            f"too few for an interval: {ENOUGH} of each are needed"
        ).replace("processs", "processes")
        value, _, _ = in_form(question, estimate, estimate, estimate)
        return replace(shown, estimate=value, rule="too few processes", reason=reason)
    value, low, high = in_form(question, estimate, ends[0], ends[1])
    shown = replace(shown, estimate=value, low=low, high=high, confidence=None if exact else 1 - 2 * level)
    if not exact:
        half = (high - low) / 2 if math.isfinite(high - low) else math.inf
        shown = replace(shown, visible=half if math.isfinite(half) else None)
    return concluded(question, shown, ends[0], ends[1], exact, min(len(new.values), len(base.values)))


def concluded(question: Question, shown: Finding, low: float, high: float, exact: bool, n: int) -> Finding:
    """pass, fail or inconclusive by where the interval (on the question's scale) lies; `shown` has the figures."""
    text = figures(question, shown)
    bound = question.bound
    real = better(question, low, high, mirrored=not exact)
    if bound is None:
        return replace(shown, outcome="pass", rule="report", improvement=real, reason=f"{text}: reported, not judged")
    place = crossing(bound, low, high)
    if exact:
        rule, how = "exact", "every process gave the same"
    else:
        rule, how = {"inside": "interval inside limit", "beyond": "interval beyond limit"}.get(place, ""), ""
    if place == "inside":
        says = f"{text}: inside the limit ({question.says})" + (f"; {how}" if how else "")
        return replace(
            shown,
            outcome="pass",
            rule=rule,
            improvement=real,
            reason=says + (", a real change for the better" if real else ""),
        )
    if place == "beyond":
        says = f"{text}: beyond the limit ({question.says})" + (f"; {how}" if how else "")
        return replace(shown, outcome="fail", rule=rule, reason=says, p=0.0 if exact else _p_of(n))
    reason = f"{text}: the interval crosses the limit ({question.says}); more than {n} processes a side would be needed"
    return replace(shown, rule="interval crosses limit", reason=reason)


def _p_of(n: int) -> float:
    """An upper bound of the one-sided p value of a failure by the exact interval: its own level."""
    k = shift_ends(n, n, level_of(n))
    return level_of(n) if k is not None else 1.0
