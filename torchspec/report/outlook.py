"""The answer in a sentence, what is asked of whom, and what would change it."""

from __future__ import annotations

from torchspec.model.memo import Answer, Change, Words
from torchspec.model.verdict import Fleet
from torchspec.report import numbers
from torchspec.report.context import Context
from torchspec.report.figure import figure, limit_words
from torchspec.report.findings import MOST_NAMED, Finding
from torchspec.report.language import code, join, plain
from torchspec.report.matrix import share
from torchspec.report.names import decision_mark, family_name, metric_name


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
    return Answer(
        fleet.candidate,
        candidate,
        decision_mark(t, fleet.decision),
        (*sentence, *plain(".")),
        _beside(ctx, fleet),
        _asked(ctx, fleet, found),
    )


def _beside(ctx: Context, fleet: Fleet) -> Words:
    t = ctx.t
    parts: list[Words] = []
    harm = any(
        j.contribution == "rollback" and j.outcome == "fail"
        for j in ctx.verdict.judgements
        if j.candidate == fleet.candidate
    )
    if fleet.decision != "rollback" and not harm:
        parts.append(t.words("Nothing was found that speaks for a rollback."))
    ready = [r for r in ctx.verdict.rows if r.candidate == fleet.candidate and r.outcome == "pass"]
    if len(ready) > MOST_NAMED and fleet.decision != "adopt":
        total = sum(r.candidate == fleet.candidate for r in ctx.verdict.rows)
        parts.append(t.words("{n} of {m} places pass.", n=len(ready), m=total))
    elif ready and fleet.decision != "adopt":
        by_backend: dict[str, list[str]] = {}
        for r in ready:
            by_backend.setdefault(r.backend, []).append(r.workload)
        for backend, names in list(by_backend.items())[:3]:
            parts.append(
                t.plural(
                    len(names),
                    "{names} passes on {backend}.",
                    "{names} pass on {backend}.",
                    names=t.listed([code(n) for n in names]),
                    backend=backend,
                )
            )
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
        asks.append(
            t.words(
                "approve {candidate} for the places that pass, and keep {baseline} elsewhere",
                candidate=candidate,
                baseline=baseline,
            )
        )
    elif fleet.decision == "rollback":
        asks.append(
            t.words(
                "return every place that already runs {candidate} to {baseline}", candidate=candidate, baseline=baseline
            )
        )
    else:
        fails = [f for f in found if f.kind == "fail"]
        if fails:
            names = t.listed([code(n) for n in dict.fromkeys(w for f in fails for w, _ in f.rows)])
            number = len({w for f in fails for w, _ in f.rows})
            asks.append(
                t.plural(
                    number,
                    "say how {names} gets back inside its limit",
                    "say how {names} get back inside their limits",
                    names=names,
                )
            )
        silent = [
            b.name
            for b in ctx.plan.backends
            if b.requirement == "required"
            and b.name not in ctx.backends_with_evidence()
            and any(c.backend == b.name for c in ctx.plan.cells)
        ]
        begun = [b for b in silent if b in ctx.begun]
        if begun:
            asks.append(t.words("finish the run on {backends}", backends=t.listed([code(b) for b in begun], 6)))
        silent = [b for b in silent if b not in begun]
        if silent:
            asks.append(t.words("lend a machine for {backends}", backends=t.listed([code(b) for b in silent], 6)))
        unrun = [f for f in found if f.kind == "not_run"]
        left = [w for f in unrun for w, b in f.rows if b not in silent and b not in begun]
        if left:
            asks.append(t.words("finish the run of {names}", names=t.listed([code(w) for w in dict.fromkeys(left)])))
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


def changes(ctx: Context, by_candidate: dict[str, list[Finding]]) -> tuple[Change, ...]:
    """Which evidence would lead to another decision."""
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
    return tuple(dict.fromkeys(out))[:5]


def _toward_adopt(ctx: Context, found: list[Finding], name: str) -> list[Change]:
    t = ctx.t
    adopt = decision_mark(t, "adopt")
    out: list[Change] = []
    conditions: list[Words] = []
    fails = [f for f in found if f.kind == "fail"]
    for f in fails[:2]:
        gate = ctx.gates[f.gate]
        conditions.append(
            t.words(
                "`{w}` stays within its limit for {metric} ({limit}) on {backend}",
                w=f.rows[0][0],
                metric=metric_name(t, gate.metric),
                limit=limit_words(t, gate),
                backend=f.rows[0][1],
            )
        )
    if len(fails) > 2:
        conditions.append(t.plural(len(fails) - 2, "{n} more failure is gone", "{n} more failures are gone"))
    if any(f.kind == "inconclusive" for f in found):
        conditions.append(t.words("what is inconclusive ends inside its limit"))
    if any(b in ctx.backends_with_evidence() for f in found if f.kind == "not_run" for _, b in f.rows):
        conditions.append(t.words("what was not run there is run and passes"))
    if any(f.kind in {"error", "broken"} for f in found):
        conditions.append(t.words("what ended in an error is measured again and passes"))
    if any(f.kind == "rehearsal" for f in found):
        conditions.append(t.words("going back is rehearsed and passes"))
    if conditions:
        out.append(Change(adopt, name, (*t.words("if "), *t.listed(conditions, 6), *plain("."))))
    silent = [
        b.name
        for b in ctx.plan.backends
        if b.name not in ctx.backends_with_evidence() and any(c.backend == b.name for c in ctx.plan.cells)
    ]
    if silent:
        out.append(
            Change(
                adopt,
                t.text("on {backends}", backends=", ".join(silent)),
                t.words("only after a full run there. Nothing measured here carries over."),
            )
        )
    return out


def _toward_rollback(ctx: Context, fleet: Fleet) -> Change:
    t = ctx.t
    hard = list(dict.fromkeys(family_name(t, g.metric).lower() for g in ctx.plan.gates if g.decision == "rollback"))
    words = (
        t.words("if {what} fails in a required place.", what=t.listed([plain(h) for h in hard], 5, " or "))
        if hard
        else t.words("on no outcome of this plan's gates.")
    )
    rehearsal = ctx.verdict.rehearsals.get(fleet.candidate)
    if rehearsal is not None and rehearsal.outcome == "pass" and rehearsal.seconds is not None:
        words = join(
            [words, t.words("Rehearsed: {took}.", took=numbers.duration(rehearsal.seconds, locale=t.locale))], " "
        )
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
        used = share(ctx, j)
        if used < 0:
            continue
        if best is None or used > best[0]:
            best = (
                used,
                t.words(
                    "if a gate stops passing. Closest to its limit: {metric} of `{w}`, {change} against {limit}.",
                    metric=metric_name(t, j.metric),
                    w=ctx.cells[j.cell].workload,
                    change=f"{fig.change} {fig.interval}".strip(),
                    limit=limit_words(t, gate),
                ),
            )
    if best is None:
        return []
    return [Change(decision_mark(t, "defer"), t.text("on {baseline}", baseline=ctx.baseline), best[1])]
