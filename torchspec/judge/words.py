"""Numbers and limits as a sentence says them: rounded, signed, with a unit. Must not judge; the memo has its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NNBSP = "\u202f"
MINUS = "\u2212"
_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
}


def signed(value: float, decimals: int) -> str:
    text = f"{abs(value):.{decimals}f}"
    if not text.strip("0."):
        return text
    return ("+" if value > 0 else MINUS) + text


def odd(value: float) -> str:
    """A value that is not finite, as it is written: NaN, ∞, −∞."""
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else MINUS + "∞"


def _outward(value: float, decimals: int, up: bool) -> float:
    scale = 10.0**decimals
    return (math.ceil if up else math.floor)(round(value * scale, 6)) / scale


def percent(ratio: float) -> str:
    """0.0041 as "+0.4 %"; from 1000 % the factor: "× 11"."""
    if not math.isfinite(ratio):
        return odd(ratio)
    if ratio >= 10:
        return f"×{NNBSP}{1 + ratio:.0f}"
    return signed(ratio * 100, 1 if abs(ratio) >= 0.0005 or ratio == 0 else 2) + f"{NNBSP}%"


def plain(value: float, unit: str | None, figures: int = 3) -> str:
    """An absolute value with its unit, in the prefix that reads best: 0.0042 s as "4.20 ms".

    `figures` is how many significant ones a number without a prefix has.
    """
    if not math.isfinite(value):
        return odd(value)
    sign = MINUS if value < 0 else ""
    size = abs(value)
    for factor, name in _SCALES.get(unit or "", ()):
        if size >= factor or (name in ("ns", "B")):
            digits = 0 if name == "B" else 1 if size / factor >= 100 else 2
            return f"{sign}{size / factor:.{digits}f}{NNBSP}{name}"
    if size >= 1e4 and unit not in ("1", None, ""):
        return f"{sign}{size:,.0f}".replace(",", NNBSP) + (f"{NNBSP}{unit}" if unit != "count" else "")
    if unit in ("count", "1", None, ""):
        text = f"{size:.0f}" if size == int(size) and size < 1e6 else f"{size:.{figures}g}"
        return sign + text
    return f"{sign}{size:.{figures + 1}g}{NNBSP}{unit}"


def of_parts(one: Mapping[str, float], two: Mapping[str, float]) -> str:
    """Whether a peak is the work's own or what its first step loads, from the `parts` of baseline and candidate."""
    later, modules = (
        " → ".join(dict.fromkeys(plain(side[part], unit) for side in (one, two)))
        for part, unit in (("later_step", "bytes"), ("modules_imported", "count"))
    )
    return f"a later step takes {later} more than what is there, and the first one imports {modules} modules"


def figure(form: str, value: float, unit: str | None) -> str:
    """An estimate in the terms of its limit's form; a drop is told as growth and a decrease as increase."""
    if form == "growth":
        return percent(value)
    if form == "speedup":
        return f"{value:.2f}{NNBSP}×"
    text = plain(value, unit)
    return "+" + text if form == "increase" and value > 0 else text


def interval(form: str, low: float, high: float, unit: str | None) -> str:
    """`[−0.6, +1.3]`, ends rounded outward; in per cent without the sign of the unit."""
    if form == "growth":
        if not (math.isfinite(low) and math.isfinite(high)) or high >= 10:
            return f"[{percent(low)}, {percent(high)}]"
        fine = 1 if max(abs(low), abs(high)) >= 0.0005 else 2
        ends = (_outward(low * 100, fine, False), _outward(high * 100, fine, True))
        return f"[{signed(ends[0], fine)}, {signed(ends[1], fine)}]"
    return f"[{figure(form, low, unit)}, {figure(form, high, unit)}]"


def change(before: float, after: float, unit: str | None) -> str:
    """`93.10 MB → 164.2 MB`; with more figures where the two would otherwise be written alike."""
    texts = plain(before, unit), plain(after, unit)
    if texts[0] == texts[1] and before != after:
        texts = plain(before, unit, 8), plain(after, unit, 8)
    return f"{texts[0]} → {texts[1]}"


def count_of(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def sentence(text: str | None) -> str:
    """Somebody's error text as part of a sentence: one line, bounded, without its full stop."""
    line = " ".join((text or "no reason was recorded").split()).rstrip(".")
    return line if len(line) <= 200 else line[:199] + "…"


#: From here on a machine's noise is named as what may have kept a comparison from being decided.
_STOLEN, _OTHERS, _PRESSED = 0.02, 0.05, 10.0


def disturbed(noise: Mapping[str, Any]) -> str:
    """ "; meanwhile …": what else the machine did, where that was enough to disturb; else nothing."""
    said = []
    if (noise.get("others_on_core") or 0.0) > _OTHERS:
        said.append(f"other processes took up to {noise['others_on_core'] * 100:.0f}{NNBSP}% of the measuring core")
    if (noise.get("steal") or 0.0) > _STOLEN:
        said.append(f"the host gave up to {noise['steal'] * 100:.0f}{NNBSP}% of the time to others")
    if noise.get("throttled"):
        said.append("the processor or the device slowed down from heat or power")
    if (noise.get("memory_pressure") or 0.0) > _PRESSED:
        said.append(f"work waited for memory up to {noise['memory_pressure']:.0f}{NNBSP}% of the time")
    return f"; meanwhile {', and '.join(said)}" if said else ""
