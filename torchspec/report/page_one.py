"""Page one: question, decision, answer, what is asked, matrix, reasons, what would change it, and whether to rely on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from torchspec.model.memo import Answer, Cell, Change, Fact, Mark, Reason, Table, Words
from torchspec.model.verdict import Fleet, Judgement, Row
from torchspec.report import build, numbers
from torchspec.report.context import Context, day, evidence_words, minute, worst
from torchspec.report.figure import figure, limit_words
from torchspec.report.findings import Finding, findings, strongest
from torchspec.report.gates import capital
from torchspec.report.language import code, join, link, plain, soft, strong
from torchspec.report.names import (
    DECISION_RANK,
    SEVERITY,
    decision_mark,
    family_name,
    metric_name,
    outcome_mark,
)

FULL_MATRIX = 40  # cells on page one; beyond it, rows that hold something other than pass
MOST_ROWS = 8
WORST_SHOWN = 10


def answer(ctx: Context, fleet: Fleet, found: list[Finding]) -> Answer:
    """One candidate's decision in a sentence, with what stands beside it and what is asked of whom."""
    t = ctx.t
    candidate = ctx.candidate_name(fleet.candidate)
    main = next((f for f in found if f.decision == fleet.decision and f.kind != "ready"), None)
    opening = {
        "adopt": t.words("Move to {candidate}", candidate=candidate),
        "isolate": t.words("Use {candidate} only in the named places", candidate=candidate),
        "defer": t.words("Stay on {baseline}", baseline=ctx.baseline),
        "rollback": t.words("Go back to {baseline}", baseline=ctx.baseline),
    }[fleet.decision]
    rehearsal = ctx.verdict.rehearsals.get(fleet.candidate)
    if fleet.decision == "rollback" and (rehearsal is None or rehearsal.outcome != "pass"):
        opening = (*opening, *t.words(", although the rehearsal of going back did not pass"))
    if main is not None:
        sentence = (*opening, *plain(": "), *main.clause)
        gap = next((f for f in found if f.kind == "not_run" and f is not main), None)
        if gap is not None and gap.clause:
            sentence = (*sentence, *t.words("; and {gap}", gap=gap.clause))
    else:
        gates = sum(r.counts.get("pass", 0) for r in ctx.verdict.rows if r.candidate == fleet.candidate)
        sentence = (*opening, *t.words(": all {n} judgements pass, and so does the rehearsal of going back", n=gates))
    return Answer(fleet.candidate, candidate, decision_mark(t, fleet.decision), (*sentence, *plain(".")),
                  _beside(ctx, fleet), _asked(ctx, fleet, found))


def _beside(ctx: Context, fleet: Fleet) -> Words:
    t = ctx.t
    parts: list[Words] = []
    harm = any(
        j.contribution == "rollback" and j.outcome == "fail" for j in ctx.verdict.judgements
        if j.candidate == fleet.candidate
    )
    if fleet.decision != "rollback" and not harm:
        parts.append(t.words("Nothing was found that speaks for a rollback."))
    ready = [r for r in ctx.verdict.rows if r.candidate == fleet.candidate and r.outcome == "pass"]
    if ready and fleet.decision != "adopt":
        by_backend: dict[str, list[str]] = {}
        for r in ready:
            by_backend.setdefault(r.backend, []).append(r.workload)
        for backend, names in list(by_backend.items())[:3]:
            parts.append(t.plural(len(names), "{names} passes on {backend}.", "{names} pass on {backend}.",
                                  names=t.listed([code(n) for n in names]), backend=backend))
    if ctx.registration.status == "exploratory":
        parts.append(t.words("*Exploratory*: the limits are not shown to have come before the evidence."))
    return join(parts, " ")


