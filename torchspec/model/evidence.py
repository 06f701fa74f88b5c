"""Evidence: the records of the ledger, one JSON line each.

A record is `{"v": 1, "seq": n, "time": UTC ISO 8601 with microseconds, "run": "r-…", "kind": …, "body": {…},
"prev": hash of the line before ("0" * 64 for the first), "hash": SHA-256 of the canonical JSON of the record without
"hash"}`. Evidence only grows: a correction is a new record. `docs/evidence.md` describes each kind's body; the harness
writes the same records with the standard library alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VERSION = 1
GENESIS = "0" * 64

#: kind -> what it records. The bodies are in docs/evidence.md and schemas/evidence.schema.json.
KINDS = {
    "run.start": "a run begins: plan, lock and harness digests, command line, git, host",
    "run.end": "a run ended: completed, interrupted or failed, and why",
    "side.environment": "what one side is: versions, packages, variables, threads, device, digests of the work",
    "frozen.made": "inputs and initial weights were made once, with their digests",
    "frozen.seen": "a side loaded the frozen inputs and weights and recomputed their digests",
    "control.broken": "a difference that was not declared, or a digest that does not match",
    "control": "a control of the bench: baseline against itself, or a planted regression",
    "timing": "paired blocks of one cell in one build of one pair of fresh workers",
    "sample": "one figure of one metric on one side",
    "fact": "something that holds or does not hold on one side",
    "unsupported": "a metric or mode that this version, backend or machine cannot give, with its error",
    "side.failed": "a side raised, exited, was killed or hung, with its last words",
    "cell.done": "all evidence of one cell for one candidate is in the ledger",
    "rehearsal.step": "one timed step of the rollback rehearsal",
    "noise": "load, steal, frequency and memory pressure around a measurement",
    "note": "a correction or a remark, by whom and why",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the ledger, already checked against the chain."""

    seq: int
    time: str
    run: str
    kind: str
    body: dict[str, Any]
    prev: str
    hash: str
