"""What every pair of workers is asked: work opened, laid out, warmed, timed in blocks, and written down.

Within a pair each cell is laid out in memory anew several times (builds); each build has rounds of one block a side.
Must not decide which pair is taken, or when there are enough of them.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import Any

from .measure import TAIL_SAMPLES, pair_shape
from .needs import Comparison
from .progress import Estimate
from .run import Run
from .sides import Sides, Timed
from .spares import Spares
from .supervise import Unable, Worker, WorkerFailed

#: Padding before a build, so that its tensors lie elsewhere: up to this many bytes.
PADDING_BYTES = 1 << 18


class PairTimer:
    """Asks pairs of workers about a list of comparisons. `workers` are where a pair's workers come from."""

    def __init__(
        self, run: Run, comparisons: list[Comparison], estimate: Estimate, workers: Spares | None = None
    ) -> None:
        self.run, self.estimate = run, estimate
        self.timed = [Timed(c) for c in comparisons]
        self.budget = run.embedded.budget
        self.random = random.Random(f"{run.embedded.digest}/{run.run}")
        self.spares = workers or Spares(run, {side: run.timing_cache(side) for side in run.sides})

    def _ready(self, sides: Sides | None, a: str, b: str, stage: str, one: Timed) -> Sides | None:
        """The pair's workers, started where they are not there; None where they cannot be."""
        if sides is not None:
            return sides
        try:
            return Sides(self.run, a, b, f"time-{stage}", self.spares, self.random)
        except WorkerFailed as failure:
            self._note_failure(one, failure, None)
            return None

    def shuffled(self, sides: tuple[str, str]) -> tuple[str, str]:
        """These two in an order by lot."""
        first, second = self.random.sample(sides, 2)
        return first, second

    def turn(self, sides: Sides, one: Timed, build: Callable[[int], None]) -> bool:
        """One cell's turn in a pair, build by build; False where the workers must be replaced."""
        begin = time.monotonic()
        try:
            self._open(sides, one)
            for number in range(one.builds):
                build(number)
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
        one.failures += 1
        other_ran = sides is not None and not (sides.a if worker is sides.b else sides.b).ended
        if self.run.side_failed(one.cell, failure, side, other_ran, "timing") >= 2:
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
        one.operation_bytes = float(opened[1].get("operation_bytes") or 0.0)
        for name in sides.order():
            worker, answer = (sides.a, opened[0]) if name == "a" else (sides.b, opened[1])
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
        tails = [TAIL_SAMPLES.get(gate["metric"][-3:], ()) for gate in one.comparison.gates]
        budget = self.budget
        allowed = float(budget["cell_s"]) / (int(budget["min_pairs"]) + 1)
        asked = (
            float(budget["block_ms"]),
            int(budget["rounds"]),
            int(budget["builds"]),
            allowed,
            max(tails, default=()),
            self.run.shortest_ns,
        )
        one.calls, one.samples, one.rounds, one.builds = pair_shape(fast_ns, slow_ns, *asked)

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
        preempted: dict[str, int], planted: float | None, of: int | None = None,
    ) -> None:  # fmt: skip
        """`of`: how many rounds were meant, where that is not as many as a cell has."""
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
            "of": {"builds": one.builds, "rounds": of or one.rounds},
            "calls": one.calls,
            "items": one.items,
            "items_unit": one.items_unit,
            **({"bus_bytes": one.bus_bytes} if one.bus_bytes else {}),
            **({"operation_bytes": one.operation_bytes} if one.operation_bytes else {}),
            "padding": one.padding,
            "preempted": dict(preempted),
            "clock": self.run.clock,
        }
        self.run.write("timing", body, sync=False)
