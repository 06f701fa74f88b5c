"""Timed samples, planted work and the shape of a block."""

from __future__ import annotations

import gc
import time

import pytest

from torchspec.harness.measure import (
    SHORTEST_SAMPLE_NS,
    TAIL_SAMPLES,
    block_shape,
    pair_shape,
    timed_samples,
    warm_up,
)

P95, P99 = TAIL_SAMPLES["p95"], TAIL_SAMPLES["p99"]


def spin(ns: int) -> None:
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        pass


def test_planted_work_is_exactly_the_ratio_asked_for() -> None:
    plain, ten, fifty = timed_samples(lambda: spin(200_000), 1, 20, [0.0, 0.1, 0.5], None)
    for ratio, planted in ((1.1, ten), (1.5, fifty)):
        reached = sorted(more / own for own, more in zip(plain, planted, strict=True))
        assert reached[0] >= ratio
        assert reached[len(reached) // 2] < ratio + 0.02


def test_collection_is_off_while_timing_and_comes_back() -> None:
    seen: list[bool] = []
    timed_samples(lambda: seen.append(gc.isenabled()), 3, 2, [], None)
    assert seen == [False] * 6
    assert gc.isenabled()


def test_collection_comes_back_after_an_error() -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        timed_samples(fail, 1, 1, [], None)
    assert gc.isenabled()


def test_the_clock_is_read_after_the_device_is_done() -> None:
    order: list[str] = []
    timed_samples(lambda: order.append("step"), 1, 1, [], lambda: order.append("synchronise"))
    assert order == ["synchronise", "step", "synchronise"]


@pytest.mark.parametrize("call_ns", [0.5, 40.0, 900.0, 20_000.0, 600_000.0, 5e6, 4e9])
def test_a_block_lasts_about_what_was_asked(call_ns: float) -> None:
    calls, samples = block_shape(call_ns, 10.0)
    assert calls * max(call_ns, 1.0) >= SHORTEST_SAMPLE_NS or calls == 1
    assert samples >= 1
    if call_ns < 5e6:
        assert 7e6 <= calls * samples * max(call_ns, 1.0) <= 15e6


def test_warming_up_ends_for_slow_and_for_fast_work() -> None:
    begin = time.perf_counter()
    assert warm_up(lambda: time.sleep(0.06), at_most_s=0.05) > 5e7
    assert warm_up(lambda: None, at_least_s=0.01) < 1e5
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize(
    ("call_ms", "tail", "shape"),
    [
        (0.6, (), (1, 17, 10, 4)),  # as asked
        (0.6, P95, (1, 17, 10, 4)),  # enough for a tail already
        (9.0, P95, (1, 2, 10, 4)),  # longer blocks for the tail
        (9.0, P99, (1, 8, 10, 4)),
        (9.0, (), (1, 1, 10, 4)),
        (60.0, P99, (1, 3, 10, 4)),  # the fewest of a pair, where all that are wanted cannot be afforded
        (300.0, P95, (1, 1, 10, 2)),  # a tail that cannot be afforded: 20 samples a side as they are
        (3000.0, P95, (1, 1, 3, 1)),  # however slow
        (0.001, P95, (20, 500, 10, 4)),
    ],
)
def test_a_pair_has_the_shape_that_fits(
    call_ms: float, tail: tuple[int, ...], shape: tuple[int, int, int, int]
) -> None:
    assert pair_shape(call_ms * 1e6, call_ms * 1e6, 10.0, 10, 4, 15.0, tail) == shape


def test_the_slower_side_says_what_can_be_afforded() -> None:
    assert pair_shape(1e6, 1e9, 10.0, 10, 4, 15.0)[2:] == (3, 1)
