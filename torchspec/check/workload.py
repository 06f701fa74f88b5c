"""One workload: kind, old path, entry, modes, backends, gate sets and exclusions."""

from __future__ import annotations

from typing import Any

from torchspec.catalog import WorkloadKind
from torchspec.check.axes import Axes
from torchspec.check.bind import Bound
from torchspec.check.gate_lines import MODES
from torchspec.check.options import read_options
from torchspec.check.spec import AxisDecl, EntryDecl, ExceptDecl, LaneDecl, Text, WorkloadDecl
from torchspec.check.structure import Context, after
from torchspec.check.values import plain, text_of, texts, words_of
from torchspec.core.diagnostics import Label
from torchspec.syntax.ast import Value


class Known:
    """Names that workloads refer to: backends with their ranks, gate sets, stages. `over`: the device below a
    backend of ranks."""

    def __init__(
        self, backends: dict[str, tuple[int, ...]], gate_sets: list[str], stages: list[str], over: dict[str, str]
    ) -> None:
        self.backends = backends
        self.over = over
        self.gate_sets = gate_sets
        self.stages = stages

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of processes that the distributed backend has."""
        return next((r for r in self.backends.values() if r), (1,))


class Reader:
    """The statements of one workload of a known kind."""

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
        options = read_options(self.context, self.kind, self.inner)
        axes = Axes(self.context, self.kind, self.inner, self.known.ranks, self.name).read(options)
        modes = self._modes()
        backends = self._backends(bound)
        self._option_backends(backends)
        self._option_over(backends)
        self._option_needs(options)
        gate_sets = self._gate_sets()
        excepts = tuple(self._except(line, axes, modes, backends) for line in self.inner.get("except", []))
        kind_line = self.inner["kind"][0]
        beside = kind_line.one(name="beside")
        if beside is not None:
            self._beside(beside, kind_line.one(1) is not None)
        stage = self.first("stage")
        stage_name = stage.one() if stage else None
        if stage_name is not None and stage_name.text not in self.known.stages:
            declare = f"stage {stage_name.text}  until 2026-12-07, in `upgrade`"
            self.context.unknown("TS215", "stage", stage_name.text, stage_name.span, self.known.stages, declare)
        owner = self.first("owner")
        entry = self._entry(kind_line)
        if entry is None and self.kind.entry_part:
            self._own_parts(axes)
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

    def _beside(self, name: Value, entry: bool) -> None:
        """The old path is one that the kind knows, a function of torch, or one of the team's file."""
        known = [n for n in self.kind.beside if n != "*"]
        if not self.kind.beside:
            self.context.say("TS231", f"{self.kind.name} has nothing to stand beside", name.span, "remove `beside`")
        elif name.text not in known and not ("*" in self.kind.beside and (entry or "." in name.text)):
            self.context.unknown("TS231", "old path", name.text, name.span, known)

    def _entry(self, line: Bound) -> EntryDecl | None:
        value = line.one(1)
        if value is None:
            if self.kind.name == "ingested" and not line.broken:
                message = "which files hold the figures is not said"
                self.context.say("TS226", message, after(line.statement), 'for example: kind ingested "canary/*.json"')
            if self.kind.entry == "required" and not line.broken:
                hint = f'for example: kind {self.kind.name} "bench/work.py:build"'
                message = f"{self.kind.name} needs the team's own code"
                self.context.say("TS226", message, after(line.statement), hint)
            return None
        if self.kind.name == "ingested":
            self._files(value)
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

    def _own_parts(self, axes: tuple[AxisDecl, ...]) -> None:
        """What is the team's own is in the team's file, and here none is named."""
        custom = [span for a in axes for value, span in zip(a.values, a.spans, strict=False) if value == "custom"]
        for word, _, _ in self.kind.options:
            line = self.first(word)
            custom += [value.span for value in (line.many() if line else ()) if value.text == "custom"]
        for span in custom:
            hint = f'for example: kind {self.kind.name} "bench/work.py:ours"'
            self.context.say("TS226", "`custom` is the team's own code, and the workload names none", span, hint)

    def _files(self, value: Value) -> None:
        """Where the figures of a service are: JSON files below the spec's folder, one name or a pattern."""
        parts = value.text.split("/")
        if value.text.startswith("/") or ".." in parts or "\\" in value.text or ":" in value.text or "\0" in value.text:
            hint = "figures lie beside the spec, so that a path begins at its folder"
            self.context.say("TS238", f'"{value.text}" leaves the folder of the spec', value.span, hint)
        elif not value.text.endswith(".json") or any("**" in part and part != "**" for part in parts):
            message = f'"{value.text}" names no JSON files'
            self.context.say("TS226", message, value.span, 'for example: "canary/*.json"')

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
            if not bound.broken and not any(s.broken for s in bound.statement.block or ()):
                message = f"workload `{self.name.text}` runs on no backend"
                self.context.missing("on", message, self.name.span, "for example: on cpu")
            return ()
        good: list[Text] = []
        for value in line.many():
            undeclared = value.text not in self.known.backends and value.text in self.context.catalog.backends
            if value.text in self.context.misnamed or (undeclared and self.context.misnamed):
                continue  # what is wrong was said where a backend is declared
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

    def _option_backends(self, backends: tuple[Text, ...]) -> None:
        """A value that only some backends have: on another one it would be ignored, and the cell's label a lie."""
        for word, value, only in self.kind.option_backends:
            line = self.first(word)
            for said in (one for one in (line.many() if line else ()) if one.text == value):
                others = [b for b in backends if b.text not in only]
                if others:
                    names = ", ".join(b.text for b in others)
                    labels = tuple(Label(b.span, "asked for here") for b in others)
                    message = f"`{word} {value}` is on {' and '.join(only)} alone, and not on {names}"
                    hint = f"give {names} a workload of its own without `{word}`, or take it out of `on`"
                    self.context.say("TS305", message, said.span, hint, labels)

    def _option_needs(self, options: dict[str, Any]) -> None:
        """A word that says more of another one's value: without it, it would be ignored."""
        for word, other, value in self.kind.option_needs:
            line = self.first(word)
            if line is not None and options.get(other) != value:
                message = f"`{word}` says more of `{other} {value}`, and here it is `{other} {options.get(other)}`"
                self.context.say(
                    "TS316", message, line.statement.span, f"write: {other} {value}; or take the line away"
                )

    def _option_over(self, backends: tuple[Text, ...]) -> None:
        """A value that needs a device below the ranks, as NCCL needs GPUs: over another one it could not run."""
        for word, value, devices in self.kind.option_over:
            line = self.first(word)
            for said in (one for one in (line.many() if line else ()) if one.text == value):
                for name in backends:
                    over = self.known.over.get(name.text)
                    if over is not None and over not in devices:
                        message = f"`{word} {value}` needs ranks over {' or '.join(devices)}, and these run over {over}"
                        hint = f"give another {word}, or write: backend {name.text}  over {devices[0]}"
                        self.context.say("TS305", message, said.span, hint)

    def _gate_sets(self) -> tuple[Text, ...]:
        line = self.first("gates")
        good: list[Text] = []
        for value in line.many() if line else ():
            if value.text not in self.known.gate_sets:
                declare = f"gates {value.text} {{"
                self.context.unknown("TS212", "gate set", value.text, value.span, self.known.gate_sets, declare)
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
        if not at and not line.many(name="on") and not line.broken:
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
