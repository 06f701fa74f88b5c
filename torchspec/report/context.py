"""What every part of the memo looks things up in: plan, verdict and evidence, indexed once, and the language.

Must not decide what a part says; it answers who, where and under which name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchspec.model.evidence import Record
from torchspec.model.memo import Words
from torchspec.model.plan import Cell, Gate, Plan, Side
from torchspec.model.registration import Lock, Registration
from torchspec.model.verdict import Judgement, Row, Verdict
from torchspec.report.language import Language, clip, join, link, soft
from torchspec.report.names import DECISION_RANK, SEVERITY

OF_RANKS = ("comm.", "scaling.", "recovery.", "collective.")  # metrics that only jobs of ranks have
LONGEST_AXIS = 40  # characters of one axis value
MOST_NOTES = 60  # notes of the ledger that the memo shows
MANY_JUDGEMENTS = 300  # beyond this, tables list what does not pass and the rest is in the data file


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the memo itself reads of the ledger, kept small: counts and times, timings by cell, environments."""

    records: int
    first: str | None
    last: str | None
    timings: Mapping[tuple[str, str], tuple[dict[str, Any], ...]]  # (candidate, cell) -> bodies of stage measure
    starts: Mapping[str, dict[str, Any]]  # run -> body of run.start
    samples: Mapping[tuple[str, str, str, str], tuple[float, ...]]  # (candidate, cell, metric, side) -> values
    unit: Mapping[tuple[str, str], str]  # (cell, metric) -> unit of its samples
    first_seq: Mapping[str, int]  # run -> its first record
    ranks: Mapping[tuple[str, str], tuple[dict[str, Any], ...]] = field(default_factory=dict)  # what jobs of ranks gave
    noise: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)  # run -> bodies of noise
    notes: tuple[Record, ...] = ()  # remarks and corrections, the first MOST_NOTES of them
    more_notes: int = 0
    taken_in: frozenset[str] = frozenset()  # runs that came from another ledger


@dataclass(slots=True)
class Context:
    """Everything a part needs. `several` is true where more than one candidate was measured."""

    plan: Plan
    verdict: Verdict
    lock: Lock
    registration: Registration
    environments: Mapping[str, Mapping[str, Any]]
    evidence: Evidence
    signer: str | None
    issued: str
    t: Language
    cells: dict[str, Cell] = field(default_factory=dict)
    gates: dict[str, Gate] = field(default_factory=dict)
    by_cell: dict[tuple[str, str], list[Judgement]] = field(default_factory=dict)
    by_row: dict[tuple[str, str, str], list[Judgement]] = field(default_factory=dict)
    rows: dict[tuple[str, str, str], Row] = field(default_factory=dict)
    varying: dict[str, tuple[str, ...]] = field(default_factory=dict)
    heard: tuple[str, ...] = ()
    first_cell: dict[str, Cell] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cells = {c.id: c for c in self.plan.cells}
        self.gates = {g.id: g for g in self.plan.gates}
        for j in self.verdict.judgements:
            cell = self.cells[j.cell]
            self.by_cell.setdefault((j.candidate, j.cell), []).append(j)
            self.by_row.setdefault((j.candidate, cell.workload, cell.backend), []).append(j)
        heard = {self.cells[j.cell].backend for j in self.verdict.judgements if j.outcome != "not_run" or j.evidence}
        self.heard = tuple(b.name for b in self.plan.backends if b.name in heard)
        self.rows = {(r.candidate, r.workload, r.backend): r for r in self.verdict.rows}
        by_workload: dict[str, list[Cell]] = {}
        for c in self.plan.cells:
            by_workload.setdefault(c.workload, []).append(c)
        for workload, own in by_workload.items():
            names = dict.fromkeys(name for c in own for name in c.axes)
            self.varying[workload] = tuple(n for n in names if len({str(c.axes.get(n)) for c in own}) > 1)
            self.first_cell[workload] = own[0]

    @property
    def several(self) -> bool:
        return len(self.plan.candidates) > 1

    @property
    def large(self) -> bool:
        return len(self.verdict.judgements) > MANY_JUDGEMENTS

    def side(self, side_id: str) -> Side:
        if side_id == self.plan.baseline.id:
            return self.plan.baseline
        return next(s for s in self.plan.candidates if s.id == side_id)

    def side_name(self, side: Side) -> str:
        """ "2.14.1", with the path where baseline and candidate share one torch."""
        version = (
            side.torch
            or str(self.environments.get(side.id, {}).get("torch", {}).get("version", ""))
            or (side.python or side.id)
        )
        same = sum(s.torch == side.torch for s in (self.plan.baseline, *self.plan.candidates)) > 1
        return f"{version} {side.path}" if same and side.path else version

    @property
    def begun(self) -> frozenset[str]:
        """Backends on which a run was started."""
        return frozenset(str(s.get("backend")) for s in self.evidence.starts.values())

    @property
    def baseline(self) -> str:
        return self.side_name(self.plan.baseline)

    def candidate_name(self, candidate: str) -> str:
        return self.side_name(self.side(candidate))

    def cell_words(self, cell: Cell) -> str:
        """A cell without what its table already says: "train", "infer · seq 512"."""
        axes = [_axis(n, cell.axes[n]) for n in self.varying[cell.workload] if n in cell.axes]
        return " · ".join([cell.mode, *axes])

    def fixed_axes(self, workload: str) -> str:
        """The axis values that all cells of a workload share: "float32 · seq 256"."""
        own = self.first_cell.get(workload)
        if own is None:
            return ""
        return " · ".join(_axis(n, v) for n, v in own.axes.items() if n not in self.varying[workload])

    def worst(self, judgements: Iterable[Judgement]) -> Judgement | None:
        """The judgement that a place names: fail, error, inconclusive, not run, pass; then the heaviest decision, then
        the one that uses most of its limit."""
        return min(
            judgements,
            key=lambda j: (SEVERITY.index(j.outcome), -DECISION_RANK.get(j.contribution or "adopt", 0), -self.used(j)),
            default=None,
        )

    def used(self, judgement: Judgement) -> float:
        """The estimate in shares of its limit: above 1 is beyond it. 0 where that cannot be said."""
        limit = self.gates[judgement.gate].limit
        if judgement.estimate is None or limit.value is None or limit.op is None:
            return 0.0
        if limit.op == ">=":
            return limit.value / judgement.estimate if judgement.estimate > 0 else 1e9
        return judgement.estimate / limit.value if limit.value > 0 else judgement.estimate

    def backends_with_evidence(self) -> tuple[str, ...]:
        """Backends, in the plan's order, on which at least one gate was judged from evidence."""
        return self.heard


