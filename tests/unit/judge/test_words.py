"""Numbers in the judge's sentences."""

from __future__ import annotations

import math

import pytest

from torchspec.judge import words

N = words.NNBSP


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.004, f"+0.4{N}%"),
        (-0.006, f"−0.6{N}%"),
        (0.0, f"0.0{N}%"),
        (0.00004, f"0.00{N}%"),
        (0.0003, f"+0.03{N}%"),
        (10.0, f"×{N}11"),
        (math.inf, "∞"),
        (math.nan, "NaN"),
    ],
)
def test_percent(ratio: float, text: str) -> None:
    assert words.percent(ratio) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0042, "s", f"4.20{N}ms"),
        (1e-9, "s", f"1.00{N}ns"),
        (1e4, "s", f"10000.0{N}s"),
        (93.1e6, "bytes", f"93.10{N}MB"),
        (512, "bytes", f"512{N}B"),
        (3, "count", "3"),
        (7.73e-07, "1", "7.73e-07"),
        (60.25, "dB", f"60.25{N}dB"),
        (-math.inf, "1", "−∞"),
    ],
)
def test_plain(value: float, unit: str, text: str) -> None:
    assert words.plain(value, unit) == text


def test_an_interval_is_rounded_outward() -> None:
    assert words.interval("growth", -0.00601, 0.01201, None) == "[−0.7, +1.3]"
    assert words.interval("growth", 0.03, 0.05, None) == "[+3.0, +5.0]"
    assert words.interval("growth", 0.0, 12.0, None) == f"[0.0{N}%, ×{N}13]"


def test_a_change_shows_where_the_two_differ() -> None:
    assert words.change(1e8, 2e8, "bytes") == f"100.0{N}MB → 200.0{N}MB"
    assert words.change(10.488340, 10.488347, "1") == "10.48834 → 10.488347"
    assert words.change(2.0, 2.0, "1") == "2 → 2"


def test_an_error_of_many_lines_becomes_one_bounded_line() -> None:
    assert words.sentence("a\n  b.") == "a b"
    assert len(words.sentence("x" * 500)) == 200
    assert words.sentence(None) == "no reason was recorded"
