"""Small conversions from syntax to checked values. Must not look anything up."""

from __future__ import annotations

from typing import Any

from torchspec.check.bind import Group
from torchspec.check.spec import Text
from torchspec.syntax.ast import Statement, Value


def text_of(value: Value | None) -> Text | None:
    return None if value is None else Text(value.text, value.span)


def texts(group: Group) -> tuple[Text, ...]:
    return tuple(Text(v.text, v.span) for v in group)


def plain(value: Value) -> Any:
    """A value as it travels in the plan: text, int or float; a number with a unit is text."""
    if value.number is None:
        return value.text
    return value.number if value.unit is None else value.written


def words_of(statement: Statement) -> str:
    """A line as text, with canonical spaces."""
    return " ".join([statement.word, *(", ".join(v.written for v in group) for group in statement.arguments)])
