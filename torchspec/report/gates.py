"""The section on gates: what each gate says of each workload, then timing and the rest in figures.

Must not hide a row: beyond 300 judgements the tables list what does not pass and say how many rows they leave out.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchspec.model.memo import Block, Cell, Section, Words
from torchspec.model.verdict import Judgement
from torchspec.report import build, numbers
from torchspec.report.context import Context
from torchspec.report.figure import figure, limit_words
from torchspec.report.forest import other_blocks, timing_blocks
from torchspec.report.language import Language, code, join, plain, soft, strong
from torchspec.report.names import DECISION_MEANINGS, FOUND, OUTCOME_MEANINGS, decision_mark, family, outcome_mark
from torchspec.report.rows import gate_name, short

TIMING = ("latency", "throughput", "step")
STARTING = ("compile", "import", "export")
WIDEST_OVERVIEW = 5


def section(ctx: Context, candidate: str, backend: str) -> Section:
    """Everything that was judged of one candidate on one backend, but memory's and compilation's own figures."""
    t = ctx.t
    judged = [j for j in ctx.verdict.judgements if j.candidate == candidate and ctx.cells[j.cell].backend == backend]
    voting = [j for j in judged if ctx.gates[j.gate].decision is not None]
    blocks: list[Block] = []
    workloads = list(dict.fromkeys(ctx.cells[j.cell].workload for j in judged))
    if len(workloads) <= WIDEST_OVERVIEW:
        blocks.append(_overview(ctx, judged, workloads))
    timing = [j for j in judged if family(j.metric) in TIMING and not ctx.gates[j.gate].implicit]
    blocks += timing_blocks(ctx, timing)
    rest = [j for j in judged if family(j.metric) not in (*TIMING, *STARTING, "memory")]
    blocks += other_blocks(ctx, rest, t.text("Correctness, determinism and the rest"))
    served = [w.name for w in ctx.plan.workloads if w.kind == "ingested" and w.name in workloads]
    if served:
        blocks.append(build.paragraph(_served(t, served)))
    name = backend + (f", {ctx.candidate_name(candidate)}" if ctx.several else "")
    return Section(
        f"gates-{candidate}-{backend}",
        "",
        _heading(ctx, voting, name),
        join([_tally(ctx, voting), t.words("Changes are candidate against baseline.")], " "),
        tuple(blocks),
    )


def _served(t: Language, workloads: Sequence[str]) -> Words:
    names = join([code(name) for name in workloads], ", ")
    return t.words(
        "Figures of {workloads} are from the team's own service: no harness measured them, the two sides served "
        "different requests, and no failure was seen again on fresh ones. Their unit is the group, not the request; "
        "their files are among the notes of the runs.",
        workloads=names,
    )


def _heading(ctx: Context, judged: Sequence[Judgement], where: str) -> str:
    t = ctx.t
    n = {o: sum(j.outcome == o for j in judged) for o in ("fail", "error", "inconclusive", "not_run", "pass")}
    parts = [t.counted(n[o], *both) for o, both in FOUND.items() if n[o]]
    if not parts:
        return t.text("Gates on {where}: all {n} pass", where=where, n=n["pass"])
    return t.text("Gates on {where}: {found}, {n} in all", where=where, n=len(judged), found=", ".join(parts))


def _tally(ctx: Context, judged: Sequence[Judgement]) -> Words:
    t = ctx.t
    counts = [(o, sum(j.outcome == o for j in judged)) for o in ("pass", "fail", "inconclusive", "error", "not_run")]
    listed = ", ".join(f"{numbers.count(n)} {outcome_mark(t, o).text}" for o, n in counts if n)
    return t.plural(len(judged), "{n} judgement: {listed}.", "{n} judgements: {listed}.", listed=listed)


def _overview(ctx: Context, judged: Sequence[Judgement], workloads: Sequence[str]) -> Block:
    """Gate by workload: the worst outcome over the workload's cells, with its figure."""
    t = ctx.t
    lines: dict[tuple[str, str], dict[str, list[Judgement]]] = {}
    for j in judged:
        gate = ctx.gates[j.gate]
        key = (gate_name(ctx, gate), limit_words(t, gate))
        lines.setdefault(key, {}).setdefault(ctx.cells[j.cell].workload, []).append(j)
    rows = []
    for (name, limit), own in lines.items():
        cells: list[Cell | Words | str] = [build.cell(strong(name)), build.cell(soft(limit))]
        for workload in workloads:
            first = ctx.worst(own.get(workload, ()))
            if first is None:
                cells.append(build.cell(soft(t.text("no such gate"))))
                continue
            fig = figure(t, ctx.gates[first.gate], first)
            more = len(own[workload])
            sub = fig.change or short(ctx, first)
            label = ctx.cell_words(ctx.cells[first.cell]) if more > 1 and first.outcome != "not_run" else ""
            cells.append(
                build.cell(
                    mark=outcome_mark(t, first.outcome),
                    sub=join([plain(sub), plain(label)]),
                    boxed=first.outcome != "pass",
                )
            )
        rows.append(build.row(*cells))
    registered = ctx.registration.commit
    head = (
        t.text("Limit, registered in {commit}", commit=registered[:7])
        if registered
        else t.text("Limit, not registered in a commit")
    )
    columns = [build.column(t.text("Gate")), build.column(head)]
    columns += [build.column(w, code=True, sub=ctx.fixed_axes(w)) for w in workloads]
    return build.table("overview", t.text("Gates by workload"), columns, rows)


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
        build.table(
            "words", t.text("Outcomes"), [build.column(t.text("Outcome")), build.column(t.text("Meaning"))], outcomes
        ),
        build.table(
            "words",
            t.text("Decisions"),
            [build.column(t.text("Decision")), build.column(t.text("What you do"))],
            decisions,
        ),
    ]
