"""Gate lines and gate sets: metric, relation, limit, narrowing, `else`; `extends`, overrides and `without`.

Checks each line against its metric's row; which cells a line judges is `check.matrix`'s business.
"""

from __future__ import annotations

from typing import Any

from torchspec.catalog import Metric
from torchspec.check.bind import Bound, Group
from torchspec.check.spec import GateLine, GateSetDecl, OverrideDecl, Quantity, Text, WithoutDecl
from torchspec.check.structure import Context, after, walk
from torchspec.check.units import limit
from torchspec.core.diagnostics import Label, Span
from torchspec.syntax.ast import Statement, Value

DECISIONS = ("isolate", "defer", "rollback")
MAX_EXTENDS = 50
MODES = ("infer", "train", "compile", "export")


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


class GateSets:
    """Every gate set of a spec, its own lines first, then what they extend."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._bound: dict[str, Bound] = {}
        self._own: dict[str, tuple[GateLine, ...]] = {}
        self._without: dict[str, list[Bound]] = {}
        self._made: dict[str, GateSetDecl] = {}
        self._under_way: list[str] = []

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
        made = (self._line(line, name.text) for line in lines)
        self._own[name.text] = tuple(line for line in made if line is not None)
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
        withouts: list[WithoutDecl] = []
        for line in self._without[name]:
            metric = line.one()
            if metric is None:
                continue
            removed = tuple(g for g in inherited if g.metric.text == metric.text)
            if not removed and (parent_value is None or parent_value.text in self._bound):
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

    def _line(self, bound: Bound, gate_set: str) -> GateLine | None:
        statement = bound.statement
        reported = statement.word == "report"
        name = bound.one() if reported else Value("name", statement.word, statement.word_span)
        if name is None:
            return None
        metric = self.context.catalog.metrics.get(name.text)
        if metric is None:
            self.context.unknown("TS213", "metric", name.text, name.span, self.context.catalog.metrics)
            return None
        before = len(self.context.found)
        if reported:
            form, op, quantity, place = "report", None, None, name.span
        else:
            read = self._relation(bound, metric)
            if read is None:
                return None
            form, op, quantity, place = read
        decision = text_of(bound.one(name="else"))
        if decision is None and not reported and "else" not in bound.places and not statement.broken:
            hint = f"a failure of {metric.name} usually means `else {metric.usual}`"
            self.context.say("TS209", "a gate says what its failure means: `else` is missing", after(statement), hint)
        if decision is not None and decision.text not in (*DECISIONS, "adopt"):
            self.context.unknown("TS230", "decision", decision.text, decision.span, DECISIONS)
        line = GateLine(
            metric=Text(name.text, name.span),
            form=form,
            op=op,
            limit=quantity,
            limit_span=place,
            against=self._against(bound, metric, form),
            at=tuple((Text(k.text, k.span), tuple(plain(v) for v in group)) for k, group in bound.pairs.get("at", [])),
            modes=self._modes(bound, metric),
            backends=self._backends(bound, metric),
            sees=self._sees(bound, metric, form),
            repeats=self._repeats(bound, metric),
            decision=decision,
            because=text_of(bound.one(name="because")),
            text=words_of(statement),
            span=statement.span,
            gate_set=gate_set,
        )
        return line if len(self.context.found) == before else None

    def _relation(self, bound: Bound, metric: Metric) -> tuple[str, str | None, Quantity | None, Span] | None:
        groups = bound.rest
        usable = [f for f in metric.forms if f not in ("absolute", "report")]
        broken = bound.statement.broken
        if not groups:
            if not broken:
                hint = self._example(metric)
                self.context.say("TS229", f"{metric.name} is compared with nothing", after(bound.statement), hint)
            return None
        first = groups[0][0]
        form = "absolute"
        rest = groups
        if first.kind == "name":
            form = first.text
            known = self.context.catalog.relations
            if form not in known or form in ("absolute", "report"):
                self.context.unknown("TS229", "relation", form, first.span, usable)
                return None
            rest = groups[1:]
        if form not in metric.forms:
            said = ", ".join(f"`{f}`" for f in usable) or "none"
            if "absolute" in metric.forms:
                said += ", or a plain `<=` or `>=`"
            what = f"`{form}`" if form != "absolute" else "an absolute limit"
            message = f"{metric.name} takes no {what.removeprefix('an ')}"
            self.context.say("TS304", message, first.span, f"it takes {said}")
            return None
        relation = self.context.catalog.relations[form]
        if not relation.needs_number:
            if rest:
                self.context.say("TS204", f"`{form}` takes no value", rest[0][0].span, "remove it")
                return None
            return form, None, None, first.span
        if not rest or rest[0][0].kind != "relation":
            place = rest[0][0].span if rest else after(bound.statement)
            if not broken:
                self.context.say("TS229", "`<=` or `>=` is missing here", place, self._example(metric))
            return None
        op = rest[0][0]
        if len(rest) < 2 or rest[1][0].kind != "number":
            place = (
                rest[1][0].span
                if len(rest) > 1
                else Span(op.span.file, op.span.line, op.span.end_column, op.span.line, op.span.end_column + 1)
            )
            if not broken:
                word = rest[1][0].text if len(rest) > 1 else ""
                no_number = word.lower() in ("inf", "infinity", "nan", "none", "never", "any")
                message = (
                    f"`{word}` is not a limit that a measurement can cross" if no_number else "a limit is a number"
                )
                self.context.say("TS310" if no_number else "TS205", message, place, self._example(metric))
            return None
        if len(rest) > 2:
            extra = rest[2][0]
            named = ("at", "against", "in", "on", "sees", "repeats", "else", "because")
            if extra.kind == "name":
                self.context.unknown("TS202", "part of a gate", extra.text, extra.span, named)
            else:
                self.context.say("TS204", "a gate has one limit", extra.span, self._example(metric))
        number = rest[1][0]
        place = Span(first.span.file, first.span.line, first.span.column, number.span.end_line, number.span.end_column)
        quantity = limit(self.context, metric, relation, number)
        return None if quantity is None else (form, op.text, quantity, place)

    def _example(self, metric: Metric) -> str:
        relative = next((f for f in metric.forms if f in ("growth", "drop")), None)
        if relative:
            return f"for example: {metric.name} {relative} <= 5 %  else {metric.usual}"
        truth = next((f for f in metric.forms if f in ("identical", "holds")), None)
        sign = "<=" if metric.better == "lower" else ">="
        return f"for example: {metric.name} {truth or f'{sign} 1e-4'}  else {metric.usual}"

    def _against(self, bound: Bound, metric: Metric, form: str) -> Text | None:
        value = bound.one(name="against")
        if value is None:
            if metric.needs_against and "against" not in bound.places and not bound.statement.broken:
                hint = "for example: against cpu.float64"
                message = f"{metric.name} is a difference: say against what"
                self.context.say("TS307", message, after(bound.statement), hint)
            return None
        kind = value.text if value.text in ("baseline", "beside", "eager") else "reference"
        if kind == "reference":
            backend, dot, dtype = value.text.partition(".")
            if not dot or backend not in self.context.catalog.backends:
                options = [k if k != "reference" else "cpu.float64" for k in metric.against]
                self.context.unknown("TS231", "reference", value.text, value.span, options)
                return None
            dtypes = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64")
            if dtype not in dtypes:
                self.context.unknown("TS231", "precision of a reference", dtype, value.span, dtypes)
                return None
        if kind not in metric.against or (form == "absolute" and not metric.needs_against):
            can = ", ".join("cpu.float64" if k == "reference" else k for k in metric.against) or "nothing"
            if form == "absolute" and kind in metric.against:
                message = "an absolute limit stands alone: `against` would change nothing"
                can = "leave `against` out, or compare with `growth` or `drop`"
            else:
                message, can = f"{metric.name} cannot be compared against {value.text}", f"it can be against {can}"
            self.context.say("TS307", message, value.span, can)
            return None
        return Text(value.text, value.span)

    def _modes(self, bound: Bound, metric: Metric) -> tuple[Text, ...]:
        good: list[Text] = []
        for value in bound.many(name="in"):
            if value.text not in MODES:
                self.context.unknown("TS216", "mode", value.text, value.span, MODES)
            elif value.text not in metric.modes:
                hint = "it has: " + ", ".join(metric.modes)
                self.context.say("TS306", f"{metric.name} does not exist in mode {value.text}", value.span, hint)
            else:
                good.append(Text(value.text, value.span))
        return tuple(good)

    def _backends(self, bound: Bound, metric: Metric) -> tuple[Text, ...]:
        good: list[Text] = []
        for value in bound.many(name="on"):
            if value.text not in self.context.catalog.backends:
                self.context.unknown("TS211", "backend", value.text, value.span, self.context.catalog.backends)
            elif value.text not in metric.backends:
                hint = "it exists on " + ", ".join(metric.backends)
                self.context.say("TS305", f"{value.text} cannot give {metric.name}", value.span, hint)
            else:
                good.append(Text(value.text, value.span))
        return tuple(good)

    def _sees(self, bound: Bound, metric: Metric, form: str) -> Quantity | None:
        value = bound.one(name="sees")
        if value is None:
            return None
        relation = self.context.catalog.relations[form]
        if not relation.needs_number:
            message = f"`{form}` has no size, so there is no change of a size to see"
            self.context.say("TS311", message, value.span, "remove `sees`")
            return None
        return limit(self.context, metric, relation, value)

    def _repeats(self, bound: Bound, metric: Metric) -> int | None:
        value = bound.one(name="repeats")
        if value is None or not isinstance(value.number, int):
            return None
        if metric.sampling not in ("fact", "count", "numeric", "process", "duration"):
            message = f"{metric.name} is sampled until it can be judged, not a fixed number of times"
            self.context.say("TS312", message, value.span, "remove `repeats`")
            return None
        if not 2 <= value.number <= 10000:
            self.context.say("TS308", "`repeats` is a whole number from 2 to 10000", value.span)
            return None
        return value.number


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
