"""Small constructors for the memo's values, so that parts read as what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from torchspec.model.memo import Block, Cell, Column, Mark, Plot, Table, TableRow, Words
from torchspec.report.language import plain

Text = str | Words


def words(text: Text) -> Words:
    return plain(text) if isinstance(text, str) else text


def cell(
    text: Text = "",
    *,
    mark: Mark | None = None,
    sub: Text = "",
    decision: Mark | None = None,
    plot: Plot | None = None,
    boxed: bool = False,
) -> Cell:
    return Cell(words(text), mark, words(sub), decision, plot, boxed)


def column(head: str, align: Literal["left", "right"] = "left", sub: str = "", *, code: bool = False) -> Column:
    return Column(head, align, sub, code)


def row(
    *cells: Cell | Text, key: str = "", kind: Literal["row", "group", "total"] = "row", trace: Text = ""
) -> TableRow:
    return TableRow(tuple(c if isinstance(c, Cell) else cell(c) for c in cells), kind, key, words(trace))


def table(
    kind: str,
    title: str,
    columns: Sequence[Column],
    rows: Iterable[TableRow],
    *,
    note: Text = "",
    sortable: bool = False,
) -> Block:
    return Block("table", table=Table(kind, title, tuple(columns), tuple(rows), words(note), sortable))


def heading(text: Text) -> Block:
    return Block("heading", words(text))


def paragraph(text: Text) -> Block:
    return Block("paragraph", words(text))


def listing(items: Iterable[Text]) -> Block:
    return Block("list", items=tuple(words(i) for i in items))


def code_block(text: str) -> Block:
    return Block("code", code=text)
