"""The loop: every gate on every cell for every candidate gets one judgement. Nothing is missing, nothing is twice.

Puts the question, asks the part that knows the kind of metric, holds the answer against the controls, and gives the
judgement its contribution. Must not do arithmetic on samples.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from torchspec import catalog as catalogs
from torchspec.catalog import Metric
from torchspec.core.canon import digest
from torchspec.judge import (
    canary,
    claims,
    controls,
    counts,
    ending,
    facts,
    multiplicity,
    numerics,
    rehearsal,
    samples,
    timing,
    words,
)
from torchspec.judge.ending import Ending
from torchspec.judge.finding import Finding, Question
from torchspec.judge.pairs import Timed
from torchspec.judge.records import Evidence, read
from torchspec.judge.stats import Calibration
from torchspec.model.codec import to_json
from torchspec.model.evidence import Record
from torchspec.model.plan import Cell, Decision, Gate, Plan
from torchspec.model.verdict import Judged, Judgement

#: Rules of outcomes that a failed control explains better; pass and fail it takes back whatever their rule.
_EXPLAINED = ("interval crosses limit", "not confirmed on fresh pairs")


def judge_all(
    plan: Plan,
    records: Iterable[Record],
    *,
    plan_digest: str | None = None,
    calibration: Mapping[tuple[str, str], Calibration] | None = None,
) -> Judged:
    """See `torchspec.judge.judge`."""
    evidence = read(records, plan_digest or digest(to_json(plan)), plan.served)
    return _Judge(plan, evidence, calibration or {}).all()


class _Judge:
    def __init__(self, plan: Plan, evidence: Evidence, calibration: Mapping[tuple[str, str], Calibration]) -> None:
        self.plan = plan
        self.evidence = evidence
        self.calibration = calibration
        self.catalog = catalogs.load()
        self.broken = controls.broken(plan, evidence)
        self.controls: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self.endings: dict[tuple[str, str], Ending] = {}
        self.timed: tuple[tuple[str, str], Timed] | None = None  # of the cell that is being judged
        self.served = plan.served

    def all(self) -> Judged:
        cells = {cell.id: cell for cell in self.plan.cells}
        gates_of: dict[str, list[Gate]] = {cell: [] for cell in cells}
        for gate in self.plan.gates:
            for cell_id in gate.cells:
                gates_of[cell_id].append(gate)
        found: dict[tuple[str, str, str], Finding] = {}
        for candidate in [side.id for side in self.plan.candidates]:
            for cell_id, gates in gates_of.items():
                for gate in gates:
                    found[candidate, gate.id, cell_id] = self._finding(gate, cells[cell_id], candidate)
        findings = [
            (gate, cells[cell_id], side.id, found[side.id, gate.id, cell_id])
            for side in self.plan.candidates
            for gate in self.plan.gates
            for cell_id in gate.cells
        ]
        adjusted = multiplicity.adjust([finding for *_, finding in findings])
        judgements = [
            self._judgement(gate, cell, candidate, finding)
            for (gate, cell, candidate, _), finding in zip(findings, adjusted, strict=True)
        ]
        candidates = [side.id for side in self.plan.candidates]
        return Judged(
            judgements=tuple(judgements),
            rehearsals={c: rehearsal.rehearse(self.plan, self.evidence, c) for c in candidates},
            claims={c: claims.verdicts(self.plan, self.evidence, self.catalog, c, self._measured) for c in candidates},
            controls=tuple(self.controls.values()),
            broken_controls=tuple(self.broken),
            runs=tuple(run.described() for run in self.evidence.runs),
            ledger_head=self.evidence.head,
            switches=tuple(s for c in candidates for s in rehearsal.switches(self.plan, self.evidence, c)),
            last_evidence_at=self.evidence.last_at,
            chance=multiplicity.expected([finding for *_, finding in findings]),
        )

    # One gate on one cell.

    def _finding(self, gate: Gate, cell: Cell, candidate: str) -> Finding:
        ended = self._ending(cell.id, candidate)
        if gate.metric == "runs":
            if cell.id in self.served and ended.runs.outcome == "pass":
                return replace(ended.runs, rule="figures taken in", reason="the service's figures were taken in")
            return ended.runs
        question = self._question(gate, cell, candidate)
        unsupported = self.evidence.of(cell.id, candidate, "unsupported")
        instead = ending.instead(ended, question, unsupported)
        if instead is not None:
            return instead
        found = self._measure(question)
        if found is None:
            return ending.missing(question, unsupported)
        return found if cell.id in self.served else self._controlled(question, found)

    def _ending(self, cell: str, candidate: str) -> Ending:
        place = (cell, candidate)
        if place not in self.endings:
            self.endings[place] = ending.of_cell(self.evidence, cell, candidate, self.broken)
        return self.endings[place]

    def _question(self, gate: Gate, cell: Cell, candidate: str) -> Question:
        budget = self.plan.budget
        return Question(
            self._metric(gate.metric),
            gate.limit,
            gate.against,
            cell.id,
            candidate,
            cell.label,
            budget.min_pairs,
            budget.max_pairs,
            gate.repeats,
            gate.sees,
        )

    def _metric(self, name: str) -> Metric:
        """The catalog's row; a metric of a plugin that is not installed here is judged by the kind of its records."""
        known = self.catalog.metrics.get(name)
        return known or Metric(name, "", "number", "lower", (), (), (), "defer", "", "process")

    def _measured(self, question: Question) -> Finding | None:
        """The finding of a claim's question: only where the cell was measured."""
        ended = self._ending(question.cell, question.candidate)
        if ended.state != "measured":
            return Finding("not_run", "cell not run", ended.reason)
        return self._measure(question)

    def _measure(self, question: Question) -> Finding | None:
        """Asks the part that knows this kind of metric."""
        cell, candidate = question.cell, question.candidate
        sampled = self.evidence.of(cell, candidate, "sample")
        if cell in self.served:
            return canary.find(question, sampled, self.evidence.earlier.get((cell, candidate), ()))
        sampling = question.metric.sampling
        if sampling == "fact" or question.limit.form in ("holds", "identical"):
            return facts.find(question, self.evidence.of(cell, candidate, "fact"))
        if sampling == "numeric":
            return numerics.find(question, sampled)
        if sampling == "count" and question.metric.dimension == "count":
            return counts.find(question, sampled)
        if sampling == "timing":
            before = None
            if question.against in (None, "baseline"):  # another path's spread is not the baseline's against itself
                before = self.calibration.get((cell, question.metric.name))
                before = before or self.evidence.calibrated(cell, candidate, question.metric.name)
            found = timing.find(question, self._timed(cell, candidate), before)
            if found is not None:
                return found
        return samples.find(question, sampled)

    def _timed(self, cell: str, candidate: str) -> Timed:
        """The timings of one cell, kept for as long as it is the one that is judged."""
        if self.timed is None or self.timed[0] != (cell, candidate):
            self.timed = (cell, candidate), Timed(self.evidence.of(cell, candidate, "timing"))
        return self.timed[1]

    def _controlled(self, question: Question, found: Finding) -> Finding:
        """`found`, or inconclusive where the bench's control of a timing or memory gate failed or was never taken."""
        timed = question.metric.sampling == "timing"
        planted = question.metric.name in controls.MEMORY
        if question.bound is None or not (timed or planted):
            return found
        recorded = self.evidence.of(question.cell, question.candidate, "control")
        if timed:
            taken = controls.of_gate(question, recorded, self._timed(question.cell, question.candidate))
        else:
            sampled = self.evidence.of(question.cell, question.candidate, "sample")
            taken = controls.of_memory(question, recorded, sampled)
            if not taken:
                return found
        for one in taken:
            key = (question.cell, question.candidate, question.metric.name, one.what + question.says)
            self.controls.setdefault(key, {**one.shown, "outcome": one.outcome, "reason": one.reason})
        seen_noise = _noise(self.evidence, found) if timed else {}
        detail = found.detail | seen_noise | {"controls": {one.what: one.outcome for one in taken}}
        found = replace(found, detail=detail)
        if found.outcome == "inconclusive" and found.rule in _EXPLAINED:
            found = replace(found, reason=found.reason + words.disturbed(detail.get("noise") or {}))
        bad = next((one for one in taken if one.outcome != "pass"), None)
        weighed = found.outcome in ("pass", "fail") or found.rule in _EXPLAINED
        if not weighed or bad is None:
            return found
        rule = "control failed" if bad.outcome == "fail" else "control not measured"
        seen = f" (measured: {found.reason})"
        return replace(found, outcome="inconclusive", rule=rule, reason=bad.reason + seen, improvement=False, p=None)

    def _judgement(self, gate: Gate, cell: Cell, candidate: str, finding: Finding) -> Judgement:
        times = [r.time for seq in finding.evidence if (r := self.evidence.by_seq.get(seq)) is not None]
        return Judgement(
            gate=gate.id,
            cell=cell.id,
            candidate=candidate,
            metric=gate.metric,
            outcome=finding.outcome,
            contribution=contribution(gate, finding),
            rule=finding.rule,
            reason=finding.reason,
            estimate=_finite(finding.estimate),
            low=_finite(finding.low),
            high=_finite(finding.high),
            confidence=finding.confidence,
            baseline=_finite(finding.baseline),
            candidate_value=_finite(finding.candidate_value),
            unit=finding.unit,
            n=finding.n,
            visible=_finite(finding.visible),
            improvement=finding.improvement,
            detail=finding.detail or None,
            evidence=finding.evidence,
            measured_at=max(times) if times else None,
        )


