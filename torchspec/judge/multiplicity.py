"""Many comparisons in one memo: adjusted p values of its failures, and how many verdicts may be wrong by chance.

Must not change an outcome: the limits were agreed on one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torchspec.judge.finding import Finding
from torchspec.judge.stats import ALPHA, CONFIRM_ALPHA, holm


def weighed(finding: Finding) -> bool:
    """Whether an outcome was told from noise by an interval, and may so be wrong by chance."""
    return finding.outcome in ("pass", "fail") and finding.confidence is not None and finding.rule != "report"


def adjust(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with Holm's adjusted p value in the detail of each failure that was told from noise.

    The family is every outcome of the memo that rests on an interval; those that are no failure count with p = 1.
    """
    family = [i for i, finding in enumerate(findings) if weighed(finding)]
    adjusted = holm([_p(findings[i]) for i in family])
    out = list(findings)
    for i, p in zip(family, adjusted, strict=True):
        if findings[i].outcome == "fail" and findings[i].p is not None:
            out[i] = replace(findings[i], detail=findings[i].detail | {"p": findings[i].p, "p_holm": p})
    return out


def _p(finding: Finding) -> float:
    return finding.p if finding.outcome == "fail" and finding.p is not None else 1.0


def expected(findings: Sequence[Finding]) -> dict[str, Any]:
    """At most how many passes and failures of one memo are wrong by chance, were every truth exactly at its limit."""
    passes = sum(weighed(f) and f.outcome == "pass" for f in findings)
    confirmed = sum(weighed(f) and f.outcome == "fail" and "confirmed" in f.rule for f in findings)
    others = sum(weighed(f) and f.outcome == "fail" and "confirmed" not in f.rule for f in findings)
    return {
        "weighed": passes + confirmed + others,
        "false_passes": ALPHA * passes,
        "false_failures": CONFIRM_ALPHA * confirmed + ALPHA * others,
    }
