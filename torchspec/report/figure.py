"""One judgement in figures: estimate, interval, limit, both absolute values and the plot, all rounded by one rule.

Relative forms are shown as the change from baseline to candidate, so a limit "drop <= 3 %" reads "at least −3 %" and
grey is below it. Must not judge: the outcome is the judgement's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from torchspec.model.plan import Gate, Limit
from torchspec.model.verdict import Judgement
from torchspec.report import numbers
from torchspec.report.language import Language
from torchspec.report.names import HIGHER_IS_BETTER
from torchspec.report.numbers import NNBSP

RELATIVE = frozenset({"growth", "drop", "report"})
DIFFERENCE = frozenset({"increase", "decrease"})


@dataclass(frozen=True, slots=True)
class Figure:
    """`estimate` and `interval` as text ("" where there is none); `unit` begins with its space. `values` are the
    plotted numbers (estimate, low, high, limit), in per cent for relative forms, None where nothing can be
    plotted."""

    estimate: str
    interval: str
    unit: str
    absolute: str
    limit: str
    values: tuple[float, float, float, float] | None
    beyond: str | None

    @property
    def change(self) -> str:
        """ "+76.3 %", or the value with its unit."""
        return self.estimate + self.unit


def direction(gate: Gate) -> tuple[float, str | None]:
    """(sign from the limit's own terms to a change, the side of the limit that is beyond)."""
    limit = gate.limit
    sign = -1.0 if limit.form in {"drop", "decrease"} else 1.0
    if limit.op is None:
        return sign, None
    above = limit.op == "<="
    return sign, "above" if above == (sign > 0) else "below"


def limit_value(gate: Gate) -> float | None:
    """The limit as a change (drop 3 % is −0.03); None where the limit is not a number."""
    sign, _ = direction(gate)
    return None if gate.limit.value is None else sign * gate.limit.value


def limit_words(t: Language, gate: Gate) -> str:
    """The limit in words: "at most +5 %", "at least −3 %", "at most 180 ms", "same bytes", "must hold"."""
    limit = gate.limit
    if limit.form == "identical":
        return t.text("same bits, {n} repeats", n=gate.repeats) if gate.repeats else t.text("same bits")
    if limit.form == "holds":
        return t.text("must hold")
    if limit.form == "report" or limit.value is None:
        return t.text("none, for information")
    _, beyond = direction(gate)
    text = bound_words(t, gate)
    return t.text("at most {limit}", limit=text) if beyond == "above" else t.text("at least {limit}", limit=text)


def bound_words(t: Language, gate: Gate) -> str:
    """The limit alone, for a sentence: "+5 %", "−3 %", "180 ms"; the whole limit where it is not a number."""
    value = limit_value(gate)
    return limit_words(t, gate) if value is None else _bound(t, gate.limit, value)


def _bound(t: Language, limit: Limit, value: float) -> str:
    if limit.form in RELATIVE:
        return _exact(value * 100, t, sign=True) + f"{NNBSP}%"
    if limit.form == "speedup":
        return _exact(value, t) + f"{NNBSP}×"
    if limit.form in DIFFERENCE:
        if limit.unit in {"pp", "%"}:
            return _exact(value * 100, t, sign=True) + f"{NNBSP}pp"
        sign = "+" if value > 0 else numbers.MINUS if value < 0 else ""
        number, unit = _as_written(limit, t)
        return f"{sign}{number}{NNBSP}{unit}" if unit else _signed(value, None, t)
    number, unit = _as_written(limit, t)
    if unit and unit not in {"1"}:
        return f"{number}{NNBSP}{unit}"
    return _power(value, t)


def _as_written(limit: Limit, t: Language) -> tuple[str, str]:
    """Number and unit as the author wrote them after the relation; ("", "") where there is none."""
    written = limit.text.split("=", 1)[-1].strip() if "=" in limit.text else ""
    number, _, unit = written.partition(" ")
    return number.replace(".", t.locale.decimal), unit


def _signed(value: float, unit: str | None, t: Language) -> str:
    """A difference with its sign: "+373 kB", "−2", "0"."""
    return ("+" if value > 0 else "") + numbers.quantity(value, unit, locale=t.locale)


def _power(value: float, t: Language) -> str:
    """1e-4 as "10⁻⁴"; everything else as a quantity."""
    exponent = round(math.log10(value)) if value > 0 else 0
    if value > 0 and not -2 <= exponent <= 3 and math.isclose(value, 10.0**exponent, rel_tol=1e-12):
        return "10" + str(exponent).translate(numbers.SUPERSCRIPT)
    return numbers.quantity(value, None, locale=t.locale)


def _exact(value: float, t: Language, *, sign: bool = False) -> str:
    """A limit as the author wrote it: no rounding, no trailing zeros."""
    exact = Decimal(repr(round(value, 12))).normalize()
    if exact == exact.to_integral():
        exact = exact.quantize(Decimal(1))
    return numbers.fixed(exact, sign=sign, locale=t.locale)


def figure(t: Language, gate: Gate, j: Judgement) -> Figure:
    """The figures of a judgement; texts are empty where there is nothing to show."""
    limit = limit_words(t, gate)
    pair = ""
    if j.baseline is not None and j.candidate_value is not None:
        pair = numbers.pair(j.baseline, j.candidate_value, j.unit, locale=t.locale).arrow
    if j.estimate is None:
        lone = None if j.baseline is not None else j.candidate_value  # reported, and no second side to compare with
        return Figure(
            "" if lone is None else numbers.quantity(lone, j.unit, locale=t.locale), "", "", pair, limit, None, None
        )
    sign, beyond = direction(gate)
    estimate = sign * j.estimate
    low, high = _ends(sign, j.low, j.high)
    bound = limit_value(gate)
    form = gate.limit.form
    if form in RELATIVE or (form in DIFFERENCE and gate.limit.unit in {"pp", "%"}):
        written = numbers.change(estimate, low, high, bound, locale=t.locale, points=form in DIFFERENCE)
        interval = t.text("exact") if low == high == estimate else written.interval
        return Figure(
            written.estimate, interval, written.unit, pair, limit, _plotted(estimate, low, high, bound), beyond
        )
    if form == "speedup":
        written = numbers.factor(estimate, low, high, bound, locale=t.locale)
        values = None if bound is None else _plotted(estimate - 1, _less(low), _less(high), bound - 1)
        return Figure(written.estimate, written.interval, written.unit, pair, limit, values, beyond)
    unit = j.unit or gate.limit.unit
    text = _signed(estimate, unit, t) if form in DIFFERENCE else numbers.quantity(estimate, unit, locale=t.locale)
    size = numbers.scale_of(estimate or max(abs(low or 0.0), abs(high or 0.0)), unit)
    interval = ""
    if low is not None and high is not None and (low, high) != (estimate, estimate):
        interval = _absolute_interval(low, high, size, t)
    return Figure(text, interval, "", pair, limit, None, beyond)


def _less(value: float | None) -> float | None:
    return None if value is None else value - 1


def _ends(sign: float, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    if sign > 0:
        return low, high
    return (None if high is None else -high), (None if low is None else -low)


def _absolute_interval(low: float, high: float, size: tuple[float, str], t: Language) -> str:
    """Both ends in the estimate's own unit, rounded outward."""
    factor, name = size
    ends = (
        numbers.scientific(low / factor, 3, way="down", locale=t.locale),
        numbers.scientific(high / factor, 3, way="up", locale=t.locale),
    )
    return f"[{ends[0]}{'; ' if t.locale.decimal == ',' else ', '}{ends[1]}]" + (f"{NNBSP}{name}" if name else "")


def _plotted(
    estimate: float, low: float | None, high: float | None, limit: float | None
) -> tuple[float, float, float, float] | None:
    if limit is None or not math.isfinite(estimate):
        return None
    lo = estimate if low is None else low
    hi = estimate if high is None else high
    if not (math.isfinite(lo) and math.isfinite(hi)):
        return None
    return estimate * 100, lo * 100, hi * 100, limit * 100


def better(t: Language, gate: Gate) -> str:
    """Which direction is better, in words."""
    return t.text("higher is better") if gate.metric in HIGHER_IS_BETTER else t.text("lower is better")


def position(t: Language, low: float, high: float, limit: float, beyond: str) -> tuple[str, str]:
    """(short form, sentence) of where an interval stands against its limit."""
    if low <= limit < high or low < limit <= high:
        inside = high <= limit if beyond == "above" else low >= limit
        if not inside:
            return t.text("crosses the limit"), t.text("The interval crosses the limit.")
    is_beyond = low > limit if beyond == "above" else high < limit
    if is_beyond:
        return t.text("beyond the limit"), t.text("The whole interval is beyond the limit.")
    return t.text("inside the limit"), t.text("The whole interval is inside the limit.")