def _asked(ctx: Context, fleet: Fleet, found: list[Finding]) -> Words:
    t = ctx.t
    asks: list[Words] = []
    kinds = {f.kind: f for f in reversed(found)}
    baseline, candidate = ctx.baseline, ctx.candidate_name(fleet.candidate)
    if fleet.decision == "adopt":
        asks.append(t.words("approve the move to {candidate}", candidate=candidate))
    elif fleet.decision == "isolate":
        asks.append(t.words("approve {candidate} for the places that pass, and keep {baseline} elsewhere",
                            candidate=candidate, baseline=baseline))
    elif fleet.decision == "rollback":
        asks.append(t.words("return every place that already runs {candidate} to {baseline}", candidate=candidate,
                            baseline=baseline))
    else:
        fails = [f for f in found if f.kind == "fail"]
        if fails:
            names = t.listed([code(n) for n in dict.fromkeys(w for f in fails for w, _ in f.rows)])
            asks.append(t.words("say how {names} gets back inside its limit", names=names))
        silent = [b.name for b in ctx.plan.backends if b.requirement == "required"
                  and b.name not in ctx.backends_with_evidence() and any(c.backend == b.name for c in ctx.plan.cells)]
        if silent:
            asks.append(t.words("lend a machine for {backends}", backends=t.listed([code(b) for b in silent], 6)))
        if "inconclusive" in kinds:
            asks.append(t.words("allow a longer run of what is inconclusive"))
        if "error" in kinds or "broken" in kinds:
            asks.append(t.words("repair what ended in an error, and run it again"))
        if not asks:
            asks.append(t.words("rehearse going back"))
    until = ctx.plan.upgrade.window_to
    by = t.words(" by {date}", date=until) if until else ()
    words = (*t.words("*Asked of {owner}:* ", owner=ctx.plan.upgrade.owner), *t.listed(asks), *by, *plain("."))
    lapses = [d for d in (*(w.until for w in ctx.plan.waivers), *(b.until for b in ctx.plan.backends if b.until)) if d]
    if lapses and fleet.decision in {"adopt", "isolate"}:
        words = (*words, *t.words(" The decision lapses on {date}.", date=min(lapses)))
    return words


def matrices(ctx: Context) -> tuple[str, tuple[Table, ...], Words]:
    """(heading, tables for page one, tally). One cell: no matrix. Many: only rows that hold something to see."""
    t = ctx.t
    tally = Counter(r.outcome for r in ctx.verdict.rows)
    total = len(ctx.verdict.rows)
    heading = t.text("Outcome by workload and backend: {n} of {m} pass", n=tally["pass"], m=total)
    words = ", ".join(
        f"{numbers.count(tally[o])} {outcome_mark(t, o).text}"
        for o in ("pass", "fail", "inconclusive", "error", "not_run") if tally[o]
    )
    note = t.words("{words}. Each place shows its worst gate and names it. Only *pass* passes.", words=words)
    if total <= 1:
        return heading, (), note
    tables = []
    for side in ctx.plan.candidates:
        if total > 400:
            tables += _counted(ctx, side.id)
        else:
            tables.append(_matrix(ctx, side.id, total))
    return heading, tuple(tables), note


def _backends(ctx: Context) -> list[str]:
    used = {r.backend for r in ctx.verdict.rows}
    return [b.name for b in ctx.plan.backends if b.name in used]


def _title(ctx: Context, candidate: str) -> str:
    t = ctx.t
    if ctx.several:
        return t.text("Outcome of {candidate} by workload and backend", candidate=ctx.candidate_name(candidate))
    return t.text("Outcome by workload and backend")


