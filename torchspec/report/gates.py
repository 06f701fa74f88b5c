"""The section on gates: what each gate says of each workload, then timing and the rest in figures.

Must not hide a row: beyond 300 judgements the tables list what does not pass and say how many rows they leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchspec.model.memo import Block, Cell, Plot, Scale, Section, TableRow, Words
from torchspec.model.plan import Gate
from torchspec.model.verdict import Judgement
from torchspec.report import build, numbers
from torchspec.report.context import Context, evidence_words, worst
from torchspec.report.figure import Figure, better, figure, limit_words, position
from torchspec.report.language import code, join, plain, soft, strong
from torchspec.report.names import (
    DECISION_MEANINGS,
    OUTCOME_MEANINGS,
    RULES,
    decision_mark,
    metric_name,
    outcome_mark,
)

TIMING = ("latency", "throughput", "step")
STARTING = ("compile", "import", "export")
WIDEST_OVERVIEW = 5


def family(metric: str) -> str:
    return metric.split(".")[0]


def section(ctx: Context, candidate: str, backend: str) -> Section:
    """Everything that was judged of one candidate on one backend, but memory's and compilation's own figures."""
    t = ctx.t
    judged = [
        j for j in ctx.verdict.judgements if j.candidate == candidate and ctx.cells[j.cell].backend == backend
    ]
    voting = [j for j in judged if ctx.gates[j.gate].decision is not None]
    blocks: list[Block] = []
    workloads = list(dict.fromkeys(ctx.cells[j.cell].workload for j in judged))
    if len(workloads) <= WIDEST_OVERVIEW:
        blocks.append(_overview(ctx, judged, workloads))
    timing = [j for j in judged if family(j.metric) in TIMING and not ctx.gates[j.gate].implicit]
    blocks += timing_blocks(ctx, timing)
    rest = [j for j in judged if family(j.metric) not in (*TIMING, *STARTING, "memory")]
    blocks += other_blocks(ctx, rest, t.text("Correctness, determinism and the rest"))
    name = backend + (f", {ctx.candidate_name(candidate)}" if ctx.several else "")
    return Section(
        f"gates-{candidate}-{backend}",
        "",
        _heading(ctx, voting, name),
        join([_tally(ctx, voting), t.words("Changes are candidate against baseline.")], " "),
        tuple(blocks),
    )


def _heading(ctx: Context, judged: Sequence[Judgement], where: str) -> str:
    t = ctx.t
    n = {o: sum(j.outcome == o for j in judged) for o in ("fail", "error", "inconclusive", "not_run", "pass")}
    words = {
        "fail": ("{n} fails", "{n} fail"),
        "error": ("{n} ended in an error", "{n} ended in an error"),
        "inconclusive": ("{n} is inconclusive", "{n} are inconclusive"),
        "not_run": ("{n} was not run", "{n} were not run"),
    }
    parts = [t.counted(n[o], *both) for o, both in words.items() if n[o]]
    if not parts:
        return t.text("Gates on {where}: all {n} pass", where=where, n=n["pass"])
    return t.text("Gates on {where}: {found}, {n} in all", where=where, n=len(judged), found=", ".join(parts))


def _tally(ctx: Context, judged: Sequence[Judgement]) -> Words:
    t = ctx.t
    counts = [
        (o, sum(j.outcome == o for j in judged)) for o in ("pass", "fail", "inconclusive", "error", "not_run")
    ]
    listed = ", ".join(f"{numbers.count(n)} {outcome_mark(t, o).text}" for o, n in counts if n)
    return t.plural(len(judged), "{n} judgement: {listed}.", "{n} judgements: {listed}.", listed=listed)


def _overview(ctx: Context, judged: Sequence[Judgement], workloads: Sequence[str]) -> Block:
    """Gate by workload: the worst outcome over the workload's cells, with its figure."""
    t = ctx.t
    lines: dict[tuple[str, str], dict[str, list[Judgement]]] = {}
    for j in judged:
        gate = ctx.gates[j.gate]
        key = (_gate_name(ctx, gate), limit_words(t, gate))
        lines.setdefault(key, {}).setdefault(ctx.cells[j.cell].workload, []).append(j)
    rows = []
    for (name, limit), own in lines.items():
        cells: list[Cell | Words | str] = [build.cell(strong(name)), build.cell(soft(limit))]
        for workload in workloads:
            first = worst(own.get(workload, ()))
            if first is None:
                cells.append(build.cell(soft(t.text("no such gate"))))
                continue
            fig = figure(t, ctx.gates[first.gate], first)
            more = len(own[workload])
            sub = fig.change or _short(ctx, first)
            label = ctx.cell_words(ctx.cells[first.cell]) if more > 1 else ""
            cells.append(
                build.cell(
                    mark=outcome_mark(t, first.outcome), sub=join([plain(sub), plain(label)]), boxed=first.outcome != "pass"
                )
            )
        rows.append(build.row(*cells))
    registered = ctx.registration.commit
    head = t.text("Limit, registered in {commit}", commit=registered[:7]) if registered else t.text(
        "Limit, not registered in a commit"
    )
    columns = [build.column(t.text("Gate")), build.column(head)]
    columns += [build.column(w, code=True, sub=ctx.fixed_axes(w)) for w in workloads]
    return build.table("overview", t.text("Gates by workload"), columns, rows)


