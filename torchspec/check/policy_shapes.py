"""Gates over the shapes of a workload: some cell must hold another, or nothing was asked of compiler or export."""

from __future__ import annotations

from typing import Any

from torchspec.check.spec import CheckedCell, CheckedGate, CheckedSpec
from torchspec.core.diagnostics import Diagnostic, Label

#: Metrics that call the work with every shape that its mode has, as `harness.exports.other_shapes` finds them.
OVER_SHAPES = ("compile.recompiles", "export.dynamic")


def find(spec: CheckedSpec) -> list[Diagnostic]:
    """One word for each line of a gate set, at the line, with the workload that has one shape only."""
    found: list[Diagnostic] = []
    said = set()
    for gate in spec.gates:
        line = gate.line
        if line.metric.text in OVER_SHAPES and line.decision is not None and line.span not in said:
            alone = _alone(spec, gate)
            if alone is not None:
                said.add(line.span)
                found.append(_diagnostic(spec, gate, alone))
    return found


def _alone(spec: CheckedSpec, gate: CheckedGate) -> CheckedCell | None:
    cells = [spec.cells[place] for place in gate.cells]
    return next((cell for cell in cells if not any(_sibling(cell, other) for other in spec.cells)), None)


def _sibling(cell: CheckedCell, other: CheckedCell) -> bool:
    """Whether `other` is the same work in another size."""
    same = (cell.workload, cell.backend, cell.mode) == (other.workload, other.backend, other.mode)
    pairs = [(value, other.axes.get(name)) for name, value in cell.axes.items()]
    return same and cell is not other and all(a == b or (_size(a) and _size(b)) for a, b in pairs)


def _size(value: Any) -> bool:
    return isinstance(value, int)


def _diagnostic(spec: CheckedSpec, gate: CheckedGate, alone: CheckedCell) -> Diagnostic:
    name = next(w.name for w in spec.workloads if w.name.text == alone.workload)
    sizes = [axis for axis, value in alone.axes.items() if _size(value) and axis != "ranks"]
    axis = next((a for a in ("seq", "length", "batch", "tokens") if a in sizes), sizes[0] if sizes else None)
    more = f"for example: {axis} {alone.axes[axis]}, {alone.axes[axis] * 2}" if axis is not None else "add a size"
    return Diagnostic(
        "TS526",
        f"{gate.line.metric.text} is about the shapes that the work is called with, and `{alone.label}` has one",
        gate.line.span,
        hint=f"give `{alone.workload}` another size in `shape`, {more}; or leave the line out of its gates",
        labels=(Label(name.span, "one shape only"),),
    )
