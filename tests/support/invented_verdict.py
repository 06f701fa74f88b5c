"""A verdict with INVENTED figures on the invented plan: judgements, rows, fleet, rehearsal, claims, controls, runs."""

from __future__ import annotations

from invented_plan import FIGURES, plan

from torchspec.model.plan import Cell, Gate, Plan
from torchspec.model.verdict import ClaimVerdict, Fleet, Judgement, Rehearsal, Row, Verdict

DIGEST = "3f1c9a7be2d40586" * 4
HEAD = "a90c4e1f77d2b380" * 4
RULES = {
    "pass": "upper bound below limit",
    "fail": "lower bound above limit, confirmed",
    "inconclusive": "interval crosses limit",
    "not_run": "no evidence",
    "error": "side failed",
}
RANK = {"adopt": 0, "isolate": 1, "defer": 2, "rollback": 3}


def _judgement(p: Plan, gate: Gate, cell: Cell, seq: int) -> Judgement:
    key = gate.id.removeprefix("g-")
    if cell.backend != "cpu":
        return Judgement(
            gate.id,
            cell.id,
            "candidate",
            gate.metric,
            "not_run",
            "defer",
            "no evidence",
            "the ledger holds no evidence of it",
        )
    n = {"pairs": 8, "builds": 4} if key in {"p50", "p95", "throughput"} else {"repeats": 3}
    if (figures := FIGURES.get((cell.workload, cell.mode, key))) is None:
        return Judgement(
            gate.id,
            cell.id,
            "candidate",
            gate.metric,
            "pass",
            "adopt",
            "holds on both sides",
            "it held",
            n={"repeats": 20 if key == "bits" else 1},
            evidence=(seq,),
        )
    b, c, unit, estimate, low, high, outcome = figures
    contribution = {"pass": "adopt", "fail": gate.decision}.get(outcome, "defer")
    return Judgement(
        gate.id,
        cell.id,
        "candidate",
        gate.metric,
        outcome,
        contribution,
        RULES[outcome],  # type: ignore[arg-type]
        f"{gate.metric} {outcome}",
        estimate,
        low,
        high,
        0.95,
        b,
        c,
        unit,
        n,
        0.018 if key == "p50" else None,
        improvement=outcome == "pass" and high < -0.02,
        evidence=(seq, seq + 1),
        detail={"pairs_needed": 31}
        if outcome == "inconclusive"
        else PARTS
        if outcome == "fail" and key == "driver"
        else None,
    )


#: A peak that fails, and that is the first step's alone.
PARTS = {
    "parts": {
        "baseline": {"first_step": 90.1e6, "later_step": 16.77e6, "modules_imported": 818},
        "candidate": {"first_step": 161.2e6, "later_step": 16.64e6, "modules_imported": 888},
    }
}


def verdict(p: Plan | None = None) -> Verdict:
    """The driver's peak of fine_tune_loss fails, one interval crosses its limit, four backends have no evidence."""
    p = p or plan()
    cells = {c.id: c for c in p.cells}
    judgements, seq = [], 40
    for gate in p.gates:
        for cell_id in gate.cells:
            judgements.append(_judgement(p, gate, cells[cell_id], seq))
            seq += 2
    return decided(p, tuple(judgements))


def decided(p: Plan, judgements: tuple[Judgement, ...], candidate: str = "candidate") -> Verdict:
    """Rows and fleet as plain maxima of the judgements (the real algebra is the decide stage's)."""
    cells = {c.id: c for c in p.cells}
    order = ("fail", "error", "inconclusive", "not_run", "pass")
    rows = []
    by_place: dict[tuple[str, str], list[Judgement]] = {(c.workload, c.backend): [] for c in p.cells}
    for j in judgements:
        by_place[cells[j.cell].workload, cells[j.cell].backend].append(j)
    for (w, b), own in by_place.items():
        decision = max((j.contribution or "adopt" for j in own), key=lambda d: RANK[d])
        counts = {o: sum(j.outcome == o for j in own) for o in order if any(j.outcome == o for j in own)}
        rows.append(
            Row(
                w,
                b,
                candidate,
                "required",
                min((j.outcome for j in own), key=order.index),
                decision,
                decision,
                "worst gate",
                "",
                counts,
            )
        )
    heaviest = max((r.decision for r in rows), key=lambda d: RANK[d])
    fleet = Fleet(
        candidate,
        heaviest,
        "a required row decides",
        "",
        tuple((r.workload, r.backend) for r in rows if r.decision == heaviest) if heaviest != "adopt" else (),
    )
    steps = (
        {"step": "restore", "ok": True, "seconds": 3.2, "detail": {"packages": 24}, "error": None},
        {
            "step": "reload.checkpoint",
            "ok": True,
            "seconds": 5.1,
            "detail": {"max_abs": 0.0},
            "error": None,
            "cell": p.cells[-1].id,
        },
        {
            "step": "smoke",
            "ok": True,
            "seconds": 8.4,
            "detail": {"output": "9f" * 32},
            "error": None,
            "cell": p.cells[-1].id,
        },
    )
    cpu = [c for c in p.cells if c.backend == "cpu"]
    controls = tuple(
        {
            "cell": c.id,
            "candidate": candidate,
            "metric": "latency.p50",
            "what": what,
            "planted": planted,
            "ok": True,
            "estimate": e,
            "low": e - 0.011,
            "high": e + 0.011,
            "visible": 0.018,
            "evidence": [20 + i],
        }
        for i, (c, what, planted, e) in enumerate(
            [(c, "same", None, 0.001) for c in cpu[:3]] + [(c, "planted", 0.05, 0.051) for c in cpu[:3]]
        )
    )
    return Verdict(
        "torchspec.verdict/1",
        DIGEST,
        HEAD,
        judgements,
        tuple(rows),
        (fleet,),
        {
            candidate: Rehearsal(
                "pass",
                "adopt",
                16.7,
                600.0,
                "restored, reloaded and run again with its own output",
                steps,
                (201, 202, 203),
            )
        },
        {
            candidate: tuple(
                ClaimVerdict(
                    c.name,
                    0,
                    "not comparable here",
                    "the stated device was not at hand; on cpu it grew instead",
                    -0.3331,
                    None,
                    None,
                    (71, 72),
                )
                for c in p.claims
            )
        },
        controls,
        (),
        (
            {
                "run": "r-20261109-2104",
                "status": "interrupted",
                "reason": "interrupted by the user",
                "backend": "cpu",
                "candidate": candidate,
                "started": "2026-11-09T21:04:10Z",
                "wall_s": 63.0,
                "cells": {"done": 1, "total": 5},
            },
            {
                "run": "r-20261109-2107",
                "status": "completed",
                "reason": None,
                "backend": "cpu",
                "candidate": candidate,
                "started": "2026-11-09T21:07:44Z",
                "wall_s": 512.0,
                "cells": {"done": 5, "total": 5},
            },
        ),
    )
