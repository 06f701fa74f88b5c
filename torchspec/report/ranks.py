"""The section on distributed work: scaling from one rank to all, waiting, what ranks hear of a bad peer, and recovery.

Reads what jobs of ranks recorded, medians over repeats; must not judge anything from it: the gates are in the tables of
their backend.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from torchspec.model.memo import Block, Cell, Section, TableRow, Words
from torchspec.model.plan import Cell as PlanCell
from torchspec.report import build, numbers
from torchspec.report.context import Context
from torchspec.report.language import clip, join, plain, soft
from torchspec.report.names import outcome_mark
from torchspec.report.rows import beside_table, where_words

FAULTS = ("collective.rank_missing", "collective.rank_late", "collective.rank_dead", "collective.slow_rank_named")
Bodies = Sequence[dict[str, Any]]


def section(ctx: Context, candidate: str, backend: str) -> Section | None:
    """None where no job of ranks has run on this backend for this candidate."""
    t = ctx.t
    cells = [c for c in ctx.plan.cells if c.backend == backend]
    if not any(ctx.evidence.ranks.get((candidate, c.id)) for c in cells):
        return None
    took = _recovered(ctx, candidate, cells)
    parts = [_scaling(ctx, candidate, cells), _waiting(ctx, candidate, cells), _bandwidth(ctx, candidate, cells)]
    parts += [_faults(ctx, candidate, cells), _recovery(ctx, candidate, cells)]
    blocks = tuple(part for part in parts if part is not None)
    if not blocks:
        return None
    where = backend + (f", {ctx.candidate_name(candidate)}" if ctx.several else "")
    most = max(int(c.axes.get("ranks") or 1) for c in cells)
    heading = t.text("From 1 to {n} ranks on {where}: scaling and waiting", n=most, where=where)
    if took is not None:
        back = numbers.duration(took, locale=t.locale)
        heading = t.text("From 1 to {n} ranks on {where}: back {took} after a rank was killed", n=most, where=where,
                         took=back)  # fmt: skip
    lead = t.words(
        "Each side is a job of several processes, and a call is as slow as its slowest rank. All ranks are on one "
        "machine: nothing here speaks of a network or of several nodes."
    )
    return Section(f"ranks-{candidate}-{backend}", "", heading, lead, blocks)


def _bodies(ctx: Context, candidate: str, cell: PlanCell, metric: str, side: str) -> Bodies:
    held = ctx.evidence.ranks.get((candidate, cell.id), ())
    return [body for body in held if body.get("metric") == metric and body.get("side") == side]


def _both(ctx: Context, candidate: str, cell: PlanCell, metric: str) -> tuple[Bodies, Bodies]:
    one = _bodies(ctx, candidate, cell, metric, ctx.plan.baseline.id)
    return one, _bodies(ctx, candidate, cell, metric, candidate)


def _detail(body: dict[str, Any], name: str) -> Any:
    return (body.get("detail") or {}).get(name)


def _middle(values: Iterable[Any]) -> float | None:
    """The median of what are numbers; None where there are none."""
    known = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return statistics.median(known) if known else None


def _pair(ctx: Context, one: Iterable[Any], two: Iterable[Any], unit: str | None, scale: float = 1.0) -> str:
    """ "5.1 → 4.9 ms", or "" where a side has no figure."""
    a, b = _middle(one), _middle(two)
    if a is None or b is None:
        return ""
    return numbers.pair(a * scale, b * scale, unit, locale=ctx.t.locale).arrow


def _scaling(ctx: Context, candidate: str, cells: Sequence[PlanCell]) -> Block | None:
    t, rows = ctx.t, []
    for cell in cells:
        one, two = _both(ctx, candidate, cell, "scaling.efficiency")
        if not one or not two:
            continue
        times = [
            _pair(ctx, (_detail(b, name) for b in one), (_detail(b, name) for b in two), "s", 1e-9)
            for name in ("one_rank_step_ns", "step_ns")
        ]
        share = _pair(ctx, (b["value"] for b in one), (b["value"] for b in two), "%", 100.0)
        rows.append(build.row(where_words(ctx, cell), *times, share))
    note = t.words(
        "A step on one rank's share of the rows: by that rank alone, and by all ranks at once, in turn in the same "
        "processes. Efficiency is the first divided by the second."
    )
    heads = (t.text("One rank alone"), t.text("All ranks"), t.text("Efficiency"))
    return beside_table(ctx, t.text("Scaling from one rank to all"), heads, rows, note)


def _waiting(ctx: Context, candidate: str, cells: Sequence[PlanCell]) -> Block | None:
    t, rows = ctx.t, []
    for cell in cells:
        one, two = _both(ctx, candidate, cell, "comm.wait")
        if not one or not two:
            continue
        shares = [_bodies(ctx, candidate, cell, "comm.overlap", s) for s in (ctx.plan.baseline.id, candidate)]
        last = [
            ", ".join(
                dict.fromkeys(str(_detail(b, "waited_least")) for b in side if _detail(b, "waited_least") is not None)
            )
            for side in (one, two)
        ]
        rows.append(
            build.row(
                where_words(ctx, cell),
                _pair(ctx, (b["value"] for b in one), (b["value"] for b in two), "s"),
                _pair(ctx, (b["value"] for b in shares[0]), (b["value"] for b in shares[1]), "%", 100.0),
                f"{last[0]} → {last[1]}",
            )
        )
    note = t.words(
        "Waiting: communication is in flight and nothing is computed, by torch's profiler, on the rank that waits "
        "longest. Overlap: the share of the time in flight in which something is computed. Who waits least came last."
    )
    heads = (t.text("Waiting, a step"), t.text("Overlap"))
    came = build.column(t.text("Came last"), "left", t.text("rank, in each repeat"))
    return beside_table(ctx, t.text("Waiting for communication"), heads, rows, note, came)


def _bandwidth(ctx: Context, candidate: str, cells: Sequence[PlanCell]) -> Block | None:
    """Collectives: the median time of a call on the slowest rank, what was asked for and what crosses the bus in it."""
    t, rows = ctx.t, []
    for cell in cells:
        times: dict[str, list[float]] = {"a": [], "b": []}
        moved = asked = 0.0
        for body in ctx.evidence.timings.get((candidate, cell.id), ()):
            swapped = body.get("a") == candidate
            moved = float(body.get("bus_bytes") or moved)
            asked = float(body.get("operation_bytes") or asked)
            for one in body.get("rounds", ()):
                for side in ("a", "b"):
                    own = "b" if (side == "a") == swapped else "a"
                    times[own] += [v for v in one.get(f"{side}_ns", ()) if isinstance(v, int | float)]
        base, cand = _middle(times["a"]), _middle(times["b"])
        if moved <= 0 or base is None or cand is None:
            continue
        rates = [
            numbers.pair(1e9 * size / base, 1e9 * size / cand, "B/s", locale=t.locale).arrow if size else ""
            for size in (asked, moved)
        ]
        rows.append(build.row(where_words(ctx, cell), _pair(ctx, times["a"], times["b"], "s", 1e-9), *rates))
    heads = (t.text("Median of a call"), t.text("Algorithm bandwidth"), t.text("Bus bandwidth"))
    return beside_table(ctx, t.text("Collectives: time and bandwidth"), heads, rows)


def _faults(ctx: Context, candidate: str, cells: Sequence[PlanCell]) -> Block | None:
    t = ctx.t
    names = {
        "collective.rank_missing": t.text("A rank never comes"),
        "collective.rank_late": t.text("A rank comes too late"),
        "collective.rank_dead": t.text("A rank dies"),
        "collective.slow_rank_named": t.text("A rank is slow: is it named?"),
    }
    rows: list[TableRow] = []
    for cell in cells:
        for metric in FAULTS:
            one, two = _both(ctx, candidate, cell, metric)
            if one and two:
                what = build.cell(plain(names[metric]), sub=where_words(ctx, cell))
                key = "pass" if two[-1]["holds"] else "fail"
                rows.append(build.row(what, _heard(ctx, one[-1]), _heard(ctx, two[-1]), key=key))
    if not rows:
        return None
    columns = [
        build.column(t.text("What goes wrong")),
        build.column(t.text("Baseline")),
        build.column(t.text("Candidate")),
    ]
    note = t.words("Holds where the other ranks hear a clear error within their timeout and do not hang.")
    return build.table("plain", t.text("When a rank is late, dead or missing"), columns, rows, note=note)


def _heard(ctx: Context, fact: dict[str, Any]) -> Cell:
    """Whether a fact holds, and after how long the others heard of it."""
    t = ctx.t
    mark = outcome_mark(t, "pass" if fact.get("holds") else "fail")
    heard = [h.get("seconds") for h in _detail(fact, "heard") or () if isinstance(h, dict)]
    longest = max((float(s) for s in heard if isinstance(s, int | float)), default=None)
    if fact.get("error"):
        return build.cell(clip(str(fact["error"]), 160), mark=mark)
    if longest is not None:
        return build.cell(t.text("an error after {took}", took=numbers.duration(longest, locale=t.locale)), mark=mark)
    return build.cell("", mark=mark)


def _recovered(ctx: Context, candidate: str, cells: Sequence[PlanCell]) -> float | None:
    """How long the candidate's slowest recovery took; None where one did not hold, or none was tried."""
    facts = [b for c in cells for b in _bodies(ctx, candidate, c, "recovery.rank_killed", candidate)]
    took = [_detail(b, "seconds") for b in facts]
    if not facts or not all(b.get("holds") for b in facts):
        return None
    return max((float(s) for s in took if isinstance(s, int | float)), default=None)


