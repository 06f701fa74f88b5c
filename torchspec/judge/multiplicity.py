"""Many comparisons in one memo: adjusted p values of its failures, and how many verdicts may be wrong by chance.

Must not change an outcome: the limits were agreed on one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchspec.judge.finding import Finding
from torchspec.judge.stats import ALPHA, holm

#: Of timing gates whose truth is exactly at the limit so large a share passes, or is a confirmed failure, at most: by
#: simulation of what is shipped, of runs up to three times as noisy as their own equal pairs (`docs/judging.md`). An
#: interval over other figures crosses its limit at `ALPHA`.
TIMED_PASSES, TIMED_FAILURES = 0.07, 0.014


def weighed(finding: Finding) -> bool:
    """Whether an outcome was told from noise by an interval, and may so be wrong by chance."""
    said = finding.outcome in ("pass", "fail", "inconclusive")
    return said and finding.confidence is not None and finding.rule != "report"


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


def expected(findings: Sequence[Finding]) -> dict[str, float]:
    """How many outcomes rest on an interval, and at most how many of them are wrong by chance.

    At most, because it is what would be expected were every truth exactly at its limit, and every run as noisy as
    `TIMED_FAILURES` allows for.
    """
    family = [finding for finding in findings if weighed(finding)]
    timed = sum("pairs" in (finding.n or {}) for finding in family)
    return {
        "weighed": float(len(family)),
        "false_passes": TIMED_PASSES * timed + ALPHA * (len(family) - timed),
        "false_failures": TIMED_FAILURES * timed + ALPHA * (len(family) - timed),
    }
