"""Figures of ranks: what collectives are given, what crosses the bus, the slowest rank of a call, losses apart."""

from __future__ import annotations

import math
from typing import Any

import pytest

from torchspec.harness.dist_checks import losses_apart
from torchspec.harness.dist_collective import INPUT_FACTOR, INPUT_MASK, bus_factor, input_rule, operation_bytes
from torchspec.harness.dist_worker import slowest
from torchspec.harness.numerics import numbers_apart

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")


def inputs_by_the_rule(rank: int, turn: int, count: int) -> tuple[int, ...]:
    return tuple(input_rule(index, rank, turn) for index in range(count))


def test_no_two_ranks_and_turns_hold_the_same_input():
    """A rule that repeats hides a swap: rank 8 held what rank 0 did, and each rank in the next turn what its neighbour
    had held in this one."""
    count = 48
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    for rank in range(96):
        for turn in range(6):
            mine = inputs_by_the_rule(rank, turn, count)
            assert seen.setdefault(mine, (rank, turn)) == (rank, turn)
    shifted = {mine[1:] for mine in seen} & {mine[:-1] for mine in seen}
    assert shifted == set()


@pytest.mark.parametrize("start", [0, 1 << 20, 1 << 33])
def test_inputs_are_small_whole_numbers_of_every_kind(start):
    """Small, so that sums over 64 ranks are exact in bfloat16; products stay within 64 bits wherever the element is."""
    held = [input_rule(index, rank, 3) for index in range(start, start + 2048) for rank in (0, 1, 511)]
    assert set(held) == set(range(-4, 4))
    counts = [held.count(value) for value in range(-4, 4)]
    assert min(counts) > 0.8 * len(held) / 8
    assert INPUT_MASK * INPUT_FACTOR < 1 << 63


def test_bus_bandwidth_follows_the_usual_formulas():
    assert [bus_factor(name, 4) for name in OPERATIONS] == [1.5, 0.75, 0.75, 1.0, 0.75]
    assert [bus_factor(name, 1) for name in ("all_reduce", "all_gather", "all_to_all", "barrier")] == [0, 0, 0, 0]
    assert [operation_bytes(name, 100, 4) for name in (*OPERATIONS, "barrier")] == [100, 400, 100, 100, 100, 0]


def test_a_call_is_as_slow_as_its_slowest_rank():
    assert slowest([[[1.0, 5.0], [2.0, 9.0]], [[3.0, 4.0], [1.0, 10.0]]]) == [[3.0, 5.0], [2.0, 10.0]]


def test_losses_are_as_far_apart_as_their_worst_step():
    assert losses_apart([1.0, 2.0], [1.0, 2.0]) == 0.0
    assert losses_apart([1.0, 2.2], [1.0, 2.0]) == pytest.approx(0.1)
    assert losses_apart([1.0], [1.0, 2.0]) == math.inf
    for place in range(3):  # wherever it is: a largest value that is sought past a NaN loses it
        odd = [1.0, 2.0, 3.0]
        odd[place] = math.nan
        assert math.isnan(losses_apart(odd, [1.0, 2.0, 3.0]))
        assert math.isnan(losses_apart([1.0, 2.0, 3.0], odd))


@pytest.mark.parametrize("odd", [math.nan, "nan"])
def test_losses_that_are_no_numbers_are_apart_wherever_they_stand(odd: Any) -> None:
    """A largest value that is sought past a NaN loses it, and frames carry NaN as a word."""
    plain = [1.0, 2.0, 4.0]
    assert numbers_apart(plain, plain) == 0.0
    assert numbers_apart(plain, [1.0, 2.5, 4.0]) == pytest.approx(0.2)
    for place in range(3):
        broken: list[Any] = list(plain)
        broken[place] = odd
        assert math.isnan(numbers_apart(broken, plain))
        assert math.isnan(numbers_apart(plain, broken))
        assert math.isnan(numbers_apart(broken, broken))
    assert numbers_apart(["inf"], [1.0]) == math.inf
