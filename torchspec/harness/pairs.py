"""Timing in pairs of fresh workers: short blocks of both sides in random order on one core.

A pair hosts every cell that still needs timing. Within a pair each cell is laid out in memory anew several times
(builds); each build has rounds of one block a side. After each pair `sequential` says whether to go on. The controls
(the baseline against itself, and with planted extra work) come first and give the spread between equal pairs.
"""

from __future__ import annotations

import math
import random
import time
from typing import Any

from .measure import FEWEST_ROUNDS, TAIL_SAMPLES, pair_shape
from .needs import Comparison
from .progress import Estimate
from .run import Run, noise_between, noise_now
from .sequential import confirm, decide, series, spread_of_equals
from .sides import Sides, Timed, pair_weight, planted_change
from .spares import Spares
from .supervise import Unable, Worker, WorkerFailed

#: Padding before a build, so that its tensors lie elsewhere: up to this many bytes.
PADDING_BYTES = 1 << 18
CONTROL_PAIRS = 3
FEWEST_CONTROL_PAIRS = 2
CONTROL_SHARE = 0.5
#: However slow a step is, a control's pair has this many rounds.
FEWEST_CONTROL_ROUNDS = 2


class Pairs:
    """Times a list of comparisons, sharing pairs of workers between those of the same two sides."""

    def __init__(
        self, run: Run, comparisons: list[Comparison], estimate: Estimate, workers: Spares | None = None
    ) -> None:
        self.run, self.estimate = run, estimate
        self.timed = [Timed(c) for c in comparisons]
        self.budget = run.embedded.budget
        self.random = random.Random(f"{run.embedded.digest}/{run.run}")
        self.spares = workers or Spares(run, {side: run.timing_cache(side) for side in run.sides})

    def all(self) -> dict[str, str | None]:
        """Times everything: {cell: why it could not be measured, or None}."""
        ours = [t for t in self.timed if t.against == "baseline"]
        try:
            self._controls(ours)
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
        held = self.run.past.pairs(one.cell, one.against, stage)
        return series(gate["metric"], gate["limit"], held, self._items(one, gate["metric"]))

    def _items(self, one: Timed, metric: str) -> float:
        """Items a call; of a bus bandwidth, the bytes that a call moves over the bus."""
        held = self.run.past.timings.get((one.cell, one.against, "measure", None), {})
        name = "bus_bytes" if metric == "comm.bus_bandwidth" else "items"
        return float(next((build[name] or 1.0 for builds in held.values() for build in builds), 1.0))

    def _decisions(self, one: Timed) -> list[str]:
        """What each gate says after the pairs so far."""
        said = []
        pairs = len(self.run.past.pairs(one.cell, one.against, "measure"))
        limits = {"min_pairs": int(self.budget["min_pairs"]), "max_pairs": int(self.budget["max_pairs"])}
        for gate in one.comparison.gates:
            found = self._figures(one, gate, "measure")
            if found is None:
                said.append("pass" if pairs >= limits["min_pairs"] else "continue")
                continue
            estimates, tau, direction = found
            s0, n0 = one.spreads.get(gate["metric"], (None, 0))
            said.append(decide(estimates, tau, direction, s0=s0, n0=n0, **limits))
        return said

    def _confirming(self, one: Timed) -> bool:
        """Whether a failure candidate still waits for fresh pairs."""
        limits = {"min_pairs": int(self.budget["min_pairs"]), "max_pairs": int(self.budget["max_pairs"])}
        for gate, said in zip(one.comparison.gates, self._decisions(one), strict=True):
            if said == "fail-candidate":
                estimates, tau, direction = self._figures(one, gate, "confirm")
                s0, n0 = one.spreads.get(gate["metric"], (None, 0))
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
        before = noise_now()
        sides: Sides | None = None
        try:
            ahead = (a, b) if any(self._surely_more(one, stage) for one in members) else None
            for one in sorted(members, key=lambda one: not one.tail):
                sides = self._ready(sides, a, b, stage, one)
                if sides is None:
                    continue
                if ahead is not None and not one.tail:
                    self.spares.prepare(ahead, sides.cores)
                pair = run.past.next_pair(one.cell, one.against, stage)
                label = run.embedded.cells[one.cell]["label"]
                most = int(self.budget["max_pairs"])
                against = "" if one.against == "baseline" else f" against {one.against}"
                word = "confirming" if stage == "confirm" else "latency"
                run.progress.event("doing", what=f"{label}{against}: {word} pair {pair + 1} of up to {most}", side=None)
                if not self._turn(sides, one, stage, pair):
                    sides.close()
                    sides = None
        finally:
            if sides is not None:
                sides.close()
        run.write("noise", noise_between(before, noise_now(), sides.pinned if sides is not None else None))
        self.estimate.done(pair_weight(len(members)))

    def _surely_more(self, one: Timed, stage: str) -> bool:
        """Whether a pair will be wanted after the one that begins, as far as can be told: not at the first look."""
        after = len(self.run.past.pairs(one.cell, one.against, stage)) + 1
        return after < int(self.budget["max_pairs"]) and after != int(self.budget["min_pairs"])

    def _ready(self, sides: Sides | None, a: str, b: str, stage: str, one: Timed) -> Sides | None:
        """The pair's workers, started where they are not there; None where they cannot be."""
        if sides is not None:
            return sides
        try:
            return Sides(self.run, a, b, f"time-{stage}", self.spares)
        except WorkerFailed as failure:
            self._note_failure(one, failure, None)
            return None

    def _turn(self, sides: Sides, one: Timed, stage: str, pair: int) -> bool:
        """One cell's turn in a pair; False where the workers must be replaced."""
        begin = time.monotonic()
        try:
            self._open(sides, one)
            for build in range(one.builds):
                self._build(sides, one, stage, pair, build)
            sides.both("close", {"name": "a"}, {"name": "b"})
            return True
        except Unable as reason:
            self._cannot(one, reason)
            return True
        except WorkerFailed as failure:
            self._note_failure(one, failure, sides)
            return False
        finally:
            one.spent_s += time.monotonic() - begin
            self.run.ledger.sync()

    def _cannot(self, one: Timed, reason: Unable) -> None:
        if one.against == "baseline":
            one.over = str(reason)
            return
        one.unsupported = True
        for gate in one.comparison.gates:
            self.run.unsupported(one.cell, self.run.candidate, gate["metric"], reason, one.against)

    def _note_failure(self, one: Timed, failure: WorkerFailed, sides: Sides | None) -> None:
        """Records who failed. A second time ends the cell's timing."""
        worker: Worker | None = failure.worker
        side = worker.side if worker is not None else self.run.candidate
        other_ran = sides is not None and not (sides.a if worker is sides.b else sides.b).ended
        if self.run.side_failed(one.cell, failure, side, other_ran) >= 2:
            one.over = f"{side} {failure.how} twice while doing {failure.doing}: {failure.error}"

    def _open(self, sides: Sides, one: Timed) -> None:
        """Builds and warms both; on the first occasion settles the block's shape and how much is measured a pair."""
        frozen = str(self.run.frozen_file(one.cell))
        shared = {"cell": one.cell, "frozen": frozen}
        given = (one.comparison.a, one.comparison.b)
        variants = [v if side == name else "own" for (side, v), name in zip(given, sides.names, strict=True)]
        opened = sides.both(
            "open", {"name": "a", "variant": variants[0], **shared}, {"name": "b", "variant": variants[1], **shared}
        )
        self._same_work(one, opened)
        one.items, one.items_unit = opened[1]["items"], opened[1]["items_unit"]
        one.bus_bytes = float(opened[1].get("bus_bytes") or 0.0)
        for worker, name, answer in ((sides.a, "a", opened[0]), (sides.b, "b", opened[1])):
            if answer["compiles"]:
                begin = time.monotonic()
                worker.ask("compile", sides.limit, name=name)
                self.run.compiling_s += time.monotonic() - begin
        self._lay_out(sides, one)
        warm = sides.both("warm", {"name": "a"}, {"name": "b"})
        if not one.calls:
            self._shape(one, min(warm[0]["call_ns"], warm[1]["call_ns"]), max(warm[0]["call_ns"], warm[1]["call_ns"]))

    def _lay_out(self, sides: Sides, one: Timed) -> None:
        """Puts both sides' tensors elsewhere, after the same random padding."""
        one.padding = self.random.randrange(PADDING_BYTES)
        sides.both("relayout", {"name": "a", "padding": one.padding}, {"name": "b", "padding": one.padding})

    def _same_work(self, one: Timed, opened: tuple[Any, Any]) -> None:
        made = self.run.past.frozen[one.cell]
        for answer in opened:
            if one.against == "baseline" and (answer["inputs"], answer["weights"]) != (made["inputs"], made["weights"]):
                reason = "a timing worker holds other inputs or weights than those that were frozen"
                self.run.broken(one.cell, "frozen work", made["weights"], answer["weights"], reason)
                raise Unable(reason, "machine")

    def _shape(self, one: Timed, fast_ns: float, slow_ns: float) -> None:
        """Settles how much a pair measures, so that the fewest pairs and one more fit into the cell's time."""
        tails = [TAIL_SAMPLES.get(gate["metric"][-3:], 0) for gate in one.comparison.gates]
        budget = self.budget
        allowed = float(budget["cell_s"]) / (int(budget["min_pairs"]) + 1)
        asked = (
            float(budget["block_ms"]),
            int(budget["rounds"]),
            int(budget["builds"]),
            allowed,
            max(tails, default=0),
        )
        one.calls, one.samples, one.rounds, one.builds = pair_shape(fast_ns, slow_ns, *asked)

    def _build(self, sides: Sides, one: Timed, stage: str, pair: int, build: int) -> None:
        if build:  # the first one was laid out and warmed when it was opened
            self._lay_out(sides, one)
            sides.both("warm", {"name": "a", "again": True}, {"name": "b", "again": True})
        rounds: list[Any] = []
        preempted = {"a": 0, "b": 0}
        try:
            for _ in range(one.rounds):
                order = self.random.choice(("ab", "ba"))
                taken: dict[str, list[float]] = {}
                for name in order:
                    taken[name] = self._block(sides, one, name, [], preempted)[0]
                rounds.append({"order": order, "a_ns": taken["a"], "b_ns": taken["b"]})
        finally:  # a side that fails in the middle takes no whole round with it
            if rounds:
                self._record(one, stage, pair, build, sides.names, rounds, preempted, None)

    def _block(
        self, sides: Sides, one: Timed, name: str, plants: list[float], preempted: dict[str, int]
    ) -> list[list[float]]:
        worker = sides.a if name == "a" else sides.b
        answer = worker.ask("block", sides.limit, name=name, calls=one.calls, samples=one.samples, plants=plants)
        preempted[name] += int(answer["preempted"])
        taken: list[list[float]] = answer["ns"]
        self.run.timed_ns += math.fsum(taken[-1]) * one.calls
        return taken

    def _record(
        self, one: Timed, stage: str, pair: int, build: int, names: tuple[str, str], rounds: list[Any],
        preempted: dict[str, int], planted: float | None,
    ) -> None:  # fmt: skip
        body = {
            "cell": one.cell,
            "candidate": self.run.candidate,
            "against": one.against,
            "pair": pair,
            "build": build,
            "stage": stage,
            "planted": planted,
            "a": names[0],
            "b": names[1],
            "rounds": rounds,
            "calls": one.calls,
            "items": one.items,
            "items_unit": one.items_unit,
            **({"bus_bytes": one.bus_bytes} if one.bus_bytes else {}),
            "padding": one.padding,
            "preempted": dict(preempted),
            "clock": self.run.clock,
        }
        self.run.write("timing", body, sync=False)

    # Controls.

    def _controls(self, timed: list[Timed]) -> None:
        """The baseline against itself and with planted work, until the planted work is seen or the time is over."""
        for one in timed:
            one.spent_s = 0.0
        while True:
            active = [one for one in timed if self._control_wants_more(one)]
            if not active:
                break
            self.run.progress.event("doing", what=f"controls of {len(active)} cells", side="baseline")
            self.control_pair(active)
        for one in timed:
            self._conclude_control(one)

    def control_pair(self, active: list[Timed]) -> None:
        """One pair of workers of the baseline, in which each of these cells has its turn."""
        before = noise_now()
        sides: Sides | None = None
        try:
            ahead = self._after_control(active)
            for one in sorted(active, key=lambda one: not one.tail):
                sides = self._ready(sides, "baseline", "baseline", "control", one)
                if sides is not None and ahead is not None and not one.tail:
                    self.spares.prepare(ahead, sides.cores)
                if sides is not None and not self._control_turn(sides, one):
                    sides.close()
                    sides = None
        finally:
            if sides is not None:
                sides.close()
        self.run.write("noise", noise_between(before, noise_now(), sides.pinned if sides is not None else None))
        self.estimate.done(pair_weight(len(active)))

    def _after_control(self, active: list[Timed]) -> tuple[str, str] | None:
        """The sides of the pair after this pair of controls; None: there is none."""
        taken = [len(self.run.past.pairs(one.cell, one.against, "same")) + 1 for one in active]
        return "baseline", "baseline" if min(taken) < CONTROL_PAIRS else self.run.candidate

    def _plants(self, one: Timed) -> dict[str, float]:
        """{metric: ratio to plant}."""
        wanted = {gate["metric"]: planted_change(gate) for gate in one.comparison.gates}
        return {metric: ratio for metric, ratio in wanted.items() if ratio is not None}

    def _control_wants_more(self, one: Timed) -> bool:
        plants = self._plants(one)
        done = all((one.cell, metric, "planted") in self.run.past.controls for metric in plants)
        if one.over is not None or self.run.out_of_time() or done:
            return False
        pairs = len(self.run.past.pairs(one.cell, one.against, "same"))
        in_time = one.spent_s < float(self.budget["cell_s"]) * CONTROL_SHARE
        if pairs < CONTROL_PAIRS:
            return in_time or pairs < FEWEST_CONTROL_PAIRS
        return in_time and pairs < int(self.budget["max_pairs"]) and not self._planted_seen(one)

    def _planted_seen(self, one: Timed) -> bool:
        """Whether the stopping rule calls every planted regression a failure candidate."""
        plants = self._plants(one)
        for gate in one.comparison.gates:
            plant = plants.get(gate["metric"])
            if plant is None:
                continue
            held = self.run.past.pairs(one.cell, one.against, "planted", plant)
            found = series(gate["metric"], gate["limit"], held)
            if found is None:
                continue
            estimates, tau, direction = found
            most = int(self.budget["max_pairs"])
            if decide(estimates, tau, direction, min_pairs=CONTROL_PAIRS, max_pairs=most) != "fail-candidate":
                return False
        return True

    def _control_turn(self, sides: Sides, one: Timed) -> bool:
        begin = time.monotonic()
        pair = self.run.past.next_pair(one.cell, one.against, "same")
        try:
            self._open(sides, one)
            plants = sorted(set(self._plants(one).values()))
            for build in range(one.builds):
                self._control_build(sides, one, pair, build, plants)
            sides.both("close", {"name": "a"}, {"name": "b"})
            return True
        except Unable as reason:
            one.over = str(reason)
            return True
        except WorkerFailed as failure:
            self._note_failure(one, failure, sides)
            return False
        finally:
            one.spent_s += time.monotonic() - begin
            self.run.ledger.sync()

    def _control_build(self, sides: Sides, one: Timed, pair: int, build: int, plants: list[float]) -> None:
        """Rounds of a block of each side, plain, and of a block of each side with planted work in b's: both turns as
        when versions are compared. Were b asked more often than a, it would look faster by what a switch costs."""
        if build:
            self._lay_out(sides, one)
            sides.both("warm", {"name": "a", "again": True}, {"name": "b", "again": True})
        preempted = {"a": 0, "b": 0}
        same: list[Any] = []
        planted: dict[float, list[Any]] = {plant: [] for plant in plants}
        for _ in range(one.rounds if one.rounds > FEWEST_ROUNDS else FEWEST_CONTROL_ROUNDS):
            turns: list[list[float]] = [[], plants] if plants else [[]]
            self.random.shuffle(turns)
            for asked in turns:
                order = self.random.choice(("ab", "ba"))
                taken = {name: self._block(sides, one, name, asked if name == "b" else [], preempted) for name in order}
                rounds = [{"order": order, "a_ns": taken["a"][0], "b_ns": times} for times in taken["b"]]
                if asked:
                    for plant, found in zip(asked, rounds, strict=True):
                        planted[plant].append(found)
                else:
                    same += rounds
        self._record(one, "same", pair, build, sides.names, same, preempted, None)
        for plant, rounds in planted.items():
            self._record(one, "planted", pair, build, sides.names, rounds, preempted, plant)

    def _conclude_control(self, one: Timed) -> None:
        """Writes what the judge needs to hold the controls, and keeps the spread between equal pairs."""
        past = self.run.past
        plants = self._plants(one)
        for gate in one.comparison.gates:
            plant = plants.get(gate["metric"])
            if plant is None:
                continue
            metric = gate["metric"]
            for what, ratio in (("same", None), ("planted", plant)):
                seqs = past.seqs(one.cell, one.against, what, ratio)
                if (one.cell, metric, what) not in past.controls:
                    error = None if seqs else (one.over or "no control could be measured in the time there was")
                    body = {"cell": one.cell, "candidate": self.run.candidate, "metric": metric, "what": what}
                    self.run.write("control", {**body, "planted": ratio, "timing": seqs, "error": error})
            found = series(metric, gate["limit"], past.pairs(one.cell, one.against, "same"))
            equals = found[0] if found is not None else []
            known = spread_of_equals(equals, self.run.calibration.get((one.cell, metric)))
            if known is not None:
                one.spreads[metric] = known
