"""Timing in pairs of fresh workers: short blocks of both sides in random order on one core.

A pair hosts every cell that still needs timing. After each pair `sequential` says whether to go on. The controls (the
baseline against itself, and with planted extra work) come first and give the spread between equal pairs.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from .controls import Controls
from .noise import Noise
from .sequential import confirm, decide, series
from .sides import Sides, Timed, pair_weight


class Pairs(Controls):
    """Times a list of comparisons, sharing pairs of workers between those of the same two sides."""

    def all(self) -> dict[str, str | None]:
        """Times everything: {cell: why it could not be measured, or None}."""
        ours = [t for t in self.timed if t.against == "baseline"]
        try:
            self.take_controls(ours)
            self._until_decided(ours)
            self._until_decided([t for t in self.timed if t.against != "baseline"])
        finally:
            self.spares.end()
        outcome: dict[str, str | None] = {}
        for one in self.timed:
            outcome[one.cell] = outcome.get(one.cell) or one.over
        return outcome

    def early(self) -> None:
        """One pair of what has fewer than the fewest pairs, before the controls: no look is due yet."""
        fewest, past = int(self.budget["min_pairs"]), self.run.past
        members = [
            one
            for one in self.timed
            if one.against == "baseline"
            and one.over is None
            and not one.unsupported
            and len(past.pairs(one.cell, one.against, "measure")) < fewest
        ]
        if members and not self.run.out_of_time():
            begin = time.monotonic()
            self._one_pair("baseline", self.run.candidate, members, "measure")
            self.run.pairs_s += time.monotonic() - begin

    # Going on or stopping.

    def _figures(self, one: Timed, gate: dict[str, Any], stage: str) -> Any:
        held = self.run.past.pairs(one.cell, one.against, stage, metric=gate["metric"])
        return series(gate["metric"], gate["limit"], held, self._items(one, gate["metric"]))

    def _items(self, one: Timed, metric: str) -> float:
        """Items a call; of a bus bandwidth, the bytes that a call moves over the bus."""
        held = self.run.past.timings.get((one.cell, one.against, "measure", None), {})
        name = "bus_bytes" if metric == "comm.bus_bandwidth" else "items"
        return float(next((build[name] or 1.0 for builds in held.values() for build in builds), 1.0))

    def _decisions(self, one: Timed) -> list[str]:
        """What each gate says after the pairs so far. Where none of them tells anything, as of a tail for which the
        cell's time gives too few samples, no further one is waited for."""
        said = []
        pairs = len(self.run.past.pairs(one.cell, one.against, "measure"))
        limits = {"min_pairs": int(self.budget["min_pairs"]), "max_pairs": int(self.budget["max_pairs"])}
        for gate in one.comparison.gates:
            found = self._figures(one, gate, "measure")
            if found is None:
                said.append("pass" if pairs >= limits["min_pairs"] else "continue")
                continue
            estimates, tau, direction = found
            if (not estimates and pairs >= limits["min_pairs"]) or pairs >= 2 * limits["max_pairs"]:
                said.append("budget")
                continue
            s0, n0 = one.spread_for(gate)
            said.append(decide(estimates, tau, direction, s0=s0, n0=n0, **limits))
        return said

    def _confirming(self, one: Timed) -> bool:
        """Whether a failure candidate still waits for fresh pairs."""
        limits = {"min_pairs": int(self.budget["min_pairs"]), "max_pairs": int(self.budget["max_pairs"])}
        for gate, said in zip(one.comparison.gates, self._decisions(one), strict=True):
            if said == "fail-candidate":
                estimates, tau, direction = self._figures(one, gate, "confirm")
                s0, n0 = one.spread_for(gate)
                if confirm(estimates, tau, direction, s0=s0, n0=n0, **limits) == "continue":
                    return True
        return False

    def _wants_more(self, one: Timed, stage: str) -> bool:
        """Whether a comparison is open. The fewest pairs are taken even where that is more than the cell's time."""
        if one.over is not None or one.unsupported or self.run.out_of_time():
            return False
        enough = float(self.budget["cell_s"])
        few = len(self.run.past.pairs(one.cell, one.against, stage)) < int(self.budget["min_pairs"])
        if one.spent_s >= (3 * enough if few else enough):
            return False
        return self._confirming(one) if stage == "confirm" else "continue" in self._decisions(one)

    def _until_decided(self, timed: list[Timed]) -> None:
        for stage in ("measure", "confirm"):
            for one in timed:
                one.spent_s = 0.0
            while True:
                active = [one for one in timed if self._wants_more(one, stage)]
                groups = {(one.comparison.a[0], one.comparison.b[0]) for one in active}
                if not active:
                    break
                for a, b in sorted(groups):
                    members = [one for one in active if (one.comparison.a[0], one.comparison.b[0]) == (a, b)]
                    self._one_pair(a, b, members, stage)
        for one in timed:
            if one.over is None and not one.unsupported and not self.run.past.pairs(one.cell, one.against, "measure"):
                one.over = "the time for the whole run was spent before this cell was timed"

    # One pair of workers.

    def _one_pair(self, a: str, b: str, members: list[Timed], stage: str) -> None:
        run = self.run
        noise = Noise(run.clocks)
        sides: Sides | None = None
        try:
            ahead = (a, b) if any(self._surely_more(one, stage) for one in members) else None
            for one in sorted(members, key=lambda one: one.place):
                sides = self._ready(sides, a, b, stage, one)
                if sides is None:
                    continue
                if ahead is not None and not one.tail:
                    self.spares.prepare(self.shuffled(ahead), sides.cores)
                pair = run.past.next_pair(one.cell, one.against, stage)
                label = run.embedded.cells[one.cell]["label"]
                most = int(self.budget["max_pairs"])
                against = "" if one.against == "baseline" else f" against {one.against}"
                word = "confirming" if stage == "confirm" else "latency"
                run.progress.event("doing", what=f"{label}{against}: {word} pair {pair + 1} of up to {most}", side=None)
                if not self.turn(sides, one, partial(self._build, sides, one, stage, pair)):
                    sides.close()
                    sides = None
        finally:
            noise.stop()
            if sides is not None:
                sides.close()
        run.write("noise", noise.told(sides.pinned if sides is not None else None))
        self.estimate.done(pair_weight(len(members)))

    def _surely_more(self, one: Timed, stage: str) -> bool:
        """Whether a pair will be wanted after the one that begins, as far as can be told: not at the first look."""
        after = len(self.run.past.pairs(one.cell, one.against, stage)) + 1
        return after < int(self.budget["max_pairs"]) and after != int(self.budget["min_pairs"])

    def _build(self, sides: Sides, one: Timed, stage: str, pair: int, build: int) -> None:
        if build:  # the first one was laid out and warmed when it was opened
            self._lay_out(sides, one)
            sides.both("warm", {"name": "a", "again": True}, {"name": "b", "again": True})
        rounds: list[Any] = []
        preempted = {"a": 0, "b": 0}
        try:
            for _ in range(one.rounds):
                order = sides.order()
                taken: dict[str, list[float]] = {}
                for name in order:
                    taken[name] = self._block(sides, one, name, [], preempted)[0]
                rounds.append({"order": order, "a_ns": taken["a"], "b_ns": taken["b"]})
        finally:  # a side that fails in the middle takes no whole round with it
            if rounds:
                self._record(one, stage, pair, build, sides.names, rounds, preempted, None)
