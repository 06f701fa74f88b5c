"""Local verdicts on somebody else's figures: reproduced, not reproduced, not comparable here. Never a gate.

A statement is compared only where its basis is met by a cell; every word of the basis that the cell does not share is
named. Must not change an outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchspec.catalog import Catalog
from torchspec.judge import words
from torchspec.judge.finding import Finding, Question, figures
from torchspec.judge.records import Evidence
from torchspec.model.plan import Cell, Claim, Limit, Plan, Statement
from torchspec.model.verdict import ClaimVerdict

Measure = Callable[[Question], Finding | None]


def verdicts(
    plan: Plan, evidence: Evidence, catalog: Catalog, candidate: str, measure: Measure
) -> tuple[ClaimVerdict, ...]:
    """One verdict for each statement of each claim. `measure` gives the finding of a question, or None."""
    return tuple(
        _verdict(plan, evidence, catalog, candidate, claim, number, measure)
        for claim in plan.claims
        for number in range(len(claim.states))
    )


def _verdict(
    plan: Plan, evidence: Evidence, catalog: Catalog, candidate: str, claim: Claim, number: int, measure: Measure
) -> ClaimVerdict:
    statement = claim.states[number]
    cells = [
        c
        for c in plan.cells
        if c.workload == claim.check_workload and c.backend in (claim.check_backends or (c.backend,))
    ]
    if not cells:
        return ClaimVerdict(claim.name, number, "not comparable here", "no cell of this plan could reproduce it")
    wanted = {**claim.basis, **statement.at}
    differences = {cell.id: _differences(plan, evidence, cell, candidate, wanted) for cell in cells}
    fitting = [cell for cell in cells if not differences[cell.id]]
    if not fitting:
        nearest = min(cells, key=lambda cell: len(differences[cell.id]))
        reason = f"{nearest.label} differs in {'; '.join(differences[nearest.id])}"
        return ClaimVerdict(claim.name, number, "not comparable here", reason)
    found = [_one(plan, catalog, candidate, statement, cell, measure) for cell in fitting]
    rank = {"not reproduced": 0, "not comparable here": 1, "reproduced": 2}
    verdict, reason, finding = min(found, key=lambda one: rank[one[0]])
    return ClaimVerdict(
        claim.name,
        number,
        verdict,  # type: ignore[arg-type]
        reason,
        finding.estimate if finding else None,
        finding.low if finding else None,
        finding.high if finding else None,
        finding.evidence if finding else (),
    )


def _same(a: Any, b: Any) -> bool:
    return str(a).strip().lower() == str(b).strip().lower()


def _differences(plan: Plan, evidence: Evidence, cell: Cell, candidate: str, wanted: dict[str, Any]) -> list[str]:
    """What of a claim's basis this cell does not share, in words; a word nobody can check counts as a difference."""
    workload = next(w for w in plan.workloads if w.name == cell.workload)
    known: dict[str, Any] = {**plan.frozen.settings, **workload.options, **cell.axes}
    known |= {"mode": cell.mode, "backend": cell.backend, "workload": cell.workload, "kind": workload.kind}
    found = []
    for name, value in wanted.items():
        if name == "device":
            device = _device(evidence, cell, candidate)
            if device is None:
                found.append(f"device: {value} there, not recorded here")
            elif str(value).lower() not in device.lower() and not _same(value, cell.backend):
                found.append(f"device: {value} there, {device} here")
        elif name not in known:
            found.append(f"{name}: {value} there, not stated here")
        elif not _same(known[name], value):
            found.append(f"{name}: {value} there, {known[name]} here")
    return found


def _device(evidence: Evidence, cell: Cell, candidate: str) -> str | None:
    """The name of the device that the candidate was measured on."""
    for run in reversed(evidence.runs):
        record = run.environments.get((candidate, candidate))
        if run.used and run.backend == cell.backend and record is not None:
            device = record.body.get("device") or {}
            name = device.get("name") or (run.start.body.get("host") or {}).get("cpu") if run.start else None
            return str(name) if name else None
    return None


def _one(
    plan: Plan, catalog: Catalog, candidate: str, statement: Statement, cell: Cell, measure: Measure
) -> tuple[str, str, Finding | None]:
    metric = catalog.metrics.get(statement.metric)
    if metric is None:
        return "not comparable here", f"{statement.metric} is not a metric of this version", None
    limit = Limit(statement.form, None, None, None, statement.text)
    against = None if statement.form == "absolute" else "baseline"
    budget = plan.budget
    question = Question(metric, limit, against, cell.id, candidate, cell.label, budget.min_pairs, budget.max_pairs)
    finding = measure(question)
    if finding is None or finding.estimate is None or finding.low is None or finding.high is None:
        reason = f"{statement.metric} of {cell.label} was not measured" + (f": {finding.reason}" if finding else "")
        return "not comparable here", reason, finding
    low, high = band(statement)
    text = figures(question, finding)
    turned = statement.form == "drop"
    stated = words.figure(
        "growth" if turned else statement.form, -statement.value if turned else statement.value, finding.unit
    )
    if low <= finding.low and finding.high <= high:
        return "reproduced", f"{text} on {cell.label}, stated {stated}", finding
    if finding.high < low or finding.low > high:
        return "not reproduced", f"{text} on {cell.label}, stated {stated}: outside what the claim allows", finding
    reason = f"{text} on {cell.label}, stated {stated}: the interval reaches beyond what the claim allows"
    return "not reproduced", reason, finding


def band(statement: Statement) -> tuple[float, float]:
    """What counts as the stated figure. Without a tolerance: at least the stated effect, in its own direction."""
    value, tolerance = statement.value, statement.tolerance
    if tolerance is None:
        better_below = statement.form in ("growth", "increase", "absolute")
        return (float("-inf"), value) if better_below else (value, float("inf"))
    reach = abs(value) * tolerance if statement.tolerance_form == "ratio" else tolerance
    return value - reach, value + reach
