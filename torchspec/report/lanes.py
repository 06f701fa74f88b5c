"""Lanes: prototypes that run apart, and whether their off switch was thrown and the work still ran."""

from __future__ import annotations

from torchspec.model.memo import Section, TableRow, Words
from torchspec.model.plan import Lane
from torchspec.model.verdict import Switch
from torchspec.report import build
from torchspec.report.context import Context, evidence_words
from torchspec.report.language import clip, code, join, plain, soft
from torchspec.report.names import decision_mark, outcome_mark


def section(ctx: Context) -> Section | None:
    """None where the spec has no lane."""
    t = ctx.t
    if not ctx.plan.lanes:
        return None
    thrown = [s for s in ctx.verdict.switches if s.outcome == "pass"]
    total = len(ctx.verdict.switches)
    if total and len(thrown) == total:
        heading = t.counted(
            total,
            "Lanes: the off switch was thrown, and the work still ran",
            "Lanes: all {n} off switches were thrown, and the work still ran",
        )
    elif total:
        heading = t.text("Lanes: {n} of {m} off switches are shown to work", n=len(thrown), m=total)
    else:
        heading = t.text("Lanes: no off switch was thrown")
    rows = [_row(ctx, lane, s) for lane in ctx.plan.lanes for s in ctx.verdict.switches if s.lane == lane.name]
    unseen = [lane for lane in ctx.plan.lanes if not any(s.lane == lane.name for s in ctx.verdict.switches)]
    rows += [_row(ctx, lane, None) for lane in unseen]
    columns = [
        build.column(t.text("Lane"), sub=t.text("owner")),
        build.column(t.text("Workloads and decision")),
        build.column(t.text("Off switch")),
        build.column(t.text("Thrown, and the work still ran")),
    ]
    return Section(
        "lanes",
        "",
        heading,
        t.words(
            "A lane is a prototype with a row of its own: at best *isolate*, and without a vote only where its off "
            "switch was thrown and the work still ran. Nothing that passes in a lane passes elsewhere."
        ),
        (build.table("plain", t.text("Lanes"), columns, rows),),
    )


def _row(ctx: Context, lane: Lane, switch: Switch | None) -> TableRow:
    t = ctx.t
    outcome = switch.outcome if switch else "not_run"
    where = [code(switch.backend)] if switch else []
    if switch and ctx.several:
        where.append(plain(ctx.candidate_name(switch.candidate)))
    reason = soft(clip(switch.reason, 240)) if switch and t.code == "en" and outcome != "pass" else ()
    trace = evidence_words(switch.evidence) if switch else ()
    needs = soft(t.text("needs {hardware}", hardware=", ".join(lane.hardware))) if lane.hardware else ()
    variables = [code(f"{name}={value}") for name, value in sorted(lane.disable_env.items())]
    return build.row(
        build.cell(code(lane.name), sub=join([soft(lane.owner), needs])),
        build.cell(_work(ctx, lane, switch)),
        build.cell(join(variables, ", ") if variables else t.text("none")),
        build.cell(join(where), mark=outcome_mark(t, outcome), sub=join([reason, trace])),
        key=outcome,
    )


def _work(ctx: Context, lane: Lane, switch: Switch | None) -> Words:
    """The lane's workloads, with their decision on the switch's backend."""
    parts: list[Words] = []
    for w in ctx.plan.workloads:
        if w.lane != lane.name:
            continue
        row = ctx.rows.get((switch.candidate, w.name, switch.backend)) if switch else None
        said = soft(f" {decision_mark(ctx.t, row.decision).text}") if row else ()
        parts.append((*code(w.name), *said))
    return join(parts, ", ")
