"""Verdicts: what the judge and `decide` say, with everything a reader needs to check it.

Unrounded values; rounding is the memo's. Units as in the plan (seconds, bytes, ratios, counts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torchspec.model.plan import Decision

Outcome = Literal["pass", "fail", "inconclusive", "not_run", "error"]

SCHEMA = "torchspec.verdict/1"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One gate on one cell for one candidate.

    `estimate`, `low`, `high` are in the limit's own terms: a relative change as a ratio (0.03 = +3 %), an absolute
    value in base units; None where there is none. `baseline` and `candidate` are the absolute values behind it, in
    `unit`. `rule` names the rule that fired in a few fixed words ("upper bound below limit", "exact count", …);
    `reason` is one sentence for people. `visible` is the smallest change that could have been seen. `evidence` lists
    ledger record numbers. `waived` is set where a waiver turned the fail into isolate.
    """

    gate: str
    cell: str
    candidate: str
    metric: str
    outcome: Outcome
    contribution: Decision | None  # None only for `report`, which has no vote
    rule: str
    reason: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    baseline: float | None = None
    candidate_value: float | None = None
    unit: str | None = None
    n: dict[str, int] | None = None  # pairs, builds, rounds, iterations, repeats
    visible: float | None = None
    improvement: bool = False  # a real change for the better, as carefully judged as a regression
    waived: str | None = None
    detail: dict[str, Any] | None = None
    evidence: tuple[int, ...] = ()
    measured_at: str | None = None  # ISO, UTC: time of its last evidence record; waivers are held against it


@dataclass(frozen=True, slots=True)
class Row:
    """Workload x backend x candidate: the maximum over its gates and cells, and its vote."""

    workload: str
    backend: str
    candidate: str
    requirement: Literal["required", "optional", "lane"]
    outcome: Outcome  # the worst: fail, error, inconclusive, not_run, pass
    decision: Decision
    vote: Decision | None
    rule: str
    reason: str
    counts: dict[str, int]  # outcome -> gates x cells


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The rollback rehearsal: one fact of the fleet, shown once."""

    outcome: Outcome
    contribution: Decision
    seconds: float | None
    within_s: float | None
    reason: str
    steps: tuple[dict[str, Any], ...] = ()
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """A claim's local verdict; never a gate."""

    claim: str
    statement: int
    verdict: Literal["reproduced", "not reproduced", "not comparable here"]
    reason: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Switch:
    """A lane's off switch on one backend for one candidate: thrown, and did the work still run?"""

    lane: str
    backend: str
    candidate: str
    outcome: Outcome
    reason: str
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WaiverUse:
    """What became of one `waive` line for one candidate.

    `expired`: its date was over when the evidence was taken. `void`: it cannot apply (missing evidence, or an `else`
    that is not defer). Both leave the contribution as it was.
    """

    metric: str
    workload: str
    backend: str
    candidate: str
    status: Literal["in effect", "expired", "void", "not needed"]
    reason: str
    until: str
    by: str
    because: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What `judge` found, before anything is decided.

    `judgements` hold the outcome; their `contribution` is the plain mapping of outcome and `else`, which `decide`
    recomputes with waivers. `rehearsals` and `claims` are by candidate. `last_evidence_at` (ISO, UTC) stands in for the
    judgements that have no `measured_at` of their own.
    """

    judgements: tuple[Judgement, ...]
    rehearsals: dict[str, Rehearsal]
    claims: dict[str, tuple[ClaimVerdict, ...]]
    controls: tuple[dict[str, Any], ...]
    broken_controls: tuple[dict[str, Any], ...]
    runs: tuple[dict[str, Any], ...]
    ledger_head: str
    switches: tuple[Switch, ...] = ()
    last_evidence_at: str | None = None
    chance: dict[str, float] | None = None  # how many verdicts were weighed, and at most how many are wrong by chance


@dataclass(frozen=True, slots=True)
class Fleet:
    """The decision for one candidate over everything, with the rule that fired and the rows that made it so.

    `decisive` is empty where no row decides alone: everything adopts, or the rehearsal or the lack of a row decides.
    """

    candidate: str
    decision: Decision
    rule: str
    reason: str
    decisive: tuple[tuple[str, str], ...]  # (workload, backend)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything that was judged and decided, from one ledger and one plan."""

    schema: str
    plan_digest: str
    ledger_head: str  # hash of the last record that was read
    judgements: tuple[Judgement, ...]
    rows: tuple[Row, ...]
    fleet: tuple[Fleet, ...]
    rehearsals: dict[str, Rehearsal]  # by candidate
    claims: dict[str, tuple[ClaimVerdict, ...]]  # by candidate
    controls: tuple[dict[str, Any], ...]
    broken_controls: tuple[dict[str, Any], ...]
    runs: tuple[dict[str, Any], ...]  # every run the ledger knows, with status
    switches: tuple[Switch, ...] = ()
    waivers: tuple[WaiverUse, ...] = ()
    chance: dict[str, float] | None = None  # weighed, false_passes, false_failures: as in Judged