def _short(ctx: Context, j: Judgement) -> str:
    """What stands below the outcome of a gate without an estimate."""
    t = ctx.t
    form = ctx.gates[j.gate].limit.form
    if j.outcome == "pass" and form == "holds":
        return t.text("holds")
    if j.outcome == "pass" and form == "identical":
        return t.text("identical")
    if j.outcome == "fail" and form == "identical":
        return t.text("differs")
    if j.outcome == "fail" and form == "holds":
        return t.text("does not hold")
    return ""


def _gate_name(ctx: Context, gate: Gate) -> str:
    name = capital(metric_name(ctx.t, gate.metric))
    if gate.against and gate.against != "baseline":
        return ctx.t.text("{metric} against {reference}", metric=name, reference=gate.against)
    if gate.against == "baseline" and gate.limit.form == "absolute":
        return ctx.t.text("{metric} against {reference}", metric=name, reference=ctx.t.text("the baseline"))
    return name


def capital(text: str) -> str:
    """The first letter large, for the beginning of a line."""
    return text[:1].upper() + text[1:]


def samples(ctx: Context, j: Judgement) -> str:
    """ "8 pairs, 4 builds" """
    t = ctx.t
    words = {
        "pairs": ("{n} pair", "{n} pairs"),
        "builds": ("{n} build", "{n} builds"),
        "rounds": ("{n} round", "{n} rounds"),
        "iterations": ("{n} call", "{n} calls"),
        "repeats": ("{n} repeat", "{n} repeats"),
        "processes": ("{n} process", "{n} processes"),
        "values": ("{n} value", "{n} values"),
    }
    parts = [t.counted(n, *words[k]) for k, n in (j.n or {}).items() if k in words and n]
    return ", ".join(parts)


def rule_words(ctx: Context, j: Judgement) -> str:
    """The rule that fired, in the memo's language; a rule this memo has no words for is shown as it is."""
    return ctx.t.text(RULES[j.rule]) if j.rule in RULES else j.rule


def trace(ctx: Context, j: Judgement) -> Words:
    """Samples, rule and evidence of one judgement, as a second line."""
    visible = ""
    if j.visible is not None and ctx.gates[j.gate].limit.form in {"growth", "drop"}:
        visible = ctx.t.text("could see {change}", change=numbers.change(j.visible, locale=ctx.t.locale).estimate
                             .lstrip("+") + f"{numbers.NNBSP}%")
    special = ctx.t.text("waived") if j.waived is not None else ctx.t.text("improvement") if j.improvement else ""
    return join([
        soft(special), soft(samples(ctx, j)), soft(rule_words(ctx, j)), soft(visible), evidence_words(j.evidence),
    ])


def shown(ctx: Context, judged: Iterable[Judgement]) -> tuple[list[Judgement], Words]:
    """The judgements a table lists, and the note on those it leaves out."""
    every = list(judged)
    if not ctx.large:
        return every, ()
    kept = [j for j in every if j.outcome not in {"pass", "not_run"} or j.improvement]
    out = len(every) - len(kept)
    if not out:
        return kept, ()
    return kept, ctx.t.plural(
        out,
        "{n} row that passes or was not run is not listed here; it is in memo.json and verdict.json.",
        "{n} rows that pass or were not run are not listed here; they are in memo.json and verdict.json.",
    )


def where_cell(ctx: Context, j: Judgement) -> Cell:
    cell = ctx.cells[j.cell]
    return build.cell((*code(cell.workload), *soft("  " + ctx.cell_words(cell))))


