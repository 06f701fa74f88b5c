"""Timed calls. Garbage collection is off while timing; a sample is the time of `calls` calls divided by `calls`.

Must not decide how much to measure, and must not know what is being called.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

#: A timed sample is at least this long, so that reading the clock (about 0.1 us) stays below half a percent. A device
#: that has to be waited for has a longer one.
SHORTEST_SAMPLE_NS = 20_000


def timed_samples(
    step: Callable[[], Any], calls: int, samples: int, plants: list[float], synchronize: Callable[[], Any] | None
) -> list[list[float]]:
    """Per-call nanoseconds of `samples` samples of `calls` calls each: one list; with `plants`, one for each of them.

    `plants` (growing) make a sample longer by these ratios of its own time: the planted regressions of the control.
    A ratio of 0 gives the sample's own time, with the planted work behind it: what the calls that are not slower are
    compared with. The extra work is real, spinning behind the calls, but for no longer than the shortest sample so far
    asks for; a sample during which others had the core gets the rest on paper. To spin for a share of their time would
    use up this process's own turns, and make the samples behind it slower than was planted.
    `synchronize` is called before each clock read, None for a device that is done when the call returns.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        if plants:
            return _planted_samples(step, calls, samples, plants, synchronize)
        return [_plain_samples(step, calls, samples, synchronize)]
    finally:
        if was_enabled:
            gc.enable()


def _plain_samples(
    step: Callable[[], Any], calls: int, samples: int, synchronize: Callable[[], Any] | None
) -> list[float]:
    """As little as possible between two calls: what else is done there cools the caches that the next one finds."""
    clock = time.perf_counter_ns
    out: list[float] = []
    if calls == 1 and synchronize is None:
        for _ in range(samples):
            start = clock()
            step()
            out.append(clock() - start)
        return out
    for _ in range(samples):
        if synchronize is not None:
            synchronize()
        start = clock()
        for _ in range(calls):
            step()
        if synchronize is not None:
            synchronize()
        taken = clock() - start
        out.append(taken if calls == 1 else round(taken / calls, 3))
    return out


def _planted_samples(
    step: Callable[[], Any], calls: int, samples: int, plants: list[float], synchronize: Callable[[], Any] | None
) -> list[list[float]]:
    """Like the plain ones, with the spinning behind each sample; a loop of its own, so that plain calls pay nothing."""
    clock = time.perf_counter_ns
    out: list[list[float]] = [[] for _ in plants]
    shortest: int | None = None
    for _ in range(samples):
        if synchronize is not None:
            synchronize()
        start = clock()
        for _ in range(calls):
            step()
        if synchronize is not None:
            synchronize()
        end = clock()
        own = end - start
        shortest = own if shortest is None else min(shortest, own)
        for place, plant in enumerate(plants):
            until = start + own + plant * shortest
            while end < until:
                end = clock()
            taken = max(end - start, math.ceil(own * (1.0 + plant)))
            out[place].append(taken if calls == 1 else round(taken / calls, 3))
    return out


def warm_up(step: Callable[[], Any], at_least_s: float = 0.03, at_most_s: float = 2.0) -> float:
    """Runs until two calls and `at_least_s` have passed (or one call took `at_most_s`); ns of the median call."""
    taken: list[int] = []
    begin = time.perf_counter()
    while True:
        start = time.perf_counter_ns()
        step()
        taken.append(time.perf_counter_ns() - start)
        passed = time.perf_counter() - begin
        if passed >= at_most_s or (len(taken) >= 2 and passed >= at_least_s):
            return float(statistics.median(taken[1:] or taken))


def warm_batches(
    step: Callable[[], Any], synchronize: Callable[[], Any], shortest_ns: int, at_least_s: float, at_most_s: float = 2.0
) -> float:
    """The same on a device that works on behind the host: ns a call within a batch that is waited for once.

    A batch grows until it takes `shortest_ns`: what launching a call and waiting for it take is not the call's time.
    """
    begin = time.perf_counter()
    synchronize()
    step()  # what only a first call does, such as compiling, is in no batch
    synchronize()
    calls, taken = 1, []
    while True:
        start = time.perf_counter_ns()
        for _ in range(calls):
            step()
        synchronize()
        took = time.perf_counter_ns() - start
        passed = time.perf_counter() - begin
        if took >= shortest_ns or passed >= at_most_s:
            taken.append(took / calls)
            if passed >= at_least_s:
                return float(statistics.median(taken))
        else:
            calls = math.ceil(calls * min(10.0, max(2.0, 1.25 * shortest_ns / max(took, 1))))


def block_shape(call_ns: float, block_ms: float, shortest_ns: int = SHORTEST_SAMPLE_NS) -> tuple[int, int]:
    """(calls a sample, samples a block) for a call of `call_ns`: a sample lasts `shortest_ns` at least, and a block
    about `block_ms`."""
    call_ns = max(call_ns, 1.0)
    calls = max(1, math.ceil(shortest_ns / call_ns))
    return calls, max(1, round(block_ms * 1e6 / (calls * call_ns)))


class PairShape(NamedTuple):
    """How much one pair of workers measures of one cell."""

    calls: int
    samples: int
    rounds: int
    builds: int


#: However slow a step is, a pair has this many rounds.
FEWEST_ROUNDS = 3
#: Of each tail quantile the samples a side that are wanted (with these, the largest of them lies above the quantile in
#: 95 of 100 cases), and the fewest of a pair (with these, one sample in them is expected above it). A pair with fewer
#: tells nothing of the tail; the judge has the same table.
TAIL_SAMPLES = {"p95": (59, 20), "p99": (299, 100)}


def pair_shape(
    fast_ns: float,
    slow_ns: float,
    block_ms: float,
    rounds: int,
    builds: int,
    allowed_s: float,
    tail_samples: tuple[int, ...] = (),
    shortest_ns: int = SHORTEST_SAMPLE_NS,
) -> PairShape:
    """The shape of a pair for a call of `fast_ns` on one side and `slow_ns` on the other.

    Blocks last `block_ms` and there are `rounds` of them in each of `builds`, fewer where a pair would take longer than
    `allowed_s`; blocks are longer where a tail is asked for: for the first of `tail_samples` (samples a side of a pair)
    that can be afforded.
    """
    calls, samples = block_shape(fast_ns, block_ms, shortest_ns)
    call_s = calls * slow_ns * 1e-9
    affordable = max(FEWEST_ROUNDS, int(allowed_s / max(2 * samples * call_s, 1e-9)))
    rounds = max(FEWEST_ROUNDS, min(rounds, affordable))
    builds = max(1, min(builds, affordable // rounds))
    for each in tail_samples:
        wanted = math.ceil(each / (rounds * builds))
        if samples >= wanted or 2 * wanted * rounds * builds * call_s <= allowed_s:
            samples = max(samples, wanted)
            break
    return PairShape(calls, samples, rounds, builds)
