"""Waivers held against the evidence: which are in effect, which are expired or void, and why.

A waiver is compared with the time of the evidence, never with the time of deciding. Must not decide rows or the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from torchspec.decide_words import VERB
from torchspec.model.plan import Cell, Gate, Plan, Waiver
from torchspec.model.verdict import Judgement, WaiverUse

Status = Literal["in effect", "expired", "void", "not needed"]


def evidence_date(time: str | None) -> str | None:
    """The UTC date (ISO) of an ISO time; None where there is none."""
    if time is None:
        return None
    moment = datetime.fromisoformat(time)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).date().isoformat()


class Waivers:
    """The plan's waivers, found by metric, workload and backend."""

    def __init__(self, plan: Plan) -> None:
        self._waivers = plan.waivers
        self._by_place = {(w.metric, w.workload, w.backend): w for w in plan.waivers}

    def covering(self, gate: Gate, cell: Cell) -> Waiver | None:
        """The waiver that names this gate's metric in this cell's row, whether or not it can apply."""
        if not self._by_place:
            return None
        return self._by_place.get((gate.metric, cell.workload, cell.backend))

    def applies(self, gate: Gate, cell: Cell, judgement: Judgement, last_evidence_at: str | None) -> str | None:
        """Why the fail is waived (a short text for the memo), or None where it is not."""
        waiver = self.covering(gate, cell)
        if waiver is None or judgement.outcome != "fail" or gate.decision != "defer":
            return None
        taken = evidence_date(judgement.measured_at or last_evidence_at)
        if taken is None or taken > waiver.until:
            return None
        return f"waived by {waiver.by} until {waiver.until}: {waiver.because}"

    def expired(self, gate: Gate, cell: Cell, judgement: Judgement, last_evidence_at: str | None) -> str | None:
        """That the waiver of a fail was over when its evidence was taken, in words; None where it was not."""
        waiver = self.covering(gate, cell)
        if waiver is None or judgement.outcome != "fail":
            return None
        taken = evidence_date(judgement.measured_at or last_evidence_at)
        if taken is None or taken <= waiver.until:
            return None
        return _expired(waiver, taken)

    def uses(
        self,
        candidate: str,
        judged: Iterable[tuple[Gate, Cell, Judgement]],
        last_evidence_at: str | None,
    ) -> tuple[WaiverUse, ...]:
        """What became of each waiver for `candidate`, in the plan's order."""
        found: dict[tuple[str, str, str], list[tuple[Gate, Judgement]]] = {}
        for gate, cell, judgement in judged:
            waiver = self.covering(gate, cell)
            if waiver is not None:
                found.setdefault((waiver.metric, waiver.workload, waiver.backend), []).append((gate, judgement))
        return tuple(
            _use(w, candidate, found.get((w.metric, w.workload, w.backend), []), last_evidence_at)
            for w in self._waivers
        )


def _use(
    waiver: Waiver, candidate: str, judged: list[tuple[Gate, Judgement]], last_evidence_at: str | None
) -> WaiverUse:
    def use(status: Status, reason: str) -> WaiverUse:
        return WaiverUse(
            metric=waiver.metric,
            workload=waiver.workload,
            backend=waiver.backend,
            candidate=candidate,
            status=status,
            reason=reason,
            until=waiver.until,
            by=waiver.by,
            because=waiver.because,
        )

    where = f"{waiver.metric} of {waiver.workload} on {waiver.backend}"
    dates = [d for _, j in judged if (d := evidence_date(j.measured_at or last_evidence_at)) is not None]
    waived = sum(1 for _, j in judged if j.waived is not None)
    late = [d for d in dates if d > waiver.until]
    if waived:
        return use("in effect", f"{where} fails in {waived} of {len(judged)} and is waived until {waiver.until}")
    if late:
        return use("expired", _expired(waiver, min(late)))
    failed = [g for g, j in judged if j.outcome == "fail"]
    if failed and not dates:
        return use(
            "void", f"the time of the evidence for {where} is not known, so the waiver cannot be held against it"
        )
    if failed:
        return use("void", f"{where} fails and its else is {failed[0].decision}: only defer can be waived")
    missing = sorted({VERB[j.outcome] for _, j in judged if j.outcome != "pass"})
    if missing or not judged:
        said = " and ".join(missing) or "is judged by no gate"
        return use("void", f"{where} {said}: only a fail can be waived, never missing evidence")
    return use("not needed", f"{where} passes without it")


def _expired(waiver: Waiver, taken: str) -> str:
    return f"the waiver by {waiver.by} ended on {waiver.until} and the evidence is of {taken}, so it is void"
