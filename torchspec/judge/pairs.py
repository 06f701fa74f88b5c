"""From `timing` records to one figure a pair of workers: block values, builds, pairs. Must not judge.

The sampling unit is a pair of fresh workers. A block value is ln median(b) - ln median(a) of one round; a build's
estimate is the Hodges-Lehmann centre of its rounds; a pair's is the same centre of its builds, so that a build during
which others had the machine does not carry the pair with it. A tail quantile is taken of log times from which the level
that both sides share is subtracted, pair by pair: resampling three to eight whole pairs gives intervals that miss the
truth one time in six where they promise one in twenty. The harness has the same arithmetic in `harness/sequential.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchspec.judge.stats import hodges_lehmann
from torchspec.model.evidence import Record

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: What no clock tells of a call, in ns: less than a femtosecond, more than a century.
SHORTEST_NS, LONGEST_NS = 1e-6, 3e18
#: A round with fewer samples a side than this has no level of its own; the build's is subtracted.
OWN_LEVEL = 8


@dataclass(frozen=True, slots=True)
class Build:
    """One build of the work in one pair of workers: log times in ns of its usable rounds, a then b."""

    rounds: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    dropped: int  # rounds with a time that is none (zero, negative, absurd, not a number), or without samples
    items: float
    preempted: int
    items_unit: str = "items"
    meant: int | None = None  # rounds that it was to have; None where the record does not say
    bus_bytes: float | None = None  # of a collective: bytes a call that cross the bus
    operation_bytes: float | None = None  # of a collective: its size by the usual formula


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair of fresh workers. `seqs` are the ledger records behind it."""

    run: str
    number: int
    builds: tuple[Build, ...]
    seqs: tuple[int, ...]
    meant: int | None = None  # builds that it was to have

    @property
    def whole(self) -> bool:
        """Whether it has as many builds and rounds as were meant: a side that dies, or a run that is killed, cuts it
        short."""
        enough = self.meant is None or len(self.builds) >= self.meant
        return enough and all(b.meant is None or len(b.rounds) + b.dropped >= b.meant for b in self.builds)

    @property
    def samples(self) -> int:
        """Samples of the side that has fewer."""
        sides = [(len(a), len(b)) for build in self.builds for a, b in build.rounds]
        return min((sum(a for a, _ in sides), sum(b for _, b in sides)), default=0) if sides else 0


