"""Makes `schemas/plan.schema.json` from the plan's dataclasses; `python -m torchspec.model.publish`.

Types come from the dataclasses, patterns and bounds from the table here; nothing may stand in a plan that the schema
does not name. A test keeps the committed file in step. Nothing else may import this.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from torchspec.model.codec import SCHEMAS
from torchspec.model.plan import SCHEMA, Plan

_ID = {"pattern": "^[0-9a-f]{12}$"}
_SHA = {"pattern": "^[0-9a-f]{64}$"}
_DATE = {"pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_NAME = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
_PATH = {"pattern": "^(?!/)(?!.*(^|/)\\.\\.(/|$))[^\\u0000\\\\]+\\.py$"}

#: type.field -> what its schema says beside the type. A list's bounds go to its items with "items".
TIGHT: dict[str, dict[str, Any]] = {
    "Plan.schema": {"const": SCHEMA},
    "Plan.candidates": {"minItems": 1},
    "Plan.backends": {"minItems": 1},
    "Plan.cells": {"minItems": 1},
    "Plan.gates": {"minItems": 1},
    "Plan.spec": {"minItems": 1},
    "Place.line": {"minimum": 1},
    "Place.column": {"minimum": 1},
    "Stage.until": _DATE,
    "SpecFile.sha256": _SHA,
    "TeamFile.sha256": _SHA,
    "TeamFile.path": _PATH,
    "Entry.path": _PATH,
    "Side.id": {"pattern": "^(baseline|candidate(-[0-9]+)?)$"},
    "Backend.name": _NAME,
    "Workload.name": _NAME,
    "Cell.id": _ID,
    "Cell.label": {"minLength": 1},
    "Gate.id": _ID,
    "Gate.cells": {"minItems": 1, "uniqueItems": True, "items": {"type": "string", **_ID}},
    "Rollback.within_s": {"exclusiveMinimum": 0},
    "Budget.cell_s": {"exclusiveMinimum": 0},
    "Budget.run_s": {"exclusiveMinimum": 0},
    "Budget.min_pairs": {"minimum": 1},
    "Budget.max_pairs": {"minimum": 1},
    "Budget.builds": {"minimum": 1},
    "Budget.rounds": {"minimum": 1},
    "Budget.block_ms": {"exclusiveMinimum": 0},
    "Budget.timeout_s": {"exclusiveMinimum": 0},
}


def published() -> str:
    """The text of `plan.schema.json`."""
    made = msgspec.json.schema(Plan)
    types: dict[str, Any] = made["$defs"]
    for name, definition in types.items():
        if definition.get("type") != "object" or "properties" not in definition:
            continue
        definition["additionalProperties"] = False
        definition["required"] = list(definition["properties"])
        for field, schema in definition["properties"].items():
            schema.pop("default", None)
            schema.update(TIGHT.get(f"{name}.{field}", {}))
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:torchspec:schema:plan:1",
        "title": "The plan: everything that a run of torchspec needs, after all checks",
        **made,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (SCHEMAS / "plan.schema.json").write_text(published(), encoding="utf-8")