def _recovery(ctx: Context, candidate: str, cells: Sequence[PlanCell]) -> Block | None:
    t, rows = ctx.t, []
    for cell in cells:
        one, two = _both(ctx, candidate, cell, "recovery.rank_killed")
        for side, facts in ((t.text("Baseline"), one), (t.text("Candidate"), two)):
            for fact in facts[-1:]:
                rows.append(_recovery_row(ctx, where_words(ctx, cell), side, fact))
    if not rows:
        return None
    columns = [
        build.column(t.text("Workload")),
        build.column(t.text("Outcome")),
        build.column(t.text("Ranks were back after"), "right"),
        build.column(t.text("Next step done after"), "right"),
        build.column(t.text("What was seen")),
    ]
    note = t.words(
        "A rank kills itself in a backward pass; torchrun starts all ranks again, and they go on from the newest whole "
        "checkpoint. Holds where the losses behind it are those of a run without a fault, bit for bit. Times count "
        "from the rank's death."
    )
    return build.table("plain", t.text("Recovery after a rank was killed"), columns, rows, note=note)


def _recovery_row(ctx: Context, name: Words, side: str, fact: dict[str, Any]) -> TableRow:
    t = ctx.t
    holds = bool(fact.get("holds"))
    took = [_middle([_detail(fact, key)]) for key in ("restarted_s", "seconds")]
    shown = [numbers.duration(s, locale=t.locale) if s is not None else "" for s in took]
    died, resumed = _detail(fact, "died_at"), _detail(fact, "resumed_at")
    seen = plain(clip(str(fact.get("error") or ""), 240))
    if isinstance(died, int) and isinstance(resumed, int):
        seen = join([seen, plain(t.text("died in step {a}, went on at step {b}", a=died, b=resumed))], "; ")
    return build.row(build.cell(name, sub=soft(side)), build.cell(mark=outcome_mark(t, "pass" if holds else "fail")),
                     *shown, seen, key="pass" if holds else "fail")  # fmt: skip