class Timed:
    """The timing records of one cell for one candidate; each becomes logarithms once, however often it is asked for."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self._built: dict[int, Build] = {}

    def of(self, stage: str, against: str | None, stem: str | None, planted: float | None = None) -> list[Record]:
        """The records of one stage. `against` None or "baseline" takes those against the baseline.

        `stem` is the timed thing (None for the call itself); `planted` the ratio of the stage "planted".
        """
        wanted = None if against in (None, "baseline") else against
        return [
            r
            for r in self.records
            if r.body.get("stage") == stage
            and (None if r.body.get("against") == "baseline" else r.body.get("against")) == wanted
            and r.body.get("metric") == stem
            and r.body.get("planted") == planted
        ]

    def pairs(self, stage: str, against: str | None, stem: str | None, planted: float | None = None) -> list[Pair]:
        """The pairs of one stage, in the order measured, chosen as `of` does. `b` is always the side that is judged.

        A build that was recorded twice counts once, by its later record. Pairs without a usable round are left out,
        and those that were cut short where there are two whole ones.
        """
        found = self.every(stage, against, stem, planted)
        whole = [pair for pair in found if pair.whole]
        return whole if len(whole) >= 2 else found

    def every(self, stage: str, against: str | None, stem: str | None, planted: float | None = None) -> list[Pair]:
        """The pairs of one stage with a usable round, cut short or not."""
        found: dict[tuple[str, int], dict[int, Record]] = {}
        for record in self.of(stage, against, stem, planted):
            body = record.body
            found.setdefault((record.run, int(body["pair"])), {})[int(body.get("build", 0))] = record
        pairs = []
        for (run, number), builds in found.items():
            ordered = [record for _, record in sorted(builds.items())]
            made = tuple(self._build(record) for record in ordered)
            if any(build.rounds for build in made):
                meant = (ordered[0].body.get("of") or {}).get("builds")
                pairs.append(Pair(run, number, made, tuple(r.seq for r in ordered), meant))
        return pairs

    def lost(self, stage: str, against: str | None, stem: str | None) -> int:
        """Rounds without a usable time in the pairs that `pairs` leaves out."""
        kept = {seq for pair in self.every(stage, against, stem) for seq in pair.seqs}
        return sum(self._build(r).dropped for r in self.of(stage, against, stem) if r.seq not in kept)

    def _build(self, record: Record) -> Build:
        if record.seq not in self._built:
            self._built[record.seq] = _build(record)
        return self._built[record.seq]


def _build(record: Record) -> Build:
    body = record.body
    swapped = body.get("b") == "baseline" and body.get("a") != "baseline"
    rounds = []
    dropped = 0
    for one in body.get("rounds", []):
        a, b = one.get("a_ns") or [], one.get("b_ns") or []
        times = [*a, *b]
        if not a or not b or not all(isinstance(v, (int, float)) and SHORTEST_NS < v < LONGEST_NS for v in times):
            dropped += 1
            continue
        logs = tuple(math.log(v) for v in a), tuple(math.log(v) for v in b)
        rounds.append((logs[1], logs[0]) if swapped else logs)
    preempted = body.get("preempted") or {}
    bus, size = body.get("bus_bytes"), body.get("operation_bytes")
    return Build(
        tuple(rounds),
        dropped,
        float(body.get("items") or 1),
        sum(int(v or 0) for v in preempted.values()),
        str(body.get("items_unit") or "items"),
        (body.get("of") or {}).get("rounds"),
        float(bus) if bus else None,
        float(size) if size else None,
    )


def _level(metric: str, logs: Sequence[float]) -> float:
    """A round's level on one side: the log of the median time; for a rate, of the mean time."""
    if metric == "throughput":
        return math.log(math.fsum(math.exp(v) for v in logs) / len(logs))
    ordered = sorted(logs)
    n = len(ordered)
    if n % 2:
        return ordered[n // 2]
    return math.log((math.exp(ordered[n // 2 - 1]) + math.exp(ordered[n // 2])) / 2.0)


def share_of(metric: str) -> float:
    """The quantile that a metric is about: 0.95 for one that ends in p95, 0.5 for one of the centre."""
    return SHARES.get(metric[-3:], 0.5)


def _tail_logs(build: Build) -> tuple[list[float], list[float]]:
    """One build's log times of a and of b without the level that both share."""

    def level(part: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
        return (
            statistics.median([v for a, _ in part for v in a]) + statistics.median([v for _, b in part for v in b])
        ) / 2.0

    fine = all(len(side) >= OWN_LEVEL for one in build.rounds for side in one)
    levels = [level([one]) if fine else level(build.rounds) for one in build.rounds]
    a = [v - shared for one, shared in zip(build.rounds, levels, strict=True) for v in one[0]]
    b = [v - shared for one, shared in zip(build.rounds, levels, strict=True) for v in one[1]]
    return a, b


def log_ratio(metric: str, pair: Pair) -> float:
    """The log ratio of times, b to a, of one pair."""
    builds = [build for build in pair.builds if build.rounds]
    share = share_of(metric)
    if share != 0.5:
        parts = [_tail_logs(build) for build in builds]
        ends = [float(np.quantile([v for part in parts for v in part[side]], share)) for side in (0, 1)]
        return ends[1] - ends[0]
    each = [hodges_lehmann([_level(metric, b) - _level(metric, a) for a, b in build.rounds]) for build in builds]
    return hodges_lehmann(each)


def log_level(metric: str, pair: Pair, side: int) -> float:
    """The log of one side's own time in ns per call (side 0 is a, 1 is b)."""
    builds = [build for build in pair.builds if build.rounds]
    share = share_of(metric)
    if share != 0.5:
        times = [math.exp(v) for build in builds for one in build.rounds for v in one[side]]
        return math.log(float(np.quantile(times, share)))
    each = [hodges_lehmann([_level(metric, one[side]) for one in build.rounds]) for build in builds]
    return hodges_lehmann(each)


def counted(pairs: Sequence[Pair]) -> dict[str, int]:
    """Pairs, builds, rounds and timed samples (iterations) of both sides."""
    builds = [build for pair in pairs for build in pair.builds if build.rounds]
    rounds = [one for build in builds for one in build.rounds]
    return {
        "pairs": len(pairs),
        "builds": len(builds),
        "rounds": len(rounds),
        "iterations": sum(len(a) + len(b) for a, b in rounds),
    }
