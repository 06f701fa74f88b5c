"""The matrix: every cell of every workload, what `except` removes, and which cells each gate line judges.

Where a gate does not apply is never silent: a backend, workload or path that cannot give its metric is a mistake here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod

from torchspec.catalog import Metric
from torchspec.catalog.metric_forms import COMPILED
from torchspec.check.spec import CheckedCell, CheckedGate, GateLine, GateSetDecl, Text, WorkloadDecl
from torchspec.check.structure import Context
from torchspec.check.team import lacks
from torchspec.core.diagnostics import Label, Span

MAX_CELLS = 200_000


@dataclass(slots=True)
class Matrix:
    cells: list[CheckedCell] = field(default_factory=list)
    removed: list[CheckedCell] = field(default_factory=list)
    gates: list[CheckedGate] = field(default_factory=list)
    workloads: list[WorkloadDecl] = field(default_factory=list)
    ranges: dict[str, list[tuple[str, str, list[int]]]] = field(
        default_factory=dict
    )  # workload -> backend, mode, cells


def expand(context: Context, workloads: list[WorkloadDecl]) -> Matrix:
    """All cells, in the order of the file; backends, then modes, then axes as the catalog orders them."""
    matrix = Matrix()
    for workload in workloads:
        size = prod([len(workload.backends), len(workload.modes), *(len(a.values) for a in workload.axes)])
        if size + len(matrix.cells) > MAX_CELLS:
            message = f"the matrix has more than {MAX_CELLS} cells with the {size} of `{workload.name.text}`"
            context.say("TS243", message, workload.name.span, "take fewer values on some axes")
            continue
        _cells(context, matrix, workload)
    return matrix


def _cells(context: Context, matrix: Matrix, workload: WorkloadDecl) -> None:
    names = [a.name for a in workload.axes]
    headline = {a.name for a in context.catalog.workloads[workload.kind.text].axes if a.headline}
    shown = [a.name in headline or a.name == "dtype" or len(a.values) > 1 for a in workload.axes]
    plain = [n in ("dtype", "mask", "operator", "operation") for n in names]
    removed: list[list[int]] = [[] for _ in workload.excepts]
    groups: list[tuple[str, str, list[int]]] = []
    for backend in (b.text for b in workload.backends):
        for mode in (m.text for m in workload.modes):
            places: list[int] = []
            for values in product(*(a.values for a in workload.axes)):
                axes = dict(zip(names, values, strict=True))
                parts = [workload.name.text, backend, mode]
                for name, value, show, bare in zip(names, values, shown, plain, strict=True):
                    if show:
                        parts.append(str(value) if bare else f"{name} {value}")
                stage = workload.stage.text if workload.stage else None
                cell = CheckedCell(workload.name.text, backend, mode, axes, " ".join(parts), stage)
                out = [i for i, e in enumerate(workload.excepts) if _matches(cell, e.at, e.on)]
                if out:
                    for i in out:
                        removed[i].append(len(matrix.removed))
                    matrix.removed.append(cell)
                else:
                    places.append(len(matrix.cells))
                    matrix.cells.append(cell)
            groups.append((backend, mode, places))
    excepts = tuple(e._replace(removed=tuple(r)) for e, r in zip(workload.excepts, removed, strict=True))
    matrix.ranges[workload.name.text] = groups
    matrix.workloads.append(workload._replace(excepts=excepts))


def _matches(cell: CheckedCell, at: tuple[tuple[Text, tuple[object, ...]], ...], on: tuple[Text, ...]) -> bool:
    if on and cell.backend not in [b.text for b in on]:
        return False
    for key, values in at:
        actual = cell.mode if key.text == "mode" else cell.axes.get(key.text)
        if actual not in values:
            return False
    return True


def judge_lines(context: Context, matrix: Matrix, sets: tuple[GateSetDecl, ...], place: Span) -> None:
    """Fills `matrix.gates`: one for each used set and line, then `runs` for the cells that no line gives it."""
    known = {s.name.text: s for s in sets}
    users: dict[str, list[WorkloadDecl]] = {}
    for workload in matrix.workloads:
        for name in workload.gate_sets:
            users.setdefault(name.text, []).append(workload)
    axes = {a.name for w in matrix.workloads for a in w.axes}
    axes |= {a.name for row in context.catalog.workloads.values() for a in row.axes}
    for gate_set in sets:
        for line in gate_set.own:
            for key, _ in line.at:
                if key.text == "mode":
                    context.say("TS215", "a gate is narrowed to modes with `in`", key.span, "write `in train`")
                elif key.text not in axes:
                    context.unknown("TS215", "axis", key.text, key.span, sorted(axes))
    explicit: set[int] = set()
    for set_name, workloads in users.items():
        for line in known[set_name].lines if set_name in known else ():
            cells = tuple(i for w in workloads for i in _judged(context, matrix, w, line))
            matrix.gates.append(CheckedGate(line, set_name, cells))
            if line.metric.text == "runs" and line.form != "report":
                explicit.update(cells)
    rest = tuple(i for i in range(len(matrix.cells)) if i not in explicit)
    if rest:
        usual = context.catalog.metrics["runs"].usual
        implied = Text("runs", place)
        line = GateLine(
            implied, "holds", None, None, place, None, (), (), (), None, None, Text(usual, place), None,
            f"runs holds else {usual}", place, "",
        )  # fmt: skip
        matrix.gates.append(CheckedGate(line, "", rest, True))


def _judged(context: Context, matrix: Matrix, workload: WorkloadDecl, line: GateLine) -> list[int]:
    metric = context.catalog.metrics[line.metric.text]
    on = [b.text for b in line.backends]
    within = [m.text for m in line.modes]
    judged: list[int] = []
    for backend, mode, places in matrix.ranges[workload.name.text]:
        if mode not in metric.modes or (on and backend not in on) or (within and mode not in within):
            continue
        matching = [i for i in places if _matches(matrix.cells[i], line.at, ())] if line.at else places
        if matching and _can(context, workload, line, metric, backend, mode):
            judged += matching
    return judged


def _can(context: Context, workload: WorkloadDecl, line: GateLine, metric: Metric, backend: str, mode: str) -> bool:
    """Whether this workload can give the metric there; a mistake is said once a line."""
    label = (Label(workload.name.span, f"`{workload.name.text}` is judged by it"),)
    if backend not in metric.backends:
        others = [b.text for b in workload.backends if b.text in metric.backends]
        hint = f"narrow it: on {', '.join(others or metric.backends)}"
        _once(context, "TS305", f"{backend} cannot give {metric.name}", line.metric.span, hint, label)
        return False
    kind = context.catalog.workloads[workload.kind.text]
    if not kind.can_give(metric):
        gives = f"it gives {', '.join(kind.gives)}" if kind.gives else f"it comes from {', '.join(metric.kinds)}"
        hint = f"{gives}; give this workload a gate set of its own"
        message = f"work of kind {workload.kind.text} cannot give {metric.name}"
        _once(context, "TS314", message, line.metric.span, hint, label)
        return False
    lacking = lacks(workload, kind, metric)
    if lacking is not None:
        _once(context, "TS314", lacking[0], line.metric.span, lacking[1], label)
        return False
    if line.against is not None and line.against.text == "beside" and workload.beside is None:
        hint = f"say what it stands beside, or narrow the gate: kind {workload.kind.text}  beside …"
        message = f"`{workload.name.text}` has no old path to compare with"
        _once(context, "TS307", message, line.against.span, hint, label)
        return False
    place = line.against.text.partition(".")[0] if line.against is not None and "." in line.against.text else "cpu"
    if line.against is not None and place not in ("cpu", backend):
        message = f"a reference on {place} cannot be made where the cells of {backend} run"
        _once(
            context, "TS307", message, line.against.span, f"narrow it: on {place}; or say: against cpu.float64", label
        )
        return False
    if line.against is not None and line.against.text == "eager" and mode not in COMPILED:
        message = f"only compiled work has an eager form, and this judges mode {mode}"
        compiled = [m.text for m in workload.modes if m.text in COMPILED] or ["compile"]
        _once(context, "TS307", message, line.against.span, f"narrow it: in {', '.join(compiled)}", label)
        return False
    if line.limit is not None and metric.dimension == "rate" and line.limit.unit and "/" in line.limit.unit:
        things = line.limit.unit.partition("/")[0]
        if things != workload.items_unit:
            counted = workload.items_unit or "nothing: say `counts 64 … per step`"
            message = f"`{workload.name.text}` counts {counted}, not {things}"
            _once(context, "TS301", message, line.limit.span, None, label)
            return False
    return True


def _once(context: Context, code: str, message: str, span: Span, hint: str | None, labels: tuple[Label, ...]) -> None:
    if not any(d.code == code and d.span == span for d in context.found):
        context.say(code, message, span, hint, labels)
