"""Sources and claims: somebody else's figures, with their basis and what would reproduce them."""

from __future__ import annotations

from typing import Any

from torchspec.check.bind import Bound
from torchspec.check.spec import ClaimDecl, SourceDecl, StatementDecl, Text, WorkloadDecl
from torchspec.check.structure import Context, after, walk
from torchspec.check.units import convert, dimension_of, limit
from torchspec.check.values import plain, text_of, texts, words_of
from torchspec.core.diagnostics import Diagnostic, Label, Severity, Span


def sources(context: Context, lines: list[Bound]) -> list[SourceDecl]:
    made: dict[str, SourceDecl] = {}
    for line in lines:
        name, url = line.one(0), line.one(1)
        if name is None or url is None:
            continue
        if name.text in made:
            label = (Label(made[name.text].name.span, "first here"),)
            context.say("TS219", f"there are two sources `{name.text}`", name.span, "rename one", label)
            continue
        if not url.text.startswith(("https://", "http://")) or any(c.isspace() for c in url.text):
            hint = "it begins with https:// and has no spaces"
            context.say("TS240", f'"{url.text}" is not a URL of the web', url.span, hint)
        retrieved = text_of(line.one(name="retrieved"))
        if retrieved is None and "retrieved" not in line.places and not line.broken:
            hint = "pages change: say when it was read, for example: retrieved 2026-11-30"
            context.say("TS203", "`source` lacks `retrieved` and a date", after(line.statement), hint)
        made[name.text] = SourceDecl(
            Text(name.text, name.span), Text(url.text, url.span), retrieved, line.statement.span
        )
    return list(made.values())


def claims(
    context: Context, lines: list[Bound], known: list[SourceDecl], workloads: list[WorkloadDecl], names: list[str]
) -> list[ClaimDecl]:
    """Every claim. `names`: all workloads, those with mistakes of their own included."""
    made: list[ClaimDecl] = []
    taken: dict[str, Span] = {}
    for line in lines:
        name = line.one()
        if name is None:
            continue
        if name.text in taken:
            label = (Label(taken[name.text], "first here"),)
            context.say("TS219", f"there are two claims `{name.text}`", name.span, "rename one", label)
            continue
        taken[name.text] = name.span
        claim = _claim(context, line, Text(name.text, name.span), known, workloads, names)
        if claim is not None:
            made.append(claim)
    return made


def _claim(
    context: Context,
    line: Bound,
    name: Text,
    known: list[SourceDecl],
    workloads: list[WorkloadDecl],
    names: list[str],
) -> ClaimDecl | None:
    source = line.one(name="from")
    if source is None:
        if "from" not in line.places and not line.broken:
            hint = "for example: claim faster from notes {"
            context.say("TS203", "`claim` lacks `from` and a source", after(line.statement), hint)
    elif source.text not in [s.name.text for s in known]:
        declare = f'source {source.text} "https://…"  retrieved 2026-11-30'
        context.unknown("TS217", "source", source.text, source.span, [s.name.text for s in known], declare)
    inner = walk(context, "claim", line.statement.block or ())
    check = inner.get("check", [None])[0]
    target = check.one() if check else None
    broken = line.broken or any(s.broken for s in line.statement.block or ())
    if check is None and not broken:
        message = f"claim `{name.text}` does not say what would reproduce it"
        context.say("TS236", message, name.span, "for example: check reranker on cpu")
    workload: WorkloadDecl | None = None
    if target is not None:
        if target.text not in names:
            context.unknown("TS236", "workload", target.text, target.span, names)
        workload = next((w for w in workloads if w.name.text == target.text), None)
    if check is not None and workload is not None:
        for value in check.many(name="on"):
            on = [b.text for b in workload.backends]
            if value.text not in on and value.text not in context.misnamed:
                context.unknown("TS211", f"backend of `{workload.name.text}`", value.text, value.span, on)
    if not inner.get("states") and not broken:
        hint = "for example: states latency.p50 speedup 1.3 x  within 10 %"
        context.say("TS207", f"claim `{name.text}` states no figure", name.span, hint)
    states = [s for s in (_states(context, b) for b in inner.get("states", [])) if s is not None]
    if not inner.get("basis") and not broken:
        hint = 'a figure without its basis compares with nothing: basis device "H100"  dtype bfloat16'
        context.say("TS207", f"claim `{name.text}` does not say what it was measured on", name.span, hint)
    basis = _basis(context, inner.get("basis", []))
    if workload is not None:
        _comparable(context, workload, basis, states)
    if source is None or target is None:
        return None
    backends = texts(check.many(name="on")) if check else ()
    return ClaimDecl(
        name,
        Text(source.text, source.span),
        tuple(basis),
        tuple(states),
        Text(target.text, target.span),
        backends,
        line.statement.span,
    )


