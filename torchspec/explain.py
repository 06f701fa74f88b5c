"""Explanations of a spec: its decision table, and its gates by cells with the reason for each hole.

Plain text for a terminal, from a Plan. The decision table is computed by the functions that `decide` calls, so that it
cannot say anything else. Must not print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchspec import catalog as catalog_tables
from torchspec import decide_algebra as algebra
from torchspec.catalog import Catalog
from torchspec.decide_words import counted, excluded, gate_name
from torchspec.explain_words import WIDTH, explain_word, filled, wrapped
from torchspec.model.plan import Cell, Gate, Plan, Requirement, Workload
from torchspec.model.verdict import Outcome

__all__ = ["explain_decisions", "explain_gates", "explain_word"]

MARKS = 24  # more cells than this are counted, not marked one by one
_HEAD: dict[Outcome, str] = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "inconclusive",
    "not_run": "not run",
    "error": "error",
}
_VOTES: dict[Requirement, str] = {
    "required": "required: it votes with its own decision",
    "optional": "optional: it votes adopt when everything passes, else isolate",
    "lane": "lane: at best isolate, and no vote while its off switch works; else defer",
}


def explain_decisions(plan: Plan, columns: int = WIDTH) -> str:
    """What each outcome of each gate means for its row and for the fleet, and what binds, waives and is left out."""
    parts = [
        filled(f"Decisions of {plan.name}: {plan.upgrade.title}", columns=columns),
        filled(
            "From the least to the most careful: adopt, isolate, defer, rollback. A row takes the worst over its gates "
            "and cells, the fleet the worst over the votes of its rows and the rehearsal.",
            columns=columns,
        ),
    ]
    if len(plan.candidates) > 1:
        parts.append(f"Each of the {len(plan.candidates)} candidates gets decisions of its own.")
    parts += [_row_table(plan, workload, backend, columns) for workload, backend in _rows(plan)]
    parts.append(_rehearsal(plan, columns))
    remarks = (_bound(plan), _waived(plan), _uncovered(plan))
    parts += [_remarks(lines, columns) for lines in remarks if lines]
    return "\n\n".join(parts)


def _rows(plan: Plan) -> list[tuple[Workload, str]]:
    workloads = {w.name: w for w in plan.workloads}
    return [(workloads[w], b) for w, b in dict.fromkeys((c.workload, c.backend) for c in plan.cells)]


def _row_table(plan: Plan, workload: Workload, backend: str, columns: int) -> str:
    requirement: Requirement = next(b.requirement for b in plan.backends if b.name == backend)
    if workload.lane is not None:
        requirement = "lane"
    cells = {c.id for c in plan.cells if c.workload == workload.name and c.backend == backend}
    gates = [g for g in plan.gates if cells & set(g.cells)]
    waived = {w.metric: w for w in plan.waivers if w.workload == workload.name and w.backend == backend}
    lines = []
    for gate in gates:
        name = gate_name(gate) + _scope(gate) + (" (implicit)" if gate.implicit else "")
        if gate.decision is None:
            lines.append([gate.metric, *("no vote" for _ in algebra.OUTCOMES)])
            continue
        answers = [str(algebra.gate_contribution(o, gate.decision)) for o in algebra.OUTCOMES]
        if gate.metric in waived and gate.decision == "defer":
            answers[algebra.OUTCOMES.index("fail")] = "isolate*"
        lines.append([name, *answers])
    head = f"{workload.name} on {backend} ({_VOTES[requirement]}), {counted(len(cells), 'cell')}"
    noted = [
        filled(f"* {w.metric}: isolate until {w.until}, then defer", "  ", "  ", columns)
        for w in waived.values()
        if any("isolate*" in line and line[0].startswith(w.metric) for line in lines)
    ]
    whole = table([["gate", *(_HEAD[o] for o in algebra.OUTCOMES)], *lines], columns)
    return "\n".join([filled(head, more="  ", columns=columns), whole, *noted])


def _scope(gate: Gate) -> str:
    """How the line narrows, in the author's words."""
    said = ""
    for key, values in gate.only.items():
        listed = ", ".join(str(v) for v in values)
        word = {"mode": "in", "backend": "on"}.get(key, f"at {key}")
        said += f"  {word} {listed}"
    return said


def table(rows: Sequence[Sequence[str]], columns: int) -> str:
    """Columns of text, two blanks apart where there is room; the names in the first one are wrapped where need be."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    longest = max(len(word) for name, *_ in rows for word in name.split() or [""])
    gap = next((g for g in (2, 1) if columns - 2 - sum(w + g for w in widths[1:]) >= longest), 1)
    room = columns - 2 - sum(w + gap for w in widths[1:])
    widths[0] = min(widths[0], max(room, longest))
    lines = []
    for name, *rest in rows:
        first, *more = wrapped(name, widths[0], further="  ") or [""]
        whole = zip((first, *rest), widths, strict=True)
        lines.append("  " + (" " * gap).join(f"{text:<{w}}" for text, w in whole).rstrip())
        lines += [f"  {text}" for text in more]
    return "\n".join(lines)


def _remarks(lines: Sequence[str], columns: int) -> str:
    return "\n".join(filled(line, more="  ", columns=columns) for line in lines)


def _rehearsal(plan: Plan, columns: int) -> str:
    within = f" within {_span(plan.rollback.within_s)}" if plan.rollback is not None else ": none, so never passed"
    answers = [str(algebra.rehearsal_contribution(o)) for o in algebra.OUTCOMES]
    return f"rollback rehearsal{within}\n" + table(
        [["", *(_HEAD[o] for o in algebra.OUTCOMES)], ["going back", *answers]], columns
    )


def _span(seconds: float) -> str:
    """A budget in the largest unit that holds it whole: `10 min`, `90 s`."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _bound(plan: Plan) -> list[str]:
    return [
        f"together: {', '.join(line.workloads)} take the worst of their decisions on each backend ({line.because})"
        for line in plan.together
    ]


