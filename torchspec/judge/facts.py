"""Gates on facts: what holds or does not, and bits that are identical in every repeat. Must not weigh them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torchspec.judge import words
from torchspec.judge.finding import Finding, Question
from torchspec.model.evidence import Record

#: Where metrics that end in _forced are measured, as a reason says it.
UNDER = " under torch.use_deterministic_algorithms(True)"


def find(question: Question, records: Sequence[Record]) -> Finding | None:
    """The finding from `fact` records of one cell; None where the candidate sent none."""
    against = None if question.against in (None, "baseline") else question.against
    mine = [r for r in records if r.body.get("metric") == question.metric.name]
    mine = [r for r in mine if r.body.get("against") in (against, question.against)]
    new = [r for r in mine if r.body.get("side") == question.candidate]
    base = [r for r in mine if r.body.get("side") == "baseline"]
    if not new:
        return None
    detail = new[-1].body.get("detail") or {}
    shown = Finding(
        "inconclusive",
        "",
        "",
        n=_counted(detail, len(new)),
        detail={"candidate": detail, "baseline": (base[-1].body.get("detail") or {}) if base else None},
        evidence=tuple(sorted(r.seq for r in (*new, *base))),
    )
    holds = all(r.body.get("holds") is True for r in new)
    there = all(r.body.get("holds") is True for r in base) if base else None
    identical = question.limit.form == "identical" or question.metric.name.startswith("determinism.")
    under = UNDER if question.metric.name.endswith("_forced") else ""
    refused = _refusal(new) if identical else None
    if question.limit.form == "report":
        said = _says(identical, holds) + under if refused is None else f"it does not run{under}: {refused}"
        return replace(shown, outcome="pass", rule="report", reason=f"{said}: reported, not judged")
    if not holds and there is False:
        reason = f"{_on_both(identical, under, refused, _refusal(base))}: the limit is wrong, not the candidate"
        return replace(shown, rule="baseline fails too", reason=reason)
    if not holds and there is None and under:
        said = f"it does not run{under} ({refused})" if refused is not None else _says(True, False) + under
        reason = f"{said}, and how the baseline does there is not known"
        return replace(shown, rule="baseline unknown", reason=reason)
    if not holds and refused is not None:
        beside = ", while the baseline's repeats are identical there" if there else ""
        reason = f"it does not run{under}{beside}: {refused}"
        return replace(shown, outcome="fail", rule=_rule(False, False), reason=reason)
    if not holds:
        reason = _why_not(identical, new, there, under)
        return replace(shown, outcome="fail", rule=_rule(identical, False), reason=reason)
    short = _too_few(question, detail) if identical else None
    if short is not None:
        return replace(shown, rule="too few repeats", reason=short)
    reason = f"identical in {_repeats(detail)}{under}" if identical else _says(False, True)
    return replace(shown, outcome="pass", rule=_rule(identical, True), reason=reason)


def _refusal(records: Sequence[Record]) -> str | None:
    """What kept the repeats from being taken at all, such as an operator that torch refuses; None where they were."""
    failing = next((r.body for r in records if r.body.get("holds") is not True and r.body.get("error")), None)
    return None if failing is None else words.sentence(failing.get("error"))


def _on_both(identical: bool, under: str, refused: str | None, before: str | None) -> str:
    """How it fails on both sides; `refused` and `before`: why the candidate and the baseline do not run at all."""
    if not identical or (refused is None and before is None):
        return f"{_says(identical, False)}{under} on the baseline either"
    if refused is None:
        return f"{_says(True, False)}{under}, and the baseline does not run there ({before})"
    if before is None:
        return f"it does not run{under} ({refused}), and the baseline's repeats do not give the same bits there"
    return f"it does not run{under} on the baseline either ({refused})"


def _counted(detail: dict[str, Any], facts: int) -> dict[str, int]:
    names = (("repeats", "repeats"), ("across_processes", "processes"), ("distinct", "distinct"))
    found = {name: int(detail[key]) for key, name in names if isinstance(detail.get(key), int)}
    return found or {"repeats": facts}


def _rule(identical: bool, holds: bool) -> str:
    if identical:
        return "bits identical" if holds else "bits differ"
    return "holds" if holds else "does not hold"


def _says(identical: bool, holds: bool) -> str:
    if identical:
        return "every repeat gave the same bits" if holds else "repeats do not give the same bits"
    return "it holds" if holds else "it does not hold"


def _repeats(detail: dict[str, Any]) -> str:
    """What was counted: `repeats` are those of all processes together."""
    repeats, processes = detail.get("repeats"), detail.get("across_processes")
    if not isinstance(repeats, int) or repeats == 0:
        return "every repeat"
    text = f"all {repeats} repeats"
    if not isinstance(processes, int):
        return text
    return f"{text} over {processes} processes" if processes != 1 else f"{text} in one process"


def _why_not(identical: bool, new: Sequence[Record], there: bool | None, under: str) -> str:
    failing = next(r for r in new if r.body.get("holds") is not True)
    detail = failing.body.get("detail") or {}
    tail = ", while it does on the baseline" if there else ""
    if identical:
        distinct = detail.get("distinct")
        what = (
            f"{distinct} different results in {_repeats(detail)}" if isinstance(distinct, int) else _says(True, False)
        )
        return f"{what}{under}, while the baseline's are identical" if there else what + under
    where = f" at {detail['stage']}" if detail.get("stage") else ""
    return f"it does not hold{where}{tail}: {words.sentence(failing.body.get('error'))}"


def _too_few(question: Question, detail: dict[str, Any]) -> str | None:
    """Why the repeats taken do not carry the claim, where the spec asks for more than there are."""
    repeats = detail.get("repeats")
    if question.repeats is not None and isinstance(repeats, int) and repeats < question.repeats:
        return f"identical, but in {repeats} repeats only, and the spec asks for {question.repeats}"
    if isinstance(repeats, int) and repeats < 2 and int(detail.get("across_processes") or 1) < 2:
        return "one result has nothing to be identical with"
    return None
