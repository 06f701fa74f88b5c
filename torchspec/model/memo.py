"""The Memo: every word, table, plot and mark of a decision memo, as values.

One model feeds Markdown, HTML and PDF, so that all three say the same in the same order. Words are already rounded,
translated and put together; a renderer only lays them out and escapes them. Must not hold markup: `Span.text` is plain
text, whatever it looks like. Published as `schemas/memo.schema.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SCHEMA = "torchspec.memo/1"

Style = Literal["plain", "strong", "code", "soft", "link"]


@dataclass(frozen=True, slots=True)
class Span:
    """A run of plain text in one style. `href` is an http(s) address or `#anchor` of this memo; None elsewhere."""

    text: str
    style: Style = "plain"
    href: str | None = None


Words = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A word with a shape. `key` selects the shape and colour; `text` is the word in the memo's language.

    Outcomes: pass, fail, inconclusive, error, not_run. Decisions: adopt, isolate, defer, rollback. Claims: reproduced,
    not_reproduced, not_comparable.
    """

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """The axis that the plots of one column share, in the plotted unit; ticks are (value, label)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    unit: str


@dataclass(frozen=True, slots=True)
class Plot:
    """An interval against a limit, or the quantiles of two sides, on a shared scale.

    kind "interval": `low`, `estimate`, `high` against `limit`, with `beyond` the side that is grey. kind "spread":
    `quantiles` holds (p5, p25, p50, p75, p95) of the baseline and of the candidate. kind "axis": the ticks alone.
    `title` is the sentence that a reader hears who cannot see the plot; `position` is the short form of it for plain
    text."""

    kind: Literal["interval", "spread", "axis"]
    scale: Scale
    title: str
    position: str
    outcome: str | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    beyond: Literal["above", "below"] | None = None
    quantiles: tuple[tuple[float, float, float, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One table cell: a mark, words, a second line, a plot; each may be missing."""

    words: Words = ()
    mark: Mark | None = None
    sub: Words = ()
    decision: Mark | None = None
    plot: Plot | None = None
    boxed: bool = False  # tinted as a whole by its mark


@dataclass(frozen=True, slots=True)
class Column:
    """`align` "right" is for numbers. `sub` is a second line in the head."""

    head: str
    align: Literal["left", "right"] = "left"
    sub: str = ""
    code: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row; the first cell is its head. `kind` group: a heading inside the table that spans it; total: the last line
    of a matrix; axis: the ticks below a column of plots. `key` is the row's outcome, for filters. `trace` is a line
    below the row: samples, rule, evidence."""

    cells: tuple[Cell, ...]
    kind: Literal["row", "group", "total", "axis"] = "row"
    key: str = ""
    trace: Words = ()


@dataclass(frozen=True, slots=True)
class Table:
    """`kind` selects the layout: matrix, overview, figures, words, plain. `title` names it for who cannot see it."""

    kind: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    note: Words = ()
    sortable: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a section: a heading, a paragraph, a list, a table or text in a fixed pitch."""

    kind: Literal["heading", "paragraph", "list", "table", "code"]
    words: Words = ()
    items: tuple[Words, ...] = ()
    table: Table | None = None
    code: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A numbered part; the heading states the finding, the anchor is stable."""

    anchor: str
    number: str
    heading: str
    lead: Words
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision for one candidate, with its sentence, what stands beside it and what is asked."""

    candidate: str
    name: str
    decision: Mark
    sentence: Words
    beside: Words
    asked: Words


@dataclass(frozen=True, slots=True)
class Reason:
    head: str
    words: Words
    trace: Words


@dataclass(frozen=True, slots=True)
class Change:
    """What would change the answer: to which decision, for what, and on which condition."""

    decision: Mark
    target: str
    words: Words


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of "Can you rely on this memo?"; `mark` is an outcome's shape or None."""

    label: str
    words: Words
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Memo:
    """A whole memo. `labels` holds the fixed words of the page (headings of page one, running heads, controls)."""

    schema: str
    language: str
    reference: str
    issued: str
    compiler: str
    kicker: str
    running: str
    question: str
    answers: tuple[Answer, ...]
    matrix_heading: str
    matrices: tuple[Table, ...]
    tally: Words
    reasons_heading: str
    reasons: tuple[Reason, ...]
    changes_heading: str
    changes: tuple[Change, ...]
    rely_heading: str
    rely: tuple[Fact, ...]
    sections: tuple[Section, ...]
    labels: dict[str, str]
    registration: Literal["confirmatory", "exploratory"]
