"""A harness run whose workers are mocks: they answer at once, with times that no two blocks share, or fail when told.

For what happens between the driver and its workers; nothing here was measured.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchspec import ledger as tool_ledger
from torchspec.emit.data import backend_plan
from torchspec.harness import sides
from torchspec.harness.chain import Ledger
from torchspec.harness.embedded import Embedded
from torchspec.harness.needs import Needs
from torchspec.harness.pairs import Pairs
from torchspec.harness.past import Past
from torchspec.harness.progress import Estimate, Progress
from torchspec.harness.run import Run
from torchspec.harness.supervise import WorkerFailed
from torchspec.model.plan import Budget, Plan

BUDGET = Budget(cell_s=40.0, run_s=900.0, min_pairs=3, max_pairs=3, builds=3, rounds=4, block_ms=2.0, timeout_s=15.0)
WORK = [("one", "attention", "infer", {"seq": 16}), ("two", "attention", "infer", {"seq": 32})]
NOBODY = 2**22 + 1  # the number of no process: above the most that Linux gives
Fault = Callable[["MockWorker", str, dict[str, Any]], None]


class MockWorker:
    """Answers what a worker would, at once; `fault` may raise instead."""

    def __init__(self, bench: Bench, side: str) -> None:
        self.bench, self.side, self.ended, self.cell = bench, side, False, ""
        self.asked: Counter[str] = Counter()
        self.plants: Counter[tuple[float, ...]] = Counter()  # what blocks were asked for, how often
        self.log = bench.folder / "none.log"
        self.process = SimpleNamespace(pid=NOBODY)
        self.cache = bench.folder

    def pids(self) -> list[int]:
        return [os.getpid()]

    def send(self, do: str, **given: Any) -> None: ...

    def receive(self, timeout_s: float) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.ended = True

    kill = close

    def ask(self, do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
        self.cell = given.get("cell", self.cell)
        self.asked[do] += 1
        self.bench.fault(self, do, given)
        if do in self.bench.answers:
            return dict(self.bench.answers[do])
        if do == "open":
            shown = {"inputs": "i", "weights": "w", "items": 1, "items_unit": "calls", "compiles": False}
            return {**shown, "bus_bytes": 0}
        if do == "warm":
            return {"call_ns": 1e6}
        if do == "memory":
            return {"peaks": {m: [1e8 + given.get("planted", 0), "mock meter"] for m in given["wanted"]}, "notes": {}}
        if do == "block":
            self.bench.clock += 1.0
            self.plants[tuple(given["plants"])] += 1
            took = 1e6 + len(self.bench.blocks)  # no two blocks alike, so that a doubled one shows
            self.bench.blocks.append((self.cell, self.side, took))
            return {"ns": [[took * (1 + plant)] for plant in given["plants"] or [0.0]], "preempted": 0}
        return {}

    def fail(self, how: str, doing: str, error: str = "gone") -> None:
        self.ended = True
        failure = WorkerFailed(how, doing, error, None, "SIGKILL" if how == "killed" else None)
        failure.worker = self  # type: ignore[assignment]
        raise failure


class Bench:
    """A run whose workers are mocks."""

    def __init__(self, plan: Plan, folder: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.fault, self.clock = folder, fault, 0.0
        self.blocks: list[tuple[str, str, float]] = []
        self.answers: dict[str, dict[str, Any]] = {}  # what a test has a request answered with
        self.started: list[tuple[str, MockWorker]] = []  # what for, and who
        held = json.loads(json.dumps(backend_plan(plan, plan.backends[0])))
        self.embedded = Embedded(held, {}, "d" * 64, folder / "h.py")
        self.path = folder / "ledger.jsonl"
        monkeypatch.setattr(sides, "idlest_cores", lambda count: [0])
        self.ledger = Ledger(self.path, "r-1")
        past = Past([], "d" * 64, "h" * 64, "candidate", {})
        python = {"baseline": "python", "candidate": "python"}
        self.run = Run(self.embedded, self.ledger, past, folder, folder / "h.py", "candidate", python, Progress("json"))
        monkeypatch.setattr(self.run, "start", self.start)
        monkeypatch.setattr(self.run, "spent_s", lambda: self.clock)
        monkeypatch.setattr(self.run, "timing_cache", lambda side: folder)
        self.run.write("run.start", {})
        for cell in self.embedded.cells:
            self.run.write("frozen.made", {"cell": cell, "inputs": "i", "weights": "w"})

    def start(self, side: str, purpose: str, **more: Any) -> MockWorker:
        worker = MockWorker(self, side)
        self.started.append((purpose, worker))
        return worker

    def go(self) -> dict[str, str | None]:
        comparisons = [c for cell in self.embedded.cells for c in Needs(self.embedded, cell, "candidate").comparisons]
        timing = Pairs(self.run, comparisons, Estimate(self.run.progress, 1.0))
        found = timing.all()
        self.ledger.close()
        return found

    def timings(self) -> list[dict[str, Any]]:
        return [dict(r.body) for r in tool_ledger.read(self.path) if r.kind == "timing"]

    def kept(self, cell: str, stage: str = "measure") -> list[float]:
        """Every time of both sides that the ledger holds of a cell."""
        mine = [b for b in self.timings() if b["cell"] == cell and b["stage"] == stage]
        return [t for body in mine for one in body["rounds"] for side in ("a_ns", "b_ns") for t in one[side]]


def never(worker: MockWorker, do: str, given: dict[str, Any]) -> None: ...
