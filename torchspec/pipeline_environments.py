"""The environments of a plan: one of each side, and where backends name wheels of their own, one for each index.

Environments travel as one mapping: a side's id gives the first of its environments, `side@backend` that of a backend
whose wheels are others. `of` looks up; nobody else takes these keys apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchspec.core.diagnostics import Diagnostic, Result, Severity
from torchspec.model.plan import Backend, Plan

if TYPE_CHECKING:
    from torchspec.provision import Environment

OnEvent = Callable[[dict[str, Any]], None]
Environments = Mapping[str, "Environment"]


def of(environments: Environments, side: str, backend: str) -> Environment | None:
    """The environment of a side for a backend; None where its wheels could not be had."""
    several = any("@" in key for key in environments)
    return environments.get(f"{side}@{backend}" if several else side)


def first_backend(plan: Plan, environments: Environments) -> Backend | None:
    """The first backend whose environments stand under the sides' own ids; None where no index matters."""
    groups = _groups(plan)
    if len(groups) == 1:
        return groups[0][0]
    return next((b for b in plan.backends if f"{plan.baseline.id}@{b.name}" in environments), None)


def provision_plan(plan: Plan, spec_folder: Path, on_event: OnEvent) -> Result[dict[str, Environment]]:
    """Every side's environment, made or reused, and the differences between them that nobody declared.

    Where backends name different wheels, those that cannot be had are a warning as long as another backend's can: the
    cells of that backend stay not run.
    """
    groups = _groups(plan)
    several = len(groups) > 1
    found: dict[str, Environment] = {}
    said: list[Diagnostic] = []
    lost: list[Diagnostic] = []
    for group in groups or [[]]:
        made, problems = _sides(plan, spec_folder, on_event, group[0] if group else None)
        if len(made) <= len(plan.candidates):
            note = f"the cells of {', '.join(b.name for b in group)} stay not run"
            lost += [replace(d, notes=(*d.notes, note)) for d in problems] if several else problems
            continue
        said += problems
        for side, environment in made.items():
            found.setdefault(side, environment)
            if several:
                found.update({f"{side}@{backend.name}": environment for backend in group})
    said += [replace(d, severity=Severity.WARNING) for d in lost] if found else lost
    broken = any(d.is_error for d in said)
    return Result(None if broken or not found else found, tuple(dict.fromkeys(said)))


def _groups(plan: Plan) -> list[list[Backend]]:
    """Backends with work, by the index of their wheels; none where all sides are interpreters, which have theirs."""
    if all(side.python is not None for side in (plan.baseline, *plan.candidates)):
        return []
    used = {cell.backend for cell in plan.cells}
    groups: dict[str | None, list[Backend]] = {}
    for backend in plan.backends:
        if backend.name in used:
            groups.setdefault(backend.wheels, []).append(backend)
    return list(groups.values())


def _sides(
    plan: Plan, spec_folder: Path, on_event: OnEvent, backend: Backend | None
) -> tuple[dict[str, Environment], list[Diagnostic]]:
    from torchspec import provision

    found: dict[str, Environment] = {}
    said: list[Diagnostic] = []
    for side in (plan.baseline, *plan.candidates):
        result = provision.ensure(
            plan, side, spec_folder=spec_folder, cache=provision.cache_folder(), on_event=on_event, backend=backend
        )
        said += result.diagnostics
        if result.value is not None:
            found[side.id] = result.value
    baseline = found.get(plan.baseline.id)
    for side in plan.candidates:
        if baseline is not None and side.id in found:
            said += provision.diff_environments(baseline.lock, found[side.id].lock, side.may_differ, side.place)
    return found, said
