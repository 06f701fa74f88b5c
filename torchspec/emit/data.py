"""What of a plan travels inside a harness file: only what the backend needs, as JSON data.

Must not put any text of a spec where Python would read it as code.
"""

from __future__ import annotations

import json
from typing import Any

from torchspec.model.codec import to_json
from torchspec.model.plan import Backend, Plan

SIDE_FIELDS = ("id", "role", "torch", "path", "may_differ")
WORKLOAD_FIELDS = ("name", "kind", "beside", "entry", "lane", "options")
CELL_FIELDS = ("id", "workload", "mode", "axes", "label", "stage")
GATE_FIELDS = ("id", "metric", "against", "sees", "repeats")
FROZEN_FIELDS = ("python", "env", "settings", "seed")


def _picked(value: Any, fields: tuple[str, ...]) -> dict[str, Any]:
    held: dict[str, Any] = to_json(value)
    return {name: held[name] for name in fields}


def backend_plan(plan: Plan, backend: Backend) -> dict[str, Any]:
    """The part of `plan` that the harness of `backend` needs."""
    cells = [cell for cell in plan.cells if cell.backend == backend.name]
    ours = {cell.id for cell in cells}
    used = {cell.workload for cell in cells}
    gates = []
    for gate in plan.gates:
        judged = [cell for cell in gate.cells if cell in ours]
        if judged:
            limit = {"form": gate.limit.form, "op": gate.limit.op, "value": gate.limit.value}
            gates.append({**_picked(gate, GATE_FIELDS), "limit": limit, "cells": judged})
    claims = [
        {"workload": claim.check_workload, "metrics": sorted({state.metric for state in claim.states})}
        for claim in plan.claims
        if not claim.check_backends or backend.name in claim.check_backends
    ]
    workloads = [row for row in plan.workloads if row.name in used]
    lanes = {row.lane for row in workloads}
    return {
        "name": plan.name,
        "backend": to_json(backend),
        "baseline": _picked(plan.baseline, SIDE_FIELDS),
        "candidates": [_picked(side, SIDE_FIELDS) for side in plan.candidates],
        "frozen": _picked(plan.frozen, FROZEN_FIELDS),
        "budget": to_json(plan.budget),
        "rollback": None if plan.rollback is None else _picked(plan.rollback, ("within_s", "reload")),
        "workloads": [_picked(row, WORKLOAD_FIELDS) for row in workloads],
        "lanes": [_picked(lane, ("name", "disable_env")) for lane in plan.lanes if lane.name in lanes],
        "claims": [claim for claim in claims if claim["workload"] in used],
        "cells": [_picked(cell, CELL_FIELDS) for cell in cells],
        "gates": gates,
    }


def json_lines(value: dict[str, Any]) -> list[str]:
    """`value` as JSON text in lines that a person can read: a line a key, and a line an element of each list."""
    lines = ["{"]
    for place, name in enumerate(sorted(value)):
        last = "" if place == len(value) - 1 else ","
        part = value[name]
        if isinstance(part, list) and part:
            lines.append(f" {json.dumps(name)}: [")
            rows = [json.dumps(row, sort_keys=True, ensure_ascii=True, allow_nan=False) for row in part]
            lines += [f"  {row}," for row in rows[:-1]] + [f"  {rows[-1]}", f" ]{last}"]
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(part, sort_keys=True, allow_nan=False)}{last}")
    return [*lines, "}"]


def literal(lines: list[str], indent: str) -> list[str]:
    """Lines of text as one Python string, a literal a line; any text stays inside its quotes."""
    return [f"{indent}{line!a}" for line in lines] or [f"{indent}''"]