def _matrix(ctx: Context, candidate: str, total: int) -> Table:
    t = ctx.t
    backends = _backends(ctx)
    workloads = [w.name for w in ctx.plan.workloads if any(r.workload == w.name for r in ctx.verdict.rows)]
    folded: list[str] = []
    if total > FULL_MATRIX or len(workloads) > MOST_ROWS:
        rows_of = {w: [r for r in ctx.verdict.rows if r.workload == w and r.candidate == candidate] for w in workloads}
        folded = [w for w in workloads if all(r.outcome == "pass" for r in rows_of[w])]
        order = sorted((w for w in workloads if w not in folded),
                       key=lambda w: min(SEVERITY.index(r.outcome) for r in rows_of[w]))
        hidden = order[MOST_ROWS:]
        workloads = [w for w in workloads if w in order[:MOST_ROWS]]
    else:
        hidden = []
    rows = []
    for w in workloads:
        cells = [build.cell(code(w), sub=soft(ctx.fixed_axes(w)))]
        cells += [_place(ctx, candidate, w, b) for b in backends]
        rows.append(build.row(*cells))
    if folded:
        rows.append(build.row(t.plural(len(folded), "{n} more workload: all pass", "{n} more workloads: all pass"),
                              *([build.cell(mark=outcome_mark(t, "pass"))] * len(backends))))
    if hidden:
        rows.append(build.row(t.plural(len(hidden), "{n} more workload, see section 1", "{n} more workloads, see section 1"),
                              *([""] * len(backends))))
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
    j = worst(j for j in own if j.outcome == row.outcome)
    if row.outcome == "pass":
        j = max(own, key=lambda j: _share(ctx, j), default=None)
    if j is None:
        return build.cell(soft(t.text("no evidence")))
    gate = ctx.gates[j.gate]
    fig = figure(t, gate, j)
    said = f"{fig.change} {fig.interval}".strip() or plain_reason(ctx, j.reason)
    head = (*strong(capital(metric_name(t, j.metric))), *plain(f"  {said}"))
    return build.cell(head, sub=join([soft(fig.absolute), soft(t.text("limit {limit}", limit=limit_words(t, gate))),
                                      soft(ctx.cell_words(ctx.cells[j.cell]))]))


def _share(ctx: Context, j: Judgement) -> float:
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
    return build.cell(mark=outcome_mark(t, row.outcome), sub=plain(_second_line(ctx, row)),
                      decision=decision_mark(t, row.decision), boxed=True)


def _second_line(ctx: Context, row: Row) -> str:
    t = ctx.t
    own = [j for j in ctx.by_row.get((row.candidate, row.workload, row.backend), ()) if j.contribution is not None]
    total = sum(row.counts.values()) or len(own)
    if row.outcome == "pass":
        return t.text("{n} of {m} gates", n=row.counts.get("pass", len(own)), m=total)
    first = worst(j for j in own if j.outcome == row.outcome)
    if first is None:
        return t.text("no evidence")
    if row.outcome == "not_run" and row.counts.get("not_run", 0) == total:
        return short_reason(ctx, first.reason)
    return metric_name(t, first.metric)


def plain_reason(ctx: Context, reason: str) -> str:
    """A reason in the judge's words, which are English; another language says only that there is no figure."""
    text = " ".join(reason.split()).rstrip(".")
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
    order = ("pass", "fail", "inconclusive", "error", "not_run")
    rows = []
    for b in _backends(ctx):
        counts = Counter(r.outcome for r in own if r.backend == b)
        rows.append(build.row(build.cell(code(b)), *(numbers.count(counts[o]) if counts[o] else "" for o in order),
                              build.cell(decision=decision_mark(t, max(
                                  (r.decision for r in own if r.backend == b), key=lambda d: DECISION_RANK[d])))))
    columns = [build.column(t.text("Backend"))]
    columns += [build.column(outcome_mark(t, o).text, "right") for o in order]
    columns.append(build.column(t.text("Decision")))
    ranked = sorted((r for r in own if r.outcome != "pass"),
                    key=lambda r: (SEVERITY.index(r.outcome), -DECISION_RANK[r.decision]))
    worst_rows = [
        build.row(build.cell(code(r.workload)), build.cell(code(r.backend)),
                  build.cell(mark=outcome_mark(t, r.outcome)), _second_line(ctx, r),
                  build.cell(decision=decision_mark(t, r.decision)))
        for r in ranked[:WORST_SHOWN]
    ]
    left = len(ranked) - len(worst_rows)
    tables = [Table("plain", _title(ctx, candidate), tuple(columns), tuple(rows))]
    if worst_rows:
        tables.append(Table(
            "plain", t.text("The worst places"),
            (build.column(t.text("Workload")), build.column(t.text("Backend")), build.column(t.text("Outcome")),
             build.column(t.text("Because")), build.column(t.text("Decision"))), tuple(worst_rows),
            t.plural(left, "{n} more place that does not pass is not shown on this page.",
                     "{n} more places that do not pass are not shown on this page.") if left else ()))
    return tables


