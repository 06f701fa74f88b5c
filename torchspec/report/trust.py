"""Claims, the rehearsal of going back, and the controls of the bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchspec.model.memo import Block, Cell, Mark, Section, TableRow, Words
from torchspec.model.plan import Claim, Statement
from torchspec.model.verdict import ClaimVerdict
from torchspec.report import build, machine, numbers
from torchspec.report.context import Context, evidence_words
from torchspec.report.language import clip, code, join, plain, soft, strong
from torchspec.report.names import STEPS, claim_mark, metric_name, outcome_mark
from torchspec.report.rows import where_words


def claims(ctx: Context) -> Section | None:
    """Somebody else's figures and what was found of them here. None where the spec states none."""
    t = ctx.t
    if not ctx.plan.claims:
        return None
    by_name = {c.name: c for c in ctx.plan.claims}
    rows = []
    verdicts: list[str] = []
    for candidate, found in ctx.verdict.claims.items():
        for v in found:
            claim = by_name[v.claim]
            statement = claim.states[v.statement]
            verdicts.append(v.verdict)
            who = soft(ctx.candidate_name(candidate)) if ctx.several else ()
            rows.append(
                build.row(
                    build.cell(code(claim.name), sub=join([plain(claim.source), who])),
                    _stated(ctx, statement),
                    _basis(claim),
                    build.cell(_here(ctx, statement, v), sub=soft(clip(v.reason, 240) if t.code == "en" else "")),
                    build.cell(mark=claim_mark(t, v.verdict), sub=evidence_words(v.evidence)),
                )
            )
    for claim in ctx.plan.claims:
        if not any(v.claim == claim.name for found in ctx.verdict.claims.values() for v in found):
            verdicts.append("not comparable here")
            rows.append(
                build.row(
                    build.cell(code(claim.name), sub=plain(claim.source)),
                    _stated(ctx, claim.states[0]) if claim.states else "",
                    _basis(claim),
                    t.text("not measured"),
                    build.cell(mark=claim_mark(t, "not comparable here"), sub=soft(t.text("no evidence"))),
                )
            )
    words = []
    for key in ("reproduced", "not reproduced", "not comparable here"):
        if verdicts.count(key):
            words.append(f"{numbers.count(verdicts.count(key))} {claim_mark(t, key).text}")
    columns = [
        build.column(t.text("Claim"), sub=t.text("source")),
        build.column(t.text("As stated")),
        build.column(t.text("Basis given")),
        build.column(t.text("Measured here")),
        build.column(t.text("Verdict")),
    ]
    return Section(
        "claims",
        "",
        t.text("Claims: {found}", found=", ".join(words)),
        t.words("Somebody else's figures, taken as targets to reproduce, never as evidence."),
        (
            build.table(
                "plain",
                t.text("Claims"),
                columns,
                rows,
                note=t.words(
                    "*Not comparable here* means that we could not test the claim on the basis it gives. It does not "
                    "say that the claim is wrong."
                ),
            ),
        ),
    )


def _stated(ctx: Context, s: Statement) -> Words:
    at = ", ".join(f"{k} {v}" for k, v in s.at.items())
    text = (s.text or f"{s.form} {s.value:g} {s.unit}").removeprefix("states ").removeprefix(s.metric).strip()
    return join([plain(metric_name(ctx.t, s.metric) + ": " + text), soft(at if at and at not in text else "")], ", ")


def _basis(claim: Claim) -> str:
    return ", ".join(f"{k} {v}" for k, v in claim.basis.items())


def _here(ctx: Context, s: Statement, v: ClaimVerdict) -> Words:
    t = ctx.t
    if v.estimate is None:
        return strong(t.text("not measured"))
    if s.form in {"growth", "drop"}:
        sign = -1 if s.form == "drop" else 1
        ends = sorted(sign * e for e in (v.low, v.high) if e is not None)
        written = numbers.change(sign * v.estimate, *(ends if len(ends) == 2 else (None, None)), locale=t.locale)
    elif s.form == "speedup":
        written = numbers.factor(v.estimate, v.low, v.high, locale=t.locale)
    else:
        return strong(numbers.quantity(v.estimate, s.unit, locale=t.locale))
    return (*strong(written.estimate + written.unit), *plain(f" {written.interval}" if written.interval else ""))


