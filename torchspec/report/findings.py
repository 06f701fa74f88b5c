"""What matters most, put into words: the reasons, strongest first, each with its evidence.

A finding's strength is the decision that its judgements contribute, then the outcome, then how much of the limit they
use up. Must not decide: the decision is the verdict's, and every sentence here is derived from judgements."""

from __future__ import annotations

from dataclasses import dataclass

from torchspec.model.memo import Words
from torchspec.model.verdict import Judgement
from torchspec.report.context import Context
from torchspec.report.figure import bound_words, figure
from torchspec.report.language import clip, code, join, plain
from torchspec.report.names import DECISION_RANK, SEVERITY, capital, family, family_name, metric_name
from torchspec.report.phrases import clause, crosses, full, sentence

MOST_NAMED = 6  # places named one by one in a reason; beyond it they are counted


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason. `clause` is its short form for the answer's sentence, without a final stop."""

    kind: str  # an outcome, or "ready", "rehearsal", "broken"
    strength: tuple[float, ...]
    head: str
    words: Words
    clause: Words
    evidence: tuple[int, ...]
    rows: tuple[tuple[str, str], ...]  # (workload, backend)
    decision: str
    gate: str = ""  # the gate that leads a failure


def findings(ctx: Context, candidate: str) -> list[Finding]:
    """Every finding about one candidate, strongest first."""
    found = [
        *_broken(ctx, candidate),
        *_rehearsal(ctx, candidate),
        *_failures(ctx, candidate),
        *_open(ctx, candidate),
        *_ready(ctx, candidate),
    ]
    return sorted(found, key=lambda f: f.strength, reverse=True)


def _strength(decision: str, outcome: str, size: float, required: bool = True) -> tuple[float, ...]:
    return (required, DECISION_RANK[decision], len(SEVERITY) - SEVERITY.index(outcome), size)


def _required(ctx: Context, candidate: str, workload: str, backend: str) -> bool:
    row = ctx.rows.get((candidate, workload, backend))
    return row is None or row.requirement == "required"


def _failures(ctx: Context, candidate: str) -> list[Finding]:
    """Fails, grouped by workload, backend and family of metrics: the meters of memory are one finding."""
    t = ctx.t
    groups: dict[tuple[str, str, str], list[Judgement]] = {}
    for j in ctx.verdict.judgements:
        if j.candidate == candidate and j.outcome == "fail" and j.contribution is not None:
            cell = ctx.cells[j.cell]
            groups.setdefault((cell.workload, cell.backend, family(j.metric)), []).append(j)
    found = []
    for (workload, backend, _), own in groups.items():
        lead = max(own, key=lambda j: (DECISION_RANK[j.contribution or "adopt"], ctx.used(j)))
        gate = ctx.gates[lead.gate]
        more = len(own) - 1
        tail = (
            t.plural(more, " {n} more gate of this kind fails there.", " {n} more gates of this kind fail there.")
            if more
            else ()
        )
        found.append(
            Finding(
                "fail",
                _strength(
                    lead.contribution or "adopt", "fail", ctx.used(lead), _required(ctx, candidate, workload, backend)
                ),
                t.text("{what} on {backend}: beyond the limit.", what=family_name(t, lead.metric), backend=backend),
                (*full(ctx, gate, lead, workload), *tail),
                clause(ctx, gate, lead, workload),
                tuple(s for j in own for s in j.evidence),
                ((workload, backend),),
                lead.contribution or "adopt",
                gate.id,
            )
        )
    return found


