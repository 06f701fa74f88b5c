"""Numbers as words: the memo's rules of rounding, in one place, as pure functions.

Values come unrounded; nothing here judges. Estimates round to nearest, interval ends outward, and the number of
decimals grows until the written numbers stand on the same side of the limit as the unrounded ones: rounding never
hides a crossing and never invents one. A true minus, a narrow no-break space before units and between thousands, no
sign on zero. Must not know tables, gates or languages beyond the decimal mark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

NNBSP = "\u202f"
MINUS = "\u2212"
TIMES = "\u00d7"
MOST_DECIMALS = 9
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ROUNDING = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZE = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


@dataclass(frozen=True, slots=True)
class Locale:
    """How a language writes numbers: its decimal mark. Thousands are a narrow no-break space everywhere."""

    decimal: str = "."


ENGLISH = Locale()


def rounded(value: float, decimals: int, way: str = "nearest") -> Decimal:
    """`value` at `decimals` places; `way` is nearest, down (toward minus infinity) or up. Exact on the float's
    value."""
    return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), rounding=_ROUNDING[way])


def fixed(value: Decimal, *, sign: bool = False, locale: Locale = ENGLISH) -> str:
    """A rounded value as text: grouped thousands, true minus, a plus where `sign` asks for it, zero bare."""
    whole, _, part = f"{abs(value):f}".partition(".")
    groups: list[str] = []
    while len(whole) > 3:
        groups.insert(0, whole[-3:])
        whole = whole[:-3]
    text = NNBSP.join([whole, *groups]) + (locale.decimal + part if part else "")
    if value == 0:
        return text
    return (MINUS if value < 0 else "+" if sign else "") + text


def _side(value: float, limit: float) -> int:
    return (value > limit) - (value < limit)


def decimals_for(low: float, estimate: float, high: float, limit: float | None, least: int = 1) -> int:
    """The fewest decimals (from `least`, at most 9) at which written values and limit compare as the unrounded do."""
    if limit is None:
        return least
    for decimals in range(least, MOST_DECIMALS + 1):
        bound = Decimal(repr(limit))
        written = (rounded(low, decimals, "down"), rounded(estimate, decimals), rounded(high, decimals, "up"))
        if all(
            ((w > bound) - (w < bound)) == _side(v, limit) for w, v in zip(written, (low, estimate, high), strict=True)
        ):
            return decimals
    return MOST_DECIMALS


@dataclass(frozen=True, slots=True)
class Written:
    """An estimate and its interval as text, without the unit: "+0.4", "[−0.6, +1.3]", and the unit with its space."""

    estimate: str
    interval: str
    unit: str

    @property
    def whole(self) -> str:
        """ "+0.4 % [−0.6, +1.3]" """
        return f"{self.estimate}{self.unit}" + (f" {self.interval}" if self.interval else "")


def change(
    estimate: float,
    low: float | None = None,
    high: float | None = None,
    limit: float | None = None,
    *,
    locale: Locale = ENGLISH,
    points: bool = False,
) -> Written:
    """A relative change (ratio: 0.03 is +3 %) with its interval; from +1 000 % the factor: "× 11".

    `points` writes percentage points. Non-finite values are written as words.
    """
    values = [v for v in (estimate, low, high) if v is not None]
    if not all(math.isfinite(v) for v in values):
        return Written(_odd(estimate), "", "")
    if estimate >= 10.0 and not points:
        return _factor(estimate, low, high, locale)
    lo, hi = (estimate if low is None else low), (estimate if high is None else high)
    scaled = [_percent(v) for v in (lo, estimate, hi)]
    places = decimals_for(scaled[0], scaled[1], scaled[2], None if limit is None else _percent(limit))
    text = fixed(rounded(scaled[1], places), sign=True, locale=locale)
    interval = ""
    if low is not None or high is not None:
        interval = bounds(
            None if low is None else _percent(low), None if high is None else _percent(high), places, True, locale
        )
    return Written(text, interval, f"{NNBSP}{'pp' if points else '%'}")


def _percent(ratio: float) -> float:
    """`ratio` in per cent, without the noise that a binary multiplication by 100 would add (0.07 is 7, not 7.000…1)."""
    return float(Decimal(repr(float(ratio))) * 100)


def bounds(low: float | None, high: float | None, places: int, sign: bool, locale: Locale = ENGLISH) -> str:
    """ "[−0.6, +1.3]", ends rounded outward; an end that does not exist is an open bracket with its infinity."""
    left = (
        f"({MINUS}∞"
        if low is None or math.isinf(low)
        else "[" + fixed(rounded(low, places, "down"), sign=sign, locale=locale)
    )
    right = (
        "+∞)"
        if high is None or math.isinf(high)
        else fixed(rounded(high, places, "up"), sign=sign, locale=locale) + "]"
    )
    separator = "; " if locale.decimal == "," else ", "
    return f"{left}{separator}{right}"


def _factor(estimate: float, low: float | None, high: float | None, locale: Locale) -> Written:
    places = 0 if estimate >= 99 else 1
    text = f"{TIMES}{NNBSP}" + fixed(rounded(1 + estimate, places), locale=locale)
    interval = ""
    if low is not None or high is not None:
        interval = f"{TIMES}{NNBSP}" + bounds(
            None if low is None else 1 + low, None if high is None else 1 + high, places, False, locale
        )
    return Written(text, interval, "")


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{MINUS if value < 0 else '+'}∞"


def factor(
    value: float,
    low: float | None = None,
    high: float | None = None,
    limit: float | None = None,
    *,
    locale: Locale = ENGLISH,
) -> Written:
    """A speed-up or another ratio: "1.25 ×", with the interval, two decimals or as many as the limit needs."""
    if not math.isfinite(value):
        return Written(_odd(value), "", "")
    lo, hi = (value if low is None else low), (value if high is None else high)
    places = decimals_for(lo, value, hi, limit, least=2)
    interval = bounds(low, high, places, False, locale) if low is not None or high is not None else ""
    return Written(fixed(rounded(value, places), locale=locale), interval, f"{NNBSP}{TIMES}")


def scientific(value: float, digits: int = 2, *, way: str = "nearest", locale: Locale = ENGLISH) -> str:
    """`value` with `digits` significant digits: "3.1 × 10⁻⁷"; plain where that is shorter; 0 is "0"."""
    if not math.isfinite(value):
        return _odd(value)
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    mantissa = rounded(float(Decimal(value).scaleb(-exponent)), digits - 1, way)
    if abs(mantissa) >= 10:
        exponent, mantissa = exponent + 1, mantissa / 10
    if -3 < exponent < 5:
        return fixed(rounded(value, max(0, digits - 1 - exponent), way), locale=locale)
    text = fixed(mantissa.quantize(Decimal(1).scaleb(1 - digits)), locale=locale)
    return f"{text}{NNBSP}{TIMES}{NNBSP}10{str(exponent).translate(SUPERSCRIPT)}"


def scale_of(value: float, unit: str | None) -> tuple[float, str]:
    """(base units in one shown unit, its name) for a value in base unit `unit`: seconds, bytes and bytes a second get a
    prefix."""
    if unit == "B/s":
        factor, name = scale_of(value, "B")
        return factor, f"{name}/s"
    table = _TIME if unit in {"s", "second", "seconds"} else _SIZE if unit in {"B", "byte", "bytes"} else None
    if table is None:
        return 1.0, "" if unit in {None, "1", "count", "ratio"} else str(unit)
    size = abs(value)
    if table is _TIME:
        return next(((f, n) for f, n in _TIME if size >= f), _TIME[-1] if size else _TIME[0])
    return next(((f, n) for f, n in _SIZE if size >= f), _SIZE[-1])


@dataclass(frozen=True, slots=True)
class Pair:
    """Two absolute values in one unit with the same decimals."""

    baseline: str
    candidate: str
    unit: str

    @property
    def arrow(self) -> str:
        """ "93 → 164 MB" """
        return f"{self.baseline} → {self.candidate}" + (f"{NNBSP}{self.unit}" if self.unit else "")


def pair(baseline: float, candidate: float, unit: str | None, *, locale: Locale = ENGLISH) -> Pair:
    """Both sides in the baseline's unit, with enough decimals that the written change (one decimal of a per cent)
    computed from the written values is the one computed from the unrounded ones."""
    if not (math.isfinite(baseline) and math.isfinite(candidate)):
        return Pair(_or_plain(baseline, locale), _or_plain(candidate, locale), unit or "")
    factor_, name = scale_of(baseline or candidate, unit)
    b, c = baseline / factor_, candidate / factor_
    if unit in {"count", "1", None} and b == int(b) and c == int(c):
        return Pair(fixed(rounded(b, 0), locale=locale), fixed(rounded(c, 0), locale=locale), name)
    size = max(abs(b), abs(c))
    if size == 0:
        return Pair("0", "0", name)
    if size < 1e-3 or size >= 1e7:
        return Pair(scientific(b, 3, locale=locale), scientific(c, 3, locale=locale), name)
    least = 0 if min(abs(b), abs(c)) >= 20 else 1 if size >= 20 else 2 if size >= 2 else 3
    places = least
    if b:
        target = rounded((c / b - 1) * 100, 1)
        for places in range(least, MOST_DECIMALS + 1):
            shown_b, shown_c = rounded(b, places), rounded(c, places)
            if shown_b and rounded(float((shown_c / shown_b - 1) * 100), 1) == target:
                break
    return Pair(fixed(rounded(b, places), locale=locale), fixed(rounded(c, places), locale=locale), name)


def _or_plain(value: float, locale: Locale) -> str:
    return scientific(value, 3, locale=locale) if math.isfinite(value) else _odd(value)


def quantity(value: float, unit: str | None, digits: int = 3, *, locale: Locale = ENGLISH) -> str:
    """One absolute value with its unit: "93.1 MB", "0.61 ms", "12"."""
    if not math.isfinite(value):
        return _odd(value)
    factor_, name = scale_of(value, unit)
    size = value / factor_
    tail = f"{NNBSP}{name}" if name else ""
    if size == int(size) and abs(size) < 1e6:
        return fixed(rounded(size, 0), locale=locale) + tail
    if size == 0 or not 1e-3 <= abs(size) < 1e7:
        return scientific(size, digits, locale=locale) + tail
    places = max(0, digits - 1 - math.floor(math.log10(abs(size))))
    return fixed(rounded(size, places), locale=locale) + tail


def duration(seconds: float, *, locale: Locale = ENGLISH) -> str:
    """A span of time for people: "4 min 12 s", "8.4 s", "320 ms", "2 h 05 min"."""
    if seconds < 1:
        return quantity(seconds, "s", 3, locale=locale) if seconds > 0 else f"0{NNBSP}s"
    if seconds < 59.95:
        return f"{fixed(rounded(seconds, 1), locale=locale)}{NNBSP}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{NNBSP}min" + (f" {whole % 60}{NNBSP}s" if whole % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60}{NNBSP}h {minutes % 60:02d}{NNBSP}min"


def count(value: int) -> str:
    """A whole number with grouped thousands."""
    return fixed(Decimal(value))
