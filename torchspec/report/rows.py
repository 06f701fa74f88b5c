"""Pieces of a row about one judgement: gate, place, outcome, and the line of samples, rule and evidence below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchspec.model.memo import Block, Cell, Column, TableRow, Words
from torchspec.model.plan import Cell as PlanCell
from torchspec.model.plan import Gate
from torchspec.model.verdict import Judgement
from torchspec.report import build, numbers
from torchspec.report.context import Context, evidence_ids, evidence_words
from torchspec.report.language import code, join, soft
from torchspec.report.names import DOES_NOT_HOLD, RULES, SAMPLES, capital, metric_name, outcome_mark


def short(ctx: Context, j: Judgement) -> str:
    """What stands below the outcome of a gate without an estimate."""
    t = ctx.t
    form = ctx.gates[j.gate].limit.form
    if j.outcome == "pass" and form == "holds":
        return t.text("holds")
    if j.outcome == "pass" and form == "identical":
        return t.text("identical")
    if j.outcome == "fail" and form == "identical":
        return t.text("does not run") if j.rule == DOES_NOT_HOLD else t.text("differs")
    if j.outcome == "fail" and form == "holds":
        return t.text("does not hold")
    return ""


def gate_name(ctx: Context, gate: Gate) -> str:
    name = capital(metric_name(ctx.t, gate.metric))
    if gate.against and gate.against != "baseline":
        return ctx.t.text("{metric} against {reference}", metric=name, reference=gate.against)
    if gate.against == "baseline" and gate.limit.form == "absolute":
        return ctx.t.text("{metric} against {reference}", metric=name, reference=ctx.t.text("the baseline"))
    return name


def samples(ctx: Context, j: Judgement) -> str:
    """ "8 pairs, 4 builds" """
    t = ctx.t
    parts = [t.counted(n, *SAMPLES[k]) for k in SAMPLES if (n := (j.n or {}).get(k))]
    return ", ".join(parts)


def rule_words(ctx: Context, j: Judgement) -> str:
    """The rule that fired, in the memo's language; a rule this memo has no words for is shown as it is."""
    if j.rule in RULES:
        return ctx.t.text(j.rule)
    return j.rule if ctx.t.code == "en" else ""


def trace(ctx: Context, j: Judgement) -> Words:
    """Samples, rule and evidence of one judgement, as a second line."""
    visible = ""
    if j.visible is not None and ctx.gates[j.gate].limit.form in {"growth", "drop"}:
        visible = ctx.t.text(
            "could see {change}",
            change=numbers.change(j.visible, locale=ctx.t.locale).estimate.lstrip("+") + f"{numbers.NNBSP}%",
        )
    special = ctx.t.text("waived") if j.waived is not None else ctx.t.text("improvement") if j.improvement else ""
    return join(
        [
            soft(special),
            soft(samples(ctx, j)),
            soft(rule_words(ctx, j)),
            soft(visible),
            soft(evidence_ids(j.evidence)) if ctx.large else evidence_words(j.evidence),
        ]
    )


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


def where_words(ctx: Context, cell: PlanCell) -> Words:
    """A place as it heads a row: the workload, then what tells this cell from its others."""
    return (*code(cell.workload), *soft("  " + ctx.cell_words(cell)))


def where_cell(ctx: Context, j: Judgement) -> Cell:
    return build.cell(where_words(ctx, ctx.cells[j.cell]))


def beside_table(
    ctx: Context,
    title: str,
    heads: Sequence[str],
    rows: Sequence[TableRow],
    note: Words = (),
    last: Column | None = None,
) -> Block | None:
    """A row a workload, and figures "baseline → candidate" under each of `heads`; `last` is a column of another kind.
    None without rows."""
    if not rows:
        return None
    both = ctx.t.text("baseline → candidate")
    columns = [build.column(ctx.t.text("Workload")), *(build.column(head, "right", both) for head in heads)]
    return build.table("plain", title, [*columns, last] if last else columns, rows, note=note)


def outcome_cell(ctx: Context, j: Judgement) -> Cell:
    return build.cell(mark=outcome_mark(ctx.t, j.outcome))
