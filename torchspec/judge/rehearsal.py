"""The rehearsal of going back, and the off switches of lanes, from `rehearsal.step` records. Must not judge gates.

What a rehearsal must hold is `rehearsal_steps`' to say. A record stands for the backend of its run, so that no
backend's step stands in for another's.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchspec.judge import words
from torchspec.judge.records import Evidence
from torchspec.judge.rehearsal_steps import REBUILDING, Wanted, wanted
from torchspec.model.evidence import Record
from torchspec.model.plan import Plan
from torchspec.model.verdict import Outcome, Rehearsal, Switch

_NAMES = {
    "rebuild.cache": "rebuilding the baseline from the cache's archives",
    "rebuild.scratch": "rebuilding the baseline from scratch",
    "restore": "restoring the baseline",
    "smoke": "the smoke work on the baseline",
    "reload.checkpoint": "the baseline reading the candidate's checkpoint",
    "reload.export": "the baseline reading the candidate's exported program",
    "switch": "the candidate's work with the off switch thrown",
}
#: Why there is no step at all of what a spec asks to be reloaded.
_NOTHING = {
    "reload.checkpoint": "no measured cell has weights",
    "reload.export": "no cell was measured in the mode export",
}
#: How many of the cells that lack one step are named; the rest is counted.
_NAMED = 6


def _steps(evidence: Evidence, candidate: str) -> dict[tuple[str, str, str | None], Record]:
    """The latest record of each (backend, step, cell), in the order in which they were last run."""
    found = list(evidence.whole(candidate, "rehearsal.step"))
    for (_, who), kinds in evidence.by_place.items():
        if who == candidate:
            found += kinds.get("rehearsal.step", [])
    backends = {run.id: run.backend for run in evidence.runs}
    latest: dict[tuple[str, str, str | None], Record] = {}
    for record in sorted(found, key=lambda r: r.seq):
        key = (backends[record.run], str(record.body.get("step")), record.body.get("cell"))
        latest.pop(key, None)
        latest[key] = record
    return latest


def _seconds(steps: Sequence[Record]) -> float | None:
    """How long going back takes: all steps, of the two ways to rebuild the slower one."""
    if not steps:
        return None
    took = [(str(r.body.get("step")), float(r.body.get("seconds") or 0.0)) for r in steps]
    rebuilding = max((s for name, s in took if name in REBUILDING), default=0.0)
    return sum(s for name, s in took if name not in REBUILDING) + rebuilding


def _there(one: Wanted, keys: Sequence[tuple[str, str, str | None]]) -> bool:
    """Whether some record is of a wanted step."""
    return any(
        step == one.step
        and (one.backend is None or backend == one.backend)
        and (one.backend is None or cell == (one.cell.id if one.cell else None))
        for backend, step, cell in keys
    )


def _replaced(plan: Plan, key: tuple[str, str, str | None], due: Sequence[Wanted]) -> bool:
    """Whether a step is of a cell that is no longer gone back on, since another one of its workload was measured that
    says more (more ranks, training): such a step is shown and decides nothing."""
    backend, step, cell = key
    work = next((one.workload for one in plan.cells if one.id == cell), None)
    cells = {
        one.cell.id for one in due if one.cell and (one.backend, one.step, one.cell.workload) == (backend, step, work)
    }
    return bool(cells) and cell not in cells


def _missing(lacking: Sequence[Wanted]) -> str:
    """The steps that are missing, each with the cells or backends that lack it."""
    places: dict[str, list[str]] = {}
    for one in lacking:
        place = one.cell.label if one.cell else f"on {one.backend}" if one.backend else _NOTHING.get(one.step, "")
        places.setdefault(one.step, []).extend([place] if place else [])
    told = []
    for step, lack in places.items():
        more = f" and {len(lack) - _NAMED} more" if len(lack) > _NAMED else ""
        told.append(f"{_NAMES[step]} ({', '.join(lack[:_NAMED])}{more})" if lack else _NAMES[step])
    return ", ".join(told)


def rehearse(plan: Plan, evidence: Evidence, candidate: str) -> Rehearsal:
    """The outcome of the rehearsal for one candidate: every step there on every backend, every step well, and in time.

    The off switches of lanes are part of it. Its time counts the slower of the two ways to rebuild the environment.
    """
    if plan.rollback is None:
        return Rehearsal("not_run", "defer", None, None, "the spec has no `rollback` block")
    within = plan.rollback.within_s
    latest, due = _steps(evidence, candidate), wanted(plan, evidence, candidate)
    counted = {key: r for key, r in latest.items() if not _replaced(plan, key, due)}
    steps = list(counted.values())
    labels = {cell.id: cell.label for cell in plan.cells}
    shown = tuple(
        r.body | {"backend": b, "label": labels.get(str(cell)), "seq": r.seq, "run": r.run, "time": r.time}
        for (b, _, cell), r in latest.items()
    )
    seconds = _seconds(steps)
    seqs = tuple(r.seq for r in steps)

    def said(outcome: Outcome, reason: str) -> Rehearsal:
        return Rehearsal(outcome, "adopt" if outcome == "pass" else "defer", seconds, within, reason, shown, seqs)

    for (backend, step, cell), record in counted.items():
        if record.body.get("ok") is not True:
            where = f" of {labels[cell]}" if cell in labels else "" if step in REBUILDING else f" on {backend}"
            what = _NAMES.get(step, step)
            return said("fail", f"{what}{where} failed: {words.sentence(record.body.get('error'))}")
    if plan.rollback.manual:
        return said("fail", f"heroics: going back needs a step by hand: {words.sentence(plan.rollback.manual[0])}")
    lacking = [one for one in due if not _there(one, list(latest))]
    if lacking:
        return said("not_run", f"not rehearsed: {_missing(lacking)}")
    if seconds is not None and seconds > within:
        took = f"{words.plain(seconds, 's')}, more than the {words.plain(within, 's')} that the spec allows"
        return said("fail", f"going back took {took}")
    count = words.count_of(len(steps), "step")
    return said("pass", f"{count} in {words.plain(seconds or 0.0, 's')}, within {words.plain(within, 's')}")


def switches(plan: Plan, evidence: Evidence, candidate: str) -> list[Switch]:
    """The off switches that were thrown: for each lane and backend, every workload must still run."""
    lane_of = {w.name: w.lane for w in plan.workloads}
    cells = {cell.id: cell for cell in plan.cells}
    latest, due = _steps(evidence, candidate), wanted(plan, evidence, candidate)
    thrown: dict[tuple[str, str], list[Record]] = {}
    for (backend, step, cell_id), record in latest.items():
        cell = cells.get(str(cell_id))
        lane = lane_of[cell.workload] if cell is not None else None
        replaced = _replaced(plan, (backend, step, cell_id), due)
        if step == "switch" and not replaced and cell is not None and lane is not None:
            thrown.setdefault((lane, cell.backend), []).append(record)
    lacking = [one for one in due if not _there(one, list(latest))]
    found = []
    for (lane, backend), records in thrown.items():
        bad = [r for r in records if r.body.get("ok") is not True]
        left = [
            one.cell.label
            for one in lacking
            if one.step == "switch" and one.cell and (lane_of[one.cell.workload], one.backend) == (lane, backend)
        ]
        outcome: Outcome = "fail" if bad else "not_run" if left else "pass"
        if bad:
            label = cells[str(bad[0].body["cell"])].label
            reason = f"the switch does not hold for {label}: {words.sentence(bad[0].body.get('error'))}"
        elif left:
            reason = f"the switch was not thrown for {', '.join(left)}"
        else:
            reason = f"thrown, and the work ran another way in {words.count_of(len(records), 'cell')}"
        found.append(Switch(lane, backend, candidate, outcome, reason, tuple(r.seq for r in records)))
    return found