def _axis(name: str, value: object) -> str:
    shown = clip(str(value), LONGEST_AXIS)
    return shown if name in {"dtype", "mask"} else f"{clip(name, LONGEST_AXIS)} {shown}"


def evidence_ids(seqs: Iterable[int]) -> str:
    """Ledger records as the memo cites them: "E-0142", "E-0131–0133, E-0140"."""
    ordered = sorted(set(seqs))
    runs: list[tuple[int, int]] = []
    for seq in ordered:
        if runs and seq == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], seq)
        else:
            runs.append((seq, seq))
    shown = [f"E-{a:04d}" if a == b else f"E-{a:04d}–{b:04d}" for a, b in runs[:3]]
    return ", ".join(shown) + (" …" if len(runs) > 3 else "")


def evidence_words(seqs: Iterable[int]) -> Words:
    ids = evidence_ids(seqs)
    return link(ids, "#evidence") if ids else ()


def read_evidence(records: Iterable[Record]) -> Evidence:
    """One pass over the ledger's records; keeps what the memo shows and nothing else."""
    number, first, last = 0, None, None
    timings: dict[tuple[str, str], list[dict[str, Any]]] = {}
    starts: dict[str, dict[str, Any]] = {}
    samples: dict[tuple[str, str, str, str], list[float]] = {}
    units: dict[tuple[str, str], str] = {}
    first_seq: dict[str, int] = {}
    ranks: dict[tuple[str, str], list[dict[str, Any]]] = {}
    noise: dict[str, list[dict[str, Any]]] = {}
    notes: list[Record] = []
    more = 0
    taken_in: set[str] = set()
    for record in records:
        number += 1
        first_seq.setdefault(record.run, record.seq)
        first = first if first is not None and first <= record.time else record.time
        last = last if last is not None and last >= record.time else record.time
        body = record.body
        if record.kind in {"sample", "fact"} and str(body.get("metric")).startswith(OF_RANKS):
            ranks.setdefault((str(body.get("candidate")), str(body.get("cell"))), []).append(body)
        if record.kind == "timing" and body.get("stage") in {"measure", "confirm"}:
            timings.setdefault((str(body.get("candidate")), str(body.get("cell"))), []).append(body)
        elif record.kind == "run.start":
            starts[record.run] = body
            taken_in |= {record.run} if "origin" in body else set()
        elif record.kind == "noise":
            noise.setdefault(record.run, []).append(body)
        elif record.kind == "note":
            more += len(notes) >= MOST_NOTES
            notes += [record] if len(notes) < MOST_NOTES else []
        elif record.kind == "sample" and isinstance(body.get("value"), int | float) and body.get("against") is None:
            key = (str(body.get("candidate")), str(body.get("cell")), str(body.get("metric")), str(body.get("side")))
            samples.setdefault(key, []).append(float(body["value"]))
            units[str(body.get("cell")), str(body.get("metric"))] = str(body.get("unit") or "")
    return Evidence(
        number,
        first,
        last,
        {k: tuple(v) for k, v in timings.items()},
        starts,
        {k: tuple(v) for k, v in samples.items()},
        units,
        first_seq,
        {k: tuple(v) for k, v in ranks.items()},
        {k: tuple(v) for k, v in noise.items()},
        tuple(notes),
        more,
        frozenset(taken_in),
    )


def cite(t: Language, seqs: Iterable[int], other: str = "") -> Words:
    """The trace line below a reason: other facts, then the evidence."""
    return join([soft(other), evidence_words(seqs)]) if other else evidence_words(seqs)


def minute(time: str | None) -> str:
    """An ISO time to the minute, as the memo prints it: "2026-11-09 21:04"."""
    return "" if not time else time.replace("T", " ")[:16]


def day(time: str | None) -> str:
    return "" if not time else time[:10]
