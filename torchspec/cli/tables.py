"""The decision matrix for the terminal: workload by backend, in words and shapes as well as colour, in 80 columns."""

from __future__ import annotations

from torchspec.core.diagnostics import display_width
from torchspec.model.plan import Plan
from torchspec.model.verdict import Outcome, Row, Verdict

MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "◆", "error": "△", "not_run": "○"}
_PAINT = {
    "pass": "\x1b[36m",
    "fail": "\x1b[1;37;41m",
    "inconclusive": "\x1b[33m",
    "error": "\x1b[35m",
    "not_run": "\x1b[2m",
}
_RESET = "\x1b[0m"


def _pad(text: str, width: int) -> str:
    return text + " " * max(0, width - display_width(text))


def paint(text: str, outcome: Outcome) -> str:
    """`text` in the colour of an outcome; the word and the mark say it without."""
    return f"{_PAINT[outcome]}{text}{_RESET}"


def matrix(plan: Plan, verdict: Verdict, color: bool = False, width: int = 80) -> str:
    """One table a candidate: a row a workload, a column a backend, each cell the row's outcome and decision.

    Where the columns do not fit into `width`, one line a workload and backend instead.
    """
    parts = []
    for side in plan.candidates:
        rows = [r for r in verdict.rows if r.candidate == side.id]
        title = f"{side.id} (torch {side.torch})" if len(plan.candidates) > 1 else ""
        table = _wide(plan, rows, color, width) or _narrow(rows, color)
        parts.append("\n".join(filter(None, [title, table])))
    return "\n\n".join(parts)


def _cell(row: Row | None) -> str:
    return f"{MARKS[row.outcome]} {row.decision}" if row else "·"


def _wide(plan: Plan, rows: list[Row], color: bool, width: int) -> str | None:
    backends = [b.name for b in plan.backends if any(r.backend == b.name for r in rows)]
    workloads = list(dict.fromkeys(r.workload for r in rows))
    first = max([len("workload"), *map(display_width, workloads)])
    widths = [max(len(b), 12) for b in backends]
    if first + sum(w + 2 for w in widths) > width:
        return None
    found = {(r.workload, r.backend): r for r in rows}
    lines = [_pad("workload", first) + "".join("  " + _pad(b, w) for b, w in zip(backends, widths, strict=True))]
    lines[0] = lines[0].rstrip()
    for workload in workloads:
        line = _pad(workload, first)
        for backend, room in zip(backends, widths, strict=True):
            row = found.get((workload, backend))
            text = _pad(_cell(row), room)
            line += "  " + (paint(text, row.outcome) if color and row else text)
        lines.append(line.rstrip())
    return "\n".join(lines)


def _narrow(rows: list[Row], color: bool) -> str:
    lines = []
    for row in rows:
        text = _cell(row)
        lines.append(f"{row.workload} on {row.backend}: {paint(text, row.outcome) if color else text}")
    return "\n".join(lines)
