"""One line of a gate set: metric, relation, limit, narrowing, `else`, held against the metric's row."""

from __future__ import annotations

from torchspec.catalog import Metric
from torchspec.catalog.metric_forms import EVERY
from torchspec.check.bind import Bound
from torchspec.check.spec import GateLine, Quantity, Text
from torchspec.check.structure import Context, after
from torchspec.check.units import limit
from torchspec.check.values import plain, text_of, words_of
from torchspec.core.diagnostics import Span
from torchspec.syntax.ast import Value

DECISIONS = ("isolate", "defer", "rollback")
MODES = EVERY


class GateLines:
    """Reads gate lines; mistakes go to the context."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def read(self, bound: Bound, gate_set: str) -> GateLine | None:
        """The line, None where it has a mistake."""
        statement = bound.statement
        reported = bound.row.word == "report"
        name = bound.one() if reported else Value("name", statement.word, statement.word_span)
        if name is None:
            return None
        metric = self.context.catalog.metrics.get(name.text)
        if metric is None:
            self.context.unknown_metric(name)
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
        if decision is None and not reported and "else" not in bound.places and not bound.broken:
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
        broken = bound.broken
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
                options = [*usable, *(("<=", ">=") if "absolute" in metric.forms else ())]
                self.context.unknown("TS229", "relation", form, first.span, options)
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
            signs = any(d.code == "TS107" and d.span and d.span.line == place.line for d in self.context.found)
            if not broken and not signs:
                sign = ">=" if form == "speedup" or (form == "absolute" and metric.better == "higher") else "<="
                said = "" if form == "absolute" else f"{form} "
                is_number = bool(rest) and rest[0][0].kind == "number"
                hint = f"write `{said}{sign} {rest[0][0].written}`" if is_number else self._example(metric)
                self.context.say("TS229", "`<=` or `>=` is missing here", place, hint)
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
        number = rest[1][0]
        if len(rest) > 2 and rest[2][0].text in usable and form == "absolute":
            extra = rest[2][0]
            hint = f"write `{extra.text} {op.text} {number.written}`"
            self.context.say("TS229", f"`{extra.text}` stands before its limit", extra.span, hint)
            return None
        if len(rest) > 2:
            extra = rest[2][0]
            bound.lost = True
            named = ("at", "against", "in", "on", "sees", "repeats", "else", "because")
            if extra.kind == "name":
                self.context.unknown("TS202", "part of a gate", extra.text, extra.span, named)
            else:
                self.context.say("TS204", "a gate has one limit", extra.span, self._example(metric))
        place = Span(first.span.file, first.span.line, first.span.column, number.span.end_line, number.span.end_column)
        if broken and number.unit is None:  # its unit may be what was reported
            return None
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
            if metric.needs_against and "against" not in bound.places and not bound.broken:
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
            if backend == "mps" and dtype in ("float64", "complex128"):
                hint = "Metal has no double precision: against cpu.float64, or against mps.float32"
                self.context.say("TS307", f"mps has no {dtype} to make a reference in", value.span, hint)
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
