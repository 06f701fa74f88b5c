"""Small plans and ledgers for the judge's tests, built by hand: nothing here was measured.

A case is one cell "c" of one workload with some gates; its records come from words such as "sample" and from `pairs`,
which writes the timing records of simulated pairs of workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from plans import make_plan

from torchspec.core.canon import digest
from torchspec.harness.planted_memory import PLANTABLE
from torchspec.harness.sides import planted_change
from torchspec.judge import judge
from torchspec.model.codec import to_json
from torchspec.model.evidence import GENESIS, Record
from torchspec.model.plan import Gate, Limit, Plan
from torchspec.model.verdict import Judged, Judgement

CELL = "c"
RUN = "r-1"


def gate(
    metric: str,
    form: str,
    op: str | None = None,
    value: float | None = None,
    *,
    against: str | None = None,
    decision: Any = "isolate",
    sees: float | None = None,
    repeats: int | None = None,
    unit: str | None = None,
    text: str = "",
    cells: Sequence[str] = (CELL,),
) -> Gate:
    """One gate line. Relative forms are against the baseline unless said."""
    relative = form in ("growth", "drop", "increase", "decrease", "speedup")
    shown = text or " ".join(str(part) for part in (form, op, value) if part is not None)
    return Gate(
        id=f"{metric} {shown} {against}",
        gate_set="service",
        metric=metric,
        limit=Limit(form, op, value, unit, shown),  # type: ignore[arg-type]
        against=against or ("baseline" if relative else None),
        sees=sees,
        repeats=repeats,
        decision=None if form == "report" else decision,
        because=None,
        cells=tuple(cells),
        text=f"{metric} {shown}",
    )


def plan_of(gates: Sequence[Gate], *, mode: str = "infer", workloads: Sequence[str] = ("work",), **budget: Any) -> Plan:
    """A plan whose workloads have one cell each on cpu: "c", then "c2", "c3", …"""
    plan = make_plan({"cpu": "required"}, {name: ["cpu"] for name in workloads}, {"runs": "defer"})
    ids = [CELL, *(f"c{n}" for n in range(2, len(workloads) + 1))]
    cells = tuple(
        replace(cell, id=name, mode=mode)  # type: ignore[arg-type]
        for name, cell in zip(ids, plan.cells, strict=True)
    )
    frozen = replace(plan.frozen, python=None)
    return replace(
        plan, cells=cells, gates=tuple(gates), budget=replace(plan.budget, **budget), frozen=frozen, rollback=None
    )


class Book:
    """A ledger in memory for one plan. Records get numbers, times and a stand-in for the chain's hashes."""

    def __init__(self, plan: Plan, *, started: bool = True) -> None:
        self.plan = plan
        self.records: list[Record] = []
        if started:
            self.start()

    def add(self, kind: str, body: dict[str, Any], run: str = RUN) -> int:
        seq = len(self.records)
        time = f"2026-12-01T00:{seq // 60 % 60:02d}:{seq % 60:02d}.000000Z"
        own = digest([seq, run, kind, {k: repr(v) for k, v in body.items()}])
        prev = self.records[-1].hash if self.records else GENESIS
        self.records.append(Record(seq, time, run, kind, body, prev, own))
        return seq

    def start(
        self, run: str = RUN, *, plan: str | None = None, harness: str = "h", cpu: str = "cpu-1", backend: str = "cpu",
        tool: str | None = None,
    ) -> None:  # fmt: skip
        body = {"plan": plan or digest(to_json(self.plan)), "harness": {"backend": backend, "sha256": harness}}
        host = {"os": "Linux", "cpu": cpu, "cores": 2}
        body |= {"argv": [], "backend": backend, "candidate": "candidate", "host": host, "tool": tool}
        self.add("run.start", body, run)

    def environment(self, side: str, run: str = RUN, **changes: Any) -> None:
        torch = {"version": "2.13.0" if side == "baseline" else "2.14.1"}
        body = {
            "side": side,
            "candidate": "candidate",
            "python": "3.12.3",
            "torch": torch,
            "packages": {"numpy": "2.4.0", "torch": torch["version"], "triton": torch["version"]},
            "torch_pins": ["triton"],
            "env": {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": side},
            "threads": {"torch": 1},
            "settings": {},
            "device": {"name": "cpu-1"},
            "digests": {"harness": "h"},
            "malloc": {},
        }
        self.add("side.environment", body | changes, run)

    def done(self, status: str = "measured", reason: str | None = None, cell: str = CELL, run: str = RUN) -> int:
        return self.add("cell.done", {"cell": cell, "candidate": "candidate", "status": status, "reason": reason}, run)

    def sample(
        self, side: str, metric: str, value: Any, unit: str = "bytes", repeat: int = 0, run: str = RUN, **more: Any
    ) -> int:
        body = {"cell": CELL, "candidate": "candidate", "side": side, "metric": metric, "value": value, "unit": unit}
        body |= {"repeat": repeat, "meter": "meter", "against": None, "process": "fresh", "detail": {}}
        return self.add("sample", body | more, run)

    def samples(
        self, metric: str, baseline: Iterable[Any], candidate: Iterable[Any], unit: str = "bytes", control: bool = True
    ) -> None:
        """One figure a process of each side, and for a memory metric a control that saw what was planted."""
        if control and metric in PLANTABLE:
            self.memory_seen(metric)
        for side, values in (("baseline", baseline), ("candidate", candidate)):
            for repeat, value in enumerate(values):
                self.sample(side, metric, value, unit, repeat)

    def memory_seen(self, metric: str, run: str = RUN) -> int:
        """The control of a memory metric, in which far more was planted than any limit allows, and was seen."""
        body = {"cell": CELL, "candidate": "candidate", "metric": metric, "what": "planted", "planted": None}
        body |= {"timing": [], "error": None, "bytes": 10**15, "value": 1e15, "meter": "meter"}
        return self.add("control", body, run)

    def fact(self, side: str, metric: str, holds: bool, error: str | None = None, **detail: Any) -> int:
        body = {"cell": CELL, "candidate": "candidate", "side": side, "metric": metric, "holds": holds}
        return self.add("fact", {**body, "error": error, "detail": detail, "against": None})

    def failed(self, side: str, attempt: int = 0, *, other: bool = True, how: str = "killed", **more: Any) -> int:
        body = {"cell": CELL, "candidate": "candidate", "side": side, "doing": "the first step", "how": how}
        body |= {"exit": None, "signal": "SIGKILL" if how == "killed" else None, "error": "out of memory", "log": None}
        return self.add("side.failed", {**body, "attempt": attempt, "other_side_ran": other, **more})

    def pair(
        self,
        number: int,
        builds: Sequence[Sequence[tuple[Sequence[Any], Sequence[Any]]]],
        *,
        stage: str = "measure",
        against: str = "baseline",
        planted: float | None = None,
        cell: str = CELL,
        run: str = RUN,
        items: int = 1,
        **more: Any,
    ) -> list[int]:
        """One pair of workers: builds of rounds of (a_ns, b_ns)."""
        sides = ("baseline", "baseline" if stage in ("same", "planted") else "candidate")
        if against != "baseline":
            sides = ("candidate", "candidate")
        seqs = []
        for build, rounds in enumerate(builds):
            body = {"cell": cell, "candidate": "candidate", "against": against, "pair": number, "build": build}
            body |= {"stage": stage, "planted": planted, "a": sides[0], "b": sides[1], "calls": 1, "items": items}
            body |= {"rounds": [{"order": "ab", "a_ns": list(a), "b_ns": list(b)} for a, b in rounds]}
            body |= {"items_unit": "calls", "padding": 0, "preempted": {"a": 0, "b": 0}, "clock": "perf_counter_ns"}
            seqs.append(self.add("timing", body | more, run))
        return seqs

    def pairs(
        self,
        logs: Sequence[float],
        *,
        base_ns: float = 1e6,
        stage: str = "measure",
        first: int = 0,
        samples: int = 16,
        seed: int = 1,
        noise: float = 0.01,
        **more: Any,
    ) -> list[int]:
        """Simulated pairs with the given true log ratios: lognormal noise within rounds, two builds of five rounds."""
        rng = np.random.default_rng(seed)
        seqs: list[int] = []
        for number, log in enumerate(logs):
            builds = [
                [
                    (
                        list(base_ns * np.exp(noise * rng.standard_normal(samples))),
                        list(base_ns * math.exp(log) * np.exp(noise * rng.standard_normal(samples))),
                    )
                    for _ in range(5)
                ]
                for _ in range(2)
            ]
            seqs += self.pair(first + number, builds, stage=stage, **more)
        return seqs

    def controls(self, metric: str = "latency.p50", *, seen: bool = True, same: float = 0.0) -> None:
        """The bench's two controls of one metric: what the harness plants for its gates, seen or not.

        `same` is the log ratio that the baseline shows against itself.
        """
        equal = [same + 0.001, same - 0.001, same + 0.002]
        found = self.pairs(equal, stage="same", seed=11)
        body = {"cell": CELL, "candidate": "candidate", "metric": metric, "error": None}
        self.add("control", {**body, "what": "same", "planted": None, "timing": found})
        for line in self.plan.gates:
            planted = planted_change(to_json(line)) if line.metric == metric else None
            if planted is not None:
                log = math.log1p(planted) if seen else 0.0
                logs = [log, log + 0.002, log - 0.002]
                found = self.pairs(logs, stage="planted", planted=planted, seed=12)
                self.add("control", {**body, "what": "planted", "planted": planted, "timing": found})

    def records_of(self, kind: str) -> list[Record]:
        return [r for r in self.records if r.kind == kind]

    def judged(self, **more: Any) -> Judged:
        return judge(self.plan, self.records, **more)

    def only(self, **more: Any) -> Judgement:
        """The one judgement of a plan with one gate."""
        (found,) = self.judged(**more).judgements
        return found


def book(*gates: Gate, mode: str = "infer", **budget: Any) -> Book:
    """A ledger with a started run for a plan of one cell and these gates."""
    return Book(plan_of(gates, mode=mode, **budget))
