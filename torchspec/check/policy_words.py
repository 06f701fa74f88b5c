"""Small helpers of the policy rooms: warnings, ranks of decisions, lines without repeats."""

from __future__ import annotations

from torchspec import decide_algebra as algebra
from torchspec.catalog import Catalog, Metric
from torchspec.check.spec import CheckedSpec, GateLine
from torchspec.core.diagnostics import Diagnostic, Severity, Span
from torchspec.limits import Bound, bound

RANK: dict[str, int] = {str(decision): rank for decision, rank in algebra.RANK.items()}


def warning(code: str, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(code, message, span, hint=hint, severity=Severity.WARNING)


def rank(line: GateLine) -> int:
    """How hard a failure of the line is answered; a report is below everything."""
    return RANK.get(line.decision.text, -1) if line.decision is not None else -1


def lines(spec: CheckedSpec) -> list[GateLine]:
    """Every gate line that is written, once, in the order of the file."""
    return list({line.span: line for gate_set in spec.gate_sets for line in gate_set.own}.values())


def metric_of(catalog: Catalog, line: GateLine) -> Metric:
    return catalog.metrics[line.metric.text]


def bound_of(catalog: Catalog, line: GateLine) -> Bound | None:
    """The half-line that the line allows; None for a report."""
    return bound(metric_of(catalog, line), line.form, line.op, line.limit.value if line.limit is not None else None)


def lane_workloads(spec: CheckedSpec) -> set[str]:
    """Names of the workloads that stand in a lane."""
    return {w.name.text for w in spec.workloads if w.lane is not None}


def required_cells(spec: CheckedSpec) -> set[int]:
    """Positions of the cells whose row votes with its own decision: a required backend, outside of lanes."""
    optional = {b.name.text for b in spec.backends if b.optional is not None}
    lanes = lane_workloads(spec)
    return {i for i, c in enumerate(spec.cells) if c.backend not in optional and c.workload not in lanes}


def limit_text(line: GateLine) -> str:
    """The line's limit as the author wrote it: `growth <= 3 %`, `holds`, `identical  repeats 20`."""
    if line.limit is None:
        return f"{line.form}  repeats {line.repeats}" if line.repeats is not None else line.form
    form = "" if line.form == "absolute" else f"{line.form} "
    return f"{form}{line.op} {line.limit.text}"


def against_of(catalog: Catalog, line: GateLine) -> str | None:
    """What the line compares with; "baseline" where a comparing form says nothing."""
    if line.against is not None:
        return line.against.text
    return "baseline" if catalog.relations[line.form].compares else None
