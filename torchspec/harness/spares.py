"""Workers that are started before they are needed: they import torch on the other cores while a pair is timed.

A spare has been asked nothing and holds no work, so that it is as fresh as a worker that is started when it is wanted;
only the wait is gone. Must not decide which pair comes next.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from .environ import tie_to_cores, usable_cores
from .run import Run
from .supervise import Worker, WorkerFailed


class Spares:
    """The spares of one run, at most a pair. `caches` maps a side to the compiler cache of its timing workers."""

    def __init__(self, run: Run, caches: dict[str, Any]) -> None:
        self.run, self.caches = run, caches
        self._held: list[Worker] = []

    def take(self, side: str, purpose: str) -> Worker:
        """A worker of this side that has been asked nothing yet: a spare, else a new one. Raises WorkerFailed."""
        for worker in self._held:
            if worker.side == side:
                self._held.remove(worker)
                tie_to_cores(
                    worker.process.pid, set(usable_cores())
                )  # where it still imports, it may now do so on every core
                return worker
        return self.run.start(side, purpose, cache=self.caches[side], timing=True)

    def prepare(self, sides: tuple[str, str], cores: list[int]) -> None:
        """Starts what a pair of these sides lacks, away from `cores`, where something is being timed.

        Does nothing where no other core is left, or where the work itself spreads over all of them. A spare that
        cannot be started is left to `take`, which says why.
        """
        free = set(usable_cores()) - set(cores)
        if not free or not self.run.keeps_spares or not hasattr(os, "sched_setaffinity"):
            return
        held = [worker.side for worker in self._held]
        for side in sides:
            if side in held:
                held.remove(side)
                continue
            with contextlib.suppress(WorkerFailed):
                worker = self.run.start(side, "time-spare", cache=self.caches[side], timing=True)
                tie_to_cores(worker.process.pid, free)
                self._held.append(worker)

    def end(self) -> None:
        """Ends the spares that nobody took."""
        for worker in self._held:
            worker.kill()
        self._held.clear()
