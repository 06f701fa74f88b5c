"""What was found, for the terminal: below each row of the matrix the gates that are not a pass, then what got better.

The words and figures are the judge's own; this only chooses, orders and wraps. The memo says each in full. Must not
judge.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from torchspec.cli.tables import MARKS, paint
from torchspec.core.diagnostics import visible
from torchspec.decide_words import counted, gate_name
from torchspec.judge import words
from torchspec.model.plan import Gate, Plan
from torchspec.model.verdict import Judgement, Row, Verdict

_WORST = ("fail", "error", "inconclusive", "not_run")
MOST = 4  # findings of one row; the others are counted
ROWS = 12
_FORM = {
    "growth": "growth",
    "report": "growth",
    "drop": "growth",
    "speedup": "speedup",
    "increase": "increase",
    "decrease": "increase",
}


def wrapped(text: str, width: int, indent: str = "", more: str | None = None) -> str:
    """`text` in lines of at most `width` columns; a number and its `%` stay together."""
    further = indent if more is None else more
    held = re.sub(r"(?<=\d) (?=%)", "\0", visible(text))
    filled = textwrap.fill(held, width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)
    return filled.replace("\0", " ")


def findings(plan: Plan, verdict: Verdict, candidate: str, color: bool = False, width: int = 80) -> str:
    """The rows of `candidate` that are not all pass, each with its worst gates; then the changes for the better."""
    gates = {gate.id: gate for gate in plan.gates}
    cells = {cell.id: cell for cell in plan.cells}
    of_row: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in verdict.judgements:
        if judgement.candidate == candidate:
            cell = cells[judgement.cell]
            of_row.setdefault((cell.workload, cell.backend), []).append(judgement)
    parts = []
    for row in verdict.rows:
        own = of_row.get((row.workload, row.backend), [])
        votes = [j for j in own if gates[j.gate].decision is not None]  # a report decides nothing; the memo has it
        wrong = sorted((j for j in votes if j.outcome in _WORST), key=lambda j: _WORST.index(j.outcome))
        if row.candidate != candidate or not wrong:
            continue
        several = len({j.cell for j in own}) > 1
        told = []
        for alike in _grouped(wrong, gates):
            first = alike[0]
            short = _short(cells[first.cell].label, row) if several and len(alike) == 1 else ""
            told.append("\n".join(_told(alike, gates[first.gate], f"  ({short})" if short else "", color, width)))
        parts.append("\n".join([_head(row), *told[:MOST], *_rest(len(told))]))
    if len(parts) > ROWS:
        parts[ROWS:] = [f"… and {counted(len(parts) - ROWS, 'more row')} (in the memo)"]
    better = [j for group in of_row.values() for j in group if j.improvement and j.outcome == "pass"]
    if better:
        lines = ["Better in the candidate:"]
        for judgement in better[:MOST]:
            text = f"{gates[judgement.gate].metric} in {cells[judgement.cell].label}: {_figures(judgement, gates)}"
            lines.append(wrapped(text, width, "  ", "    "))
        parts.append("\n".join([*lines, *_rest(len(better))]))
    return "\n\n".join(parts)


def _head(row: Row) -> str:
    passed, judged = row.counts.get("pass", 0), sum(row.counts.values())
    return f"{row.workload} on {row.backend}: {row.decision}; {passed} of {counted(judged, 'gate')} pass"


def _short(label: str, row: Row) -> str:
    """A cell's label without what its row's head has said."""
    return label.removeprefix(f"{row.workload} ").removeprefix(f"{row.backend} ")


def _grouped(wrong: Sequence[Judgement], gates: dict[str, Gate]) -> list[list[Judgement]]:
    """What has no figures and the same reason is told once."""
    groups: dict[object, list[Judgement]] = {}
    for judgement in wrong:
        same = (judgement.gate, judgement.cell) if _figures(judgement, gates) else (judgement.outcome, judgement.reason)
        groups.setdefault(same, []).append(judgement)
    return list(groups.values())


def _told(alike: Sequence[Judgement], gate: Gate, where: str, color: bool, width: int) -> list[str]:
    judgement = alike[0]
    mark = MARKS[judgement.outcome]
    name = gate_name(gate) if len(alike) == 1 else f"{len(alike)} gates"
    first = wrapped(f"{mark} {name}{where}", width, "  ", "    ")
    if color:
        first = first.replace(mark, paint(mark, judgement.outcome), 1)
    figures = _figures(judgement, {gate.id: gate})
    text = f"{figures}: {judgement.rule}" if figures else judgement.reason
    if figures and (parts := (judgement.detail or {}).get("parts")):
        text += f"; {words.of_parts(parts['baseline'], parts['candidate'])}"
    return [first, wrapped(text, width, "    ")]


def _figures(judgement: Judgement, gates: dict[str, Gate]) -> str:
    """`117.6 MB → 206.6 MB, +75.8 % [+55.6, +76.2]`: what is there of it."""
    form, unit = gates[judgement.gate].limit.form, judgement.unit
    relative = _FORM.get(form)
    said = []
    if judgement.baseline is not None and judgement.candidate_value is not None:
        said.append(words.change(judgement.baseline, judgement.candidate_value, unit))
    if judgement.estimate is not None and relative is not None:
        low = judgement.estimate if judgement.low is None else judgement.low
        high = judgement.estimate if judgement.high is None else judgement.high
        sign = -1.0 if form in ("drop", "decrease") else 1.0  # told as the change that it is
        low, high = sorted((sign * low, sign * high))
        change = words.figure(relative, sign * judgement.estimate, unit)
        said.append(change if low == high else f"{change} {words.interval(relative, low, high, unit)}")
    elif judgement.estimate is not None and not said:
        said.append(words.plain(judgement.estimate, unit))
    return ", ".join(said)


def _rest(number: int) -> Sequence[str]:
    return [f"  … and {number - MOST} more (in the memo)"] if number > MOST else []
