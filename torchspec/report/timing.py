"""Latency as it was distributed, and what happens before the steady state: compile, export, first call.

Reads timings as the ledger holds them; must not judge anything from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from torchspec.model.memo import Block, Plot, Scale, Section, TableRow, Words
from torchspec.model.verdict import Judgement
from torchspec.report import build, numbers
from torchspec.report.context import Context
from torchspec.report.forest import axis_row, nice_step, other_blocks, timing_blocks
from torchspec.report.gates import STARTING
from torchspec.report.language import plain, soft
from torchspec.report.names import family, metric_name
from torchspec.report.rows import where_words

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_ROWS = 60


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics; `ordered` is sorted and not empty."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def _calls(bodies: Iterable[dict[str, Any]], candidate: str) -> tuple[list[float], list[float]]:
    """Sorted seconds a call of both sides, whatever their order inside a round."""
    base: list[float] = []
    cand: list[float] = []
    for body in bodies:
        swapped = body.get("a") == candidate
        for one in body.get("rounds", ()):
            a, b = one.get("a_ns", ()), one.get("b_ns", ())
            (cand if swapped else base).extend(float(v) / 1e9 for v in a if isinstance(v, int | float))
            (base if swapped else cand).extend(float(v) / 1e9 for v in b if isinstance(v, int | float))
    return sorted(base), sorted(cand)


def distribution(ctx: Context, candidate: str, backend: str) -> Section | None:
    """Raw times a call, both sides, as quantiles on a scale relative to the baseline's median."""
    t = ctx.t
    rows: list[TableRow] = []
    spreads: list[tuple[str, list[float], list[float]]] = []
    for (who, cell_id), bodies in ctx.evidence.timings.items():
        cell = ctx.cells.get(cell_id)
        if who != candidate or cell is None or cell.backend != backend:
            continue
        base, cand = _calls(bodies, candidate)
        if base and cand:
            spreads.append((cell_id, base, cand))
    if not spreads:
        return None
    spreads = spreads[:MOST_ROWS]
    scale = _spread_scale(spreads)
    for cell_id, base, cand in spreads:
        cell = ctx.cells[cell_id]
        qs = [[quantile(side, q) for q in QUANTILES] for side in (base, cand)]
        middle = qs[0][2]
        shown = [tuple(v / middle for v in side) for side in qs]
        p50 = numbers.pair(qs[0][2], qs[1][2], "s", locale=t.locale)
        p95 = numbers.pair(qs[0][4], qs[1][4], "s", locale=t.locale)
        title = t.text("Middle half and 5th to 95th percentile of each side; medians {pair}.", pair=p50.arrow)
        rows.append(
            build.row(
                build.cell(
                    where_words(ctx, cell),
                    sub=soft(t.text("{a} and {b} calls", a=len(base), b=len(cand))),
                ),
                p50.arrow,
                p95.arrow,
                build.cell(
                    plot=Plot("spread", scale, title, _middles(shown), quantiles=(_five(shown[0]), _five(shown[1])))
                ),
            )
        )
    rows.append(axis_row(ctx, scale, 4, 3))
    columns = [
        build.column(t.text("Workload")),
        build.column(t.text("Median, baseline → candidate"), "right"),
        build.column(t.text("95th percentile"), "right"),
        build.column(t.text("Baseline above, candidate below")),
    ]
    where = backend + (f", {ctx.candidate_name(candidate)}" if ctx.several else "")
    return Section(
        f"latency-{candidate}-{backend}",
        "",
        t.text("Latency on {where}: how single calls were distributed", where=where),
        t.words(
            "Every timed call, without correction for drift between rounds, so these figures describe the machine's "
            "day as well as torch; gates are judged from pairs. 1 is the baseline's median. Box: middle half; line: "
            "5th to 95th percentile; tick: median."
        ),
        (build.table("distribution", t.text("Distribution of latency"), columns, rows),),
    )


def _middles(shown: Sequence[Sequence[float]]) -> str:
    """The middle halves as text: "× 0.98–1.02 → 0.97–1.01"."""
    base, cand = (f"{side[1]:.2f}–{side[3]:.2f}" for side in shown)
    return f"{numbers.TIMES}{numbers.NNBSP}{base} → {cand}"


def _five(values: Sequence[float]) -> tuple[float, float, float, float, float]:
    a, b, c, d, e = values
    return a, b, c, d, e


