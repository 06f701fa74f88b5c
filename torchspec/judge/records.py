"""The ledger's records in the order in which the judge asks for them. Says which runs count; must not judge.

A run counts when it was started for this plan. Runs that share backend, candidate, harness, kind of machine and both
environments form a group, and their evidence is pooled: a run that went on where another stopped adds to it. Where a
cell was measured by several groups, the latest that brought it to an end speaks for it; `Run.why` says what became of
the rest. A run that took in a canary's files, without a harness, counts for cells that a service measures and for no
other; each such run stands alone, and the earlier ones are handed on beside the latest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchspec.core.canon import digest
from torchspec.judge.stats import Calibration
from torchspec.model.evidence import GENESIS, Record

ENDINGS = ("measured", "failed")
#: What must agree between runs before their evidence is pooled. Variables, threads and settings come from the plan.
ENVIRONMENT = ("python", "torch", "packages", "threads")
HOST = ("os", "architecture", "cpu", "cores", "memory_bytes")
#: Of a run without a harness: what is evidence, and what tells of the run. Anything else in it is a stray.
SERVED = ("sample", "cell.done")
TOLD = ("run.start", "run.end", "note")
Found = dict[str, dict[str, list[Record]]]  # of one cell and candidate: group -> kind -> records


@dataclass(slots=True)
class Run:
    """One run as the ledger tells it. `group` is the digest of what its evidence shares with others."""

    id: str
    start: Record | None = None
    end: Record | None = None
    first: str = ""
    last: str = ""
    used: bool = False
    why: str = ""
    group: str = ""
    environments: dict[tuple[str, str], Record] = field(default_factory=dict)  # (candidate, side) -> first record

    @property
    def canary(self) -> bool:
        """Whether files of a service were taken in and no harness ran."""
        start = self.start.body if self.start else {}
        return start.get("canary") is not None and start.get("harness") is None

    @property
    def backend(self) -> str:
        return str(self.start.body.get("backend", "")) if self.start else ""

    def described(self) -> dict[str, Any]:
        """The run for the memo: body of its start, its end, whether it was used and why or why not."""
        start = self.start.body if self.start else {}
        end = self.end.body if self.end else {}
        return {
            "run": self.id,
            "backend": self.backend,
            "candidate": start.get("candidate"),
            "plan": start.get("plan"),
            "harness": start.get("harness"),
            "argv": start.get("argv"),
            "git": start.get("git"),
            "host": start.get("host"),
            "tool": start.get("tool"),
            "lock": start.get("lock"),
            "resumes": start.get("resumes"),
            "started": self.first,
            "ended": self.end.time if self.end else None,
            "last_record": self.last,
            "status": end.get("status", "no end recorded"),
            "reason": end.get("reason"),
            "wall_s": end.get("wall_s"),
            "timed_s": end.get("timed_s"),
            "cells": end.get("cells"),
            "used": self.used,
            "why": self.why,
        }


@dataclass(slots=True)
class Evidence:
    """All records that count, by cell and candidate, in the ledger's order."""

    runs: list[Run]
    head: str
    last_at: str | None
    by_place: dict[tuple[str, str], dict[str, list[Record]]]  # (cell, candidate) -> kind -> records
    earlier: dict[tuple[str, str], list[list[Record]]]  # (cell, candidate) -> samples of each intake before the latest
    by_candidate: dict[str, dict[str, list[Record]]]  # records without a cell
    by_seq: dict[int, Record]
    frozen: dict[str, list[Record]]  # cell -> frozen.made
    noise: dict[str, list[Record]]  # run -> noise
    calibration: dict[tuple[str, str, str], Calibration]  # (group, cell, metric) -> what its latest run was given
    chosen: dict[tuple[str, str], str]  # (cell, candidate) -> the group that speaks

    def calibrated(self, cell: str, candidate: str, metric: str) -> Calibration | None:
        """What a calibration before the runs that speak for a cell knew of a metric's spread."""
        return self.calibration.get((self.chosen.get((cell, candidate), ""), cell, metric))

    def of(self, cell: str, candidate: str, kind: str) -> list[Record]:
        return self.by_place.get((cell, candidate), {}).get(kind, [])

    def whole(self, candidate: str, kind: str) -> list[Record]:
        """Records of `kind` that belong to a candidate and to no cell."""
        return self.by_candidate.get(candidate, {}).get(kind, [])


def _group(run: Run) -> str:
    start = run.start.body if run.start else {}
    host = start.get("host") or {}
    sides = {
        f"{candidate}/{side}": {name: record.body.get(name) for name in ENVIRONMENT}
        for (candidate, side), record in sorted(run.environments.items())
    }
    harness = start.get("harness") or {}
    machine = [host.get(name) for name in HOST]
    taken = [run.id] if run.canary else []  # each intake of a canary's files speaks for itself
    return digest([run.backend, start.get("candidate"), harness.get("sha256"), machine, sides, *taken])[:12]


def read(records: Iterable[Record], plan_digest: str, served: Collection[str] = ()) -> Evidence:
    """Sorts one ledger's records for the judge. `served`: ids of the cells that a service measures, and no harness.

    Of the notes only a calibration counts, which a run was given before it measured; corrections are for people.
    """
    runs: dict[str, Run] = {}
    kept: list[Record] = []
    head = GENESIS
    for record in records:
        head = record.hash
        run = runs.setdefault(record.run, Run(record.run, first=record.time))
        run.last = record.time
        if record.kind == "run.start":
            run.start = record
        elif record.kind == "run.end":
            run.end = record
        elif record.kind == "side.environment":
            place = (str(record.body.get("candidate")), str(record.body.get("side")))
            run.environments.setdefault(place, record)
        kept.append(record)
    for run in runs.values():
        if run.start is None:
            run.why = "left out: its start was not recorded, so nothing says which plan it ran"
        elif run.start.body.get("plan") != plan_digest:
            run.why = "left out: it ran another plan"
        else:
            run.used, run.group = True, _group(run)
    return _sorted(kept, runs, head, served)


