"""The matrix of page one: workload by backend, folded as it grows, with the decision of every place."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from torchspec.model.memo import Block, Cell, Column, Section, Table, Words
from torchspec.model.verdict import Judgement, Outcome, Row
from torchspec.report import build, numbers
from torchspec.report.context import Context
from torchspec.report.figure import figure, limit_words
from torchspec.report.language import clip, code, join, plain, soft, strong
from torchspec.report.names import DECISION_RANK, SEVERITY, capital, decision_mark, metric_name, outcome_mark

FULL_MATRIX = 40  # cells on page one; beyond it, rows that hold something other than pass
MOST_ROWS = 12
FOLDED_ROWS = 5  # of a folded matrix
COUNTED = 400  # places from which page one counts instead of listing
WORST_SHOWN = 10
SEVERITY_SHOWN: tuple[Outcome, ...] = ("pass", "fail", "inconclusive", "error", "not_run")


def matrices(ctx: Context) -> tuple[str, tuple[Table, ...], Words]:
    """(heading, tables for page one, tally). One cell: no matrix. Many: only rows that hold something to see."""
    t = ctx.t
    tally = Counter(r.outcome for r in ctx.verdict.rows)
    total = len(ctx.verdict.rows)
    heading = t.text("Outcome by workload and backend: {n} of {m} pass", n=tally["pass"], m=total)
    words = ", ".join(f"{numbers.count(tally[o])} {outcome_mark(t, o).text}" for o in SEVERITY_SHOWN if tally[o])
    note = t.words("{words}. Each place shows its worst gate and names it. Only *pass* passes.", words=words)
    if total <= 1:
        return (*_single(ctx), note)
    tables = []
    for side in ctx.plan.candidates:
        if total > COUNTED:
            tables += _counted(ctx, side.id)
        else:
            tables.append(_matrix(ctx, side.id))
    return heading, tuple(tables), note


def places(ctx: Context) -> Section | None:
    """Every place by name, where page one folds or counts them; None where page one shows them all."""
    t = ctx.t
    total = len(ctx.verdict.rows)
    if total <= 1 or not _folds(ctx):
        return None
    blocks: list[Block] = []
    for side in ctx.plan.candidates:
        own = [r for r in ctx.verdict.rows if r.candidate == side.id]
        if len(own) <= COUNTED:
            blocks.append(Block("table", table=_matrix(ctx, side.id, fold=False)))
            continue
        ranked = sorted(own, key=lambda r: (SEVERITY.index(r.outcome), -DECISION_RANK[r.decision]))
        rows = [
            build.row(
                build.cell(code(r.workload)),
                build.cell(code(r.backend)),
                build.cell(mark=outcome_mark(t, r.outcome)),
                _second_line(ctx, r),
                build.cell(decision=decision_mark(t, r.decision)),
                key=r.outcome,
            )
            for r in ranked
        ]
        blocks.append(build.table("places", _title(ctx, side.id), _place_columns(ctx), rows, sortable=True))
    passing = sum(r.outcome == "pass" for r in ctx.verdict.rows)
    return Section(
        "places",
        "",
        t.text("Every workload and backend: {n} of {m} pass", n=passing, m=total),
        t.words("What does not pass comes first."),
        tuple(blocks),
    )


def _folds(ctx: Context) -> bool:
    workloads = {r.workload for r in ctx.verdict.rows}
    return len(ctx.verdict.rows) > FULL_MATRIX or len(workloads) > MOST_ROWS


def _place_columns(ctx: Context) -> list[Column]:
    t = ctx.t
    heads = (t.text("Workload"), t.text("Backend"), t.text("Outcome"), t.text("Because"), t.text("Decision"))
    return [build.column(h) for h in heads]


def _single(ctx: Context) -> tuple[str, tuple[Table, ...]]:
    """One place: no matrix, but its gates in one table."""
    t = ctx.t
    if not ctx.verdict.rows:
        return t.text("Nothing was judged"), ()
    row = ctx.verdict.rows[0]
    rows = []
    for j in ctx.by_row.get((row.candidate, row.workload, row.backend), ()):
        gate = ctx.gates[j.gate]
        fig = figure(t, gate, j)
        rows.append(
            build.row(
                build.cell(strong(capital(metric_name(t, j.metric))), sub=soft(gate.against or "")),
                build.cell(strong(fig.change), sub=soft(fig.absolute)),
                fig.interval,
                limit_words(t, gate),
                build.cell(mark=outcome_mark(t, j.outcome)),
                key=j.outcome,
            )
        )
    columns = (
        build.column(t.text("Gate")),
        build.column(t.text("Change"), "right"),
        build.column(t.text("Interval"), "right"),
        build.column(t.text("Limit")),
        build.column(t.text("Outcome")),
    )
    heading = t.text(
        "{workload} on {backend}: {n} of {m} gates pass",
        workload=row.workload,
        backend=row.backend,
        n=row.counts.get("pass", 0),
        m=sum(row.counts.values()),
    )
    return heading, (Table("plain", heading, columns, tuple(rows)),)


def _backends(ctx: Context) -> list[str]:
    used = {r.backend for r in ctx.verdict.rows}
    return [b.name for b in ctx.plan.backends if b.name in used]


def _title(ctx: Context, candidate: str) -> str:
    t = ctx.t
    if ctx.several:
        return t.text("Outcome of {candidate} by workload and backend", candidate=ctx.candidate_name(candidate))
    return t.text("Outcome by workload and backend")


def _matrix(ctx: Context, candidate: str, *, fold: bool = True) -> Table:
    t = ctx.t
    backends = _backends(ctx)
    workloads = [w.name for w in ctx.plan.workloads if any(r.workload == w.name for r in ctx.verdict.rows)]
    folded: list[str] = []
    if fold and _folds(ctx):
        rows_of = {w: [r for r in ctx.verdict.rows if r.workload == w and r.candidate == candidate] for w in workloads}
        folded = [w for w in workloads if all(r.outcome == "pass" for r in rows_of[w])]
        order = sorted(
            (w for w in workloads if w not in folded), key=lambda w: min(SEVERITY.index(r.outcome) for r in rows_of[w])
        )
        hidden = order[FOLDED_ROWS:]
        workloads = [w for w in workloads if w in order[:FOLDED_ROWS]]
    else:
        hidden = []
    rows = []
    for w in workloads:
        cells = [build.cell(code(w), sub=soft(ctx.fixed_axes(w)))]
        cells += [_place(ctx, candidate, w, b) for b in backends]
        rows.append(build.row(*cells))
    if folded:
        rows.append(
            build.row(
                t.plural(len(folded), "{n} more workload: all pass", "{n} more workloads: all pass"),
                *([build.cell(mark=outcome_mark(t, "pass"))] * len(backends)),
            )
        )
    if hidden:
        rows.append(
            build.row(
                t.plural(len(hidden), "{n} more workload, in section 1", "{n} more workloads, in section 1"),
                *([""] * len(backends)),
            )
        )
    decisions = [build.cell(strong(t.text("Decision")))]
    for b in backends:
        own = [r.decision for r in ctx.verdict.rows if r.backend == b and r.candidate == candidate]
        heaviest = max(own, key=lambda d: DECISION_RANK[d], default=None)
        decisions.append(build.cell(decision=decision_mark(t, heaviest)) if heaviest else build.cell())
    rows.append(build.row(*decisions, kind="total"))
    columns = [build.column(t.text("Workload"))]
    columns += [build.column(b, sub=_backend_note(ctx, b)) for b in backends]
    if len(backends) == 1:
        columns.append(build.column(t.text("Worst gate, or the one closest to its limit")))
        rows = [
            replace(r, cells=(*r.cells, _closest_cell(ctx, candidate, w, backends[0]) if w else build.cell()))
            for r, w in zip(rows, [*workloads, *([""] * len(rows))], strict=False)
        ]
    return Table("matrix", _title(ctx, candidate), tuple(columns), tuple(rows))


def _closest_cell(ctx: Context, candidate: str, workload: str, backend: str) -> Cell:
    """Where there is room beside a single backend: the gate that decides, or came closest, with its figures."""
    t = ctx.t
    own = [j for j in ctx.by_row.get((candidate, workload, backend), ()) if j.contribution is not None]
    row = ctx.rows[candidate, workload, backend]
    j = ctx.worst(j for j in own if j.outcome == row.outcome)
    if row.outcome == "pass":
        j = max(own, key=lambda j: share(ctx, j), default=None)
    if j is None:
        return build.cell(soft(t.text("no evidence")))
    gate = ctx.gates[j.gate]
    fig = figure(t, gate, j)
    said = f"{fig.change} {fig.interval}".strip() or plain_reason(ctx, j.reason)
    if row.outcome == "not_run" and set(row.counts) == {"not_run"}:
        return build.cell(soft(said))
    head = (*strong(capital(metric_name(t, j.metric))), *plain(f"  {said}"))
    return build.cell(
        head,
        sub=join(
            [
                soft(fig.absolute),
                soft(t.text("limit {limit}", limit=limit_words(t, gate))),
                soft(ctx.cell_words(ctx.cells[j.cell])),
            ]
        ),
    )


def share(ctx: Context, j: Judgement) -> float:
    """How much of its limit the interval uses up; −1 where that cannot be said."""
    fig = figure(ctx.t, ctx.gates[j.gate], j)
    if fig.values is None or not fig.values[3]:
        return -1.0
    return (fig.values[2] if fig.beyond == "above" else fig.values[1]) / fig.values[3]


def _backend_note(ctx: Context, name: str) -> str:
    t = ctx.t
    backend = next(b for b in ctx.plan.backends if b.name == name)
    parts = []
    if backend.requirement != "required":
        parts.append(t.text("optional") if backend.requirement == "optional" else t.text("lane"))
    if name not in ctx.backends_with_evidence():
        parts.append(t.text("no evidence"))
    elif backend.threads is not None:
        parts.append(t.counted(backend.threads, "{n} thread", "{n} threads"))
    elif backend.ranks:
        parts.append(t.text("{n} ranks", n=" / ".join(str(r) for r in backend.ranks)))
    return ", ".join(parts)


def _place(ctx: Context, candidate: str, workload: str, backend: str) -> Cell:
    """One place of the matrix: outcome, its worst gate or the reason, and the decision."""
    t = ctx.t
    row = ctx.rows.get((candidate, workload, backend))
    if row is None:
        return build.cell(soft(t.text("not in the plan")))
    return build.cell(
        mark=outcome_mark(t, row.outcome),
        sub=plain(_second_line(ctx, row)),
        decision=decision_mark(t, row.decision),
        boxed=True,
    )


def _second_line(ctx: Context, row: Row) -> str:
    t = ctx.t
    own = [j for j in ctx.by_row.get((row.candidate, row.workload, row.backend), ()) if j.contribution is not None]
    total = sum(row.counts.values()) or len(own)
    if row.outcome == "pass":
        return t.text("{n} of {m} gates", n=row.counts.get("pass", len(own)), m=total)
    first = ctx.worst(j for j in own if j.outcome == row.outcome)
    if first is None:
        return t.text("no evidence")
    if row.outcome == "not_run" and row.counts.get("not_run", 0) == total:
        return short_reason(ctx, first.reason)
    return metric_name(t, first.metric)


def plain_reason(ctx: Context, reason: str) -> str:
    """A reason in the judge's words, which are English; another language says only that there is no figure."""
    text = clip(reason, 240).rstrip(".")
    return text if ctx.t.code == "en" and text else ctx.t.text("no figure")


