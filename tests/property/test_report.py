"""Rounding never hides or invents a crossing; a written change can be recomputed; escaped text stays text."""

from __future__ import annotations

import re
from decimal import Decimal

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from torchspec.report import markdown, numbers

ratios = st.floats(-0.95, 9.9, allow_nan=False)
limits = st.sampled_from([0.001, 0.005, 0.01, 0.03, 0.05, 0.1, 0.25, -0.01, -0.03, -0.05])


def read(text: str) -> Decimal:
    """A written number back as a number."""
    return Decimal(text.replace(numbers.NNBSP, "").replace(numbers.MINUS, "-").replace("+", ""))


def ends(interval: str) -> tuple[Decimal, Decimal]:
    low, high = re.fullmatch(r"\[(.*), (.*)\]", interval).groups()  # type: ignore[union-attr]
    return read(low), read(high)


@given(st.tuples(ratios, ratios, ratios), limits)
def test_written_interval_and_limit_compare_as_the_unrounded_do(
    three: tuple[float, float, float], limit: float
) -> None:
    low, estimate, high = sorted(three)
    written = numbers.change(estimate, low, high, limit)
    shown_low, shown_high = ends(written.interval)
    exact = Decimal(repr(limit)) * 100
    scaled = [Decimal(repr(v)) * 100 for v in (low, high)]
    assert (shown_high > exact) == (scaled[1] > exact) or abs(scaled[1] - exact) < Decimal("1e-8")
    assert (shown_low > exact) == (scaled[0] > exact) or abs(scaled[0] - exact) < Decimal("1e-8")
    assert shown_low <= scaled[0] + Decimal("1e-9")
    assert scaled[1] <= shown_high + Decimal("1e-9")


@given(st.tuples(ratios, ratios, ratios), limits)
def test_no_crossing_is_ever_hidden(three: tuple[float, float, float], limit: float) -> None:
    low, estimate, high = sorted(three)
    assume(low <= limit < high)
    shown_low, shown_high = ends(numbers.change(estimate, low, high, limit).interval)
    assert shown_low <= Decimal(repr(limit)) * 100 < shown_high


@given(st.tuples(ratios, ratios, ratios))
def test_written_estimate_lies_in_the_written_interval(three: tuple[float, float, float]) -> None:
    low, estimate, high = sorted(three)
    written = numbers.change(estimate, low, high)
    shown_low, shown_high = ends(written.interval)
    assert shown_low <= read(written.estimate) <= shown_high


@given(st.floats(1e-6, 1e9), st.floats(0.05, 9.0), st.sampled_from(["s", "B", "items/s", "1"]))
@settings(max_examples=300)
def test_change_can_be_recomputed_from_its_neighbours(baseline: float, ratio: float, unit: str) -> None:
    candidate = baseline * ratio
    pair = numbers.pair(baseline, candidate, unit)
    assume("×" not in pair.baseline and "×" not in pair.candidate)
    recomputed = (read(pair.candidate) / read(pair.baseline) - 1) * 100
    true = (Decimal(candidate) / Decimal(baseline) - 1) * 100
    assert abs(recomputed - true) <= Decimal("0.1")


@given(st.floats(-1e12, 1e12, allow_nan=False), st.integers(0, 6))
def test_grouping_keeps_the_number(value: float, places: int) -> None:
    rounded = numbers.rounded(value, places)
    text = numbers.fixed(rounded, sign=True)
    assert read(text) == rounded
    assert "-" not in text
    assert re.fullmatch(r"[+−]?\d{1,3}(\u202f\d{3})*(\.\d+)?", text)
    assert not (rounded == 0 and text[0] in "+−")


@given(st.text(max_size=80))
def test_markdown_text_never_leaves_its_line_or_cell(text: str) -> None:
    escaped = markdown.text(text)
    assert "\n" not in escaped
    assert "\r" not in escaped
    bare = re.sub(r"\\.", "", escaped)
    assert not set(bare.replace("&#64;", "")) & set("|`<>[]*_~$#&")
    assert "@" not in escaped


@given(st.text(alphabet="`|a \\", min_size=1, max_size=12))
def test_a_code_span_closes_where_it_should(text: str) -> None:
    span = markdown.code_span(text)
    fence = re.match(r"`+", span)
    assert fence is not None
    body = span[len(fence[0]) : -len(fence[0])]
    assert span.endswith(fence[0])
    assert not [run for run in re.findall(r"`+", body) if len(run) == len(fence[0])]


@given(st.text(alphabet="`~a\n", max_size=30))
def test_a_fence_outlasts_its_content(text: str) -> None:
    block = markdown.fence(text)
    ticks = re.match(r"`+", block)
    assert ticks is not None
    inside = block.split("\n", 1)[1].rsplit("\n", 1)[0]
    assert max((len(r) for r in re.findall(r"`+", inside)), default=0) < len(ticks[0])
