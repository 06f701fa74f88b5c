"""Workloads and lanes: kind, axes with the catalog's defaults, modes, backends, exclusions, options and the entry."""

from __future__ import annotations

import re
from typing import Any

from torchspec.catalog import Axis, WorkloadKind
from torchspec.check.bind import Bound, Group
from torchspec.check.gates import MODES, plain, text_of, texts, words_of
from torchspec.check.spec import AxisDecl, EntryDecl, ExceptDecl, LaneDecl, Text, WorkloadDecl
from torchspec.check.structure import Context, after, walk
from torchspec.check.units import wanted
from torchspec.check.words import WORDS, Row, Slot
from torchspec.core.diagnostics import Label, Span
from torchspec.syntax.ast import Statement, Value

_DIGEST = re.compile(r"sha256:[0-9a-f]{8,64}")
MAX_AXIS = 1_000_000_000_000


class Workloads:
    """Every workload of a spec, those of lanes included, in the order of the file."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.made: list[WorkloadDecl] = []
        self.lanes: list[LaneDecl] = []
        self._names: dict[str, Span] = {}
        self._lane_names: dict[str, Span] = {}

    @property
    def names(self) -> list[str]:
        """Every name that was declared, by a workload that could not be made too."""
        return list(self._names)

    def lane(self, bound: Bound, known: Known) -> None:
        """Takes one `lane` statement with its workloads."""
        name = bound.one()
        if name is None or not self._new(name, self._lane_names, "lane"):
            return
        inner = walk(self.context, "lane", bound.statement.block or ())
        owner = inner.get("owner", [])
        hardware = inner.get("hardware", [])
        switches: list[tuple[Text, Text]] = []
        for line in inner.get("disable", []):
            variable, value = line.one(0), line.one(1)
            if variable is not None and value is not None:
                switches.append((Text(variable.text, variable.span), Text(value.text, value.span)))
        made = LaneDecl(
            Text(name.text, name.span),
            text_of(owner[0].one()) if owner else None,
            texts(hardware[0].many()) if hardware else (),
            tuple(switches),
            bound.statement.span,
        )
        self.lanes.append(made)
        for line in inner.get("workload", []):
            self.workload(line, known, made)

    def workload(self, bound: Bound, known: Known, lane: LaneDecl | None = None) -> None:
        """Takes one `workload` statement."""
        name = bound.one()
        if name is None or not self._new(name, self._names, "workload"):
            return
        statements = bound.statement.block or ()
        kind_line = next((s for s in statements if s.word == "kind"), None)
        kind_name = kind_line.arguments[0][0] if kind_line is not None and kind_line.arguments else None
        kind = self.context.catalog.workloads.get(kind_name.text) if kind_name is not None else None
        own = self._own_words(kind, kind_line is None, statements)
        inner = walk(self.context, "workload", statements, own)
        if kind_name is not None and kind_name.kind == "name" and kind is None:
            self.context.unknown(
                "TS214", "kind of work", kind_name.text, kind_name.span, self.context.catalog.workloads
            )
        if kind_line is None and not bound.statement.broken:
            hint = "for example: kind attention"
            self.context.missing("kind", f"workload `{name.text}` has no `kind`", name.span, hint)
        if kind is None or kind_name is None:
            return
        one = _One(self.context, kind, inner, known, name)
        made = one.make(bound, kind_name, lane)
        if made is not None:
            self.made.append(made)

    def _own_words(
        self, kind: WorkloadKind | None, missing: bool, statements: tuple[Statement, ...]
    ) -> tuple[Row, ...]:
        """The words of the kind itself. Of an unknown kind every word may be one, and without a kind those of any."""
        if kind is not None:
            return tuple(_option_row(word, values) for word, values, _ in kind.options)
        words = {option[0] for row in self.context.catalog.workloads.values() for option in row.options}
        if not missing:
            words = {s.word for s in statements if s.word}
        return tuple(Row(word, "", (Slot("rest", ""),), repeat=True) for word in sorted(words - _USUAL_WORDS))

    def _new(self, name: Value, names: dict[str, Span], what: str) -> bool:
        before = names.setdefault(name.text, name.span)
        if before is not name.span:
            label = (Label(before, "first here"),)
            self.context.say("TS219", f"there are two {what}s `{name.text}`", name.span, "rename one", label)
            return False
        return True


class Known:
    """Names that workloads refer to: backends with their ranks, gate sets, stages."""

    def __init__(self, backends: dict[str, tuple[int, ...]], gate_sets: list[str], stages: list[str]) -> None:
        self.backends = backends
        self.gate_sets = gate_sets
        self.stages = stages


_USUAL_WORDS = frozenset(row.word for row in WORDS["workload"])


def _option_row(word: str, values: tuple[str, ...]) -> Row:
    slot = (
        Slot("count", "a whole number")
        if values == ("count",)
        else Slot("name", "one of " + ", ".join(values), many=True)
    )
    return Row(word, "", (slot,))


class _One:
    def __init__(
        self, context: Context, kind: WorkloadKind, inner: dict[str, list[Bound]], known: Known, name: Value
    ) -> None:
        self.context = context
        self.kind = kind
        self.inner = inner
        self.known = known
        self.name = name

    def first(self, word: str) -> Bound | None:
        lines = self.inner.get(word)
        return lines[0] if lines else None

    def make(self, bound: Bound, kind_name: Value, lane: LaneDecl | None) -> WorkloadDecl | None:
        before = len(self.context.found)
        options = self._options()
        axes = self._axes(options)
        modes = self._modes()
        backends = self._backends(bound)
        gate_sets = self._gate_sets()
        excepts = tuple(self._except(line, axes, modes, backends) for line in self.inner.get("except", []))
        kind_line = self.inner["kind"][0]
        beside = kind_line.one(name="beside")
        if beside is not None and self.kind.beside != ("*",) and "*" not in self.kind.beside:
            if not self.kind.beside:
                message = f"{self.kind.name} has nothing to stand beside"
                self.context.say("TS231", message, beside.span, "remove `beside`")
            elif beside.text not in self.kind.beside:
                self.context.unknown("TS231", "old path", beside.text, beside.span, self.kind.beside)
        stage = self.first("stage")
        stage_name = stage.one() if stage else None
        if stage_name is not None and stage_name.text not in self.known.stages:
            self.context.unknown("TS215", "stage", stage_name.text, stage_name.span, self.known.stages)
        owner = self.first("owner")
        entry = self._entry(kind_line)
        if any(d.is_error for d in self.context.found[before:]):
            return None
        counts = options.get("counts")
        return WorkloadDecl(
            name=Text(self.name.text, self.name.span),
            kind=Text(kind_name.text, kind_name.span),
            beside=text_of(beside),
            entry=entry,
            owner=text_of(owner.one()) if owner else None,
            lane=lane,
            axes=axes,
            modes=modes,
            backends=backends,
            gate_sets=gate_sets,
            excepts=excepts,
            options=options,
            items_unit=counts["unit"] if counts else self.kind.items_unit,
            stage=text_of(stage_name),
            span=bound.statement.span,
        )

    def _entry(self, line: Bound) -> EntryDecl | None:
        value = line.one(1)
        if value is None:
            if self.kind.entry == "required" and not line.statement.broken:
                hint = f'for example: kind {self.kind.name} "bench/work.py:build"'
                message = f"{self.kind.name} needs the team's own code"
                self.context.say("TS226", message, after(line.statement), hint)
            return None
        if self.kind.name == "ingested":
            return None
        if self.kind.entry == "none":
            self.context.say("TS226", f"{self.kind.name} takes no code of the team", value.span, "remove it")
            return None
        path, colon, function = value.text.rpartition(":")
        if not colon or not path.endswith(".py") or not function.isidentifier():
            message = f'"{value.text}" is not a Python file and a function'
            self.context.say("TS226", message, value.span, 'for example: "bench/work.py:build"')
            return None
        parts = path.split("/")
        if path.startswith("/") or ".." in parts or "\\" in path or ":" in path or "\0" in path:
            hint = "it travels inside the harness, so its path begins at the spec's folder"
            self.context.say("TS238", f'"{path}" leaves the folder of the spec', value.span, hint)
            return None
        return EntryDecl(path, function, value.span)

    def _axes(self, options: dict[str, Any]) -> tuple[AxisDecl, ...]:
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
                ranks = next((r for b, r in self.known.backends.items() if r), (1,))
                made.append(AxisDecl("ranks", ranks, (), None))
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

    def _modes(self) -> tuple[Text, ...]:
        line = self.first("mode")
        if line is None:
            return tuple(Text(m, self.name.span) for m in self.kind.default_modes)
        good: list[Text] = []
        for value in line.many():
            if value.text not in MODES:
                self.context.unknown("TS216", "mode", value.text, value.span, MODES)
            elif value.text not in self.kind.modes:
                hint = "it has: " + ", ".join(self.kind.modes)
                self.context.say("TS306", f"{self.kind.name} has no mode {value.text}", value.span, hint)
            elif value.text in [m.text for m in good]:
                self.context.say("TS206", f"{value.text} stands twice in this list", value.span, "keep one")
            else:
                good.append(Text(value.text, value.span))
        return tuple(good)

    def _backends(self, bound: Bound) -> tuple[Text, ...]:
        line = self.first("on")
        if line is None:
            if not bound.statement.broken and not any(s.broken for s in bound.statement.block or ()):
                message = f"workload `{self.name.text}` runs on no backend"
                self.context.missing("on", message, self.name.span, "for example: on cpu")
            return ()
        good: list[Text] = []
        for value in line.many():
            if value.text not in self.known.backends:
                if value.text in self.context.catalog.backends:
                    hint = f"declare it at the top of the file: backend {value.text}"
                    self.context.say("TS211", f"backend `{value.text}` is not declared", value.span, hint)
                else:
                    self.context.unknown("TS211", "backend", value.text, value.span, self.known.backends)
            elif value.text not in self.kind.backends:
                hint = "it runs on " + ", ".join(self.kind.backends)
                self.context.say("TS305", f"{self.kind.name} does not run on {value.text}", value.span, hint)
            elif value.text in [b.text for b in good]:
                self.context.say("TS206", f"{value.text} stands twice in this list", value.span, "keep one")
            else:
                good.append(Text(value.text, value.span))
        return tuple(good)

    def _gate_sets(self) -> tuple[Text, ...]:
        line = self.first("gates")
        good: list[Text] = []
        for value in line.many() if line else ():
            if value.text not in self.known.gate_sets:
                self.context.unknown("TS212", "gate set", value.text, value.span, self.known.gate_sets)
            elif value.text in [g.text for g in good]:
                self.context.say("TS206", f"{value.text} stands twice in this list", value.span, "keep one")
            else:
                good.append(Text(value.text, value.span))
        return tuple(good)

    def _except(
        self, line: Bound, axes: tuple[AxisDecl, ...], modes: tuple[Text, ...], backends: tuple[Text, ...]
    ) -> ExceptDecl:
        values: dict[str, tuple[Any, ...]] = {a.name: a.values for a in axes}
        values["mode"] = tuple(m.text for m in modes)
        at: list[tuple[Text, tuple[Any, ...]]] = []
        for key, group in line.pairs.get("", []):
            if key.text not in values:
                self.context.unknown("TS215", f"axis of `{self.name.text}`", key.text, key.span, values)
                continue
            good = []
            for value in group:
                if plain(value) not in values[key.text] and values[key.text]:
                    known = [str(v) for v in values[key.text]]
                    said = value.written
                    self.context.unknown("TS216", f"{key.text} of `{self.name.text}`", said, value.span, known)
                else:
                    good.append(plain(value))
            at.append((Text(key.text, key.span), tuple(good)))
        named = [b.text for b in backends]
        for value in line.many(name="on"):
            if value.text not in named and named:
                self.context.unknown("TS211", f"backend of `{self.name.text}`", value.text, value.span, named)
        if not at and not line.many(name="on") and not line.statement.broken:
            hint = 'for example: except mode train  on mps  because "no backward"'
            self.context.say("TS203", "`except` lacks what it removes", after(line.statement), hint)
        return ExceptDecl(
            tuple(at),
            texts(line.many(name="on")),
            text_of(line.one(name="because")),
            text_of(line.one(name="until")),
            words_of(line.statement),
            line.statement.span,
        )

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for word in ("model", "tokenizer"):
            line = self.first(word)
            value = line.one() if line else None
            if line is not None and value is not None:
                commit = line.one(name="commit")
                options[word] = {"name": value.text, "commit": commit.text if commit else None}
                if commit is None and not line.statement.broken:
                    hint = f'write: {word} "{value.text}"  commit "…"'
                    self.context.say("TS413", f"the {word} has no commit, so it is not frozen", value.span, hint)
        data = self.first("data")
        file = data.one() if data else None
        if data is not None and file is not None:
            options["data"] = self._data(data, file)
        counts = self.first("counts")
        number, unit = (counts.one(0), counts.one(1)) if counts else (None, None)
        if number is not None and unit is not None:
            if number.number == 0:
                self.context.say("TS308", "`counts` is a whole number from 1 on", number.span)
            options["counts"] = {"value": number.number, "unit": unit.text}
        share = self.first("share")
        if share is not None:
            part = wanted(self.context, share.one(0), "ratio", "a share of the traffic")
            time = wanted(self.context, share.one(2), "time", "how long a share is served")
            if part and time:
                options["share"] = {"part": part.value, "seconds": time.value}
        if self.kind.name == "ingested":
            files = self.inner["kind"][0].one(1) if self.inner.get("kind") else None
            if files is not None:
                options["files"] = files.text
        for word, allowed, default in self.kind.options:
            line = self.first(word)
            group = line.many() if line else ()
            for value in group:
                if allowed != ("count",) and value.text not in allowed:
                    self.context.unknown("TS216", word, value.text, value.span, allowed)
            chosen = [value.number if allowed == ("count",) else value.text for value in group]
            if chosen:
                options[word] = chosen[0] if len(chosen) == 1 else chosen
            elif default is not None:
                options[word] = default
        return options

    def _data(self, line: Bound, file: Value) -> dict[str, Any]:
        made: dict[str, Any] = {"file": file.text, "rows": None, "digest": None}
        digest = line.one(name="digest")
        if digest is not None:
            if not _DIGEST.fullmatch(digest.text):
                hint = 'for example: digest "sha256:9c1e5ab07d"'
                self.context.say("TS406", f'"{digest.text}" is not a digest', digest.span, hint)
            made["digest"] = digest.text
        elif not line.statement.broken:
            hint = f'write: data "{file.text}"  digest "sha256:…"'
            self.context.say("TS413", "the data slice has no digest, so it is not frozen", file.span, hint)
        start, end = line.one(0, "rows"), line.one(1, "rows")
        if start is not None and end is not None and isinstance(start.number, int) and isinstance(end.number, int):
            if start.number >= end.number:
                self.context.say("TS308", "the first row comes before the row after the last", end.span)
            made["rows"] = [start.number, end.number]
        return made


def _axis_example(axis: Axis) -> str:
    if axis.kind == "count":
        return f"{axis.name} 512"
    return f"{axis.name} {axis.values[0] if axis.values else 'softmax'}"