def _waived(plan: Plan) -> list[str]:
    return [
        f"waived: {w.metric} of {w.workload} on {w.backend}: a fail isolates, for evidence up to {w.until} "
        f"({w.by}: {w.because})"
        for w in plan.waivers
    ]


def _uncovered(plan: Plan) -> list[str]:
    return [
        f"not covered: {e.workload} {excluded(e)} ({counted(e.removed, 'cell')}): {e.because}" for e in plan.exclusions
    ]


def explain_gates(plan: Plan, catalog: Catalog | None = None, columns: int = WIDTH) -> str:
    """Gates by cells: which gate judges which cell, and why it does not judge the others."""
    tables = catalog if catalog is not None else catalog_tables.load()
    parts = [f"Gates of {plan.name} by cells: + judged, . not"]
    for workload in plan.workloads:
        cells = [c for c in plan.cells if c.workload == workload.name]
        if not cells:
            continue
        sets = f"gates {', '.join(workload.gate_sets)}" if workload.gate_sets else "gates"
        lines = [filled(f"{workload.name} ({sets}), {counted(len(cells), 'cell')}", more="  ", columns=columns)]
        few = len(cells) <= MARKS
        if few:
            width = len(str(len(cells)))
            lines += [f"  {number:>{width}}  {cell.label}" for number, cell in enumerate(cells, 1)]
        for gate in (g for g in plan.gates if _meant_for(g, workload, cells)):
            lines += _gate_lines(gate, workload, cells, tables, few, columns)
        parts.append("\n".join(lines))
    missing = _remarks(_uncovered(plan), columns)
    return "\n\n".join([*parts, missing] if missing else parts)


def _meant_for(gate: Gate, workload: Workload, cells: Iterable[Cell]) -> bool:
    own = {c.id for c in cells}
    return gate.gate_set in workload.gate_sets or bool(own & set(gate.cells))


def _gate_lines(
    gate: Gate, workload: Workload, cells: Sequence[Cell], tables: Catalog, few: bool, columns: int
) -> list[str]:
    judged = set(gate.cells)
    answer = f"  else {gate.decision}" if gate.decision is not None else ""
    implicit = "  (implicit)" if gate.implicit else ""
    name = f"{gate_name(gate)}{_scope(gate)}{answer}{implicit}"
    marks = "".join("+" if c.id in judged else "." for c in cells)
    if not few:
        marks = f"{marks.count('+')} of {len(cells)}"
    lines = [filled(f"{marks}  {name}", "  ", " " * (len(marks) + 4), columns)]
    holes: dict[str, list[int]] = {}
    for number, cell in enumerate(cells, 1):
        if cell.id not in judged:
            holes.setdefault(why_not(gate, cell, workload, tables), []).append(number)
    for reason, numbers in holes.items():
        where = f"cell{'s' if len(numbers) > 1 else ''} {ranges(numbers)}" if few else counted(len(numbers), "cell")
        lines.append(filled(f"{where}: {reason}", "      ", "  ", columns))
    return lines


def why_not(gate: Gate, cell: Cell, workload: Workload, tables: Catalog) -> str:
    """Why `gate`, whose set the workload names, does not judge `cell`."""
    metric = tables.metrics[gate.metric]
    if cell.mode not in metric.modes:
        return f"{cell.mode} does not give {metric.name} ({_do(metric.modes)})"
    kind = tables.workloads[workload.kind]
    if not kind.can_give(metric):
        others = f" ({_do(metric.kinds)})" if metric.kinds else ""
        return f"{workload.kind} does not give {metric.name}{others}"
    point: dict[str, object] = {"mode": cell.mode, "backend": cell.backend, **cell.axes}
    for key, values in gate.only.items():
        if point.get(key) not in values:
            word = {"mode": "in", "backend": "on"}.get(key, f"at {key}")
            return f"the line says `{word} {', '.join(str(v) for v in values)}`"
    if cell.backend not in metric.backends:
        return f"{cell.backend} does not give {metric.name}"
    return "another line of the set takes its place"


def _do(names: Sequence[str]) -> str:
    """`compile does`, `infer and train do`."""
    if len(names) == 1:
        return f"{names[0]} does"
    return f"{', '.join(names[:-1])} and {names[-1]} do"


def ranges(numbers: Sequence[int]) -> str:
    """`1-3, 7` of ascending numbers."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