def reasons(ctx: Context, by_candidate: dict[str, list[Finding]]) -> tuple[Reason, ...]:
    """The three strongest, of the candidate with the heaviest decision where there are several."""
    fleet = max(ctx.verdict.fleet, key=lambda f: DECISION_RANK[f.decision])
    chosen = strongest(ctx, by_candidate[fleet.candidate], fleet.decision)
    return tuple(Reason(f.head, f.words, evidence_words(f.evidence)) for f in chosen)


def changes(ctx: Context, by_candidate: dict[str, list[Finding]]) -> tuple[Change, ...]:
    """Which evidence would lead to another decision."""
    t = ctx.t
    out: list[Change] = []
    for fleet in ctx.verdict.fleet:
        found = by_candidate[fleet.candidate]
        name = ctx.candidate_name(fleet.candidate)
        if fleet.decision != "adopt":
            out += _toward_adopt(ctx, found, name)
        if fleet.decision != "rollback":
            out.append(_toward_rollback(ctx, fleet))
        if fleet.decision == "adopt":
            out += _closest(ctx, fleet)
    return tuple(out[:5])


def _toward_adopt(ctx: Context, found: list[Finding], name: str) -> list[Change]:
    t = ctx.t
    adopt = decision_mark(t, "adopt")
    out: list[Change] = []
    conditions: list[Words] = []
    for f in [f for f in found if f.kind == "fail"][:3]:
        workload, backend = f.rows[0]
        own = [j for j in ctx.verdict.judgements if j.outcome == "fail" and ctx.cells[j.cell].workload == workload
               and ctx.cells[j.cell].backend == backend]
        gate = ctx.gates[own[0].gate] if own else None
        if gate is not None:
            fail = next((j for j in own if set(j.evidence) <= set(f.evidence)), own[0])
            gate = ctx.gates[fail.gate]
            conditions.append(t.words("`{w}` stays within its limit for {metric} ({limit}) on {backend}", w=workload,
                                      metric=metric_name(t, gate.metric), limit=limit_words(t, gate), backend=backend))
    for f in [f for f in found if f.kind == "inconclusive"][:1]:
        conditions.append(t.words("what is inconclusive ends inside its limit"))
    if any(f.kind in {"error", "broken"} for f in found):
        conditions.append(t.words("what ended in an error is measured again and passes"))
    if any(f.kind == "rehearsal" for f in found):
        conditions.append(t.words("going back is rehearsed and passes"))
    if conditions:
        out.append(Change(adopt, name, (*t.words("if "), *t.listed(conditions, 6), *plain("."))))
    silent = [b.name for b in ctx.plan.backends if b.name not in ctx.backends_with_evidence()
              and any(c.backend == b.name for c in ctx.plan.cells)]
    if silent:
        out.append(Change(adopt, t.text("on {backends}", backends=", ".join(silent)),
                          t.words("only after a full run there. Nothing measured here carries over.")))
    return out


def _toward_rollback(ctx: Context, fleet: Fleet) -> Change:
    t = ctx.t
    hard = list(dict.fromkeys(family_name(t, g.metric).lower() for g in ctx.plan.gates if g.decision == "rollback"))
    words = t.words("if {what} fails in a required place.", what=" / ".join(hard)) if hard else t.words(
        "on no outcome of this plan's gates.")
    rehearsal = ctx.verdict.rehearsals.get(fleet.candidate)
    if rehearsal is not None and rehearsal.outcome == "pass" and rehearsal.seconds is not None:
        words = join([words, t.words("Rehearsed: {took}.", took=numbers.duration(rehearsal.seconds, locale=t.locale))], " ")
    else:
        words = join([words, t.words("Going back has not been shown to work.")], " ")
    return Change(decision_mark(t, "rollback"), t.text("to {baseline}", baseline=ctx.baseline), words)


