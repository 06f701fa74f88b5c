"""Pairs of fresh workers of one interpreter against itself, with planted changes: the material of the benchmark.

Asks the emitted harness's own workers as its driver asks them: a new layout, a warm-up, short blocks of both sides on
one core; which side is first is drawn by lot each time. Every pair times every work, plain and with each planted
change. What is kept of a pair is what the driver makes of it: one figure a work, metric and planted change.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchspec.bench import plan as plans
from torchspec.emit.bundle import emit
from torchspec.harness.environ import tie_to_cores, usable_cores, worker_environment
from torchspec.harness.measure import block_shape
from torchspec.harness.sequential import pair_ratio
from torchspec.harness.supervise import Worker

PADDING_BYTES = 1 << 18
LIMIT_S = 300.0


METRICS = ("latency.p50", "latency.p95")


@dataclass(frozen=True, slots=True)
class PairOf:
    """One pair's log ratios (work -> metric -> planted ratio -> figure), and how long the pair took.

    `timed_s` is the time inside timed calls, `load` that of the machine when the pair ended.
    """

    ratios: dict[str, dict[str, dict[float, float]]]
    seconds: float
    timed_s: float
    load: float | None = None


class Pool:
    """Starts workers of `python` from an emitted harness in a folder of its own."""

    def __init__(self, python: str, *, builds: int, rounds: int, block_ms: float, seed: int) -> None:
        self.python, self.builds, self.rounds, self.block_ms = python, builds, rounds, block_ms
        self.random = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="torchspec-bench-"))
        self.plan = plans.plan(plans.WORKS)
        self.harness = self.folder / "cpu.py"
        self.harness.write_text(emit(self.plan)["cpu"], encoding="utf-8")
        team = self.folder / "team"
        team.mkdir()
        self.team = team
        (team / plans.FILE).write_text(plans.text(), encoding="utf-8")
        self.shapes: dict[str, tuple[int, int]] = {}
        self.started = 0
        self.spares: list[Worker] = []
        try:
            self._freeze()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._end_spares()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, side: str, extra: dict[str, str] | None = None) -> Worker:
        """A fresh worker that has not been asked anything yet."""
        self.started += 1
        place = self.folder / f"w{self.started}"
        place.mkdir()
        env = worker_environment({}, 1, place, place, True, extra or {})
        told = {"team": str(self.team), "digests": {}}
        return Worker(self.python, self.harness, side, told, env, place / "log", place)

    @contextlib.contextmanager
    def ready(self, *workers: Worker) -> Iterator[None]:
        """These workers, on the last usable core; they import at the same time, as in a run, and are ended after it."""
        try:
            for worker in workers:
                worker.send("ready")
            for worker in workers:
                worker.receive(LIMIT_S)
                if hasattr(os, "sched_getaffinity"):
                    worker.ask("pin", LIMIT_S, cores=[max(os.sched_getaffinity(0))])
            yield
        finally:
            for worker in workers:
                worker.close()
                shutil.rmtree(worker.log.parent, ignore_errors=True)

    def _freeze(self) -> None:
        worker = self.start("baseline")
        with self.ready(worker):
            for work in plans.WORKS:
                worker.ask("freeze", LIMIT_S, cell=work, path=str(self.folder / f"{work}.pt"))

    def _spare(self) -> None:
        """Starts the next pair's workers on the other cores, as a run's `Spares` do."""
        free = set(usable_cores()) - {max(usable_cores())}
        if free and hasattr(os, "sched_setaffinity"):
            self.spares = self._both()
            for worker in self.spares:
                tie_to_cores(worker.process.pid, free)

    def _both(self, tail: int = 0) -> list[Worker]:
        """A new worker of each side, the baseline's first in the list; which starts first is drawn by lot."""
        extra = {"candidate": {"BENCH_TAIL": str(tail)}} if tail else {}
        sides = ("baseline", "candidate")
        started: dict[str, Worker] = {}
        try:
            for side in self.random.sample(sides, 2):
                started[side] = self.start(side, extra.get(side))
        except BaseException:
            for worker in started.values():
                worker.kill()
            raise
        return [started[side] for side in sides]

    def _end_spares(self) -> None:
        for worker in self.spares:
            worker.kill()
        self.spares = []

    def pair(self, plants: Sequence[float], tail: int = 0, more: bool = False) -> PairOf:
        """One pair of fresh workers. `tail` makes one call in that many of b three times as long. `more`: another pair
        without a tail follows at once, and its workers may start now."""
        begin = time.monotonic()
        ratios: dict[str, dict[str, dict[float, float]]] = {}
        timed = 0.0
        if tail:
            self._end_spares()
            a, b = self._both(tail)
        else:
            a, b = self.spares or self._both()
            self.spares = []
            for worker in (a, b):
                tie_to_cores(worker.process.pid, set(usable_cores()))
        with self.ready(a, b):
            if more:
                self._spare()
            for work in plans.WORKS:
                held, spent = self.rounds_of(a, b, work, sorted(plants))
                ratios[work] = {metric: self._figures(metric, held) for metric in METRICS}
                timed += spent
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        return PairOf(ratios, time.monotonic() - begin, timed, load)

    @staticmethod
    def _figures(metric: str, held: dict[float, list[list[dict[str, Any]]]]) -> dict[float, float]:
        found = {planted: pair_ratio(metric, builds) for planted, builds in held.items()}
        return {planted: value for planted, value in found.items() if value is not None}

    def rounds_of(
        self, a: Worker, b: Worker, work: str, plants: list[float]
    ) -> tuple[dict[float, list[list[dict[str, Any]]]], float]:
        frozen = str(self.folder / f"{work}.pt")
        for worker in self.random.sample((a, b), 2):
            worker.ask("open", LIMIT_S, name="x", cell=work, frozen=frozen)
        held: dict[float, list[list[dict[str, Any]]]] = {ratio: [] for ratio in (0.0, *plants)}
        timed = 0.0
        for build in range(self.builds):
            padding = self.random.randrange(PADDING_BYTES)
            warm = []
            for worker in self.random.sample((a, b), 2):
                worker.ask("relayout", LIMIT_S, name="x", padding=padding)
            for worker in self.random.sample((a, b), 2):
                warm.append(worker.ask("warm", LIMIT_S, name="x", again=build > 0)["call_ns"])
            if work not in self.shapes:
                self.shapes[work] = block_shape(min(warm), self.block_ms)
            calls, samples = self.shapes[work]
            rounds: dict[float, list[dict[str, Any]]] = {ratio: [] for ratio in held}
            for _ in range(self.rounds):
                turns: list[list[float]] = [[], [0.0, *plants]] if plants else [[]]
                self.random.shuffle(turns)
                for wanted in turns:  # a and b alike, as where versions are compared; only b's calls are charged
                    taken: dict[str, list[list[float]]] = {}
                    for name in self.random.choice(("ab", "ba")):
                        worker = a if name == "a" else b
                        asked = {"calls": calls, "samples": samples, "plants": wanted}
                        taken[name] = worker.ask("block", LIMIT_S, name="x", **asked)["ns"]
                        timed += sum(taken[name][-1]) * calls * 1e-9
                    if not wanted:
                        rounds[0.0].append({"a_ns": taken["a"][0], "b_ns": taken["b"][0]})
                    for ratio, times in zip(wanted[1:], taken["b"][1:], strict=True):
                        rounds[ratio].append({"a_ns": taken["a"][0], "b_ns": times})
            for ratio, part in rounds.items():
                held[ratio].append(part)
        for worker in (a, b):
            worker.ask("close", LIMIT_S, name="x")
        return held, timed
