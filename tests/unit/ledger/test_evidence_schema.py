"""The published schema of evidence and the types it is built from say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from torchspec.model.bodies import BODIES, evidence_schema, line_error
from torchspec.model.codec import SCHEMAS, load_schema
from torchspec.model.evidence import GENESIS, KINDS

HEX = "ab" * 32
CASES = Path(__file__).resolve().parents[2] / "cases" / "ledger"

#: One good body of each kind.
GOOD: dict[str, dict[str, Any]] = json.loads((CASES / "bodies.json").read_text(encoding="utf-8"))


def line(kind: str, body: Any) -> dict[str, Any]:
    return {
        "v": 1, "seq": 0, "time": "2026-12-01T09:00:00.000001Z", "run": "r-1", "kind": kind, "body": body,
        "prev": GENESIS, "hash": HEX,
    }  # fmt: skip


def both(record: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the published schema and the types accept `record`."""
    return jsonschema.Draft202012Validator(evidence_schema()).is_valid(record), line_error(record) is None


def test_the_published_file_is_the_schema_of_the_types():
    published = json.loads((SCHEMAS / "evidence.schema.json").read_text(encoding="utf-8"))
    assert published == evidence_schema(), "write what `python -m torchspec.model.bodies` prints into the file"
    jsonschema.Draft202012Validator.check_schema(load_schema("evidence"))


def test_every_kind_has_a_body():
    assert set(BODIES) == set(KINDS) == set(GOOD)


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_body_is_accepted_and_may_say_more(kind):
    assert both(line(kind, GOOD[kind])) == (True, True)
    assert both(line(kind, {**GOOD[kind], "origin": {"seq": 1}})) == (True, True)


@pytest.mark.parametrize("kind", GOOD)
def test_schema_and_types_refuse_alike(kind):
    refused = 0
    for name in GOOD[kind]:
        missing = {k: v for k, v in GOOD[kind].items() if k != name}
        for body in [missing, *({**GOOD[kind], name: wrong} for wrong in (None, -1, "?", True, [], {"a": 1}))]:
            by_schema, by_types = both(line(kind, body))
            assert by_schema == by_types, (name, body.get(name, "absent"))
            refused += not by_schema
    assert refused > 0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("seq", -1), ("time", "yesterday"), ("time", "2026-12-01T09:00:00Z"), ("run", "../up"), ("run", ""),
        ("kind", "gossip"), ("hash", "AB" * 32), ("prev", "0"), ("v", 2), ("body", []),
    ],
)  # fmt: skip
def test_the_frame_is_checked(name, wrong):
    record = {**line("note", GOOD["note"]), name: wrong}
    assert both(record) == (False, False)
