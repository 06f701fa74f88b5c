"""Tables of figures: relative gates as a forest plot on one scale, the others as values, grouped by gate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from torchspec.model.memo import Block, Cell, Plot, Scale, TableRow, Words
from torchspec.model.plan import Gate
from torchspec.model.verdict import Judgement
from torchspec.report import build, numbers
from torchspec.report.context import Context, evidence_words
from torchspec.report.figure import Figure, better, figure, limit_words, position
from torchspec.report.language import join, plain, soft, strong
from torchspec.report.names import decision_mark
from torchspec.report.rows import gate_name, outcome_cell, rule_words, short, shown, trace, where_cell

UNIT = 3  # the column of units
#: So many cells of a fact that holds have a row each.
FEW = 3


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
    return (
        numbers.change(value / 100).estimate.removesuffix(".0")
        if value % 1 == 0
        else numbers.change(value / 100).estimate
    )


def interval_plot(ctx: Context, fig: Figure, scale: Scale | None, outcome: str) -> Plot | None:
    if fig.values is None or scale is None or fig.beyond is None:
        return None
    estimate, low, high, limit = fig.values
    short, title = position(ctx.t, low, high, limit, fig.beyond)
    if outcome == "inconclusive" and not low <= limit <= high:
        short = ctx.t.text("{where}, not decided", where=short)
        title = ctx.t.text("{where} The outcome is inconclusive for another reason.", where=title)
    return Plot(
        "interval",
        scale,
        title,
        short,
        outcome,
        estimate,
        low,
        high,
        limit,
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
        rows.append(_group_row(ctx, gate, 7 if scale is None else 8))
        rows += [_figure_row(ctx, j, figures[id(j)], scale) for j in _told(group)]
        rows += _untold(ctx, group, 7 if scale is None else 8)
    if scale is not None:
        rows.append(axis_row(ctx, scale, 8, 6))
    columns = [
        build.column(t.text("Workload")),
        build.column(t.text("Baseline"), "right"),
        build.column(t.text("Candidate"), "right"),
        build.column(t.text("Unit")),
        build.column(t.text("Change"), "right"),
        build.column(t.text("{n} % interval", n=_confidence(kept)), "right"),
        *([build.column(t.text("Against the limit"))] if scale is not None else []),
        build.column(t.text("Outcome")),
    ]
    return [
        build.heading(title or t.text("Timing: the whole interval must be inside the limit")),
        build.table(
            "figures",
            title or t.text("Timing"),
            columns,
            rows,
            note=join(
                [
                    t.words(
                        "Line: interval. Mark: estimate. Grey: beyond the limit. Arrow: off the scale, read the "
                        "numbers. A change is estimated from pairs and may differ from the ratio of the two medians "
                        "beside it."
                    ),
                    note,
                ],
                " ",
            ),
            sortable=False,
        ),
    ]


def _confidence(judged: Sequence[Judgement]) -> str:
    levels = {j.confidence for j in judged if j.confidence is not None}
    return numbers.fixed(numbers.rounded(levels.pop() * 100, 0)) if len(levels) == 1 else "95"


def _groups(ctx: Context, judged: Iterable[Judgement]) -> list[list[Judgement]]:
    """By gate name, limit and decision, in the plan's order: the same line in two gate sets is one group."""
    groups: dict[tuple[str, str, str | None], list[Judgement]] = {}
    for j in judged:
        gate = ctx.gates[j.gate]
        groups.setdefault((gate_name(ctx, gate), limit_words(ctx.t, gate), gate.decision), []).append(j)
    return list(groups.values())


def _group_row(ctx: Context, gate: Gate, width: int) -> TableRow:
    t = ctx.t
    note = [soft(t.text("limit {limit}", limit=limit_words(t, gate)))]
    if gate.limit.op is not None:
        note.append(soft(better(t, gate)))
    if gate.decision is not None:
        note.append(soft(t.text("beyond it: {decision}", decision=decision_mark(t, gate.decision).text)))
    words = (*strong(gate_name(ctx, gate)), *soft("  "), *join(note))
    return build.row(words, *([""] * (width - 1)), kind="group")


