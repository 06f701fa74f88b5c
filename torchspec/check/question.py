"""What a spec asks and promises around the work: upgrade and window, rollback, `measure` and `meta`."""

from __future__ import annotations

from typing import Any

from torchspec.check.bind import Bound
from torchspec.check.spec import Quantity, RollbackDecl, StageDecl, Text, UpgradeDecl
from torchspec.check.structure import Context, after, walk
from torchspec.check.units import positive, wanted
from torchspec.check.values import plain, text_of
from torchspec.core.diagnostics import Label
from torchspec.syntax.ast import Statement

DEFAULT_TIMEOUT_S = 600.0  # as in model.plan.Budget, whose import `check` does without


def upgrade(context: Context, bound: Bound) -> UpgradeDecl | None:
    title = bound.one()
    inner = walk(context, "upgrade", bound.statement.block or ())
    window = inner.get("window", [None])[0]
    start, end = (window.one(0), window.one(1)) if window else (None, None)
    if start is not None and end is not None and start.text > end.text:
        label = (Label(start.span, "it begins here"),)
        context.say("TS411", "the window ends before it begins", end.span, "swap the dates", label)
    stages: list[StageDecl] = []
    for line in inner.get("stage", []):
        name, until = line.one(0), line.one(0, "until")
        if name is None:
            continue
        if until is None:
            if "until" not in line.places and not line.broken:
                context.say("TS203", "`stage` lacks `until` and a date", after(line.statement))
            continue
        if any(s.name.text == name.text for s in stages):
            context.say("TS219", f"there are two stages `{name.text}`", name.span, "rename one")
            continue
        if start is not None and end is not None and not start.text <= until.text <= end.text:
            label = (Label(end.span, "the window ends here"),)
            context.say("TS412", f"stage `{name.text}` ends outside of the window", until.span, None, label)
        said = line.one(1, "until") or line.one(1)
        stages.append(StageDecl(Text(name.text, name.span), Text(until.text, until.span), said.text if said else ""))
    if title is None:
        return None

    def only(word: str) -> Text | None:
        lines = inner.get(word)
        return text_of(lines[0].one()) if lines else None

    caveats = tuple(c for c in (text_of(line.one()) for line in inner.get("caveat", [])) if c is not None)
    return UpgradeDecl(
        Text(title.text, title.span),
        only("owner"),
        only("asks"),
        text_of(start),
        text_of(end),
        tuple(stages),
        caveats,
        bound.statement.span,
    )


def rollback(context: Context, bound: Bound | None) -> RollbackDecl | None:
    if bound is None:
        return None
    inner = walk(context, "rollback", bound.statement.block or ())
    line = inner.get("rehearse", [None])[0]
    if line is None:
        if not bound.broken and not any(s.broken for s in bound.statement.block or ()):
            hint = "for example: rehearse baseline  within 10 min"
            context.say("TS207", "`rollback` has no `rehearse`", bound.statement.word_span, hint)
        return None
    target = line.one()
    if target is not None and target.text != "baseline":
        context.unknown("TS231", "thing to go back to", target.text, target.span, ("baseline",))
    value = line.one(name="within")
    within: Quantity | None = None
    if value is None:
        if "within" not in line.places and not line.broken:
            context.say(
                "TS203", "`rehearse` lacks `within` and a time", after(line.statement), "for example: within 10 min"
            )
    else:
        within = wanted(context, value, "time", "how long going back may take")
        if not positive(context, within, "how long going back may take", value.span):
            within = None
    reload: list[Text] = []
    for reloaded in inner.get("reload", []):
        for item in reloaded.many():
            if item.text not in ("checkpoint", "export"):
                context.unknown("TS216", "thing to reload", item.text, item.span, ("checkpoint", "export"))
            elif item.text not in [r.text for r in reload]:
                reload.append(Text(item.text, item.span))
    manual = tuple(t for t in (text_of(m.one()) for m in inner.get("manual", [])) if t is not None)
    if target is None or within is None:
        return None
    return RollbackDecl(Text(target.text, target.span), within, tuple(reload), manual, bound.statement.span)


def measure(context: Context, bound: Bound | None) -> dict[str, Any]:
    """Fields of `model.plan.Budget` that the spec sets, and the timeout always: it bounds what a time can be."""
    made: dict[str, Any] = {"timeout_s": DEFAULT_TIMEOUT_S}
    if bound is None:
        return made
    inner = walk(context, "measure", bound.statement.block or ())
    for word, name, scale in (
        ("cell", "cell_s", 1.0),
        ("run", "run_s", 1.0),
        ("timeout", "timeout_s", 1.0),
        ("block", "block_ms", 1e3),
    ):
        value = inner[word][0].one() if word in inner else None
        quantity = wanted(context, value, "time", f"`{word}`")
        if value is not None and quantity is not None and positive(context, quantity, f"`{word}`", value.span):
            made[name] = float(value.number or 0) if word == "block" and value.unit == "ms" else quantity.value * scale
    for word in ("builds", "rounds"):
        value = inner[word][0].one() if word in inner else None
        if value is not None and isinstance(value.number, int):
            if not 1 <= value.number <= 10000:
                context.say("TS308", f"`{word}` is a whole number from 1 to 10000", value.span)
            made[word] = value.number
    if "pairs" in inner:
        low, high = inner["pairs"][0].one(0), inner["pairs"][0].one(1)
        if low is not None and high is not None and isinstance(low.number, int) and isinstance(high.number, int):
            if not 2 <= low.number <= high.number <= 10000:
                context.say("TS308", "`pairs` go from at least 2 to no fewer", low.span, "for example: pairs 2 to 8")
            made["min_pairs"], made["max_pairs"] = low.number, high.number
    value = inner["malloc"][0].one() if "malloc" in inner else None
    if value is not None:
        if value.text not in ("tuned", "default"):
            context.unknown("TS216", "malloc", value.text, value.span, ("tuned", "default"))
        made["tuned_malloc"] = value.text == "tuned"
    return made


def meta(statements: tuple[Statement, ...], context: Context) -> dict[str, Any]:
    """A team's own keys: one value, a list, or a block, as JSON."""
    made: dict[str, Any] = {}
    for statement in statements:
        if not statement.word:
            continue
        if statement.word in made:
            context.say("TS206", f"`{statement.word}` stands twice", statement.word_span, "rename one")
            continue
        values = [plain(v) for group in statement.arguments for v in group]
        if statement.block is not None:
            inner = meta(statement.block, context)
            made[statement.word] = {"values": values, **inner} if values else inner
        else:
            made[statement.word] = values[0] if len(values) == 1 else values
    return made
