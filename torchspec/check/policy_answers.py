"""What a failure means: never adopt, somewhere rollback with its rehearsal, and no weaker answer without a reason."""

from __future__ import annotations

from torchspec.catalog import Catalog
from torchspec.check.policy_words import RANK, bound_of, limit_text, lines, metric_of, rank, required_cells
from torchspec.check.spec import CheckedSpec, GateLine, GateSetDecl
from torchspec.core.diagnostics import Diagnostic, Label


def find(spec: CheckedSpec, catalog: Catalog) -> list[Diagnostic]:
    found = [d for line in lines(spec) for d in _line(line, catalog)]
    found += _rollback(spec)
    for gate_set in spec.gate_sets:
        found += _overrides(gate_set, catalog)
        found += _withouts(gate_set)
    return found


def _line(line: GateLine, catalog: Catalog) -> list[Diagnostic]:
    if line.decision is None:
        return []
    if line.decision.text == "adopt":
        return [
            Diagnostic(
                "TS501",
                "a failure cannot mean adopt",
                line.decision.span,
                hint=f"write isolate, defer or rollback; `report {line.metric}` shows the figure without judging it",
            )
        ]
    usual = metric_of(catalog, line).usual
    if rank(line) < RANK.get(usual, 0) and not _said(line):
        return [
            Diagnostic(
                "TS510",
                f"`else {line.decision}` is weaker than usual for {line.metric}, and no reason is given",
                line.decision.span,
                hint=f'write `else {usual}`, or say why: because "..."',
            )
        ]
    return []


def _said(line: GateLine) -> bool:
    return line.because is not None and bool(line.because.text.strip())


def _rollback(spec: CheckedSpec) -> list[Diagnostic]:
    required = required_cells(spec)
    if not required:
        return []  # said by itself: whatever the gates say, nothing has to pass
    answers = [g for g in spec.gates if g.line.decision is not None and g.line.decision.text == "rollback"]
    deciding = [g for g in answers if required & set(g.cells)]
    if not deciding:
        place = spec.gate_sets[0].name.span if spec.gate_sets else spec.span
        message = "no outcome leads to rollback"
        if answers:
            place = answers[0].line.decision.span if answers[0].line.decision is not None else place
            message += ": every gate with `else rollback` judges only optional backends or lanes"
        hint = "give a correctness gate of a required backend `else rollback`, such as error.max_abs or loss.final"
        return [Diagnostic("TS502", message, place, hint=hint)]
    decision = deciding[0].line.decision
    if spec.rollback is None and decision is not None:
        return [
            Diagnostic(
                "TS520",
                "rollback is an answer here, and nobody rehearses it",
                decision.span,
                hint="add a block: rollback { rehearse baseline within 10 min }, one statement a line",
            )
        ]
    return []


def _overrides(gate_set: GateSetDecl, catalog: Catalog) -> list[Diagnostic]:
    found = []
    for override in gate_set.overrides:
        line = override.line
        if _said(line):
            continue
        for old in override.replaced:
            why = _looser(line, old, catalog)
            if why is not None:
                found.append(
                    Diagnostic(
                        "TS521",
                        f"`{gate_set.name}` loosens {line.metric} of `{old.gate_set}` without a reason: {why}",
                        line.limit_span,
                        labels=(Label(old.limit_span, "loosened by the other line"),),
                        hint='say why on the line: because "..."',
                    )
                )
                break
    return found


def _looser(new: GateLine, old: GateLine, catalog: Catalog) -> str | None:
    """Why `new` lets more pass than `old`, or is answered more weakly; None where it does not."""
    before, after = bound_of(catalog, old), bound_of(catalog, new)
    if before is None:
        return None
    if after is None:
        return "it is only reported"
    if not after.comparable(before):
        return f"`{limit_text(new)}` cannot be compared with `{limit_text(old)}`"
    if not after.at_least_as_strict(before):
        return f"`{limit_text(new)}` after `{limit_text(old)}`"
    if rank(new) < rank(old):
        return f"`else {new.decision}` after `else {old.decision}`"
    if (new.repeats or 0) < (old.repeats or 0):
        return f"{new.repeats or 'no'} repeats after {old.repeats}"
    return None


def _withouts(gate_set: GateSetDecl) -> list[Diagnostic]:
    return [
        Diagnostic(
            "TS521",
            f"`{gate_set.name}` drops {without.metric} without a reason",
            without.metric.span,
            labels=tuple(Label(line.limit_span, "dropped") for line in without.removed),
            hint=f'say why: without {without.metric}  because "..."',
        )
        for without in gate_set.withouts
        if without.because is None or not without.because.text.strip()
    ]
