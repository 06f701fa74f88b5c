"""Page one's frame: the three reasons, whether to rely on the memo, and the lines above it."""

from __future__ import annotations

from collections.abc import Sequence

from torchspec.model.memo import Fact, Mark, Reason
from torchspec.report import environment
from torchspec.report.context import Context, day, evidence_words, minute
from torchspec.report.findings import Finding, findings
from torchspec.report.language import code, join, link, plain
from torchspec.report.names import DECISION_RANK, STATUSES, decision_mark


def reasons(ctx: Context, by_candidate: dict[str, list[Finding]]) -> tuple[Reason, ...]:
    """The three strongest, of the candidate with the heaviest decision where there are several."""
    fleet = max(ctx.verdict.fleet, key=lambda f: DECISION_RANK[f.decision])
    chosen = strongest(ctx, by_candidate[fleet.candidate], fleet.decision)
    return tuple(Reason(f.head, f.words, evidence_words(f.evidence)) for f in chosen)


def rely(ctx: Context, anchor: str) -> tuple[Fact, ...]:
    """Can you rely on this memo? Six facts, missing ones said plainly."""
    t = ctx.t
    r = ctx.registration
    versions = " / ".join(ctx.candidate_name(s.id) for s in ctx.plan.candidates)
    window = (
        f"{minute(ctx.evidence.first)} → {minute(ctx.evidence.last)}"
        if ctx.evidence.first
        else t.text("nothing was run")
    )
    runs = len(ctx.verdict.runs)
    if r.status == "confirmatory":
        registered = (*t.words("confirmatory: "), *code((r.commit or "")[:7]), *plain(f", {day(r.committed_at)}"))
        registered_mark = Mark("pass", t.text("pass"))
    else:
        why = r.reasons[0] if r.reasons and t.code == "en" else t.text("see the section on it")
        registered = (*t.words("*exploratory*: "), *plain(" ".join(why.split())))
        registered_mark = Mark("inconclusive", t.text("inconclusive"))
    changed = len(r.changes) + sum(p.value != p.default for p in ctx.plan.params)
    deviations = len(ctx.lock.deviations)
    if changed or deviations:
        found = [
            t.plural(changed, "{n} change", "{n} changes") if changed else (),
            t.plural(deviations, "{n} deviation", "{n} deviations") if deviations else (),
            link(t.text("listed in this memo"), f"#{anchor}"),
        ]
        plan = join(found, ", ")
        plan_mark: Mark | None = Mark("inconclusive", t.text("inconclusive"))
    else:
        plan, plan_mark = t.words("none: limits as registered") if r.commit else t.words("none known"), None
    if ctx.signer:
        signed, signed_mark = plain(ctx.signer), None
    else:
        signed, signed_mark = t.words("not signed"), Mark("not_run", t.text("not run"))
    return (
        _versions(ctx, f"torch {ctx.baseline} → {versions}"),
        Fact(t.text("Run window, UTC"), plain(window)),
        Fact(
            t.text("Evidence"),
            (
                *t.plural(ctx.evidence.records, "{n} record, ", "{n} records, "),
                *t.plural(runs, "{n} run; head ", "{n} runs; head "),
                *code(ctx.verdict.ledger_head[:7]),
            ),
        ),
        Fact(t.text("Limits before evidence?"), registered, registered_mark),
        Fact(t.text("Changes to the plan"), plan, plan_mark),
        Fact(t.text("Signature"), signed, signed_mark),
    )


def _versions(ctx: Context, versions: str) -> Fact:
    """Both versions, and a warning where the two builds are for different kinds of devices."""
    t = ctx.t
    label = t.text("Versions, baseline → candidate")
    pairs = [environment.builds(ctx, s.id) for s in ctx.plan.candidates]
    odd = next((p for p in pairs if p is not None and environment.other_kind(p)), None)
    if odd is None:
        return Fact(label, plain(versions))
    words = (*plain(versions), *t.words("; built for {one} → {two}: not alike", one=odd[0], two=odd[1]))
    return Fact(label, words, Mark("inconclusive", t.text("inconclusive")))


def all_findings(ctx: Context) -> dict[str, list[Finding]]:
    """Findings by candidate."""
    return {s.id: findings(ctx, s.id) for s in ctx.plan.candidates}


def first_lines(ctx: Context) -> tuple[str, str]:
    """(kicker above the question, running head)."""
    t = ctx.t
    reference = f"{ctx.plan.name}-{ctx.verdict.plan_digest[:7]}"
    kicker = t.text(
        "Decision memo by torchspec · {reference} · issued {date} · {status}",
        reference=reference,
        date=day(ctx.issued),
        status=t.text(STATUSES[ctx.registration.status]),
    )
    decisions = " / ".join(
        decision_mark(t, f.decision).text + (f" {ctx.candidate_name(f.candidate)}" if ctx.several else "")
        for f in ctx.verdict.fleet
    )
    versions = f"torch {ctx.baseline} → {', '.join(ctx.candidate_name(s.id) for s in ctx.plan.candidates)}"
    return kicker, f"{decisions} · {versions}"


def strongest(ctx: Context, found: Sequence[Finding], decision: str, most: int = 3) -> list[Finding]:
    """The three that page one shows: the one that decides first, then what is open, then what speaks for it.

    At most one place goes to what is ready, and it always has one: improvements are reported as plainly as regressions.
    """
    ready = [f for f in found if f.kind == "ready"]
    against = [f for f in found if f.kind != "ready"]
    deciding = [f for f in against if f.decision == decision]
    ordered = deciding + [f for f in against if f not in deciding]
    chosen: list[Finding] = []
    kinds: set[str] = set()
    for f in ordered:  # one of each kind before a second of any
        if f.kind not in kinds:
            chosen.append(f)
            kinds.add(f.kind)
    chosen += [f for f in ordered if f not in chosen]
    room = most - len(ready[:1])
    kept = chosen[:room]
    if len(chosen) > room and room > 1:
        kept = [*kept[:-1], _merged(ctx, chosen[room - 1 :])]
    return [*kept, *ready[:1]] if decision != "adopt" else [*ready[:1], *kept]


def _merged(ctx: Context, rest: Sequence[Finding]) -> Finding:
    """What page one has no place for on its own, in one reason: a sentence of the first three, and how many more."""
    if len(rest) == 1:
        return rest[0]
    t = ctx.t
    shown, left = rest[:2], len(rest) - 2
    words = join([f.words for f in shown], " ")
    if left > 0:
        words = join(
            [
                words,
                t.plural(
                    left, "{n} more finding is in the sections below.", "{n} more findings are in the sections below."
                ),
            ],
            " ",
        )
    head = t.text("The rest of the question is open.") if all(f.kind != "fail" for f in rest) else rest[0].head
    return Finding(
        rest[0].kind,
        rest[0].strength,
        head,
        words,
        rest[0].clause,
        tuple(s for f in shown for s in f.evidence),
        rest[0].rows,
        rest[0].decision,
    )
