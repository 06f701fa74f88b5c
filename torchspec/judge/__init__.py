"""From evidence to outcomes: one judgement for each gate, cell and candidate. Must not decide, and must not write.

`judge` is the stage. numpy and scipy are loaded when it is called, so that importing this package costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchspec.judge.stats import Calibration
    from torchspec.model.evidence import Record
    from torchspec.model.plan import Plan
    from torchspec.model.verdict import Judged


def judge(
    plan: Plan,
    records: Iterable[Record],
    *,
    plan_digest: str | None = None,
    calibration: Mapping[tuple[str, str], Calibration] | None = None,
) -> Judged:
    """Judges everything the plan asks for from the records of one ledger, in the ledger's order.

    Records of runs of another plan are left out, and `runs` says so. `plan_digest` (64 hex digits) is computed from the
    plan where it is not given. `calibration` maps (cell, metric) to a spread measured before, in place of what the
    ledger says of it. The same records give the same result, bit for bit.
    """
    from torchspec.judge.loop import judge_all

    return judge_all(plan, records, plan_digest=plan_digest, calibration=calibration)


__all__ = ["judge"]