def _noise(evidence: Evidence, found: Finding) -> dict[str, Any]:
    """What the machine was doing in the pairs behind a finding: the highest of each, and whether it throttled. A pair's
    noise is told behind its times."""
    behind: dict[int, Record] = {}
    for record in (evidence.by_seq[seq] for seq in found.evidence if seq in evidence.by_seq):
        records = evidence.noise.get(record.run, [])
        place = bisect_left(records, record.seq, key=lambda one: one.seq)
        if place < len(records):
            behind[records[place].seq] = records[place]
    bodies = [record.body for record in behind.values()]
    loads = [body["load"][0] for body in bodies if body.get("load")]
    others = [body.get("others") or {} for body in bodies]
    steals = [s for s in (*(b.get("steal") for b in bodies), *(o.get("pinned_steal") for o in others)) if s is not None]
    throttled = [body["throttled"] for body in bodies if body.get("throttled") is not None]
    seen: dict[str, Any] = {"load": max(loads, default=None), "steal": max(steals, default=None)}
    seen["throttled"] = any(throttled) if throttled else None
    shares = [other.get("pinned_share") for other in others]
    pressures = [body.get("memory_pressure") for body in bodies]
    for name, values in (("others_on_core", shares), ("memory_pressure", pressures)):
        told = [float(v) for v in values if isinstance(v, int | float)]
        if told:
            seen[name] = max(told)
    return {"noise": seen | {"records": sorted(behind)}} if bodies else {}


def contribution(gate: Gate, finding: Finding) -> Decision | None:
    """What an outcome brings to the decision, before waivers; None for a report, which has no vote."""
    if gate.decision is None:
        return None
    if finding.outcome == "pass":
        return "adopt"
    return gate.decision if finding.outcome == "fail" else "defer"


def _finite(value: float | None) -> float | None:
    """Verdicts travel as JSON, which has no infinity: an end that is not finite is no end."""
    return value if value is not None and abs(value) < float("inf") else None
