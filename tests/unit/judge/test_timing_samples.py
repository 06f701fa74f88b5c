"""Samples that a timing gate cannot go by, or not as they stand: no spread, cut short, a bad clock, written twice."""

from __future__ import annotations

import pytest
from evidence import Book, book, gate
from timings import GROWTH

from torchspec.model.verdict import Judgement


def test_all_samples_equal_is_a_clock_that_cannot_be_trusted() -> None:
    made = book(GROWTH)
    made.controls()
    for number in range(5):
        made.pair(number, [[([1000.0] * 9, [1000.0] * 9)] * 5] * 2)
    made.done()
    found = made.only()
    assert (found.outcome, found.rule) == ("inconclusive", "no spread")


@pytest.mark.parametrize("pairs", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("time_ns", [1e5, 123456.7, 1.1e6])
def test_equal_times_have_no_spread_under_an_absolute_limit_either(pairs: int, time_ns: float) -> None:
    """Their mean may differ from each of them by one in the last place."""
    line = gate("latency.p50", "absolute", "<=", 2e-3)
    made = book(line)
    for number in range(pairs):
        made.pair(number, [[([time_ns] * 9, [time_ns] * 9)] * 5] * 2)
    made.done()
    found = made.only()
    assert (found.outcome, found.rule) == ("inconclusive", "no spread")


def test_a_pair_that_was_cut_short_is_no_pair_where_there_are_whole_ones() -> None:
    """The driver takes another in its place: both go by the same pairs."""

    def found(*cut: list[int], whole: int = 3) -> Judgement:
        made = book(GROWTH)
        made.controls()
        made.pairs([0.001, -0.002, 0.0005][:whole], of={"builds": 2, "rounds": 5})
        for number, rounds in enumerate(cut, whole):
            slow = ([1e6] * 9, [1.5e6] * 9)
            made.pair(number, [[slow] * count for count in rounds], of={"builds": 2, "rounds": 5})
        made.done()
        return made.only()

    plain = found()
    for cut in ([5], [5, 4]):  # died behind the first build, in the second
        left = found(cut)
        assert (left.outcome, left.estimate, left.low, left.n) == ("pass", plain.estimate, plain.low, plain.n)
        assert left.detail is not None
        assert left.detail["pairs_cut_short"] == [{"run": "r-1", "pair": 3}]
    assert found([5, 5]).n["pairs"] == 4  # type: ignore[index]
    few = found([5], whole=1)  # nothing is thrown away that could be told from
    assert few.n["pairs"] == 2  # type: ignore[index]
    assert few.outcome == "inconclusive"


def _with_bad(rounds_bad: int, bad: object) -> Book:
    made = book(GROWTH)
    made.controls()
    good = ([1e6, 1.01e6], [1e6, 1.011e6])
    for number in range(3):
        spread = 1 + 0.001 * number
        made.pair(number, [[([1e6, 1e6], [1e6 * spread, bad])] * rounds_bad + [good] * (20 - rounds_bad)])
    made.done()
    return made


@pytest.mark.parametrize("bad", [0, -100, "nan", "inf", 1e-311, 1e300])
def test_a_clock_that_goes_backwards(bad: object) -> None:
    few = _with_bad(1, bad).only()
    assert few.outcome != "error"
    assert few.detail is not None
    assert few.detail["rounds_without_a_time"] == 3
    many = _with_bad(10, bad).only()
    assert (many.outcome, many.rule) == ("error", "clock")
    none = _with_bad(20, bad).only()
    assert (none.outcome, none.rule) == ("error", "no usable time")
    whole = book(GROWTH)  # pairs that are left out altogether are counted, too
    whole.controls()
    whole.pairs([0.001, -0.002, 0.0005])
    for number in range(3, 6):
        whole.pair(number, [[([1e6], [bad])] * 20])
    whole.done()
    found = whole.only()
    assert (found.outcome, found.rule) == ("error", "clock")
    assert "60 of 90 rounds" in found.reason


def test_one_side_missing() -> None:
    made = book(GROWTH)
    made.controls()
    made.pair(0, [[([1e6] * 5, [])] * 5])
    made.done()
    assert (made.only().outcome, made.only().rule) == ("error", "no usable time")


def test_a_record_written_twice_counts_once_and_by_its_later_form() -> None:
    made = book(GROWTH)
    made.controls()
    made.pairs([0.5, 0.5, 0.5])
    once = made.only if made.done() is not None else None
    assert once is not None
    wrong = once()
    made.pairs([0.001, -0.002, 0.0005])
    right = once()
    assert wrong.outcome == "inconclusive"
    assert right.outcome == "pass"
    assert right.n == wrong.n


def test_sides_in_the_other_order_are_turned() -> None:
    made = book(GROWTH)
    made.controls()
    slow = [([1e6 * (1.2 + 0.001 * k) for k in range(9)], [1e6 + k for k in range(9)])] * 5
    for number in range(3):
        made.pair(number, [[(a, [v * (1 + number * 1e-3) for v in b]) for a, b in slow]], a="candidate", b="baseline")
    made.done()
    assert made.only().estimate == pytest.approx(0.2, abs=0.01)
