"""The rehearsal of going back, and the off switches of lanes, from `rehearsal.step` records. Must not judge gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchspec.judge import words
from torchspec.judge.records import Evidence
from torchspec.model.evidence import Record
from torchspec.model.plan import Plan
from torchspec.model.verdict import Rehearsal, Switch

_NAMES = {
    "rebuild.cache": "rebuilding the baseline from the cache's archives",
    "rebuild.scratch": "rebuilding the baseline from scratch",
    "restore": "restoring the baseline",
    "smoke": "the smoke work on the baseline",
    "reload.checkpoint": "the baseline reading the candidate's checkpoint",
    "reload.export": "the baseline reading the candidate's exported program",
    "switch": "the candidate's work with the off switch thrown",
}
#: Two ways to the same environment: whoever goes back takes one of them.
_WAYS = ("rebuild.cache", "rebuild.scratch")


def _steps(evidence: Evidence, candidate: str) -> list[Record]:
    """Every step, the latest record of each (step, cell), in the order in which they were last run."""
    found = list(evidence.whole(candidate, "rehearsal.step"))
    for (_, who), kinds in evidence.by_place.items():
        if who == candidate:
            found += kinds.get("rehearsal.step", [])
    latest: dict[tuple[Any, Any], Record] = {}
    for record in sorted(found, key=lambda r: r.seq):
        latest[record.body.get("step"), record.body.get("cell")] = record
    return sorted(latest.values(), key=lambda r: r.seq)


def _seconds(steps: Sequence[Record]) -> float | None:
    """How long going back takes: all steps, of the two ways to rebuild the slower one."""
    if not steps:
        return None
    took = [(str(r.body.get("step")), float(r.body.get("seconds") or 0.0)) for r in steps]
    return sum(s for name, s in took if name not in _WAYS) + max((s for name, s in took if name in _WAYS), default=0.0)


def rehearse(plan: Plan, evidence: Evidence, candidate: str) -> Rehearsal:
    """The outcome of the rehearsal for one candidate: every step there, every step well, and in time.

    The off switches of lanes are part of it. Its time counts the slower of the two ways to rebuild the environment.
    """
    if plan.rollback is None:
        return Rehearsal("not_run", "defer", None, None, "the spec has no `rollback` block")
    within = plan.rollback.within_s
    steps = _steps(evidence, candidate)
    labels = {cell.id: cell.label for cell in plan.cells}
    shown = tuple(
        {**r.body, "label": labels.get(str(r.body.get("cell"))), "seq": r.seq, "run": r.run, "time": r.time}
        for r in steps
    )
    seconds = _seconds(steps)
    seqs = tuple(r.seq for r in steps)

    def said(outcome: Any, reason: str) -> Rehearsal:
        return Rehearsal(outcome, "adopt" if outcome == "pass" else "defer", seconds, within, reason, shown, seqs)

    wanted = ["restore", "smoke", *(f"reload.{what}" for what in plan.rollback.reload)]
    failed = [r for r in steps if r.body.get("ok") is not True]
    if failed:
        body = failed[0].body
        where = f" of {labels[str(body['cell'])]}" if str(body.get("cell")) in labels else ""
        what = _NAMES.get(str(body.get("step")), str(body.get("step")))
        return said("fail", f"{what}{where} failed: {words.sentence(body.get('error'))}")
    if plan.rollback.manual:
        return said("fail", f"heroics: going back needs a step by hand: {words.sentence(plan.rollback.manual[0])}")
    missing = [step for step in wanted if step not in {r.body.get("step") for r in steps}]
    if missing:
        listed = ", ".join(_NAMES.get(step, step) for step in missing)
        return said("not_run", f"not rehearsed: {listed}")
    if seconds is not None and seconds > within:
        took = f"{words.plain(seconds, 's')}, more than the {words.plain(within, 's')} that the spec allows"
        return said("fail", f"going back took {took}")
    count = words.count_of(len(steps), "step")
    return said("pass", f"{count} in {words.plain(seconds or 0.0, 's')}, within {words.plain(within, 's')}")


def switches(plan: Plan, evidence: Evidence, candidate: str) -> list[Switch]:
    """The off switches that were thrown: for each lane and backend, every workload must still run."""
    lane_of = {w.name: w.lane for w in plan.workloads}
    cells = {cell.id: cell for cell in plan.cells}
    thrown: dict[tuple[str, str], list[Record]] = {}
    for record in _steps(evidence, candidate):
        cell = cells.get(str(record.body.get("cell")))
        lane = lane_of[cell.workload] if cell is not None else None
        if record.body.get("step") == "switch" and cell is not None and lane is not None:
            thrown.setdefault((lane, cell.backend), []).append(record)
    found = []
    for (lane, backend), records in thrown.items():
        bad = [r for r in records if r.body.get("ok") is not True]
        seqs = tuple(r.seq for r in records)
        if bad:
            label = cells[str(bad[0].body["cell"])].label
            reason = f"the switch does not hold for {label}: {words.sentence(bad[0].body.get('error'))}"
            found.append(Switch(lane, backend, candidate, "fail", reason, seqs))
        else:
            reason = f"thrown, and the work ran another way in {words.count_of(len(records), 'cell')}"
            found.append(Switch(lane, backend, candidate, "pass", reason, seqs))
    return found
