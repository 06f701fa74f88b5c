"""The in-toto Statement of a memo: the digests of its files, and what was decided, from which evidence, by whom.

`schemas/decision.schema.json` publishes the predicate. Must not sign and must not read files: digests are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchspec.core.canon import canonical
from torchspec.core.files import strict_json
from torchspec.model.codec import schema_errors, to_json
from torchspec.model.plan import Plan
from torchspec.model.registration import Lock, Registration
from torchspec.model.verdict import Verdict
from torchspec.provenance.keys import KeyInfo

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:torchspec:decision:1"
PREDICATE_SCHEMA = "torchspec.decision/1"


class StatementError(ValueError):
    """A payload that is not a Statement of ours; the message says why, in words."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed Statement: file name (relative, with slashes) to SHA-256 in hex, and the schema-checked predicate."""

    subjects: dict[str, str]
    predicate: dict[str, Any]


def decisions(verdict: Verdict) -> list[dict[str, Any]]:
    """What the verdict decides, candidate by candidate and row by row, as the predicate says it."""
    return [
        {
            "candidate": fleet.candidate,
            "decision": fleet.decision,
            "rule": fleet.rule,
            "reason": fleet.reason,
            "rows": [
                {
                    "workload": row.workload,
                    "backend": row.backend,
                    "requirement": row.requirement,
                    "outcome": row.outcome,
                    "decision": row.decision,
                    "vote": row.vote,
                    "rule": row.rule,
                }
                for row in verdict.rows
                if row.candidate == fleet.candidate
            ],
        }
        for fleet in verdict.fleet
    ]


def registration_json(registration: Registration) -> dict[str, Any]:
    """The registration as the predicate says it: everything but the diff, which has a file of its own."""
    value: dict[str, Any] = to_json(registration)
    del value["diff"]
    return value


def predicate(
    plan: Plan,
    verdict: Verdict,
    registration: Registration,
    lock: Lock,
    author: KeyInfo,
    *,
    made_at: str,
    tool: str,
    records: int,
    runs: tuple[str, ...],
) -> dict[str, Any]:
    """The predicate. `made_at` is ISO, UTC, in whole seconds with Z; `records` counts the ledger's lines."""
    return {
        "schema": PREDICATE_SCHEMA,
        "name": plan.name,
        "title": plan.upgrade.title,
        "made_at": made_at,
        "tool": tool,
        "plan": verdict.plan_digest,
        "ledger": {"head": verdict.ledger_head, "records": records},
        "decisions": decisions(verdict),
        "registration": registration_json(registration),
        "runs": list(runs),
        "git": {
            "commit": lock.git.commit,
            "branch": lock.git.branch,
            "spec_committed": lock.git.spec_committed,
            "remote": lock.git.remote,
        },
        "author": {
            "name": author.subject,
            "certificate_sha256": author.fingerprint,
            "self_signed": author.self_signed,
        },
    }


def payload(subjects: Mapping[str, str], made: Mapping[str, Any]) -> bytes:
    """The Statement's bytes. Raises ValueError where the predicate does not fit its schema (a bug of ours)."""
    errors = schema_errors("decision", dict(made))
    if errors:
        raise ValueError(f"predicate{errors[0][0][1:]}: {errors[0][1]}")
    return canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": n, "digest": {"sha256": subjects[n]}} for n in sorted(subjects)],
            "predicateType": PREDICATE_TYPE,
            "predicate": dict(made),
        }
    )


def parse(data: bytes) -> Statement:
    """Reads a payload. Raises StatementError."""
    try:
        value = strict_json(data)
    except ValueError as error:
        raise StatementError(f"the statement is not JSON: {error}") from None
    if not isinstance(value, dict) or set(value) != {"_type", "subject", "predicateType", "predicate"}:
        raise StatementError("it holds no in-toto Statement")
    if value["_type"] != STATEMENT_TYPE or value["predicateType"] != PREDICATE_TYPE:
        raise StatementError(f"it holds another kind of statement: {str(value['predicateType'])[:80]}")
    errors = schema_errors("decision", value["predicate"])
    if errors:
        raise StatementError(f"its decision does not fit the schema: {errors[0][0]}: {errors[0][1][:120]}")
    subjects: dict[str, str] = {}
    try:
        for subject in value["subject"]:
            name, found = subject["name"], subject["digest"]["sha256"]
            if not isinstance(name, str) or not isinstance(found, str) or name in subjects:
                raise StatementError("its list of files names one twice or wrongly")
            subjects[name] = found
    except (TypeError, KeyError):
        raise StatementError("its list of files is damaged") from None
    return Statement(subjects, value["predicate"])
