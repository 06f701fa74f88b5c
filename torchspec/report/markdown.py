"""Words as Markdown: escaping, outcomes as characters, tables, code that cannot end its fence.

Whatever a text holds, it stays text: no markup, no HTML, no automatic link, no new table column or line.
"""

from __future__ import annotations

import re

from torchspec.model.memo import Cell, Mark, Span, Table, TableRow, Words

MARKS = {
    "pass": "✓ {}",
    "fail": "✗ **{}**",
    "inconclusive": "◆ {}",
    "error": "△ {}",
    "not_run": "○ {}",
    "adopt": "→ {}",
    "isolate": "[▪] {}",
    "defer": "‖ {}",
    "rollback": "↩ {}",
    "reproduced": "＝ {}",
    "not_reproduced": "≠ {}",
    "not_comparable": "○ {}",
}
LEDGER = "ledger.jsonl"  # beside memo.md in a sealed memo
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#&$])")
_LINK_START = re.compile(r"(?i)\b(https?|ftp|mailto|file|javascript|data|xmpp)(:)|\b(www)(\.)")
_LEADING = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))")


def text(value: str) -> str:
    """Plain text, escaped, on one line."""
    value = " ".join(re.split(r"[\r\n\u2028\u2029]+", value))
    value = _SPECIAL.sub(r"\\\1", value)
    value = _LINK_START.sub(lambda m: f"{m[1]}\\:" if m[1] else f"{m[3]}\\.", value)
    return value.replace("@", "&#64;")


def block_text(value: str) -> str:
    """As `text`, at the start of a line: no list, heading or rule may begin there."""
    escaped = text(value)
    lead = _LEADING.match(escaped)
    if lead is None:
        return escaped
    rest = escaped[lead.end() :]
    if lead[2].isdigit():
        return f"{lead[1]}{lead[2]}\\{rest}"
    return f"{lead[1]}\\{lead[2]}{rest}"


def code_span(value: str, *, in_table: bool = False) -> str:
    """A code span that its content cannot close; pipes are escaped inside tables, as GFM asks."""
    value = " ".join(value.split("\n"))
    longest = max((len(run) for run in re.findall(r"`+", value)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if value[:1] == "`" or value[-1:] == "`" else ""
    if in_table:
        value = value.replace("|", "\\|")
    return f"{fence}{pad}{value}{pad}{fence}"


def span(value: Span, *, in_table: bool = False) -> str:
    if value.style == "code":
        return code_span(value.text, in_table=in_table)
    if value.style == "link" and value.href == "#evidence":
        return f"[{text(value.text)}]({LEDGER})"
    if value.style == "link" and value.href and not value.href.startswith("#"):
        return f"[{text(value.text)}]({address(value.href)})"
    escaped = text(value.text)
    if value.style == "strong":
        core = escaped.strip(" ")
        left = escaped[: len(escaped) - len(escaped.lstrip(" "))]
        right = escaped[len(escaped.rstrip(" ")) :] if core else ""
        return f"{left}**{core}**{right}" if core else escaped
    return escaped


def address(href: str) -> str:
    """A link target inside parentheses: what could end it is percent-encoded."""
    return re.sub(r"[()<>\s\\|\"`]", lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), href)


def words(value: Words, *, in_table: bool = False, start: bool = False) -> str:
    """A run of spans; `start` where they begin a line."""
    out = "".join(span(s, in_table=in_table) for s in value)
    if start and value and value[0].style not in {"code", "link", "strong"}:
        out = block_text(value[0].text) + "".join(span(s, in_table=in_table) for s in value[1:])
    return out


def mark(value: Mark) -> str:
    """An outcome or decision with its character."""
    return MARKS.get(value.key, "{}").format(text(value.text))


def cell(value: Cell) -> str:
    """Everything in a table cell, in reading order, on one line."""
    parts = []
    if value.mark is not None:
        parts.append(mark(value.mark))
    if value.words:
        parts.append(words(value.words, in_table=True))
    if value.plot is not None and value.plot.position:
        parts.append(text(value.plot.position))
    if value.sub:
        parts.append(words(value.sub, in_table=True))
    if value.decision is not None:
        parts.append(mark(value.decision))
    return "; ".join(p for p in parts if p.strip()).replace("\n", " ")


def table(value: Table, trace: str = "") -> str:
    """A GFM table; `trace` heads the column of samples, rules and evidence.

    Axis rows have nothing to say here, and so have columns of plots without a position.
    """
    rows = [r for r in value.rows if r.kind != "axis"]
    kept = [i for i in range(len(value.columns)) if any(_says(r, i) for r in rows) or i == 0]
    traced = any(r.trace for r in rows)
    heads = []
    for index in kept:
        column = value.columns[index]
        head = code_span(column.head, in_table=True) if column.code and column.head else text(column.head)
        heads.append(head + (f" ({text(column.sub)})" if column.sub else ""))
    rules = ["---:" if value.columns[i].align == "right" else "---" for i in kept]
    lines = [_line([*heads, *([text(trace)] if traced else [])]), _line([*rules, *(["---"] if traced else [])])]
    for row in rows:
        cells = [cell(row.cells[i]) for i in kept]
        lines.append(_line([*cells, *([words(row.trace, in_table=True)] if traced else [])]))
    return "\n".join(lines)


def _says(row: TableRow, index: int) -> bool:
    return bool(cell(row.cells[index]).strip())


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(c if c.strip() else " " for c in cells) + " |"


def fence(value: str) -> str:
    """A fenced block that its content cannot close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", value)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}text\n{value}\n{ticks}"