def _figure_row(ctx: Context, j: Judgement, fig: Figure, scale: Scale | None) -> TableRow:
    cells: list[Cell | Words | str] = [
        where_cell(ctx, j),
        *_sides(ctx, j),
        build.cell(strong(fig.change) if fig.change else soft(_no_figure(ctx, j))),
        fig.interval,
    ]
    if scale is not None:
        cells.append(build.cell(plot=interval_plot(ctx, fig, scale, j.outcome)))
    cells.append(outcome_cell(ctx, j))
    return build.row(*cells, key=j.outcome, trace=trace(ctx, j))


def _sides(ctx: Context, j: Judgement) -> tuple[str, str, str]:
    """Both absolute values and their unit, for three columns."""
    if j.baseline is None or j.candidate_value is None:
        return "", "", ""
    pair = numbers.pair(j.baseline, j.candidate_value, j.unit, locale=ctx.t.locale)
    return pair.baseline, pair.candidate, pair.unit


def _no_figure(ctx: Context, j: Judgement) -> str:
    return short(ctx, j) or ctx.t.text("no figure")


def axis_row(ctx: Context, scale: Scale, width: int, at: int) -> TableRow:
    """The last row of a table with plots: the ticks of the shared scale, below the plots."""
    ends = (f"{scale.ticks[0][1]}", f"{scale.ticks[-1][1]}{numbers.NNBSP}{scale.unit}")
    title = ctx.t.text("Scale from {low} to {high}.", low=ends[0], high=ends[1])
    cells = [build.cell() for _ in range(width)]
    cells[at] = build.cell(plot=Plot("axis", scale, title, ""))
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
        rows.append(_group_row(ctx, gate, 6))
        if _alike(gate, group):
            rows.append(_folded(ctx, group, 6))
            continue
        rows += _untold(ctx, group, 6)
        for j in _told(group):
            fig = figure(t, gate, j)
            value = strong(fig.change) if fig.change else soft(_no_figure(ctx, j))
            rows.append(
                build.row(
                    where_cell(ctx, j),
                    *_sides(ctx, j),
                    build.cell((*value, *plain(f" {fig.interval}" if fig.interval else ""))),
                    outcome_cell(ctx, j),
                    key=j.outcome,
                    trace=trace(ctx, j),
                )
            )
    columns = [
        build.column(t.text("Workload")),
        build.column(t.text("Baseline"), "right"),
        build.column(t.text("Candidate"), "right"),
        build.column(t.text("Unit")),
        build.column(t.text("Value"), "right"),
        build.column(t.text("Outcome")),
    ]
    if not any(r.cells[UNIT].words for r in rows):
        columns.pop(UNIT)
        rows = [replace(r, cells=(*r.cells[:UNIT], *r.cells[UNIT + 1 :])) for r in rows]
    return [build.heading(title), build.table("figures", title, columns, rows, note=note)]


def _alike(gate: Gate, group: Sequence[Judgement]) -> bool:
    """Whether a row for each says nothing that one row for all does not: facts that hold, and nothing else."""
    fact = gate.implicit or (gate.limit.form == "holds" and len(group) > FEW)
    return fact and len(group) > 1 and all(j.outcome == "pass" for j in group)


def _told(group: Sequence[Judgement]) -> list[Judgement]:
    """Those of a gate's judgements that get a row each: all but several that were not run."""
    return (
        list(group) if sum(j.outcome == "not_run" for j in group) < 2 else [j for j in group if j.outcome != "not_run"]
    )


def _untold(ctx: Context, group: Sequence[Judgement], width: int) -> list[TableRow]:
    """Several cells of one gate that were not run, in one row."""
    own = [j for j in group if j.outcome == "not_run"]
    return [_folded(ctx, own, width)] if len(own) > 1 else []


def _folded(ctx: Context, group: Sequence[Judgement], width: int) -> TableRow:
    """Several cells of one gate that ended alike, in one row that names them."""
    t = ctx.t
    names = [f"{c.workload} {ctx.cell_words(c)}" for c in (ctx.cells[j.cell] for j in group)]
    seqs = [s for j in group for s in j.evidence]
    first = build.cell(t.counted(len(group), "{n} cell", "{n} cells"))
    said = build.cell(soft(short(ctx, group[0])))
    rules = dict.fromkeys(rule_words(ctx, j) for j in group)
    return build.row(
        first,
        *([""] * (width - 3)),
        said,
        outcome_cell(ctx, group[0]),
        key=group[0].outcome,
        trace=join([soft(", ".join(names)), soft(", ".join(rules)), evidence_words(seqs)]),
    )
