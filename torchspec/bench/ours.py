"""The tool's own method on a pool of pairs: one comparison after the other, each with pairs that no other has used.

A comparison takes pairs as the driver would: after each, `sequential` says whether to go on; a failure candidate takes
fresh pairs. Must not measure; the pool did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchspec.bench.pool import PairOf
from torchspec.bench.rates import Answer
from torchspec.harness import sequential


def comparisons(
    pool: Sequence[PairOf],
    work: str,
    metric: str,
    planted: float,
    limit: float,
    *,
    condition: str,
    truth: float,
    min_pairs: int,
    max_pairs: int,
) -> list[Answer]:
    """Every comparison that the pool has pairs for. `planted` chooses the blocks, `truth` is what they should show."""
    tau = math.log1p(limit)
    place = 0
    found: list[Answer] = []
    while True:
        taken: list[float] = []
        begin = place
        said = "continue"
        while said == "continue" and place < len(pool):
            place = _take(pool, place, work, metric, planted, taken)
            said = sequential.decide(taken, tau, min_pairs=min_pairs, max_pairs=max_pairs)
        fresh: list[float] = []
        again = "continue"
        while said == "fail-candidate" and again == "continue" and place < len(pool):
            place = _take(pool, place, work, metric, planted, fresh)
            again = sequential.confirm(fresh, tau, min_pairs=min_pairs, max_pairs=max_pairs)
        if said == "continue" or (said == "fail-candidate" and again == "continue"):
            return found  # the pool ended in the middle of a comparison
        verdict = "pass" if said == "pass" else "fail" if again == "confirmed" else "inconclusive"
        values = fresh or taken
        used = pool[begin:place]
        share = 1.0 / max(1, len(used[0].ratios))
        found.append(
            Answer(
                "torchspec",
                work,
                metric,
                condition,
                truth,
                verdict,
                math.exp(math.fsum(values) / len(values)),
                sum(pair.seconds for pair in used) * share,
                len(used),
                sum(pair.seconds for pair in used),
            )
        )


def _take(pool: Sequence[PairOf], place: int, work: str, metric: str, planted: float, taken: list[float]) -> int:
    value = pool[place].ratios[work][metric].get(planted)
    if value is not None:
        taken.append(value)
    return place + 1


def called_different(pool: Sequence[PairOf], work: str, metric: str, pairs: int) -> tuple[int, int]:
    """(how often, of how many) the 95 % interval of so many equal pairs leaves out "no change"; none serves twice."""
    hits = n = 0
    for begin in range(0, len(pool) - pairs + 1, pairs):
        held = [one.ratios[work][metric].get(0.0) for one in pool[begin : begin + pairs]]
        values = [value for value in held if value is not None]
        if len(values) == pairs:
            _, low, high = sequential.bounds(values, 0.025)
            hits += not low <= 0.0 <= high
            n += 1
    return hits, n


def off_by(pool: Sequence[PairOf], work: str, metric: str) -> float:
    """By how much the figure of one equal pair is off, as a share: root mean square."""
    values = [pair.ratios[work][metric][0.0] for pair in pool if 0.0 in pair.ratios[work][metric]]
    return math.expm1(math.sqrt(math.fsum(v * v for v in values) / len(values)))