def outcome_cell(ctx: Context, j: Judgement) -> Cell:
    return build.cell(mark=outcome_mark(ctx.t, j.outcome))


def scale_for(figures: Iterable[Figure]) -> Scale | None:
    """The shared axis of relative gates: twice the widest limit around zero, in per cent."""
    limits = [abs(f.values[3]) for f in figures if f.values is not None]
    if not limits:
        return None
    reach = 2.4 * max(limits) or 1.0
    step = nice_step(reach)
    ticks = [step * k for k in range(-int(reach / step), int(reach / step) + 1)]
    return Scale(-reach, reach, tuple((v, tick(v)) for v in ticks), "%")


def nice_step(reach: float) -> float:
    """A round distance between ticks, about two on each side of zero."""
    raw = reach / 2.4
    size = 10.0 ** int(f"{raw:e}".split("e")[1])
    return next((m * size for m in (1, 2, 3, 5) if m * size >= raw), 10 * size)


def tick(value: float) -> str:
    return numbers.change(value / 100).estimate.removesuffix(".0") if value % 1 == 0 else numbers.change(
        value / 100
    ).estimate


def interval_plot(ctx: Context, fig: Figure, scale: Scale | None, outcome: str) -> Plot | None:
    if fig.values is None or scale is None or fig.beyond is None:
        return None
    estimate, low, high, limit = fig.values
    short, title = position(ctx.t, low, high, limit, fig.beyond)
    return Plot(
        "interval", scale, title, short, outcome, estimate, low, high, limit,
        "above" if fig.beyond == "above" else "below",
    )


def timing_blocks(ctx: Context, judged: Sequence[Judgement], title: str | None = None) -> list[Block]:
    """Relative gates as a forest plot, grouped by gate; absolute ones without a plot in the same table."""
    t = ctx.t
    kept, note = shown(ctx, [j for j in judged if ctx.gates[j.gate].decision is not None])
    kept += [j for j in judged if ctx.gates[j.gate].decision is None and not ctx.large]
    if not kept:
        return [build.paragraph(note)] if note else []
    figures = {id(j): figure(t, ctx.gates[j.gate], j) for j in kept}
    scale = scale_for(figures.values())
    rows: list[TableRow] = []
    for group in _groups(ctx, kept):
        gate = ctx.gates[group[0].gate]
        rows.append(_group_row(ctx, gate, 6 if scale is None else 7))
        rows += [_figure_row(ctx, j, figures[id(j)], scale) for j in group]
    if scale is not None:
        rows.append(axis_row(scale, 7, 5))
    columns = [
        build.column(t.text("Workload")),
        build.column(t.text("Baseline"), "right"),
        build.column(t.text("Candidate"), "right"),
        build.column(t.text("Change"), "right"),
        build.column(t.text("{n} % interval", n=_confidence(kept)), "right"),
        *([build.column(t.text("Against the limit"))] if scale is not None else []),
        build.column(t.text("Outcome")),
    ]
    return [
        build.heading(title or t.text("Timing: the whole interval must be inside the limit")),
        build.table("figures", title or t.text("Timing"), columns, rows, note=join([
            t.words("Line: interval. Mark: estimate. Grey: beyond the limit. Arrow: off the scale, read the numbers. "
                    "A change is estimated from pairs and may differ from the ratio of the two medians beside it."),
            note], " "), sortable=False),
    ]


def _confidence(judged: Sequence[Judgement]) -> str:
    levels = {j.confidence for j in judged if j.confidence is not None}
    return numbers.fixed(numbers.rounded(levels.pop() * 100, 0)) if len(levels) == 1 else "95"


def _groups(ctx: Context, judged: Iterable[Judgement]) -> list[list[Judgement]]:
    """By gate name, limit and decision, in the plan's order: the same line in two gate sets is one group."""
    groups: dict[tuple[str, str, str | None], list[Judgement]] = {}
    for j in judged:
        gate = ctx.gates[j.gate]
        groups.setdefault((_gate_name(ctx, gate), limit_words(ctx.t, gate), gate.decision), []).append(j)
    return list(groups.values())


def _group_row(ctx: Context, gate: Gate, width: int) -> TableRow:
    t = ctx.t
    note = [soft(t.text("limit {limit}", limit=limit_words(t, gate)))]
    if gate.limit.op is not None:
        note.append(soft(better(t, gate)))
    if gate.decision is not None:
        note.append(soft(t.text("beyond it: {decision}", decision=decision_mark(t, gate.decision).text)))
    words = (*strong(_gate_name(ctx, gate)), *soft("  "), *join(note))
    return build.row(words, *([""] * (width - 1)), kind="group")


