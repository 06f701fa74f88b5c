"""The matrix: gates judge cells, cells have gates, some row must pass, and every `except` removes something."""

from __future__ import annotations

from torchspec.check.policy_words import lane_workloads, required_cells
from torchspec.check.spec import CheckedSpec
from torchspec.core.diagnostics import Diagnostic, Label


def find(spec: CheckedSpec) -> list[Diagnostic]:
    excepts = _excepts(spec)
    if not spec.cells:
        return excepts
    left = {cell.workload for cell in spec.cells}
    whole = all(w.name.text in left for w in spec.workloads)  # else gates lack cells because their workload has none
    return [*(_gates_without_cells(spec) if whole else ()), *_cells_without_gates(spec), *_required(spec), *excepts]


def _gates_without_cells(spec: CheckedSpec) -> list[Diagnostic]:
    found = []
    judging = {gate.line.span for gate in spec.gates if gate.cells}
    for line in {g.line.span: g.line for g in spec.gates if not g.implicit}.values():
        if line.span not in judging:
            found.append(
                Diagnostic(
                    "TS504",
                    f"`{line.metric}` judges no cell of this spec",
                    line.metric.span,
                    hint="no workload that uses this set has a cell in the modes, backends and axis values that the "
                    "line and its metric ask for: widen `on`, `at` or `in`, add the mode to a workload, or remove it",
                )
            )
    for gate_set in spec.gate_sets:
        if not gate_set.used and gate_set.span.file == spec.span.file:
            found.append(
                Diagnostic(
                    "TS504",
                    f"no workload uses the gate set `{gate_set.name}`",
                    gate_set.name.span,
                    hint=f"name it in a workload: gates {gate_set.name}; or remove it",
                )
            )
    return found


def _cells_without_gates(spec: CheckedSpec) -> list[Diagnostic]:
    judged = {c for g in spec.gates if not g.implicit and g.line.decision is not None for c in g.cells}
    found = []
    for workload in spec.workloads:
        bare = [c.label for i, c in enumerate(spec.cells) if c.workload == workload.name.text and i not in judged]
        if bare:
            more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
            found.append(
                Diagnostic(
                    "TS505",
                    f"no gate judges {bare[0]}{more}",
                    workload.name.span,
                    hint="give its gate set a line that applies there, or take the combination out with `except`; a "
                    "report is not a gate",
                )
            )
    return found


def _required(spec: CheckedSpec) -> list[Diagnostic]:
    lanes = lane_workloads(spec)
    found = []
    for backend in spec.backends:
        served = [c.workload for c in spec.cells if c.backend == backend.name.text]
        if backend.optional is None and served and all(name in lanes for name in served):
            found.append(
                Diagnostic(
                    "TS509",
                    f"backend `{backend.name}` is required, and only lanes run on it",
                    backend.name.span,
                    hint=f"run a workload outside of lanes on {backend.name}, or make it optional",
                )
            )
    if not found and not required_cells(spec):
        labels = tuple(Label(b.optional.span, "optional") for b in spec.backends if b.optional is not None)
        hint = "keep at least one backend required for a workload outside of lanes: otherwise the fleet always defers"
        message = "nothing has to pass: no required row is left"
        found.append(Diagnostic("TS508", message, spec.upgrade.title.span, labels, hint))
    return found


def _excepts(spec: CheckedSpec) -> list[Diagnostic]:
    found = []
    left = {cell.workload for cell in spec.cells}
    for workload in spec.workloads:
        if workload.excepts and workload.name.text not in left and any(e.removed for e in workload.excepts):
            found.append(
                Diagnostic(
                    "TS515",
                    f"`except` removes all of `{workload.name}`",
                    max(workload.excepts, key=lambda e: len(e.removed)).span,
                    hint="remove the workload, or leave at least one combination of it",
                )
            )
            continue
        taken: set[int] = set()
        idle = []
        for exclusion in workload.excepts:
            if not set(exclusion.removed) - taken:
                idle.append(exclusion)
            taken |= set(exclusion.removed)
        for exclusion in idle:
            found.append(
                Diagnostic(
                    "TS515",
                    f"this `except` removes nothing from `{workload.name}`",
                    exclusion.span,
                    hint="no combination that is left has all of these values: correct them, or remove the line",
                )
            )
    return found
