"""From plan, verdict and evidence to the Memo: the order of the parts, and nothing that a part knows better.

The same arguments give the same Memo; no clock, no file, no network. Text from outside (spec, logs, ledger) has its
control and bidirectional characters made visible and the home folders of people taken out here, once, for all three
renderers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from torchspec.core.diagnostics import visible
from torchspec.model.codec import from_json, to_json
from torchspec.model.evidence import Record
from torchspec.model.memo import SCHEMA, Memo, Section
from torchspec.model.plan import Plan
from torchspec.model.registration import Lock, Registration
from torchspec.model.verdict import Verdict
from torchspec.report import (
    appendix,
    environment,
    gates,
    lanes,
    matrix,
    memory,
    outlook,
    page_one,
    ranks,
    record,
    scope,
    timing,
    trust,
)
from torchspec.report.context import Context, read_evidence
from torchspec.report.language import Language
from torchspec.report.private import without_homes


def view(
    plan: Plan,
    verdict: Verdict,
    *,
    lock: Lock,
    registration: Registration,
    environments: Mapping[str, Mapping[str, Any]],
    records: Iterable[Record],
    signer: str | None,
    issued: str,
    language: str = "en",
) -> Memo:
    """The whole memo.

    `environments` holds the body of each side's `side.environment` record by side id. `records` is read once, as a
    stream. `signer` describes who will sign, in plain words ("ci-bot, self-signed and unknown to the reader"), or is
    None. `issued` is an ISO time in UTC. Raises ValueError for a language that is not there.
    """
    t = Language(language)
    ctx = Context(plan, verdict, lock, registration, environments, read_evidence(records), signer, issued, t)
    found = page_one.all_findings(ctx)
    heading, tables, tally = matrix.matrices(ctx)
    reasons = page_one.reasons(ctx, found)
    kicker, running = page_one.first_lines(ctx)
    memo = Memo(
        schema=SCHEMA,
        language=language,
        reference=f"{plan.name}-{verdict.plan_digest[:7]}",
        issued=issued,
        compiler=plan.compiler,
        kicker=kicker,
        running=running,
        question=plan.upgrade.asks
        or t.text(
            "Should we move from torch {baseline} to {candidate}?",
            baseline=ctx.baseline,
            candidate=", ".join(ctx.candidate_name(s.id) for s in plan.candidates),
        ),
        answers=tuple(outlook.answer(ctx, f, found[f.candidate]) for f in verdict.fleet),
        matrix_heading=heading,
        matrices=tables,
        tally=tally,
        reasons_heading=t.text("Three strongest reasons" if len(reasons) == 3 else "Strongest reasons"),
        reasons=reasons,
        changes_heading=t.text("What would change the answer"),
        changes=outlook.changes(ctx, found),
        rely_heading=t.text("Can you rely on this memo?"),
        rely=page_one.rely(ctx, "registration"),
        sections=_sections(ctx),
        labels=_labels(t),
        registration=registration.status,
    )
    return memo if _harmless(memo) else from_json(Memo, _strings(to_json(memo), _clean))


def _sections(ctx: Context) -> tuple[Section, ...]:
    out: list[Section | None] = [matrix.places(ctx)]
    for side in ctx.plan.candidates:
        for backend in ctx.backends_with_evidence():
            out.append(gates.section(ctx, side.id, backend))
            out.append(memory.section(ctx, side.id, backend))
            out.append(timing.distribution(ctx, side.id, backend))
            out.append(timing.starting(ctx, side.id, backend))
            out.append(ranks.section(ctx, side.id, backend))
    out.append(lanes.section(ctx))
    out.append(trust.claims(ctx))
    out.append(trust.rehearsal(ctx))
    out.append(trust.controls(ctx))
    out += [environment.section(ctx, side.id) for side in ctx.plan.candidates]
    out.append(scope.limits_of_it(ctx))
    out.append(record.registration(ctx))
    out.append(record.runs(ctx))
    numbered = [replace(s, number=str(n)) for n, s in enumerate((s for s in out if s is not None), start=1)]
    first = next((i for i, s in enumerate(numbered) if s.anchor.startswith("gates-")), 0)
    numbered[first] = replace(numbered[first], blocks=(*numbered[first].blocks, *gates.meanings(ctx)))
    return (*numbered, appendix.section(ctx))


def _labels(t: Language) -> dict[str, str]:
    return {
        "decision": t.text("Decision"),
        "memo": t.text("torchspec decision memo"),
        "contents": t.text("Contents"),
        "page": t.text("Page"),
        "of": t.text("of"),
        "filter": t.text("Filter"),
        "all": t.text("all"),
        "sort": t.text("sort"),
        "evidence": t.text("Evidence"),
        "skip": t.text("To the sections"),
        "issued": t.text("issued"),
        "position": t.text("Position"),
        "item": t.text("Item"),
        "trace": t.text("Samples, rule, evidence"),
    }


def _harmless(memo: Memo) -> bool:
    """Whether no string of the memo would be changed by `_clean`: told from its JSON at once, for the many that are."""
    text = msgspec.json.encode(memo).decode().replace("\u202f", "")
    hidden = "\\u" in text or any(f"\\{c}" in text for c in "rtbf")
    return text.isprintable() and not hidden and without_homes(text) == text


def _clean(text: str) -> str:
    text = without_homes(text)
    if text.isprintable():  # neither control nor bidirectional characters
        return text
    return "\n".join(visible(line) for line in text.split("\n")) if "\n" in text else visible(text)


def _strings(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with `change` applied to every string in it (not to keys)."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_strings(v, change) for v in value]
    if isinstance(value, dict):
        return {k: _strings(v, change) for k, v in value.items()}
    return value