def _figure_row(ctx: Context, j: Judgement, fig: Figure, scale: Scale | None) -> TableRow:
    base, cand = _sides(ctx, j)
    cells: list[Cell | Words | str] = [
        where_cell(ctx, j),
        base,
        cand,
        build.cell(strong(fig.change) if fig.change else soft(_no_figure(ctx, j))),
        fig.interval,
    ]
    if scale is not None:
        cells.append(build.cell(plot=interval_plot(ctx, fig, scale, j.outcome)))
    cells.append(outcome_cell(ctx, j))
    return build.row(*cells, key=j.outcome, trace=trace(ctx, j))


def _sides(ctx: Context, j: Judgement) -> tuple[Words, Words]:
    if j.baseline is None or j.candidate_value is None:
        return (), ()
    pair = numbers.pair(j.baseline, j.candidate_value, j.unit, locale=ctx.t.locale)
    unit = f"{numbers.NNBSP}{pair.unit}" if pair.unit else ""
    return plain(pair.baseline + unit), plain(pair.candidate + unit)


def _no_figure(ctx: Context, j: Judgement) -> str:
    return _short(ctx, j) or ctx.t.text("no figure")


def axis_row(scale: Scale, width: int, at: int) -> TableRow:
    """The last row of a table with plots: the ticks of the shared scale, below the plots."""
    cells = [build.cell() for _ in range(width)]
    cells[at] = build.cell(plot=Plot("axis", scale, "", ""))
    return TableRow(tuple(cells), "axis")


def other_blocks(ctx: Context, judged: Sequence[Judgement], title: str) -> list[Block]:
    """Gates that are not a relative change: values against absolute limits, facts and counts."""
    t = ctx.t
    kept, note = shown(ctx, judged)
    if not kept:
        return [build.paragraph(note)] if note else []
    rows: list[TableRow] = []
    for group in _groups(ctx, kept):
        gate = ctx.gates[group[0].gate]
        rows.append(_group_row(ctx, gate, 5))
        if gate.implicit and len(group) > 1 and all(j.outcome == "pass" for j in group):
            rows.append(_folded(ctx, group))
            continue
        for j in group:
            fig = figure(t, gate, j)
            base, cand = _sides(ctx, j)
            value = strong(fig.change) if fig.change else soft(_no_figure(ctx, j))
            rows.append(build.row(where_cell(ctx, j), base, cand,
                                  build.cell((*value, *plain(f" {fig.interval}" if fig.interval else ""))),
                                  outcome_cell(ctx, j), key=j.outcome, trace=trace(ctx, j)))
    columns = [
        build.column(t.text("Workload")),
        build.column(t.text("Baseline"), "right"),
        build.column(t.text("Candidate"), "right"),
        build.column(t.text("Value"), "right"),
        build.column(t.text("Outcome")),
    ]
    return [build.heading(title), build.table("figures", title, columns, rows, note=note)]


def _folded(ctx: Context, group: Sequence[Judgement]) -> TableRow:
    """Several cells of a gate that the spec did not write and that all passed, in one row."""
    t = ctx.t
    names = [f"{c.workload} {ctx.cell_words(c)}" for c in (ctx.cells[j.cell] for j in group)]
    seqs = [s for j in group for s in j.evidence]
    first = build.cell(t.counted(len(group), "{n} cell", "{n} cells"))
    return build.row(first, "", "", build.cell(soft(_short(ctx, group[0]))), outcome_cell(ctx, group[0]), key="pass",
                     trace=join([soft(", ".join(names)), evidence_words(seqs)]))


def meanings(ctx: Context) -> list[Block]:
    """What the words mean, once."""
    t = ctx.t
    outcomes = [
        build.row(build.cell(mark=outcome_mark(t, key)), t.text(text)) for key, text in OUTCOME_MEANINGS.items()
    ]
    decisions = [
        build.row(build.cell(mark=decision_mark(t, key)), t.text(text)) for key, text in DECISION_MEANINGS.items()
    ]
    return [
        build.heading(t.text("What the words mean")),
        build.table("words", t.text("Outcomes"), [build.column(t.text("Outcome")), build.column(t.text("Meaning"))],
                    outcomes),
        build.table("words", t.text("Decisions"),
                    [build.column(t.text("Decision")), build.column(t.text("What you do"))], decisions),
    ]
