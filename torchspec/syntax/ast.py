"""The abstract syntax: statements with a word, arguments and perhaps a block. Values with places; no behaviour.

Two trees are equal when they say the same, wherever it stands: places and spelling of white space do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torchspec.core.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Value:
    """One value. `kind`: name, string, number, date, param, relation. `text`: as written (a string without its quotes
    and escapes). `number`: of a number, an int where it is whole and written without point or exponent."""

    kind: str
    text: str
    span: Span = field(compare=False)
    number: int | float | None = None
    unit: str | None = None

    @property
    def written(self) -> str:
        """As the author would write it: with quotes, `$` or unit."""
        if self.kind == "string":
            return f'"{self.text}"'
        return f"{self.text} {self.unit}" if self.unit else self.text


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. An argument is a list: values joined by commas. `block` is None where there is none.

    `span` runs from the word to the last argument. `broken`: a mistake inside was reported already, so what seems to
    be missing may not be.
    """

    word: str
    word_span: Span = field(compare=False)
    arguments: tuple[tuple[Value, ...], ...]
    block: tuple[Statement, ...] | None
    span: Span = field(compare=False)
    broken: bool = False


@dataclass(frozen=True, slots=True)
class File:
    """A whole file."""

    name: str = field(compare=False)
    statements: tuple[Statement, ...]
