"""What is worth a warning in a spec without mistakes, and which warnings a reason in the file silences."""

from __future__ import annotations

from torchspec.check.bind import Bound
from torchspec.check.spec import CheckedSpec, Text
from torchspec.check.structure import Context
from torchspec.core.diagnostics import Diagnostic, Severity, Span

#: Every warning of a spec; the last is policy's.
WARNINGS = ("TS233", "TS234", "TS235", "TS237", "TS533")


def silenced(context: Context, lines: list[Bound]) -> tuple[tuple[Text, Text], ...]:
    """(code, reason) of every `silence` line."""
    made: list[tuple[Text, Text]] = []
    for line in lines:
        code, because = line.one(), line.one(name="because")
        if code is None:
            continue
        if code.text not in WARNINGS:
            context.unknown("TS239", "warning", code.text, code.span, WARNINGS)
        elif because is None or not because.text.strip():
            if not line.broken and (because is not None or "because" not in line.places):
                context.say("TS203", "`silence` lacks `because` and a reason", line.statement.word_span)
        else:
            made.append((Text(code.text, code.span), Text(because.text, because.span)))
    return tuple(made)


def audible(codes: set[str], found: list[Diagnostic]) -> list[Diagnostic]:
    """`found` without the warnings that a reason in the spec silences."""
    return [d for d in found if d.is_error or d.code not in codes]


def warnings(spec: CheckedSpec) -> list[Diagnostic]:
    """An upgrade without caveat or owner, and required backends that no workload uses."""

    def warn(code: str, message: str, span: Span, hint: str) -> Diagnostic:
        hint = f'{hint}, or say why not: silence {code}  because "…"'
        return Diagnostic(code, message, span, hint=hint, severity=Severity.WARNING)

    found: list[Diagnostic] = []
    upgrade = spec.upgrade
    if not upgrade.caveats:
        hint = 'write what is known to be missing: caveat "…"'
        found.append(warn("TS233", "the upgrade has no caveat", upgrade.title.span, hint))
    if upgrade.owner is None:
        found.append(warn("TS234", "the upgrade has no owner", upgrade.title.span, 'write who asks: owner "…"'))
    used = {b.text for w in spec.workloads for b in w.backends}
    for backend in spec.backends:
        if backend.name.text not in used and backend.optional is None:
            message = f"no workload uses backend {backend.name.text}, so its row stays not run and the fleet defers"
            found.append(warn("TS235", message, backend.name.span, "use it in an `on`, or remove the line"))
    return found