def _open(ctx: Context, candidate: str) -> list[Finding]:
    """What could not be decided: inconclusive, error and not run, one finding each."""
    t = ctx.t
    found = []
    for outcome in ("error", "inconclusive", "not_run"):
        own = [
            j
            for j in ctx.verdict.judgements
            if j.candidate == candidate and j.outcome == outcome and j.contribution is not None
        ]
        if not own:
            continue
        places = list(dict.fromkeys((ctx.cells[j.cell].workload, ctx.cells[j.cell].backend) for j in own))
        required = any(_required(ctx, candidate, *p) for p in places)
        backends = list(dict.fromkeys(b for _, b in places))
        silent = [b for b in backends if b not in ctx.backends_with_evidence()]
        strength = _strength("defer", outcome, len(own), required)
        seqs = tuple(s for j in own[:40] for s in j.evidence)
        if outcome == "not_run":
            where = silent or backends
            whole = [p for p in places if _whole(ctx, candidate, p)]
            n_rows = len([p for p in places if p[1] in where])
            head = (
                t.counted(len(where), "{n} backend has no evidence.", "{n} backends have no evidence.")
                if silent
                else t.text("Part of the question is open.")
            )
            words = t.plural(
                n_rows,
                "{n} workload by backend was not run: {where}.",
                "{n} workloads by backend were not run: {where}.",
                where=t.listed([code(b) for b in where], 6),
            )
            clause = (
                t.plural(
                    len(where),
                    "{where} has no evidence",
                    "{where} have no evidence",
                    where=t.listed([code(b) for b in where], 6),
                )
                if silent
                else t.plural(len(own), "{n} judgement was not run", "{n} judgements were not run")
            )
            if not silent and whole:
                names = t.listed([code(w) for w, _ in whole])
                clause = t.plural(len(whole), "{names} was not run", "{names} were not run", names=names)
                words = t.plural(
                    len(whole),
                    "{names} on {backends} was not run.",
                    "{names} on {backends} were not run.",
                    names=names,
                    backends=", ".join(dict.fromkeys(b for _, b in whole)),
                )
            rest = [j for j in own if ctx.cells[j.cell].backend not in silent]
            if silent and rest:
                words = join(
                    [
                        words,
                        t.plural(
                            len(rest),
                            "On a backend that ran, {n} judgement has no evidence.",
                            "On backends that ran, {n} judgements have no evidence.",
                        ),
                    ],
                    " ",
                )
        else:
            lead = max(own, key=lambda j: (crosses(figure(t, ctx.gates[j.gate], j)), ctx.used(j)))
            gate = ctx.gates[lead.gate]
            fig = figure(t, gate, lead)
            workload = ctx.cells[lead.cell].workload
            metric = metric_name(t, lead.metric)
            if outcome == "error":
                head = t.counted(len(own), "{n} judgement ended in an error.", "{n} judgements ended in an error.")
                reason = clip(lead.reason, 240).rstrip(".")
                clause = t.words("`{w}` gave no usable result for {metric}", w=code(workload), metric=metric)
                words = (*clause, *plain(f": {reason}." if reason and t.code == "en" else "."))
            else:
                head = t.text(
                    "{what} on {backend}: not decided.",
                    what=family_name(t, lead.metric),
                    backend=ctx.cells[lead.cell].backend,
                )
                if crosses(fig):
                    clause = t.words(
                        "{metric} of `{w}` may be anywhere in {interval}; the limit is {limit}",
                        metric=metric,
                        w=code(workload),
                        interval=fig.interval + fig.unit,
                        limit=bound_words(t, gate),
                    )
                elif lead.rule == "control failed":
                    clause = t.words(
                        "{metric} of `{w}` is not decided, because the bench did not see a planted change",
                        metric=metric,
                        w=code(workload),
                    )
                else:
                    clause = t.words("{metric} of `{w}` could not be decided", metric=metric, w=code(workload))
                words = (*clause, *plain("."))
                pairs = (lead.detail or {}).get("pairs_needed")
                if isinstance(pairs, int | float):
                    words = join(
                        [
                            words,
                            t.plural(round(pairs), "It would take about {n} pair.", "It would take about {n} pairs."),
                        ],
                        " ",
                    )
            words = join([sentence(words), _others(ctx, outcome, [j for j in own if j is not lead])], " ")
        found.append(Finding(outcome, strength, head, words, clause, seqs, tuple(places), "defer"))
    return found


def _others(ctx: Context, outcome: str, rest: list[Judgement]) -> Words:
    """What else ended like the judgement that was named: how many, and which metrics."""
    t = ctx.t
    if not rest:
        return ()
    metrics = t.listed([plain(metric_name(t, m)) for m in dict.fromkeys(j.metric for j in rest)], 4)
    if outcome == "error":
        return t.plural(
            len(rest),
            "No result either: {n} more gate ({metrics}).",
            "No result either: {n} more gates ({metrics}).",
            metrics=metrics,
        )
    return t.plural(
        len(rest),
        "Not decided either: {n} more gate ({metrics}).",
        "Not decided either: {n} more gates ({metrics}).",
        metrics=metrics,
    )