def rehearsal(ctx: Context) -> Section:
    """Going back, rehearsed: once for each candidate."""
    t = ctx.t
    blocks: list[Block] = []
    headings: list[str] = []
    for candidate, r in ctx.verdict.rehearsals.items():
        if ctx.several:
            blocks.append(build.heading(ctx.candidate_name(candidate)))
        within = numbers.duration(r.within_s, locale=t.locale) if r.within_s is not None else ""
        if r.outcome == "pass" and r.seconds is not None:
            took = numbers.duration(r.seconds, locale=t.locale)
            headings.append(t.text("Going back: rehearsed in {took}, within {within}", took=took, within=within))
        else:
            word = outcome_mark(t, r.outcome).text
            headings.append(t.text("Going back: the rehearsal ended as {outcome}", outcome=word))
        if r.reason and r.outcome != "pass" and t.code == "en":
            blocks.append(
                build.paragraph(
                    join(
                        [
                            strong(outcome_mark(t, r.outcome).text),
                            plain(_sentence(r.reason)),
                            evidence_words(r.evidence),
                        ]
                    )
                )
            )
        rows = []
        several = len({step["backend"] for step in r.steps if "backend" in step}) > 1
        for step in r.steps:
            ok = bool(step.get("ok"))
            cell = ctx.cells.get(str(step.get("cell")))
            place = cell.label if cell else str(step["backend"]) if several else ""
            error = clip(str(step.get("error") or ""), 240)
            seconds = step.get("seconds")
            rows.append(
                build.row(
                    build.cell(strong(_step(ctx, str(step.get("step", "")))), sub=soft(place)),
                    build.cell(mark=outcome_mark(t, "pass" if ok else "fail")),
                    numbers.duration(float(seconds), locale=t.locale) if isinstance(seconds, int | float) else "",
                    error or _detail(step.get("detail")),
                    key="pass" if ok else "fail",
                )
            )
        if rows:
            blocks.append(
                build.table(
                    "plain",
                    t.text("Steps of the rehearsal"),
                    [
                        build.column(t.text("Step")),
                        build.column(t.text("Outcome")),
                        build.column(t.text("Took"), "right"),
                        build.column(t.text("What was seen")),
                    ],
                    rows,
                )
            )
    lead: Words = ()
    if ctx.plan.rollback is not None:
        lead = t.words(
            "The old environment is used again, what the candidate wrote is read by the baseline, and the smoke "
            "work runs again. One fact of the whole, judged like a gate."
        )
    if any(str(step.get("step")).startswith("rebuild.") for r in ctx.verdict.rehearsals.values() for step in r.steps):
        lead = t.words(
            "The old environment is made again from its lock, once from archives that were kept and once from scratch; "
            "on it, what the candidate wrote is read and the smoke work runs again. One fact of the whole, judged like "
            "a gate; of the two ways to make the environment the slower one counts."
        )
    heading = headings[0] if len(headings) == 1 else t.text("Going back: rehearsed for {n} candidates", n=len(headings))
    return Section("rollback", "", heading, lead, tuple(blocks))


def _step(ctx: Context, name: str) -> str:
    return ctx.t.text(STEPS[name]) if name in STEPS else name


def _detail(detail: object) -> str:
    if isinstance(detail, Mapping):
        return ", ".join(f"{k} {_short(v)}" for k, v in sorted(detail.items()) if not isinstance(v, dict | list))
    return "" if detail is None else str(detail)


def _short(value: object) -> str:
    if isinstance(value, float):
        return numbers.scientific(value, 3)
    text = clip(str(value), 120)
    return text[:16] if len(text) == 64 and all(c in "0123456789abcdef" for c in text) else text


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if not text or text[-1] in ".!?" else text + "."


def controls(ctx: Context) -> Section:
    """What the bench could see: the baseline against itself, a planted change, and differences nobody declared."""
    t = ctx.t
    blocks: list[Block] = []
    judged = [(c, _control_ok(c)) for c in ctx.verdict.controls]
    failed = sum(ok is False for _, ok in judged)
    seen = [v for c, ok in judged if ok is not False and (v := _number(c.get("visible"))) is not None]
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for c, _ in judged:
        groups.setdefault((str(c.get("candidate")), str(c.get("cell")), str(c.get("metric") or "")), []).append(c)
    rows = sorted((_control_row(ctx, own) for own in groups.values()), key=lambda r: r.key == "pass")
    if rows:
        blocks.append(
            build.table(
                "plain",
                t.text("Controls"),
                [
                    build.column(t.text("Workload")),
                    build.column(t.text("Baseline against itself"), "right", sub=t.text("interval")),
                    build.column(t.text("Planted, and what was seen"), "right", sub=t.text("interval")),
                    build.column(t.text("Smallest change seen"), "right"),
                    build.column(t.text("Seen as it should be")),
                ],
                rows if not ctx.large else rows[:40],
            )
        )
    broken = []
    for b in ctx.verdict.broken_controls:
        cell = ctx.cells.get(str(b.get("cell")))
        broken.append(
            build.row(
                build.cell(strong(clip(str(b.get("what") or ""), 120)), sub=soft(cell.label if cell else "")),
                _short(b.get("baseline", "")),
                _short(b.get("candidate_value", "")),
                clip(str(b.get("reason") or ""), 240),
            )
        )
    if broken:
        blocks.append(
            build.heading(
                t.counted(len(broken), "{n} difference that was not declared", "{n} differences that were not declared")
            )
        )
        blocks.append(
            build.table(
                "plain",
                t.text("Broken controls"),
                [
                    build.column(t.text("What")),
                    build.column(t.text("Baseline")),
                    build.column(t.text("Candidate")),
                    build.column(t.text("Why it matters")),
                ],
                broken,
                note=t.words(
                    "A difference that was not declared is a broken control, never a result: what it touches counts "
                    "as error."
                ),
            )
        )
    return Section(
        "controls",
        "",
        _controls_heading(ctx, len(judged), failed, len(broken), seen),
        t.words(
            "Before it judges, a run shows that it could: the baseline against itself must not fail, and a "
            "planted change must be caught."
        ),
        (*blocks, *machine.blocks(ctx)),
    )


