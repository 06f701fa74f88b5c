"""Between the model's dataclasses and JSON values, both ways, and the published JSON Schemas.

`to_json` gives builtin types ready for `core.canon.canonical`; `from_json` converts strictly (wrong types raise
`msgspec.ValidationError`, whose message holds the JSON path). `schema_errors` checks against a published schema,
`schemas/<name>.schema.json`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
SCHEMAS = Path(__file__).resolve().parent / "schemas"


def to_json(value: Any) -> Any:
    """A model value as builtin JSON types (tuples become lists)."""
    return _lists(msgspec.to_builtins(value, str_keys=True))


def _lists(value: Any) -> Any:
    """msgspec leaves tuples as they are; JSON, and jsonschema, know arrays only."""
    if isinstance(value, (list, tuple)):
        return [_lists(item) for item in value]
    return {key: _lists(item) for key, item in value.items()} if isinstance(value, dict) else value


def from_json(kind: type[T], value: Any) -> T:
    """Builtin JSON types as a model value. Raises msgspec.ValidationError with the JSON path."""
    return msgspec.convert(value, kind, strict=True)


@cache
def load_schema(name: str) -> dict[str, Any]:
    """The published schema `name` ("plan", "lock", "evidence", "verdict", "memo", "decision")."""
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded


def schema_errors(name: str, value: Any) -> list[tuple[str, str]]:
    """(JSON path, message) of everything in `value` that schema `name` refuses, in document order."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(load_schema(name))
    return [(e.json_path, e.message) for e in sorted(validator.iter_errors(value), key=lambda e: e.json_path)]
