"""Each rule of rounding of the memo guide, by an example."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from torchspec.model.plan import Gate, Limit
from torchspec.model.verdict import Judgement
from torchspec.report import numbers
from torchspec.report.figure import figure, limit_words
from torchspec.report.language import Language
from torchspec.report.numbers import Locale

N = numbers.NNBSP


@pytest.mark.parametrize(
    ("estimate", "low", "high", "limit", "said"),
    [
        (0.004, -0.006, 0.013, 0.03, f"+0.4{N}% [−0.6, +1.3]"),
        (0.0041, -0.0062, 0.0131, 0.03, f"+0.4{N}% [−0.7, +1.4]"),  # ends outward
        (0.0, 0.0, 0.0, 0.05, f"0.0{N}% [0.0, 0.0]"),  # zero has no sign
        (-0.00004, -0.00004, -0.00004, None, f"0.0{N}% [−0.1, 0.0]"),
        (0.031, 0.0304, 0.0334, 0.03, f"+3.10{N}% [+3.04, +3.34]"),  # [+3.0, …] would look like a crossing
        (0.02, 0.01, 0.030001, 0.03, f"+2.0{N}% [+1.0, +3.1]"),  # a crossing stays one
        (0.02, 0.01, 0.03, 0.03, f"+2.0{N}% [+1.0, +3.0]"),  # on the limit is not across it
        (10.4, 9.8, 11.2, 0.05, f"×{N}11.4 ×{N}[10.8, 12.2]"),  # from 1 000 %
        (0.7019, None, 0.7733, 0.05, f"+70.2{N}% (−∞, +77.4]"),
    ],
)
def test_change(estimate: float, low: float | None, high: float, limit: float | None, said: str) -> None:
    assert numbers.change(estimate, low, high, limit).whole == said


def test_not_a_number_is_said() -> None:
    assert numbers.change(math.nan).estimate == "NaN"
    assert numbers.change(math.inf).estimate == "+∞"
    assert numbers.quantity(math.nan, "s") == "NaN"


def test_locale_uses_its_decimal_mark() -> None:
    assert numbers.change(0.004, -0.006, 0.013, locale=Locale(",")).whole == f"+0,4{N}% [−0,6; +1,3]"


@pytest.mark.parametrize(
    ("baseline", "candidate", "unit", "said"),
    [
        (93e6, 164e6, "B", f"93 → 164{N}MB"),
        (101.3e6, 172.4e6, "bytes", f"101.3 → 172.4{N}MB"),
        (0.00061, 0.000612, "s", f"610 → 612{N}µs"),
        (20796, 20401, "items/s", f"20{N}796 → 20{N}401{N}items/s"),
        (0, 0, "count", "0 → 0"),
        (3, 5, "count", "3 → 5"),
        (1.2e-7, 3.1e-7, "1", f"1.20{N}×{N}10⁻⁷ → 3.10{N}×{N}10⁻⁷"),
        (5.92e7, 5.54e7, "B/s", "59.2 → 55.4\u202fMB/s"),
    ],
)
def test_pair(baseline: float, candidate: float, unit: str, said: str) -> None:
    assert numbers.pair(baseline, candidate, unit).arrow == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(252, f"4{N}min 12{N}s"), (600, f"10{N}min"), (8.41, f"8.4{N}s"), (0.32, f"320{N}ms"), (7500, f"2{N}h 05{N}min")],
)
def test_duration(seconds: float, said: str) -> None:
    assert numbers.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(3.1e-7, f"3.1{N}×{N}10⁻⁷"), (0.0, "0"), (9.99e-7, f"1.0{N}×{N}10⁻⁶"), (12.34, "12"), (0.034, "0.034")],
)
def test_scientific(value: float, said: str) -> None:
    assert numbers.scientific(value) == said


def test_a_difference_has_its_sign_and_the_authors_unit() -> None:
    t = Language()
    limit = Limit("increase", "<=", 16e6, "MB", "increase <= 16 MB")
    gate = Gate("g", "s", "memory.driver_peak", limit, "baseline", None, None, "defer", None, (), "")
    judgement = Judgement(
        "g",
        "c",
        "candidate",
        "memory.driver_peak",
        "pass",
        "adopt",
        "exact",
        "",
        373e3,
        229e3,
        371.9e3,
        0.9,
        1e6,
        1.373e6,
        "bytes",
    )
    shown = figure(t, gate, judgement)
    assert shown.change == "+373\u202fkB"
    assert shown.interval == "[229, 372]\u202fkB"
    assert shown.limit == "at most +16\u202fMB"
    assert limit_words(t, replace(gate, limit=replace(limit, form="drop", value=0.03, text="drop <= 3 %"))) == (
        "at least −3\u202f%"
    )
