"""The section on memory: the meters apart, on one scale, each with both sides' bytes."""

from __future__ import annotations

from collections.abc import Sequence

from torchspec.model.memo import Cell, Scale, Section, TableRow, Words
from torchspec.model.verdict import Judgement
from torchspec.report import build
from torchspec.report.context import Context
from torchspec.report.figure import figure, limit_words
from torchspec.report.forest import axis_row, interval_plot, nice_step, tick
from torchspec.report.language import join, plain, soft, strong
from torchspec.report.names import METERS
from torchspec.report.phrases import loading
from torchspec.report.rows import outcome_cell, shown, trace, where_words

FARTHEST = 150.0  # per cent; beyond it an arrow, so that one meter cannot flatten the others


def section(ctx: Context, candidate: str, backend: str) -> Section | None:
    """None where no meter was judged on this backend."""
    t = ctx.t
    judged, note = shown(
        ctx,
        [
            j
            for j in ctx.verdict.judgements
            if j.candidate == candidate and j.metric in METERS and ctx.cells[j.cell].backend == backend
        ],
    )
    meters = [m for m in METERS if any(j.metric == m for j in judged)]
    if not meters:
        return None
    scale = _scale(ctx, judged)
    rows: list[TableRow] = []
    for cell_id in dict.fromkeys(j.cell for j in judged):
        own = [j for j in judged if j.cell == cell_id]
        cell = ctx.cells[cell_id]
        first = ctx.worst(own)
        assert first is not None
        cells: list[Cell | Words | str] = [build.cell(where_words(ctx, cell))]
        cells += [_meter(ctx, [j for j in own if j.metric == m], scale) for m in meters]
        cells.append(outcome_cell(ctx, first))
        traces = [
            join([soft(t.text(METERS[j.metric][0]).lower() + ":"), trace(ctx, j)], " ")
            for j in sorted(own, key=lambda j: meters.index(j.metric))
        ]
        for j in own:
            parts = loading(t, j) if j.outcome != "pass" else None
            if parts is not None:
                said = t.text(
                    "driver, of a later step: {later}; modules that the first one imports: {modules}",
                    later=parts[0],
                    modules=parts[1],
                )
                traces.append(soft(said))
        rows.append(build.row(*cells, key=first.outcome, trace=join(traces, "; ")))
    if scale is not None:
        last = list(axis_row(ctx, scale, len(meters) + 2, 1).cells)
        for index in range(1, len(meters) + 1):
            last[index] = last[1]
        rows.append(TableRow(tuple(last), "axis"))
    columns = [build.column(t.text("Workload"))]
    columns += [build.column(t.text(METERS[m][0]), sub=t.text(METERS[m][1])) for m in meters]
    columns.append(build.column(t.text("Outcome")))
    limits = list(dict.fromkeys(limit_words(t, ctx.gates[j.gate]) for j in judged))
    lead = t.words(
        "Limit: {limits}. Each figure is the peak above the level before the first step, measured in fresh processes; "
        "all plots share one scale. Grey: beyond the limit. 1 MB is 10⁶ bytes.",
        limits=" / ".join(limits),
    )
    where = backend + (f", {ctx.candidate_name(candidate)}" if ctx.several else "")
    absent = [t.text(METERS[m][0]).lower() for m in METERS if m not in meters]
    missing: Words = ()
    if absent:
        missing = t.words("No gate on {backend} reads this meter: {meters}.", backend=backend, meters=", ".join(absent))
    return Section(
        f"memory-{candidate}-{backend}",
        "",
        _heading(ctx, judged, where),
        lead,
        (build.table("meters", t.text("Peak memory by meter"), columns, rows, note=join([note, missing], " ")),),
    )


def _heading(ctx: Context, judged: Sequence[Judgement], where: str) -> str:
    t = ctx.t
    failing = [j for j in judged if j.outcome == "fail"]
    names = list(dict.fromkeys(ctx.cells[j.cell].workload for j in failing))
    if len(names) == 1:
        bad = {j.metric for j in failing}
        every = {j.metric for j in judged if ctx.cells[j.cell].workload == names[0]}
        if bad == every and len(every) > 1:
            return t.text("Peak memory on {where}: {workload} fails on every meter", where=where, workload=names[0])
        return t.text(
            "Peak memory on {where}: {workload} fails on {n} of {m} meters",
            where=where,
            workload=names[0],
            n=len(bad),
            m=len(every),
        )
    if names:
        return t.text("Peak memory on {where}: {n} workloads fail", where=where, n=len(names))
    open_ = [j for j in judged if j.outcome != "pass"]
    if open_:
        return t.text(
            "Peak memory on {where}: none fails, {n} of {m} not decided", where=where, n=len(open_), m=len(judged)
        )
    return t.text("Peak memory on {where}: all meters inside their limits", where=where)


def _scale(ctx: Context, judged: Sequence[Judgement]) -> Scale | None:
    figures = [figure(ctx.t, ctx.gates[j.gate], j) for j in judged]
    values = [v for f in figures if f.values is not None for v in (f.values[1], f.values[2], f.values[3])]
    if not values:
        return None
    limit = max(abs(f.values[3]) for f in figures if f.values is not None) or 5.0
    high = min(max(*values, 2 * limit), max(FARTHEST, 2 * limit))
    low = max(min(*values, 0.0), -high / 2)
    high, low = high * 1.06, min(low * 1.06, -high * 0.06)
    step = nice_step(high * 0.7)
    ticks = [step * k for k in range(-int(-low / step), int(high / step) + 1)]
    return Scale(low, high, tuple((v, tick(v)) for v in ticks), "%")


def _meter(ctx: Context, judged: Sequence[Judgement], scale: Scale | None) -> Cell:
    t = ctx.t
    first = ctx.worst(judged)
    if first is None:
        return build.cell(soft(t.text("no such gate")))
    fig = figure(t, ctx.gates[first.gate], first)
    change = fig.change if fig.change else ""
    words = plain(fig.absolute) or soft(t.text("no figure"))
    said = strong(change) if first.outcome == "fail" else plain(change)
    sub = join([said, soft(fig.interval)], " ")
    return build.cell(words, sub=sub, plot=interval_plot(ctx, fig, scale, first.outcome))
