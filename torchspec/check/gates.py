"""Gate sets: their lines, `extends`, overrides and `without`.

Which cells a line judges is `check.matrix`'s business.
"""

from __future__ import annotations

from typing import Any

from torchspec.check.bind import Bound
from torchspec.check.gate_lines import GateLines
from torchspec.check.spec import GateLine, GateSetDecl, OverrideDecl, Text, WithoutDecl
from torchspec.check.structure import Context, walk
from torchspec.check.values import text_of
from torchspec.core.diagnostics import Label
from torchspec.syntax.ast import Value

MAX_EXTENDS = 50


class GateSets:
    """Every gate set of a spec, its own lines first, then what they extend."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._lines = GateLines(context)
        self._bound: dict[str, Bound] = {}
        self._own: dict[str, tuple[GateLine, ...]] = {}
        self._without: dict[str, list[Bound]] = {}
        self._made: dict[str, GateSetDecl] = {}
        self._under_way: list[str] = []
        self._partial: set[str] = set()  # sets of which a line, own or inherited, could not be read

    def declare(self, bound: Bound) -> None:
        """Takes one `gates` statement."""
        name = bound.one()
        if name is None:
            return
        before = self._bound.get(name.text)
        if before is not None:
            first = before.one()
            label = (Label(first.span, "first here"),) if first else ()
            self.context.say("TS219", f"there are two gate sets `{name.text}`", name.span, "rename one", label)
            return
        self._bound[name.text] = bound
        inner = walk(self.context, "gates", bound.statement.block or ())
        lines = [*inner.get("", []), *inner.get("report", [])]
        lines.sort(key=lambda b: (b.statement.span.line, b.statement.span.column))
        made = [self._lines.read(line, name.text) for line in lines]
        self._own[name.text] = tuple(line for line in made if line is not None)
        if None in made or any(s.broken or not s.word for s in bound.statement.block or ()):
            self._partial.add(name.text)
        self._without[name.text] = inner.get("without", [])

    @property
    def names(self) -> list[str]:
        return list(self._bound)

    def all(self, used: set[str]) -> tuple[GateSetDecl, ...]:
        """Every set in the order of the file. `used`: names that workloads give."""
        for name in self._bound:
            self._resolve(name)
        reached = set(used)
        for name in used:
            parent = self._made[name].extends if name in self._made else None
            while parent is not None and parent.text in self._made and parent.text not in reached:
                reached.add(parent.text)
                parent = self._made[parent.text].extends
        sets = [self._made[name] for name in self._bound if name in self._made]
        return tuple(
            GateSetDecl(s.name, s.extends, s.own, s.lines, s.withouts, s.overrides, s.name.text in reached, s.span)
            for s in sets
        )

    def _resolve(self, name: str) -> GateSetDecl | None:
        if name in self._made:
            return self._made[name]
        bound = self._bound[name]
        own = self._own[name]
        parent_value = bound.one(name="extends")
        inherited: list[GateLine] = []
        if parent_value is not None:
            if name in self._under_way:
                chain = " extends ".join([*self._under_way[self._under_way.index(name) :], name])
                self.context.say("TS224", f"gate sets go in a circle: {chain}", parent_value.span, "break the circle")
                return None
            if parent_value.text not in self._bound:
                known = [n for n in self._bound if n != name]
                self.context.unknown("TS212", "gate set", parent_value.text, parent_value.span, known)
            elif len(self._under_way) >= MAX_EXTENDS:
                message = f"more than {MAX_EXTENDS} gate sets extend one another"
                self.context.say("TS224", message, parent_value.span, "write the lines out")
                return None
            else:
                self._under_way.append(name)
                parent = self._resolve(parent_value.text)
                self._under_way.pop()
                inherited = list(parent.lines) if parent else []
                if parent is None or parent_value.text in self._partial:
                    self._partial.add(name)
        withouts: list[WithoutDecl] = []
        for line in self._without[name]:
            metric = line.one()
            if metric is None:
                continue
            removed = tuple(g for g in inherited if g.metric.text == metric.text)
            if not removed and self._whole(name, metric) and (parent_value is None or parent_value.text in self._bound):
                self.context.say(
                    "TS225",
                    f"`without {metric.text}` removes nothing: no inherited line is about it",
                    metric.span,
                    "remove the line" if parent_value else "only a set that `extends` another can leave lines out",
                )
            inherited = [g for g in inherited if g.metric.text != metric.text]
            because = text_of(line.one(name="because"))
            withouts.append(WithoutDecl(Text(metric.text, metric.span), because, removed, line.statement.span))
        overrides: list[OverrideDecl] = []
        for gate in own:
            replaced = tuple(g for g in inherited if _scope(g) == _scope(gate))
            if replaced:
                overrides.append(OverrideDecl(gate, replaced))
                inherited = [g for g in inherited if g not in replaced]
        name_value = bound.one()
        if name_value is None:
            return None
        extends = text_of(parent_value)
        made = GateSetDecl(
            Text(name, name_value.span),
            extends,
            own,
            (*inherited, *own),
            tuple(withouts),
            tuple(overrides),
            False,
            bound.statement.span,
        )
        self._made[name] = made
        return made

    def _whole(self, name: str, place: Value) -> bool:
        """Whether every line of the set and of what it extends was read: what is not there is then really missing."""
        unread = (d.code.startswith("TS1") and d.span and d.span.file == place.span.file for d in self.context.found)
        return name not in self._partial and not any(unread)


def _scope(line: GateLine) -> tuple[Any, ...]:
    """What an override must share with the line that it replaces: metric, relation and every narrowing."""
    return (
        line.metric.text,
        line.form,
        line.op,
        line.against.text if line.against else None,
        tuple(sorted((k.text, tuple(map(str, v))) for k, v in line.at)),
        tuple(sorted(m.text for m in line.modes)),
        tuple(sorted(b.text for b in line.backends)),
    )