def _control_row(ctx: Context, own: Sequence[Mapping[str, Any]]) -> TableRow:
    """The controls of one metric on one cell: nothing planted, and something planted."""
    t = ctx.t
    cell = ctx.cells.get(str(own[0].get("cell")))
    where = where_words(ctx, cell) if cell else plain(str(own[0].get("cell") or ""))
    held = [_control_ok(c) for c in own]
    ok = False if False in held else None if None in held else True
    reasons = [w for c, good in zip(own, held, strict=True) if not good and (w := _why_not(ctx, c))]
    visible = [v for c in own if (v := _number(c.get("visible"))) is not None]
    widest = numbers.change(max(visible), locale=t.locale) if visible else None
    several = soft(ctx.candidate_name(str(own[0].get("candidate")))) if ctx.several and own[0].get("candidate") else ()
    return build.row(
        build.cell(where, sub=join([soft(metric_name(t, str(own[0].get("metric") or ""))), several])),
        _control_cell(ctx, [c for c in own if c.get("what") == "same"]),
        _control_cell(ctx, [c for c in own if c.get("what") != "same"]),
        widest.estimate.lstrip("+") + f"{numbers.NNBSP}%" if widest else "",
        build.cell(mark=_control_mark(ctx, ok), sub=soft("; ".join(dict.fromkeys(reasons)))),
        key="pass" if ok else "fail" if ok is False else "not_run",
        trace=evidence_words(s for c in own for s in _seqs(c)),
    )


def _control_cell(ctx: Context, own: Sequence[Mapping[str, Any]]) -> Cell:
    """What was planted, if anything, and the change that was seen, with its interval."""
    lines, intervals = [], []
    for c in own:
        planted, estimate = _number(c.get("planted")), _number(c.get("estimate"))
        said = ""
        if planted:
            extra = numbers.change(planted, locale=ctx.t.locale)
            said = f"{extra.estimate}{extra.unit} → "
        if estimate is not None:
            written = numbers.change(estimate, _number(c.get("low")), _number(c.get("high")), locale=ctx.t.locale)
            said += written.estimate + written.unit
            intervals.append(written.interval)
        lines.append(said or ctx.t.text("no figure"))
    return build.cell(", ".join(lines), sub=soft(", ".join(i for i in intervals if i)))


def _why_not(ctx: Context, c: Mapping[str, Any]) -> str:
    return clip(str(c.get("reason") or c.get("error") or ""), 240) if ctx.t.code == "en" else ""


def _controls_heading(ctx: Context, rows: int, failed: int, broken: int, seen: list[float]) -> str:
    t = ctx.t
    if broken:
        return t.counted(broken, "Controls: {n} is broken", "Controls: {n} are broken")
    if not rows:
        return t.text("Controls: none was recorded")
    if failed:
        return t.text("Controls: {n} of {m} did not see what they had to", n=failed, m=rows)
    if seen:
        most = numbers.change(max(seen), locale=t.locale).estimate.lstrip("+")
        return t.text("Controls: the bench can see a change of {most}", most=f"{most}{numbers.NNBSP}%")
    return t.text("Controls: all {n} saw what they had to", n=rows)


def _control_ok(c: Mapping[str, Any]) -> bool | None:
    for key in ("ok", "passed", "caught", "held"):
        if isinstance(c.get(key), bool):
            return bool(c[key])
    outcome = c.get("outcome")
    return None if outcome is None else outcome == "pass"


def _control_mark(ctx: Context, ok: bool | None) -> Mark:
    t = ctx.t
    if ok is None:
        return Mark("not_run", t.text("not judged"))
    return Mark("pass", t.text("yes")) if ok else Mark("fail", t.text("no"))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _seqs(c: Mapping[str, Any]) -> list[int]:
    found = c.get("evidence") or c.get("timing") or ()
    return [s for s in found if isinstance(s, int)]
