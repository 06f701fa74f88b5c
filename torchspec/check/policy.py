"""Policy: can every gate fail, and does some outcome lead to rollback? The contradictions of the decision table.

Called at the end of `check_spec`, only when nothing before found an error: every name is resolved and every unit fits.
Of the twenty contradictions, 18 (units), 19 (claims without a workload) and parts of 14 and 17 (packages that move,
`without` of nothing) are found before. Must not print, and must not silence what it finds.
"""

from __future__ import annotations

from torchspec.catalog import Catalog
from torchspec.check import (
    policy_answers,
    policy_exceptions,
    policy_limits,
    policy_matrix,
    policy_reload,
    policy_shapes,
    policy_sides,
)
from torchspec.check.policy_words import warning
from torchspec.check.spec import CheckedSpec
from torchspec.core.diagnostics import Diagnostic


def policy(spec: CheckedSpec, catalog: Catalog) -> list[Diagnostic]:
    """Every contradiction in `spec`, in any order (`check_spec` sorts), and warnings."""
    return [
        *policy_answers.find(spec, catalog),
        *policy_limits.find(spec, catalog),
        *policy_matrix.find(spec),
        *policy_exceptions.find(spec, catalog),
        *policy_reload.find(spec, catalog),
        *policy_shapes.find(spec),
        *policy_sides.find(spec),
        *_warnings(spec),
    ]


def _warnings(spec: CheckedSpec) -> list[Diagnostic]:
    if spec.rollback is None or not spec.rollback.manual:
        return []
    return [
        warning(
            "TS533",
            "a rollback with a manual step never passes its rehearsal, so the fleet can never adopt",
            spec.rollback.manual[0].span,
            'make the step part of what the rehearsal does, or expect defer at best: silence TS533  because "…"',
        )
    ]
