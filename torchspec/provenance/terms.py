"""The terms of a plan: everything decided before measuring that can change the decision, as lines that can be compared.

Each compiled plan is kept in `out/<name>/history/<plan digest>.json`, so that a limit that was loosened after evidence
is found even where it was never committed; its digest is its name, so that nobody can edit what it was. Must not ask
git and must not judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from torchspec.core.canon import canonical, digest
from torchspec.core.files import strict_json, write_whole
from torchspec.model.codec import from_json, to_json
from torchspec.model.plan import Gate, Plan

HISTORY_FOLDER = "history"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")

#: What the term is about (unique, stable when only its value changes) to its value, both for people.
Terms = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One term that differs. `before` is None for one that was added, `after` for one that was taken away."""

    term: str
    before: str | None
    after: str | None


def of_plan(plan: Plan) -> dict[str, str]:
    """The terms of a plan."""
    labels = {cell.id: cell.label for cell in plan.cells}
    terms: dict[str, str] = {}
    for gate in plan.gates:
        if not gate.implicit:
            _add(terms, f"gate {gate.gate_set}: {gate.metric}" + _against(gate), _gate(gate, labels))
    for backend in plan.backends:
        terms[f"backend {backend.name}"] = backend.requirement + (f" until {backend.until}" if backend.until else "")
    for waiver in plan.waivers:
        name = f"waiver {waiver.metric} of {waiver.workload} on {waiver.backend}"
        _add(terms, name, f"until {waiver.until} by {waiver.by}: {waiver.because}")
    for exclusion in plan.exclusions:
        value = f"{exclusion.removed} cells until {exclusion.until}: {exclusion.because}"
        _add(terms, f"exception in {exclusion.workload}: {exclusion.text}", value)
    for together in plan.together:
        _add(terms, f"together {', '.join(sorted(together.workloads))}", together.because)
    if plan.rollback is not None:
        reload = ", ".join(plan.rollback.reload) or "nothing"
        terms["rollback"] = f"{plan.rollback.rehearse} within {plan.rollback.within_s:g} s, reload {reload}"
    budget = plan.budget
    pairs, builds = f"{budget.min_pairs} to {budget.max_pairs} pairs", f"{budget.builds} builds"
    terms["measure"] = (
        f"{pairs}, {builds}, {budget.rounds} rounds, {budget.cell_s:g} s a cell, {budget.run_s:g} s a run"
    )
    return terms


def _add(terms: dict[str, str], name: str, value: str) -> None:
    """Adds a term; a second one of the same name gets a number, in the order of the spec."""
    number, unique = 1, name
    while unique in terms:
        number += 1
        unique = f"{name} ({number})"
    terms[unique] = value


def _against(gate: Gate) -> str:
    return f" against {gate.against}" if gate.against else ""


def _gate(gate: Gate, labels: Mapping[str, str]) -> str:
    cells = sorted(labels.get(cell, cell) for cell in gate.cells)
    limit = f"{gate.limit.form} {gate.limit.op or ''} {gate.limit.value if gate.limit.value is not None else ''}"
    said = [" ".join(limit.split()), f"[{gate.limit.text}]"]
    if gate.sees is not None:
        said.append(f"sees {gate.sees:g}")
    if gate.repeats is not None:
        said.append(f"repeats {gate.repeats}")
    if gate.decision is not None:
        said.append(f"else {gate.decision}")
    return " ".join(said) + f", on {len(cells)} cells ({digest(cells)[:8]})"


def differences(before: Terms, after: Terms) -> tuple[Difference, ...]:
    """Every term that is not the same in both, by name."""
    names = sorted({*before, *after})
    return tuple(Difference(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n))


def remember(history: Path, plan: Plan, plan_digest: str) -> None:
    """Keeps a compiled plan in `history` under its digest; what is there already stays. Raises OSError."""
    history.mkdir(parents=True, exist_ok=True)
    if recall(history, plan_digest) is None:
        write_whole(history / f"{plan_digest}.json", canonical(to_json(plan)))


def recall(history: Path, plan_digest: str) -> Plan | None:
    """An earlier plan; None where it was not kept, or where what was kept does not have this digest."""
    if not _DIGEST.match(plan_digest):
        return None
    try:
        value = strict_json((history / f"{plan_digest}.json").read_bytes())
        return from_json(Plan, value) if digest(value) == plan_digest else None
    except (OSError, ValueError, msgspec.ValidationError):
        return None
