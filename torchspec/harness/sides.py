"""What a pair is made of: the comparison that is timed, the two workers that are asked in turn, the change to plant.

Must not decide how much is measured, and writes no records.
"""

from __future__ import annotations

import os
import random
from typing import Any

from .needs import Comparison
from .noise import core_use, foreign_shares
from .run import Run, idlest_cores
from .sequential import RATES
from .spares import Spares
from .supervise import Worker, WorkerFailed

#: Without `sees`, the control plants a change this far beyond the limit (or as far as the limit itself, if farther).
USUAL_SEES = 0.05


def pair_weight(cells: int) -> float:
    """How much work a pair is that hosts so many cells, in units of a fresh process of both sides."""
    return 1.0 + 0.5 * cells


def planted_change(gate: dict[str, Any]) -> float | None:
    """The ratio of extra time that a gate's control plants; None for a gate without a control of this kind."""
    form, value, sees = gate["limit"]["form"], gate["limit"]["value"], gate.get("sees")
    if value is None or form not in ("growth", "drop"):
        return None
    change = float(sees) if sees is not None else value + max(value, USUAL_SEES)
    if form == "growth" and gate["metric"] not in RATES:
        return change
    if form == "drop" and gate["metric"] in RATES:
        return 1.0 / (1.0 - min(change, largest_drop(value))) - 1.0
    return None


def largest_drop(limit: float) -> float:
    """No rate can drop by all of it: 95 %, or halfway from a looser limit to nothing."""
    return max(0.95, (1.0 + limit) / 2.0)


class Timed:
    """One comparison while it is being timed."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.cell, self.against = comparison.key
        #: Whether a tail quantile is asked for: what another core does, such as an import, shows in it.
        self.tail = any(gate["metric"].endswith(("p95", "p99")) for gate in comparison.gates)
        self.spent_s = 0.0
        self.over: str | None = None  # why it ended without being measured
        self.failures = 0  # of workers that were at it
        self.unsupported = False  # the other path does not exist here; the cell itself is none the worse
        self.calls = self.samples = 0
        self.padding = 0
        self.items, self.items_unit = 1, "calls"
        self.bus_bytes = 0.0  # of a collective: bytes a call that cross the bus
        self.operation_bytes = 0.0  # of a collective: its size by the usual formula
        self.builds = self.rounds = 0
        self.spreads: dict[str, tuple[float, int]] = {}  # metric -> (standard deviation between equal pairs, n)

    @property
    def place(self) -> tuple[bool, bool]:
        """Where it stands in a pair. One at which a worker failed comes first, so that what another cell did to the
        worker is not held against it twice; then those with a tail."""
        return not self.failures, not self.tail

    def spread_for(self, gate: dict[str, Any]) -> tuple[float | None, int]:
        """The spread between equal pairs that a gate's figures may be held against: that of ratios, for a limit on
        ratios. A limit in seconds is judged by its own pairs alone."""
        ratio = gate["limit"]["form"] in ("growth", "drop", "speedup")
        return self.spreads.get(gate["metric"], (None, 0)) if ratio else (None, 0)


class Sides:
    """A pair of workers that are asked in turn.

    Which one starts first, and which one is asked first each time, is drawn by `lot`: whoever was asked last goes into
    the next block with its caches warm, so that a fixed order would make one side look faster.
    """

    def __init__(self, run: Run, a: str, b: str, purpose: str, spares: Spares, lot: random.Random) -> None:
        self.names = (a, b)
        #: What others took of the pinned cores; None where nothing tells, or a side has failed.
        self.pinned: dict[str, float | None] | None = None
        self._before: tuple[int, int, int, int] | None = None
        self.cores: list[int] = []
        self._lot = lot
        started: dict[str, Worker] = {}
        try:
            for place in self.order():
                started[place] = spares.take(a if place == "a" else b, f"{purpose}-{place}")
        except WorkerFailed:
            for worker in started.values():
                worker.close()
            raise
        self.a, self.b = started["a"], started["b"]
        self.limit = run.timeout_s
        try:
            for worker in started.values():  # both import at the same time, then share the core
                worker.send("ready")
            for worker in started.values():
                worker.receive(run.start_timeout_s)
            self.cores = idlest_cores(run.embedded.threads)
            self.both("pin", {"cores": self.cores}, {"cores": self.cores})
            self._before = self._use()
        except BaseException:
            self.close()
            raise

    def order(self) -> str:
        """ "ab" or "ba", by lot."""
        return self._lot.choice(("ab", "ba"))

    def both(self, do: str, a: dict[str, Any] | None = None, b: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Asks both, one after the other: (a's answer, b's). A failure carries the worker, and so the side, that
        failed."""
        workers, given = {"a": self.a, "b": self.b}, {"a": a or {}, "b": b or {}}
        answers = {place: workers[place].ask(do, self.limit, **given[place]) for place in self.order()}
        return answers["a"], answers["b"]

    def _use(self) -> tuple[int, int, int, int] | None:
        a, b = self.a.pids(), self.b.pids()
        return None if a is None or b is None else core_use(self.cores, [os.getpid()], [*a, *b])

    def close(self) -> None:
        if not (self.a.ended or self.b.ended):
            self.pinned = foreign_shares(self._before, self._use())
        self.a.close()
        self.b.close()