def _spread_scale(spreads: Sequence[tuple[str, list[float], list[float]]]) -> Scale:
    high = max(quantile(side, 0.95) / quantile(base, 0.5) for _, base, cand in spreads for side in (base, cand))
    low = min(quantile(side, 0.05) / quantile(base, 0.5) for _, base, cand in spreads for side in (base, cand))
    high, low = min(max(high, 1.05), 2.5), max(min(low, 0.95), 0.0)
    step = nice_step((high - low) * 0.6)
    first = math.ceil(low / step)
    ticks = [step * k for k in range(first, int(high / step) + 1)]
    pad = (high - low) * 0.04
    return Scale(low - pad, high + pad, tuple((v, f"{v:.2f}".rstrip("0").rstrip(".")) for v in ticks), "×")


def starting(ctx: Context, candidate: str, backend: str) -> Section | None:
    """Compile, export and import: judged apart from the steady state."""
    t = ctx.t
    judged = [
        j
        for j in ctx.verdict.judgements
        if j.candidate == candidate
        and ctx.cells[j.cell].backend == backend
        and (family(j.metric) in STARTING or j.metric == "latency.first_call")
    ]
    if not judged:
        return None
    timed = [j for j in judged if ctx.gates[j.gate].limit.form in {"growth", "drop", "speedup"}]
    rest = [j for j in judged if j not in timed]
    blocks: list[Block] = []
    blocks += timing_blocks(ctx, timed, t.text("Compile and start-up times"))
    blocks += other_blocks(ctx, rest, t.text("Graph breaks and export"))
    measured = _measured(ctx, candidate, backend)
    if measured is not None:
        blocks.append(measured)
    return Section(
        f"starting-{candidate}-{backend}",
        "",
        _heading(ctx, judged, backend, candidate),
        t.words(
            "Warm-up is not steady state: import, first call and compilation are measured on their own, in fresh "
            "processes."
        ),
        tuple(blocks),
    )


def _heading(ctx: Context, judged: Sequence[Judgement], backend: str, candidate: str) -> str:
    t = ctx.t
    where = backend + (f", {ctx.candidate_name(candidate)}" if ctx.several else "")
    bad = [j for j in judged if j.outcome == "fail"]
    if bad:
        names = list(dict.fromkeys(ctx.cells[j.cell].workload for j in bad))
        return t.text("Compile and export on {where}: {names} fails", where=where, names=", ".join(names))
    left = sum(j.outcome != "pass" for j in judged)
    if left:
        return t.text("Compile and export on {where}: {n} of {m} gates not decided", where=where, n=left, m=len(judged))
    return t.text("Compile and export on {where}: all {n} gates pass", where=where, n=len(judged))


def _measured(ctx: Context, candidate: str, backend: str) -> Block | None:
    """Samples that no gate judges, so that they are not lost: first call, warm compile, import."""
    t = ctx.t
    gated = {(j.cell, j.metric) for j in ctx.verdict.judgements if j.candidate == candidate}
    rows: list[TableRow] = []
    for cell in ctx.plan.cells:
        if cell.backend != backend:
            continue
        for metric in ("import.time", "latency.first_call", "compile.time", "compile.time_warm"):
            base = ctx.evidence.samples.get((candidate, cell.id, metric, ctx.plan.baseline.id))
            cand = ctx.evidence.samples.get((candidate, cell.id, metric, candidate))
            if not base or not cand or (cell.id, metric) in gated:
                continue
            pair = numbers.pair(quantile(sorted(base), 0.5), quantile(sorted(cand), 0.5), "s", locale=t.locale)
            unit = f"{numbers.NNBSP}{pair.unit}"
            rows.append(
                build.row(
                    where_words(ctx, cell),
                    _name(ctx, metric),
                    pair.baseline + unit,
                    pair.candidate + unit,
                    t.text("{a} and {b}", a=len(base), b=len(cand)),
                )
            )
    if not rows or ctx.large:
        return None
    return build.table(
        "plain",
        t.text("Measured without a gate: medians"),
        [
            build.column(t.text("Workload")),
            build.column(t.text("What")),
            build.column(t.text("Baseline"), "right"),
            build.column(t.text("Candidate"), "right"),
            build.column(t.text("Samples"), "right"),
        ],
        rows,
        note=t.words("Measured without a gate: medians, for information."),
    )


def _name(ctx: Context, metric: str) -> Words:
    return plain(metric_name(ctx.t, metric))