def _whole(ctx: Context, candidate: str, place: tuple[str, str]) -> bool:
    row = ctx.rows.get((candidate, *place))
    return row is not None and set(row.counts) == {"not_run"}


def _rehearsal(ctx: Context, candidate: str) -> list[Finding]:
    t = ctx.t
    r = ctx.verdict.rehearsals.get(candidate)
    if r is None or r.outcome == "pass":
        return []
    failed = [s for s in r.steps if not s.get("ok")]
    what = {
        "not_run": t.words("the rehearsal of going back was not run"),
        "fail": t.words("the rehearsal of going back failed"),
        "inconclusive": t.words("the rehearsal of going back is inconclusive"),
        "error": t.words("the rehearsal of going back ended in an error"),
    }[r.outcome]
    reason = clip(r.reason, 240).rstrip(".")
    words = plain(capital("".join(s.text for s in what)) + ".")
    if reason and t.code == "en":
        words = join([words, plain(capital(reason) + ".")], " ")
    strength = _strength(r.contribution, r.outcome, float(len(failed)))
    return [
        Finding("rehearsal", strength, t.text("Going back is not shown."), words, what, r.evidence, (), r.contribution)
    ]


def _broken(ctx: Context, candidate: str) -> list[Finding]:
    t = ctx.t
    own = [b for b in ctx.verdict.broken_controls if b.get("candidate") in {None, candidate}]
    if not own:
        return []
    first = own[0]
    what = clip(str(first.get("what") or ""), 120)
    words = t.words(
        "{what} differs between the sides and was not declared. What it touches is an error, not a result.",
        what=code(what),
    )
    clause = t.words("`{what}` differs between the sides without having been declared", what=what)
    seqs = tuple(s for b in own for s in (b.get("evidence") or ()) if isinstance(s, int))
    return [
        Finding(
            "broken",
            (True, 2, 4.5, len(own)),
            t.counted(len(own), "{n} control is broken.", "{n} controls are broken."),
            words,
            clause,
            seqs,
            (),
            "defer",
        )
    ]


def _ready(ctx: Context, candidate: str) -> list[Finding]:
    """What speaks for the candidate: rows that pass, and improvements that are real."""
    t = ctx.t
    rows = [r for r in ctx.verdict.rows if r.candidate == candidate and r.outcome == "pass"]
    better = [j for j in ctx.verdict.judgements if j.candidate == candidate and j.improvement and j.outcome == "pass"]
    if not rows and not better:
        return []
    parts: list[Words] = []
    places = tuple((r.workload, r.backend) for r in rows)
    if len(rows) > MOST_NAMED:
        parts.append(
            t.words(
                "{n} of {m} places pass all their gates.",
                n=len(rows),
                m=sum(r.candidate == candidate for r in ctx.verdict.rows),
            )
        )
    elif rows:
        names = t.listed([code(n) for n in dict.fromkeys(r.workload for r in rows)])
        backends = list(dict.fromkeys(r.backend for r in rows))
        gates = sum(r.counts.get("pass", 0) for r in rows)
        parts.append(
            t.plural(
                len(rows),
                "{names} on {backends} passes all {gates} gates.",
                "{names} on {backends} pass all {gates} gates.",
                names=names,
                backends=", ".join(backends),
                gates=gates,
            )
        )
    if better:
        best = max(better, key=lambda j: abs(j.estimate or 0.0))
        fig = figure(t, ctx.gates[best.gate], best)
        parts.append(
            t.words(
                "Best improvement: {metric} of `{w}`, {pair} ({change}).",
                metric=metric_name(t, best.metric),
                w=code(ctx.cells[best.cell].workload),
                pair=fig.absolute,
                change=f"{fig.change} {fig.interval}".strip(),
            )
        )
    head = (
        t.counted(len(rows), "{n} workload passes on its backend.", "{n} workloads pass on their backends.")
        if rows
        else t.text("Some figures improve.")
    )
    seqs = (
        tuple(s for j in better[:10] for s in j.evidence)
        or tuple(
            s
            for j in ctx.verdict.judgements
            if j.candidate == candidate and j.outcome == "pass"
            for s in j.evidence[:1]
        )[:40]
    )
    return [Finding("ready", (False, -1, 0, len(rows)), head, join(parts, " "), (), seqs, places, "adopt")]
