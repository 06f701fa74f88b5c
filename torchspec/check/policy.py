"""Policy: can every gate fail, and does some outcome lead to rollback? The contradictions of the decision table.

Called at the end of `check_spec`, only when nothing before found an error: every name is resolved and every unit fits.
Of the twenty contradictions, 18 (units) and 19 (claims without a workload) are found before. Must not print.
"""

from __future__ import annotations

from dataclasses import replace

from torchspec.catalog import Catalog
from torchspec.check import policy_answers, policy_exceptions, policy_limits, policy_matrix, policy_sides
from torchspec.check.policy_words import warning
from torchspec.check.spec import CheckedSpec
from torchspec.core.codes import CODES
from torchspec.core.diagnostics import Diagnostic

#: Warnings of this room, which a reason in the file may silence.
WARNINGS = ("TS530", "TS531", "TS532", "TS533")


def policy(spec: CheckedSpec, catalog: Catalog) -> list[Diagnostic]:
    """Every contradiction in `spec`, in any order (`check_spec` sorts), and the warnings that no reason silences."""
    found = [
        *policy_answers.find(spec, catalog),
        *policy_limits.find(spec, catalog),
        *policy_matrix.find(spec),
        *policy_exceptions.find(spec, catalog),
        *policy_sides.find(spec),
        *_warnings(spec),
    ]
    reasons = {code.text: reason.text for code, reason in spec.silenced}
    kept = [d for d in found if d.is_error or not reasons.get(d.code, "").strip()]
    return [*kept, *_silenced(spec)]


def _silenced(spec: CheckedSpec) -> list[Diagnostic]:
    """What is silenced must be a warning, and must say why."""
    found = []
    for code, reason in spec.silenced:
        if code.text not in WARNINGS:
            known = "is an error and cannot be silenced" if code.text in CODES else "is not a warning"
            hint = f"only warnings can be silenced: {', '.join(WARNINGS)}"
            found.append(Diagnostic("TS534", f"`{code.text}` {known}", code.span, hint=hint))
        elif not reason.text.strip():
            hint = 'say why the warning does not hold here: because "..."'
            found.append(Diagnostic("TS510", f"`{code.text}` is silenced without a reason", code.span, hint=hint))
    return found


def _warnings(spec: CheckedSpec) -> list[Diagnostic]:
    found = []
    upgrade = spec.upgrade
    if not upgrade.caveats:
        found.append(
            warning(
                "TS530",
                "the spec names no caveat",
                upgrade.title.span,
                'write what is known to be missing before anything runs: caveat "..."',
            )
        )
    if upgrade.owner is None:
        found.append(
            warning("TS531", "nobody owns the question", upgrade.title.span, 'name who answers for it: owner "..."')
        )
    used = {cell.backend for cell in spec.cells}
    for backend in spec.backends:
        if backend.optional is None and backend.name.text not in used:
            found.append(
                warning(
                    "TS532",
                    f"backend `{backend.name}` is required, and no workload runs on it",
                    backend.name.span,
                    f"add it to the `on` of a workload, or remove the line: nothing is decided about {backend.name}",
                )
            )
    if spec.rollback is not None and spec.rollback.manual:
        found.append(
            warning(
                "TS533",
                "a rollback with a manual step never passes its rehearsal, so the fleet can never adopt",
                spec.rollback.manual[0].span,
                "make the step part of what the rehearsal does, or expect defer at best",
            )
        )
    return [replace(d, notes=(f'silence it with a reason: silence {d.code} because "..."',)) for d in found]