def _sorted(records: list[Record], runs: dict[str, Run], head: str, served: Collection[str]) -> Evidence:
    groups: dict[tuple[str, str], Found] = {}
    strays: dict[str, int] = {}  # run -> records that a run without a harness cannot give
    by_candidate: dict[str, dict[str, list[Record]]] = {}
    frozen: dict[str, list[Record]] = {}
    noise: dict[str, list[Record]] = {}
    calibration: dict[tuple[str, str, str], Calibration] = {}
    by_seq: dict[int, Record] = {}
    last_at: str | None = None
    for record in records:
        run = runs[record.run]
        if not run.used:
            continue
        cell, candidate = record.body.get("cell"), record.body.get("candidate")
        if run.canary and record.kind not in TOLD and not (record.kind in SERVED and cell in served):
            strays[run.id] = strays.get(run.id, 0) + 1
            continue
        by_seq[record.seq] = record
        last_at = record.time if last_at is None else max(last_at, record.time)
        if run.canary and record.kind not in SERVED:
            continue
        if record.kind == "frozen.made" and cell:
            frozen.setdefault(cell, []).append(record)
        elif candidate and cell:
            place = groups.setdefault((cell, candidate), {})
            place.setdefault(run.group, {}).setdefault(record.kind, []).append(record)
        elif candidate:
            by_candidate.setdefault(candidate, {}).setdefault(record.kind, []).append(record)
        elif record.kind == "note" and record.body.get("what") == "calibration":
            calibration |= _calibrated(run.group, record)
        elif record.kind == "noise":
            noise.setdefault(record.run, []).append(record)
        elif record.kind == "control.broken":
            by_candidate.setdefault("", {}).setdefault(record.kind, []).append(record)
    canaries = {run.group for run in runs.values() if run.canary}
    chosen = {place: _latest(found, canaries) for place, found in groups.items()}
    by_place = {place: groups[place][group] for place, group in chosen.items()}
    earlier = {place: _earlier(groups[place], canaries, group) for place, group in chosen.items() if group in canaries}
    _say_what_became(runs, groups, chosen, strays)
    return Evidence(
        list(runs.values()), head, last_at, by_place, earlier, by_candidate, by_seq, frozen, noise, calibration, chosen
    )


def _calibrated(group: str, note: Record) -> dict[tuple[str, str, str], Calibration]:
    """What a note of calibration holds; what is no spread in it is no calibration."""
    found = {}
    for cell, metrics in (note.body.get("cells") or {}).items():
        for metric, held in metrics.items():
            s0, n0 = held
            if isinstance(s0, float) and isinstance(n0, int) and s0 > 0 and n0 > 0:
                found[group, cell, metric] = Calibration(s0, n0, seq=note.seq)
    return found


def _newest(kinds: dict[str, list[Record]]) -> int:
    return max(r.seq for records in kinds.values() for r in records)


def _latest(found: Found, canaries: set[str]) -> str:
    """The group whose last ending of the cell is the newest; without any ending, the one with the newest record.

    Of a canary the latest intake speaks, even where it was refused: figures that were taken in earlier are not better.
    """

    def ended(group: str) -> tuple[int, int]:
        kinds = found[group]
        done = [r.seq for r in kinds.get("cell.done", []) if r.body.get("status") in ENDINGS]
        return max(done, default=-1), _newest(kinds)

    taken = [group for group in found if group in canaries]
    return max(taken, key=lambda group: _newest(found[group])) if taken else max(found, key=ended)


def _earlier(found: Found, canaries: set[str], chosen: str) -> list[list[Record]]:
    """The samples of each intake of a cell but the one that speaks, in the order in which they were taken in."""
    others = [found[group] for group in found if group in canaries and group != chosen]
    return [kinds["sample"] for kinds in sorted(others, key=_newest) if kinds.get("sample")]


def _say_what_became(
    runs: dict[str, Run],
    groups: dict[tuple[str, str], Found],
    chosen: dict[tuple[str, str], str],
    strays: Mapping[str, int],
) -> None:
    speaking: dict[str, int] = {}
    silent: dict[str, int] = {}
    for place, found in groups.items():
        for group in found:
            counts = speaking if group == chosen[place] else silent
            counts[group] = counts.get(group, 0) + 1
    mates: dict[str, list[str]] = {}
    for run in runs.values():
        if run.used:
            mates.setdefault(run.group, []).append(run.id)
    for run in runs.values():
        if not run.used:
            continue
        others = [other for other in mates[run.group] if other != run.id]
        parts = [f"pooled with {', '.join(others)}"] if others else []
        if run.id in strays:
            parts.append(f"{strays[run.id]} records left out: no harness ran, and no service measures what they are of")
        if silent.get(run.group) and run.canary:
            parts.append("files were taken in again later, and the later intake speaks")
        elif silent.get(run.group):
            parts.append(
                f"{silent[run.group]} cells were measured again later in another environment or on another machine, "
                "and the later evidence speaks for them"
            )
        run.why = "; ".join(parts) if parts else "used"
        run.used = bool(speaking.get(run.group)) or not (silent.get(run.group) or run.id in strays)
