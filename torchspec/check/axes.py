"""The axes of one workload: `dtype`, `mask` and `shape`, with the catalog's defaults."""

from __future__ import annotations

from typing import Any

from torchspec.catalog import Axis, WorkloadKind
from torchspec.check import operators
from torchspec.check.bind import Bound, Group
from torchspec.check.spec import AxisDecl
from torchspec.check.structure import Context, after
from torchspec.check.values import plain
from torchspec.core.diagnostics import Span
from torchspec.syntax.ast import Statement, Value

MAX_AXIS = 1_000_000_000_000


class Axes:
    """Reads axes; mistakes go to the context. `inner`: the workload's statements by word."""

    def __init__(
        self, context: Context, kind: WorkloadKind, inner: dict[str, list[Bound]], ranks: tuple[int, ...], name: Value
    ) -> None:
        self.context = context
        self.kind = kind
        self.inner = inner
        self.ranks = ranks
        self.name = name

    def first(self, word: str) -> Bound | None:
        lines = self.inner.get(word)
        return lines[0] if lines else None

    def read(self, options: dict[str, Any]) -> tuple[AxisDecl, ...]:
        """Every axis, in the catalog's order; parameters of a mask go to `options`."""
        given: dict[str, tuple[Group, Span]] = {}
        axes = {a.name: a for a in self.kind.axes}
        for word in ("dtype", "mask"):
            line = self.first(word)
            if line is None:
                continue
            if word not in axes:
                said = ", ".join(axes) or "none"
                place = line.statement.word_span
                self.context.say("TS215", f"{self.kind.name} has no `{word}`", place, f"its axes: {said}")
                continue
            given[word] = (line.many(), line.statement.word_span)
            if word == "mask":
                self._mask_parameters(line, options)
        shape = self.first("shape")
        for statement in (shape.statement.block or ()) if shape else ():
            if not statement.word:
                continue
            self._shape_line(statement, axes, given)
        made: list[AxisDecl] = []
        extra = [n for n in given if n not in axes]
        for axis in (*self.kind.axes, *(Axis(n, "count", None, "an axis of the team's own") for n in extra)):
            if axis.name in given:
                group, span = given[axis.name]
                made.append(self._axis(axis, group, span))
            elif axis.name == "ranks":
                made.append(AxisDecl("ranks", self.ranks, (), None))
            elif axis.default is None and shape is not None and shape.broken:
                continue
            elif axis.default is None:
                hint = f"for example: {_axis_example(axis)}"
                place = shape.statement.word_span if shape else self.name.span
                self.context.missing(axis.name, f"{self.kind.name} needs `{axis.name}`: {axis.meaning}", place, hint)
            elif axis.default != "":
                made.append(AxisDecl(axis.name, (axis.default,), (), None))
        return tuple(made)

    def _shape_line(self, statement: Statement, axes: dict[str, Axis], given: dict[str, tuple[Group, Span]]) -> None:
        word, span = statement.word, statement.word_span
        if statement.block is not None:
            self.context.say("TS208", f"`{word}` takes no block", span, "remove the braces")
        if statement.broken:
            self.context.meant.add(word)
            return
        if word in given:
            self.context.say("TS206", f"`{word}` stands twice", span, "put all values on one line")
            return
        if word == "ranks":
            hint = "write it on the backend: backend distributed  over cpu  ranks 1, 2"
            self.context.say("TS215", "the number of ranks belongs to the backend", span, hint)
            return
        if word not in axes and not self.kind.free_axes:
            self.context.unknown("TS215", f"axis of {self.kind.name}", word, span, axes)
            return
        if not statement.arguments:
            self.context.say("TS203", f"`{word}` lacks a value", after(statement), f"for example: {word} 512")
            return
        if len(statement.arguments) > 1:
            extra = statement.arguments[1][0].span
            self.context.say("TS204", f"`{word}` takes one list of values", extra, "values are joined by `, `")
        given[word] = (statement.arguments[0], span)

    def _axis(self, axis: Axis, group: Group, span: Span) -> AxisDecl:
        values: list[Any] = []
        spans: list[Span] = []
        for value in group:
            if value.kind == "number" and value.unit is not None:
                hint = f"write {value.text}; names of units are reserved"
                self.context.say("TS309", f"`{axis.name}` has no unit, and this has `{value.unit}`", value.span, hint)
                continue
            free = axis.meaning == "an axis of the team's own"
            if free and value.kind in ("name", "string", "number"):
                checked: Any = plain(value)
                why = operators.mistake(value.text) if self.kind.name == "operator" and value.kind == "string" else None
                if why is not None:
                    message = f"`{axis.name}` is no argument of an operator: {why}"
                    self.context.say("TS309", message, value.span, f"for example: {operators.EXAMPLES}")
                    continue
            elif axis.kind == "count":
                if value.kind != "number" or not isinstance(value.number, int) or not 1 <= value.number <= MAX_AXIS:
                    message = f"`{axis.name}` is a whole number from 1 on, not {value.written}"
                    self.context.say("TS309", message, value.span, f"for example: {_axis_example(axis)}")
                    continue
                checked = value.number
            elif value.kind != "name":
                message = f"`{axis.name}` is a name, not {value.written}"
                self.context.say("TS309", message, value.span, f"for example: {_axis_example(axis)}")
                continue
            elif axis.values and value.text not in axis.values:
                self.context.unknown("TS216", axis.name, value.text, value.span, axis.values)
                continue
            else:
                checked = value.text
            if checked in values:
                self.context.say("TS206", f"{value.written} stands twice in this list", value.span, "keep one")
                continue
            values.append(checked)
            spans.append(value.span)
        return AxisDecl(axis.name, tuple(values), tuple(spans), span)

    def _mask_parameters(self, line: Bound, options: dict[str, Any]) -> None:
        for key, group in line.pairs.get("", []):
            value = group[0]
            if key.text not in self.kind.mask_parameters:
                known = self.kind.mask_parameters
                self.context.unknown("TS202", "parameter of a mask", key.text, key.span, known)
            elif len(group) > 1 or not isinstance(value.number, int) or value.unit is not None or value.number < 1:
                self.context.say("TS309", f"`{key.text}` is one whole number from 1 on", value.span)
            else:
                options[key.text] = value.number


def _axis_example(axis: Axis) -> str:
    if axis.kind == "count":
        return f"{axis.name} 512"
    return f"{axis.name} {axis.values[0] if axis.values else 'softmax'}"
