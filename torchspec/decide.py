"""Outcomes to decisions: cell, workload by backend, fleet; one fleet decision a candidate.

The algebra is in `decide_algebra`; here it meets the plan's names, and every decision gets the rule that fired and a
reason of one sentence. Must not judge: outcomes are taken as they are, and what was never judged is `not_run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from torchspec import decide_algebra as algebra
from torchspec.decide_waivers import Waivers
from torchspec.decide_words import fleet_reason, row_reason
from torchspec.model.plan import Cell, Decision, Gate, Plan, Requirement
from torchspec.model.verdict import (
    SCHEMA,
    Fleet,
    Judged,
    Judgement,
    Rehearsal,
    Row,
    Switch,
    Verdict,
    WaiverUse,
)

NO_EVIDENCE = "no evidence"

#: Which of several rows that decide alike is named first: the one that says most.
_TELLING = (
    algebra.FAILED,
    algebra.WAIVED,
    algebra.ERROR,
    algebra.INCONCLUSIVE,
    algebra.NOT_RUN,
    algebra.NO_CELL,
    algebra.LANE,
    algebra.TOGETHER,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    gate: Gate
    cell: Cell
    judgement: Judgement
    expired: str | None  # that a waiver which names it is over, in words


def decide(plan: Plan, judged: Judged, plan_digest: str) -> Verdict:
    """The verdict over everything that was judged.

    `plan_digest` is the digest of the plan's canonical JSON (64 hex digits). What the plan asks for and `judged` lacks
    (a judgement, a rehearsal, a lane's off switch) counts as not_run. Raises ValueError where `judged` holds a
    judgement the plan does not ask for, or one twice: the two do not belong together.
    """
    given = _by_place(plan, judged.judgements)
    waivers = Waivers(plan)
    judgements: list[Judgement] = []
    rows: list[Row] = []
    fleets: list[Fleet] = []
    uses: list[WaiverUse] = []
    switches: list[Switch] = []
    rehearsals: dict[str, Rehearsal] = {}
    for candidate in (side.id for side in plan.candidates):
        entries = _entries(plan, given, candidate, waivers, judged.last_evidence_at)
        judgements += [e.judgement for e in entries]
        uses += waivers.uses(candidate, ((e.gate, e.cell, e.judgement) for e in entries), judged.last_evidence_at)
        own_switches = _switches(plan, judged.switches, candidate)
        own_rows = _rows(plan, entries, candidate, own_switches)
        rehearsals[candidate] = _rehearsal(plan, judged.rehearsals.get(candidate))
        switches += own_switches
        rows += own_rows
        fleets.append(_fleet(plan, candidate, own_rows, rehearsals[candidate], own_switches))
    return Verdict(
        schema=SCHEMA,
        plan_digest=plan_digest,
        ledger_head=judged.ledger_head,
        judgements=tuple(judgements),
        rows=tuple(rows),
        fleet=tuple(fleets),
        rehearsals=rehearsals,
        claims=judged.claims,
        controls=judged.controls,
        broken_controls=judged.broken_controls,
        runs=judged.runs,
        switches=tuple(switches),
        waivers=tuple(uses),
        chance=judged.chance,
    )


def _by_place(plan: Plan, judgements: Iterable[Judgement]) -> dict[tuple[str, str, str], Judgement]:
    asked = {(gate.id, cell) for gate in plan.gates for cell in gate.cells}
    candidates = {side.id for side in plan.candidates}
    found: dict[tuple[str, str, str], Judgement] = {}
    for judgement in judgements:
        place = (judgement.candidate, judgement.gate, judgement.cell)
        if place in found:
            raise ValueError(f"two judgements of gate {place[1]} on cell {place[2]} for {place[0]}")
        if (judgement.gate, judgement.cell) not in asked or judgement.candidate not in candidates:
            raise ValueError(f"the plan does not ask for gate {place[1]} on cell {place[2]} for {place[0]}")
        found[place] = judgement
    return found


def _entries(
    plan: Plan,
    given: dict[tuple[str, str, str], Judgement],
    candidate: str,
    waivers: Waivers,
    last_evidence_at: str | None,
) -> list[_Entry]:
    """Every gate on every cell it judges, with its contribution, in the plan's order."""
    cells = {cell.id: cell for cell in plan.cells}
    entries = []
    for gate in plan.gates:
        for cell in (cells[c] for c in gate.cells):
            judgement = given.get((candidate, gate.id, cell.id)) or _never_judged(gate, cell, candidate)
            waived = waivers.applies(gate, cell, judgement, last_evidence_at)
            contribution = (
                None
                if gate.decision is None
                else algebra.gate_contribution(judgement.outcome, gate.decision, waived is not None)
            )
            if (judgement.contribution, judgement.waived) != (contribution, waived):
                judgement = replace(judgement, contribution=contribution, waived=waived)
            entries.append(_Entry(gate, cell, judgement, waivers.expired(gate, cell, judgement, last_evidence_at)))
    return entries


def _never_judged(gate: Gate, cell: Cell, candidate: str) -> Judgement:
    return Judgement(
        gate=gate.id,
        cell=cell.id,
        candidate=candidate,
        metric=gate.metric,
        outcome="not_run",
        contribution=None,
        rule=NO_EVIDENCE,
        reason="the ledger holds no evidence of it",
    )


def _switches(plan: Plan, given: Iterable[Switch], candidate: str) -> list[Switch]:
    """One for each lane and backend that has cells; what was never thrown is not_run."""
    found = {(s.lane, s.backend): s for s in given if s.candidate == candidate}
    lane_of = {w.name: w.lane for w in plan.workloads}
    places = dict.fromkeys((lane, c.backend) for c in plan.cells if (lane := lane_of[c.workload]) is not None)
    return [
        found.get((lane, backend))
        or Switch(lane, backend, candidate, "not_run", "the off switch was not thrown in any run")
        for lane, backend in places
    ]


def _rehearsal(plan: Plan, given: Rehearsal | None) -> Rehearsal:
    if given is not None:
        return replace(given, contribution=algebra.rehearsal_contribution(given.outcome))
    within = plan.rollback.within_s if plan.rollback is not None else None
    reason = "the ledger holds no step of it" if plan.rollback is not None else "the spec has no `rollback` block"
    return Rehearsal("not_run", algebra.rehearsal_contribution("not_run"), None, within, reason)


def _rows(plan: Plan, entries: Sequence[_Entry], candidate: str, switches: Sequence[Switch]) -> list[Row]:
    by_row: dict[tuple[str, str], list[_Entry]] = {(c.workload, c.backend): [] for c in plan.cells}
    for entry in entries:
        if entry.gate.decision is not None:
            by_row[entry.cell.workload, entry.cell.backend].append(entry)
    requirement = {b.name: b.requirement for b in plan.backends}
    lane_of = {w.name: w.lane for w in plan.workloads}
    rows = [
        _row(workload, backend, candidate, "lane" if lane_of[workload] is not None else requirement[backend], own)
        for (workload, backend), own in by_row.items()
    ]
    passed = {(s.lane, s.backend): s.outcome == "pass" for s in switches}
    return [
        replace(
            row,
            vote=algebra.row_vote(
                row.requirement, row.decision, passed.get((lane_of[row.workload] or "", row.backend), False)
            ),
        )
        for row in _bound_together(plan, rows)
    ]


def _row(workload: str, backend: str, candidate: str, requirement: Requirement, entries: Sequence[_Entry]) -> Row:
    """One row before `together` and before its vote."""
    outcomes = [e.judgement.outcome for e in entries]
    counts: dict[str, int] = {o: outcomes.count(o) for o in algebra.OUTCOMES if o in outcomes}
    judged = any(not e.gate.implicit for e in entries)
    contributions: list[Decision] = [e.judgement.contribution or "adopt" for e in entries]
    if not judged:
        contributions.append("defer")
    decision = algebra.row_decision(contributions, requirement)
    decisive = sorted(
        (e for e in entries if e.judgement.contribution == decision and decision != "adopt"),
        key=lambda e: algebra.SEVERITY[e.judgement.outcome],
    )
    if decisive:
        first = decisive[0]
        rule = algebra.gate_rule(
            first.judgement.outcome, first.gate.decision or "defer", first.judgement.waived is not None
        )
    else:
        rule = algebra.NO_CELL if not judged else algebra.LANE if requirement == "lane" else algebra.ALL_PASS
    return Row(
        workload=workload,
        backend=backend,
        candidate=candidate,
        requirement=requirement,
        outcome=algebra.worst_outcome(outcomes),
        decision=decision,
        vote=None,
        rule=rule,
        reason=row_reason(
            rule,
            [(e.gate, e.cell, e.judgement) for e in decisive],
            gates=len({e.gate.id for e in entries}),
            cells=len({e.cell.id for e in entries}),
            waiver=decisive[0].expired if decisive else None,
        ),
        counts=counts,
    )


def _groups(plan: Plan) -> list[set[str]]:
    """The workloads that `together` lines bind, with lines that share a workload joined."""
    groups: list[set[str]] = []
    for line in plan.together:
        group = set(line.workloads)
        for other in [g for g in groups if g & group]:
            groups.remove(other)
            group |= other
        groups.append(group)
    return groups


def _bound_together(plan: Plan, rows: Sequence[Row]) -> list[Row]:
    """The rows, where those that share an image on a backend take the worst decision among them."""
    group_of = {name: index for index, group in enumerate(_groups(plan)) for name in group}
    heaviest: dict[tuple[int, str], Row] = {}
    for row in rows:
        if row.workload in group_of:
            place = (group_of[row.workload], row.backend)
            other = heaviest.setdefault(place, row)
            if algebra.RANK[row.decision] > algebra.RANK[other.decision]:
                heaviest[place] = row
    bound = []
    for row in rows:
        heavy = heaviest.get((group_of.get(row.workload, -1), row.backend), row)
        if heavy.decision != row.decision:
            reason = (
                f"{heavy.workload} says {heavy.decision} on {row.backend}, and `together` binds {row.workload} to it"
            )
            row = replace(row, decision=heavy.decision, rule=algebra.TOGETHER, reason=reason)
        bound.append(row)
    return bound


def _fleet(plan: Plan, candidate: str, rows: Sequence[Row], rehearsal: Rehearsal, switches: Sequence[Switch]) -> Fleet:
    decision = algebra.fleet_decision(((r.requirement, r.vote) for r in rows), rehearsal.outcome)
    voting = [r for r in rows if r.vote == decision]
    decisive: list[Row] = []
    if decision == "adopt":
        rule = algebra.ADOPT
    elif decisive := [r for r in voting if r.requirement == "required"]:
        rule = algebra.REQUIRED
    elif not any(r.requirement == "required" for r in rows):
        rule = algebra.NO_REQUIRED
    elif decisive := [r for r in voting if r.requirement == "lane"]:
        rule = algebra.SWITCH
    elif rehearsal.contribution == decision:
        rule = algebra.REHEARSAL
    else:
        decisive = [r for r in voting if r.requirement == "optional"]
        rule = algebra.OPTIONAL
    decisive.sort(key=lambda r: _TELLING.index(r.rule))
    lane_of = {w.name: w.lane for w in plan.workloads}
    stuck = [s for s in switches if s.outcome != "pass"]
    thrown = {
        (r.workload, r.backend): s
        for r in decisive
        for s in stuck
        if (lane_of[r.workload], r.backend) == (s.lane, s.backend)
    }
    return Fleet(
        candidate=candidate,
        decision=decision,
        rule=rule,
        reason=fleet_reason(rule, decision, decisive, rows, rehearsal, thrown),
        decisive=tuple((r.workload, r.backend) for r in decisive),
    )