def _closest(ctx: Context, fleet: Fleet) -> list[Change]:
    """For an adoption: the gate that came closest to its limit."""
    t = ctx.t
    best: tuple[float, Words] | None = None
    for j in ctx.verdict.judgements:
        if j.candidate != fleet.candidate or j.outcome != "pass":
            continue
        gate = ctx.gates[j.gate]
        fig = figure(t, gate, j)
        share = _share(ctx, j)
        if share < 0:
            continue
        if best is None or share > best[0]:
            best = (share, t.words("if a gate stops passing. Closest to its limit: {metric} of `{w}`, {change} "
                                   "against {limit}.", metric=metric_name(t, j.metric), w=ctx.cells[j.cell].workload,
                                   change=f"{fig.change} {fig.interval}".strip(), limit=limit_words(t, gate)))
    if best is None:
        return []
    return [Change(decision_mark(t, "defer"), t.text("on {baseline}", baseline=ctx.baseline), best[1])]


def rely(ctx: Context, anchor: str) -> tuple[Fact, ...]:
    """Can you rely on this memo? Six facts, missing ones said plainly."""
    t = ctx.t
    r = ctx.registration
    versions = " / ".join(ctx.candidate_name(s.id) for s in ctx.plan.candidates)
    window = (f"{minute(ctx.evidence.first)} → {minute(ctx.evidence.last)}" if ctx.evidence.first
              else t.text("nothing was run"))
    runs = len(ctx.verdict.runs)
    if r.status == "confirmatory":
        registered = (*t.words("confirmatory: "), *code((r.commit or "")[:7]), *plain(f", {day(r.committed_at)}"))
        registered_mark = Mark("pass", t.text("pass"))
    else:
        why = r.reasons[0] if r.reasons and t.code == "en" else t.text("see the section on it")
        registered = (*t.words("*exploratory*: "), *plain(" ".join(why.split())))
        registered_mark = Mark("inconclusive", t.text("inconclusive"))
    changed = len(r.changes) + sum(p.value != p.default for p in ctx.plan.params)
    if changed:
        plan = (*t.plural(changed, "{n} change, ", "{n} changes, "), *link(t.text("listed in this memo"), f"#{anchor}"))
        plan_mark: Mark | None = Mark("inconclusive", t.text("inconclusive"))
    else:
        plan, plan_mark = t.words("none: limits as registered") if r.commit else t.words("none known"), None
    if ctx.signer:
        signed, signed_mark = plain(ctx.signer), None
    else:
        signed, signed_mark = t.words("not signed"), Mark("not_run", t.text("not run"))
    return (
        Fact(t.text("Versions, baseline → candidate"), plain(f"torch {ctx.baseline} → {versions}")),
        Fact(t.text("Run window, UTC"), plain(window)),
        Fact(t.text("Evidence"), (*t.plural(ctx.evidence.records, "{n} record, ", "{n} records, "),
                                  *t.plural(runs, "{n} run; head ", "{n} runs; head "),
                                  *code(ctx.verdict.ledger_head[:7]))),
        Fact(t.text("Limits before evidence?"), registered, registered_mark),
        Fact(t.text("Changes to the plan"), plan, plan_mark),
        Fact(t.text("Signature"), signed, signed_mark),
    )


def all_findings(ctx: Context) -> dict[str, list[Finding]]:
    """Findings by candidate."""
    return {s.id: findings(ctx, s.id) for s in ctx.plan.candidates}


def first_lines(ctx: Context) -> tuple[str, str]:
    """(kicker above the question, running head)."""
    t = ctx.t
    reference = f"{ctx.plan.name}-{ctx.verdict.plan_digest[:7]}"
    kicker = t.text("Decision memo by torchspec · {reference} · issued {date} · {status}", reference=reference,
                    date=day(ctx.issued), status=t.text(ctx.registration.status))
    decisions = " / ".join(
        decision_mark(t, f.decision).text + (f" {ctx.candidate_name(f.candidate)}" if ctx.several else "")
        for f in ctx.verdict.fleet)
    versions = f"torch {ctx.baseline} → {', '.join(ctx.candidate_name(s.id) for s in ctx.plan.candidates)}"
    return kicker, f"{decisions} · {versions}"