def _basis(context: Context, rows: list[Bound]) -> list[tuple[Text, Any]]:
    """What the figures were measured on: one value of each thing."""
    made: dict[str, tuple[Text, Any]] = {}
    for row in rows:
        for key, group in row.pairs.get("", []):
            if key.text in made:
                label = (Label(made[key.text][0].span, "first here"),)
                hint = "figures of another basis are another claim"
                context.say("TS206", f"the basis has two values of `{key.text}`", key.span, hint, label)
            elif len(group) > 1:
                hint = "write one claim for each basis: figures of different bases are never combined"
                context.say("TS204", f"a figure was measured on one {key.text}", group[1].span, hint)
            else:
                made[key.text] = (Text(key.text, key.span), plain(group[0]))
    return list(made.values())


def _states(context: Context, line: Bound) -> StatementDecl | None:
    name = line.one()
    if name is None:
        return None
    metric = context.catalog.metrics.get(name.text)
    if metric is None:
        context.unknown_metric(name)
        return None
    groups = [g for g in line.rest if g[0].kind != "relation"]
    form = "absolute"
    if groups and groups[0][0].kind == "name":
        form = groups[0][0].text
        if form not in metric.forms or form in ("absolute", "report", "identical", "holds"):
            usable = [f for f in metric.forms if context.catalog.relations[f].needs_number and f != "absolute"]
            context.unknown("TS229", "relation", form, groups[0][0].span, usable)
            return None
        groups = groups[1:]
    if not groups or groups[0][0].kind != "number":
        if not line.broken:
            hint = "for example: states latency.p50 speedup 1.3 x  within 10 %"
            context.say("TS203", "`states` lacks a figure", after(line.statement), hint)
        return None
    figure = limit(context, metric, context.catalog.relations[form], groups[0][0])
    if figure is None:
        return None
    tolerance = line.one(name="within")
    converted = None
    if tolerance is not None:
        kind = dimension_of(context.catalog, tolerance.unit)
        same = dimension_of(context.catalog, figure.unit)
        if kind not in ("ratio", "points", same) or (kind == "points" and same not in ("ratio", "points")):
            message = f"a tolerance of `{tolerance.written}` does not fit a figure of `{figure.text}`"
            context.say("TS301", message, tolerance.span, "for example: within 5 %")
        else:
            converted = convert(context.catalog, tolerance)
    at = tuple((Text(k.text, k.span), plain(g[0])) for k, g in line.pairs.get("at", []))
    return StatementDecl(
        Text(name.text, name.span), form, figure, converted, at, words_of(line.statement), line.statement.span
    )


def _comparable(
    context: Context, workload: WorkloadDecl, basis: list[tuple[Text, Any]], states: list[StatementDecl]
) -> None:
    """Warns, once a line, where the matrix lacks what a figure was stated for: it will be *not comparable here*.

    Of the basis, what is no axis (such as the device) is known only when it runs.
    """
    axes: dict[str, tuple[Any, ...]] = {a.name: a.values for a in workload.axes}
    axes["mode"] = tuple(m.text for m in workload.modes)
    for pairs, strict in ((basis, False), *((s.at, True) for s in states)):
        for key, value in pairs:
            wanted = value if isinstance(value, list) else [value]
            if key.text in axes:
                lacks = [v for v in wanted if v not in axes[key.text]]
            elif strict:
                lacks = [v for v in wanted if workload.options.get(key.text) != v]
            else:
                continue
            if lacks:
                message = f"`{workload.name.text}` has no {key.text} {lacks[0]}: this figure is not comparable here"
                hint = 'measure that value too, or accept it: silence TS237  because "…"'
                context.found.append(Diagnostic("TS237", message, key.span, (), hint, Severity.WARNING))
                break