def short_reason(ctx: Context, reason: str) -> str:
    """A reason that fits below an outcome; long ones are cut at a word, and stand in full in the section on scope."""
    t = ctx.t
    text = " ".join(reason.split()).rstrip(".")
    if t.code != "en" or "ledger holds no evidence" in text or not text:
        return t.text("no evidence")
    if len(text) <= 34:
        return text
    return text[:34].rsplit(" ", 1)[0] + "…"


def _counted(ctx: Context, candidate: str) -> list[Table]:
    """A thousand places: counts by backend and outcome, and the worst ten by name."""
    t = ctx.t
    own = [r for r in ctx.verdict.rows if r.candidate == candidate]
    rows = []
    for b in _backends(ctx):
        counts = Counter(r.outcome for r in own if r.backend == b)
        rows.append(
            build.row(
                build.cell(code(b)),
                *(numbers.count(counts[o]) if counts[o] else "" for o in SEVERITY_SHOWN),
                build.cell(
                    decision=decision_mark(
                        t, max((r.decision for r in own if r.backend == b), key=lambda d: DECISION_RANK[d])
                    )
                ),
            )
        )
    columns = [build.column(t.text("Backend"))]
    columns += [build.column(outcome_mark(t, o).text, "right") for o in SEVERITY_SHOWN]
    columns.append(build.column(t.text("Decision")))
    ranked = sorted(
        (r for r in own if r.outcome != "pass"), key=lambda r: (SEVERITY.index(r.outcome), -DECISION_RANK[r.decision])
    )
    worst_rows = [
        build.row(
            build.cell(code(r.workload)),
            build.cell(code(r.backend)),
            build.cell(mark=outcome_mark(t, r.outcome)),
            _second_line(ctx, r),
            build.cell(decision=decision_mark(t, r.decision)),
        )
        for r in ranked[:WORST_SHOWN]
    ]
    left = len(ranked) - len(worst_rows)
    tables = [Table("plain", _title(ctx, candidate), tuple(columns), tuple(rows))]
    if worst_rows:
        tables.append(
            Table(
                "plain",
                t.text("The worst places"),
                (
                    build.column(t.text("Workload")),
                    build.column(t.text("Backend")),
                    build.column(t.text("Outcome")),
                    build.column(t.text("Because")),
                    build.column(t.text("Decision")),
                ),
                tuple(worst_rows),
                t.plural(
                    left,
                    "{n} more place that does not pass is not shown on this page.",
                    "{n} more places that do not pass are not shown on this page.",
                )
                if left
                else (),
            )
        )
    return tables
