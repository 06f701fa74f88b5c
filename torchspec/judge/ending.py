"""How a cell ended for a candidate, and the implicit gate `runs`. Must not judge figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torchspec.judge import controls, words
from torchspec.judge.finding import Finding, Question
from torchspec.judge.records import Evidence
from torchspec.model.evidence import Record


@dataclass(frozen=True, slots=True)
class Ending:
    """`state`: measured, failed (the candidate, on its own, repeatably), error or not_run; why; and its records.

    `runs` is the finding of the gate `runs`.
    """

    state: str
    reason: str
    runs: Finding
    broken: tuple[dict[str, Any], ...] = ()
    evidence: tuple[int, ...] = field(default=())


def of_cell(evidence: Evidence, cell: str, candidate: str, broken: Sequence[dict[str, Any]]) -> Ending:
    """Where the evidence of one cell stands, from its last ending, its failures and its broken controls."""
    kinds = evidence.by_place.get((cell, candidate), {})
    spoiled = tuple(one for one in broken if controls.breaks(one, cell, candidate, kinds))
    if spoiled:
        reason = f"broken control: {words.sentence(str(spoiled[0].get('reason')))}"
        seqs = tuple(one["seq"] for one in spoiled)
        return Ending("error", reason, Finding("error", "broken control", reason, evidence=seqs), spoiled, seqs)
    done = kinds.get("cell.done", [])
    failures = _failures(evidence, candidate, kinds)
    mine = [r for r in failures if r.body.get("side") == candidate]
    theirs = [r for r in failures if r.body.get("side") != candidate]
    seqs = tuple(sorted(r.seq for r in (*done[-1:], *failures)))
    if not done:
        reason = "measuring stopped before this cell was complete" if kinds else "no run measured this cell"
        return Ending("not_run", reason, Finding("not_run", "no ending", reason, evidence=seqs), evidence=seqs)
    status, why = str(done[-1].body.get("status")), done[-1].body.get("reason")
    if status == "measured":
        return Ending("measured", "", _ran(mine, theirs, seqs), evidence=seqs)
    if status == "failed":
        return _failed(mine, theirs, why, seqs)
    state = "not_run" if status == "not_run" else "error"
    reason = words.sentence(why)
    return Ending(state, reason, Finding(state, f"cell ended in {status}", reason, evidence=seqs), evidence=seqs)  # type: ignore[arg-type]


def _failures(evidence: Evidence, candidate: str, kinds: dict[str, list[Record]]) -> list[Record]:
    """Failures of the cell since it was last begun anew, and of the runs that ended it, before any cell."""
    done = kinds.get("cell.done", [])
    since = max((r.seq for r in done[:-1] if r.body.get("status") == "error"), default=-1)
    own = [r for r in kinds.get("side.failed", []) if r.seq > since]
    runs = {r.run for r in done[-1:] if r.body.get("status") != "measured"}
    whole = [r for r in evidence.whole(candidate, "side.failed") if r.run in runs]
    return sorted([*own, *whole], key=lambda r: r.seq)


def _told(record: Record) -> str:
    body = record.body
    how = {"raised": "raised an error", "exited": "exited", "killed": "was killed", "hung": "hung"}
    what = how.get(str(body.get("how")), "failed")
    signal = f" by {body['signal']}" if body.get("signal") else ""
    doing = f" while doing {body['doing']}" if body.get("doing") else ""
    error = f": {words.sentence(body['error'])}" if body.get("error") else ""
    return f"{what}{signal}{doing}{error}"


def _ran(mine: Sequence[Record], theirs: Sequence[Record], seqs: tuple[int, ...]) -> Finding:
    if mine and not theirs:
        again = "it ran when tried again, so once is not repeatably"
        doing = [r.body.get("doing") for r in mine]
        if doing.count(doing[-1]) > 1:  # one question of several, whose own gate says what it means
            again = "again when it was asked once more; it ran to the end in everything else"
        reason = f"the candidate {_told(mine[-1])}; {again}"
        return Finding("inconclusive", "failed once, then ran", reason, evidence=seqs)
    if mine:
        reason = "both sides failed once and ran when tried again: the machine, not the candidate, is in doubt"
        return Finding("inconclusive", "failed once, then ran", reason, evidence=seqs)
    reason = "both sides ran to the end"
    if theirs:
        reason += f", the baseline on a second try: it {_told(theirs[-1])}"
    return Finding("pass", "both sides ran", reason, evidence=seqs)


def _failed(mine: Sequence[Record], theirs: Sequence[Record], why: str | None, seqs: tuple[int, ...]) -> Ending:
    if theirs:
        reason = f"the baseline {_told(theirs[-1])}: nothing was learnt about the candidate"
        return Ending("error", reason, Finding("error", "baseline failed", reason, evidence=seqs), evidence=seqs)
    if len(mine) < 2 or not any(r.body.get("other_side_ran") for r in mine):
        reason = f"the ledger does not show that the candidate alone failed, and repeatably: {words.sentence(why)}"
        return Ending("error", reason, Finding("error", "failure not shown", reason, evidence=seqs), evidence=seqs)
    times = "twice" if len(mine) == 2 else f"{len(mine)} times"
    told = _told(mine[-1])
    reason = f"the candidate {told}; {times}, where the baseline ran"
    finding = Finding("fail", "candidate fails alone", reason, n={"attempts": len(mine)}, evidence=seqs)
    return Ending("failed", f"the candidate does not run here: it {told}", finding, evidence=seqs)


def instead(ending: Ending, question: Question, records: Sequence[Record]) -> Finding | None:
    """The finding of a gate whose figures cannot be asked for, or None where its cell was measured.

    `records` are the cell's `unsupported` records, which name what a version, backend or machine cannot give.
    """
    missing = _unsupported(question, records)
    if ending.state == "measured":
        return None
    if ending.state == "not_run" and missing is not None:
        return missing
    outcome = "error" if ending.state == "error" else "not_run"
    rule = {"failed": "candidate does not run", "error": "cell ended in error"}.get(ending.state, "cell not run")
    if ending.broken:
        rule = "broken control"
    return Finding(outcome, rule, ending.reason, evidence=ending.evidence)  # type: ignore[arg-type]


def missing(question: Question, records: Sequence[Record]) -> Finding:
    """The finding where a measured cell holds no figure for a gate: not_run, with the reason by name."""
    found = _unsupported(question, records)
    if found is not None:
        return found
    against = f" against {question.against}" if question.against not in (None, "baseline") else ""
    reason = f"no figure of {question.metric.name}{against} arrived from {question.label}"
    return Finding("not_run", "metric never arrived", reason)


#: Where it is missing -> how that is said. What work or backend do not have is no lack of a side.
_LACKS = {"backend": "there is none here", "machine": "this machine cannot give it to {side}"}


def _unsupported(question: Question, records: Sequence[Record]) -> Finding | None:
    name = question.metric.name
    mine = [r for r in records if r.body.get("metric") in (name, None)]
    against = question.against
    if against not in (None, "baseline"):
        named = [r for r in mine if str(r.body.get("error", "")).startswith(f"{against}: ")]
        mine = named or mine
    if not mine:
        return None
    body = mine[-1].body
    lacks = _LACKS.get(str(body.get("where")), "{side} does not support it").format(side=body.get("side"))
    reason = f"{lacks}: {words.sentence(body.get('error'))}"
    return Finding("not_run", "unsupported", reason, evidence=(mine[-1].seq,))
