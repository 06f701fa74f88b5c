"""The tool's own method on a pool of pairs: one comparison after the other, each with pairs that no other has used.

A comparison takes pairs as the driver would: without a calibration the controls first, then, after each pair,
`sequential` says whether to go on; a failure candidate takes fresh pairs. Must not measure; the pool did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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
    design: str,
    condition: str,
    truth: float,
    min_pairs: int,
    max_pairs: int,
    known: tuple[float, int] | None = None,
    controls: int = 0,
    pair_s: float | None = None,
    control_s: float | None = None,
) -> list[Answer]:
    """Every comparison that the pool has pairs for. `planted` chooses the blocks, `truth` is what they should show.

    `known` is the calibrated spread between equal pairs with its degrees of freedom; `controls` how many equal pairs
    each comparison has of its own, as a run has. Without a calibration they are taken first and cost their time; with
    one they are those measured just before, whose time is not counted. `pair_s` is what a pair takes in a run, in
    seconds, `control_s` what one of the controls does, which has planted blocks too; None: as long as the pool's own.
    """
    tau = math.log1p(limit)
    place = 0
    found: list[Answer] = []
    while True:
        taken: list[float] = []
        begin = place
        equals: list[float] = []
        if known is not None:
            held = [pair.ratios[work][metric].get(0.0) for pair in pool[max(0, place - controls) : place]]
            equals = [value for value in held if value is not None]
        while known is None and len(equals) < controls and place < len(pool):
            place = _take(pool, place, work, metric, 0.0, equals)
        measured = place
        s0, n0 = sequential.spread_of_equals(equals, known) or (None, 0)
        looks: dict[str, Any] = {"min_pairs": min_pairs, "max_pairs": max_pairs, "s0": s0, "n0": n0}
        said = "continue"
        while said == "continue" and place < len(pool):
            place = _take(pool, place, work, metric, planted, taken)
            said = sequential.decide(taken, tau, **looks)
        fresh: list[float] = []
        again = "continue"
        while said == "fail-candidate" and again == "continue" and place < len(pool):
            place = _take(pool, place, work, metric, planted, fresh)
            again = sequential.confirm(fresh, tau, **looks)
        if said == "continue" or (said == "fail-candidate" and again == "continue"):
            return found  # the pool ended in the middle of a comparison
        verdict = "pass" if said == "pass" else "fail" if again == "confirmed" else "inconclusive"
        values = fresh or taken
        used = pool[begin:place]
        share = 1.0 / max(1, len(used[0].ratios))
        spent = sum(pair.seconds if control_s is None else control_s for pair in pool[begin:measured])
        spent += sum(pair.seconds if pair_s is None else pair_s for pair in pool[measured:place])
        found.append(
            Answer(
                design,
                work,
                metric,
                condition,
                truth,
                verdict,
                math.exp(math.fsum(values) / len(values)),
                spent * share,
                len(used),
                spent,
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


def spread(pool: Sequence[PairOf], work: str, metric: str) -> tuple[float, int] | None:
    """The spread between equal pairs and its degrees of freedom, as a calibration keeps it."""
    values = [one.ratios[work][metric].get(0.0) for one in pool if metric in one.ratios[work]]
    return sequential.spread_of_equals([value for value in values if value is not None], None)


def usual_seconds(pool: Sequence[PairOf]) -> float | None:
    """What a pair takes when another was under way while its workers started: the mean of all but the first."""
    return sum(one.seconds for one in pool[1:]) / (len(pool) - 1) if len(pool) > 1 else None
