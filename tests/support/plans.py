"""Small plans and outcomes for tests, built by hand from names: no spec, no evidence, nothing measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchspec.model.plan import (
    SCHEMA,
    Backend,
    Budget,
    Cell,
    Frozen,
    Gate,
    Lane,
    Limit,
    Plan,
    Rollback,
    Side,
    SpecFile,
    Together,
    Upgrade,
    Waiver,
    Workload,
)
from torchspec.model.verdict import Judged, Judgement, Outcome, Rehearsal, Switch

LATE = "2026-12-10T12:00:00.000000Z"


def make_gate(metric: str, decision: Any, cells: Iterable[str], *, implicit: bool = False) -> Gate:
    """A gate whose limit is `<= 1`; a report where there is no decision; `holds` for `runs` and exports."""
    if decision is None:
        limit = Limit("report", None, None, None, "report")
    elif metric.startswith(("runs", "export")):
        limit = Limit("holds", None, None, None, "holds")
    else:
        limit = Limit("absolute", "<=", 1.0, None, "<= 1")
    return Gate(
        id=f"g:{metric}:{decision}",
        gate_set="service",
        metric=metric,
        limit=limit,
        against=None,
        sees=None,
        repeats=None,
        decision=decision,
        because=None,
        cells=tuple(cells),
        text=f"{metric} {limit.text}",
        implicit=implicit,
    )


def make_plan(
    backends: Mapping[str, str],
    workloads: Mapping[str, Sequence[str]],
    gates: Mapping[str, str | None],
    *,
    lanes: Mapping[str, Sequence[str]] | None = None,
    together: Sequence[Sequence[str]] = (),
    waivers: Sequence[Waiver] = (),
    candidates: Sequence[str] = ("candidate",),
    rollback: bool = True,
    implicit: bool = False,
) -> Plan:
    """A plan with one cell for each workload on each of its backends; each gate judges every cell.

    `backends`: name -> required or optional. `workloads`: name -> its backends. `gates`: metric -> `else` (None for a
    report). `lanes`: name -> its workloads. `implicit` adds the gate `runs`.
    """
    lane_of = {w: lane for lane, members in (lanes or {}).items() for w in members}
    cells = tuple(Cell(f"{w}@{b}", w, b, "infer", {}, f"{w} {b} infer") for w, on in workloads.items() for b in on)
    ids = [c.id for c in cells]
    made = [make_gate(metric, decision, ids) for metric, decision in gates.items()]
    if implicit:
        made.append(make_gate("runs", "defer", ids, implicit=True))
    return Plan(
        schema=SCHEMA,
        name="small",
        compiler="0",
        spec=(SpecFile("small.tspec", "0" * 64),),
        upgrade=Upgrade("small", "team", "may it?", None, None),
        params=(),
        frozen=Frozen("3.12", (), {}, {}, 0),
        baseline=Side("baseline", "baseline", "2.13.0", None, None),
        candidates=tuple(Side(c, "candidate", "2.14.1", None, None) for c in candidates),
        backends=tuple(Backend(name, what, None) for name, what in backends.items()),  # type: ignore[arg-type]
        sources=(),
        claims=(),
        workloads=tuple(Workload(w, "attention", None, None, None, lane_of.get(w), {}) for w in workloads),
        lanes=tuple(Lane(name, "kernels", ("H100",), {"FUSED": "0"}) for name in lanes or {}),
        cells=cells,
        gates=tuple(made),
        waivers=tuple(waivers),
        together=tuple(Together(tuple(names), "one image") for names in together),
        exclusions=(),
        rollback=Rollback("baseline", 60.0, ("checkpoint",)) if rollback else None,
        budget=Budget(),
        files=(),
        meta={},
    )


def make_judged(
    plan: Plan,
    outcomes: Mapping[tuple[str, str, str], Outcome] | None = None,
    *,
    rehearsal: Outcome | None = "pass",
    switches: Outcome | None = "pass",
    default: Outcome | None = "pass",
    at: str | None = LATE,
) -> Judged:
    """What a judge could have said. `outcomes`: (workload, backend, metric) -> outcome, for every candidate, else
    `default`; None leaves the judgement (or the rehearsal, or the switches) out altogether.
    """
    cells = {c.id: c for c in plan.cells}
    judgements = []
    for side in plan.candidates:
        for gate in plan.gates:
            for cell in (cells[c] for c in gate.cells):
                outcome = (outcomes or {}).get((cell.workload, cell.backend, gate.metric), default)
                if outcome is not None:
                    judgements.append(
                        Judgement(
                            gate=gate.id,
                            cell=cell.id,
                            candidate=side.id,
                            metric=gate.metric,
                            outcome=outcome,
                            contribution="adopt",  # decide must compute it anew
                            rule="as told",
                            reason=f"the test says {outcome}",
                            measured_at=at,
                        )
                    )
    lane_of = {w.name: w.lane for w in plan.workloads}
    places = dict.fromkeys((lane, c.backend) for c in plan.cells if (lane := lane_of[c.workload]))
    return Judged(
        judgements=tuple(judgements),
        rehearsals={
            side.id: Rehearsal(rehearsal, "adopt", 12.0, 60.0, f"the test says {rehearsal}")
            for side in plan.candidates
            if rehearsal is not None
        },
        claims={},
        controls=(),
        broken_controls=(),
        runs=(),
        ledger_head="0" * 64,
        switches=tuple(
            Switch(lane, backend, side.id, switches, f"the test says {switches}")
            for side in plan.candidates
            for lane, backend in places
            if switches is not None
        ),
    )
