"""A judgement as a clause for the answer, and as the sentence of a reason."""

from __future__ import annotations

from dataclasses import replace

from torchspec.model.memo import Words
from torchspec.model.plan import Gate
from torchspec.model.verdict import Judgement
from torchspec.report import numbers
from torchspec.report.context import Context
from torchspec.report.figure import Figure, bound_words, figure
from torchspec.report.language import Language, clip, code, join, plain
from torchspec.report.names import DOES_NOT_HOLD, METERS, capital, metric_name


def clause(ctx: Context, gate: Gate, j: Judgement, workload: str) -> Words:
    """ "`x` needs 76.3 % more driver memory at peak; the limit is +5 %" """
    t = ctx.t
    fig = figure(t, gate, j)
    name = code(workload)
    limit = bound_words(t, gate)
    if j.metric == "runs":
        return t.words("`{w}` does not run to its end", w=name)
    if gate.limit.form == "identical" and j.rule == DOES_NOT_HOLD:
        return t.words(
            "{metric}: `{w}` does not run under deterministic algorithms", metric=metric_name(t, j.metric), w=name
        )
    if gate.limit.form == "identical":
        return t.words(
            "{metric}: `{w}` gives different results when it is repeated", metric=metric_name(t, j.metric), w=name
        )
    if gate.limit.form == "holds":
        return t.words("{metric}: `{w}` does not hold", metric=metric_name(t, j.metric), w=name)
    if not fig.change:
        return t.words("`{w}` is beyond its limit for {metric}", w=name, metric=metric_name(t, j.metric))
    if j.metric in METERS and j.estimate is not None and j.estimate > 0 and gate.limit.form == "growth":
        more = numbers.change(j.estimate, j.low, j.high, gate.limit.value, locale=t.locale)
        if more.unit:
            return t.words(
                "`{w}` needs {change} more {meter} memory at peak; the limit is {limit}",
                w=name,
                change=more.estimate.lstrip("+") + more.unit,
                meter=t.text(METERS[j.metric][0]).lower(),
                limit=limit,
            )
    return t.words(
        "{metric} of `{w}` is {change}; the limit is {limit}",
        w=name,
        metric=metric_name(t, j.metric),
        change=fig.change,
        limit=limit,
    )


def full(ctx: Context, gate: Gate, j: Judgement, workload: str) -> Words:
    """The reason's sentence: both absolute values, the change with its interval, the limit."""
    t = ctx.t
    fig = figure(t, gate, j)
    if not fig.change:
        reason = clip(j.reason, 240).rstrip(".")
        said = (*clause(ctx, gate, j, workload), *plain("."))
        return join([said, plain(reason + ".")], " ") if reason and t.code == "en" else said
    change = f"{fig.change} {fig.interval}".strip()
    if j.metric in METERS and fig.absolute:
        said = t.words(
            "`{w}`: {meter} memory at peak {pair}, {change}; the limit is {limit}.",
            w=code(workload),
            pair=fig.absolute,
            meter=t.text(METERS[j.metric][0]).lower(),
            change=change,
            limit=bound_words(t, gate),
        )
        parts = loading(t, j)
        if parts is None or ctx.several:  # page one has no room for it beside several candidates; the section has it
            return said
        more = t.words(
            "A later step takes {later}; the first one imports {modules} modules.", later=parts[0], modules=parts[1]
        )
        return join([said, more], " ")
    if fig.absolute and gate.limit.form != "absolute":
        return t.words(
            "`{w}`: {metric} {pair}, {change}; the limit is {limit}.",
            w=code(workload),
            metric=metric_name(t, j.metric),
            pair=fig.absolute,
            change=change,
            limit=bound_words(t, gate),
        )
    return t.words(
        "`{w}`: {metric} {change}; the limit is {limit}.",
        w=code(workload),
        metric=metric_name(t, j.metric),
        change=change,
        limit=bound_words(t, gate),
    )


def loading(t: Language, j: Judgement) -> tuple[str, str] | None:
    """What of a peak of the process is loading: the memory of a later step, and the modules that the first one imports,
    baseline and candidate; None where the harness does not tell."""
    told = (j.detail or {}).get("parts")
    if not told:
        return None
    one, two = told["baseline"], told["candidate"]
    later = numbers.pair(one["later_step"], two["later_step"], "bytes", locale=t.locale).arrow
    return later, numbers.pair(one["modules_imported"], two["modules_imported"], "count", locale=t.locale).arrow


def sentence(words: Words) -> Words:
    """Words as the beginning of a sentence: the first letter large, but for a name in the fixed pitch."""
    if not words or words[0].style == "code":
        return words
    return (replace(words[0], text=capital(words[0].text)), *words[1:])


def crosses(fig: Figure) -> bool:
    """The written interval holds the limit."""
    return fig.values is not None and fig.values[1] <= fig.values[3] <= fig.values[2]
