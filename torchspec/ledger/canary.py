"""Canary files held against a plan: what they give each cell as evidence, or why they are refused.

All or nothing: one file that is refused refuses the cell, since leaving it out could leave out the bad hour. Nothing is
written and nothing is judged here; `canary_take` writes, and the judge weighs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from torchspec.catalog import Catalog, Metric
from torchspec.catalog.units import FITS
from torchspec.core.diagnostics import Diagnostic, Severity, Span
from torchspec.ledger.canary_file import File, read, whole
from torchspec.model.canary import CanaryFile, CanarySample
from torchspec.model.plan import Cell, Plan, Side, Workload

KIND = "ingested"
#: How far the clock of another machine may be ahead of this one.
CLOCKS_S = 120.0
MOST_SAID = 5  # mistakes told of one file
BASE_UNITS = {"time": "s", "bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class Canary:
    """What the files give one cell for one candidate: bodies of `sample` records, or `refused`: why nothing."""

    cell: Cell
    candidate: str
    files: tuple[File, ...] = ()
    samples: tuple[dict[str, Any], ...] = ()
    refused: str | None = None


def examine(
    plan: Plan, plan_digest: str, catalog: Catalog, folder: Path, now: datetime, only: Iterable[str] = ()
) -> tuple[list[Canary], list[Diagnostic]]:
    """Every cell of kind `ingested` for every candidate, with the files that `folder` (the spec's) holds for it.

    `only`: ids of cells; none means all.
    """
    wanted = frozenset(only)
    found: list[Canary] = []
    said: list[Diagnostic] = []
    for workload in (w for w in plan.workloads if w.kind == KIND):
        cells = [c for c in plan.cells if c.workload == workload.name and (not wanted or c.id in wanted)]
        if not cells:
            continue
        files, problems = _files(workload, plan, plan_digest, catalog, folder, now)
        said += problems
        for cell in cells:
            for side in plan.candidates:
                if problems:
                    found.append(Canary(cell, side.id, refused=_first(problems)))
                    continue
                one, problem = _of_cell(workload, cell, side, files, catalog)
                found.append(one)
                if problem is not None:
                    named = (f'a file names this plan: "plan": "{plan_digest}"',) if problem.code == "TS741" else ()
                    said.append(replace(problem, notes=named))
    return found, said


def _first(problems: list[Diagnostic]) -> str:
    first = problems[0]
    return f"{first.span.file}: {first.message}" if first.span else first.message


# Files.


def _files(
    workload: Workload, plan: Plan, plan_digest: str, catalog: Catalog, folder: Path, now: datetime
) -> tuple[list[File], list[Diagnostic]]:
    pattern = str(workload.options.get("files") or "")
    found: list[File] = []
    said: list[Diagnostic] = []
    for path in sorted(folder.glob(pattern)) if pattern else ():
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            continue
        held = read(path, name, folder)
        if isinstance(held, Diagnostic):
            said.append(held)
            continue
        problems = list(_held(held, workload, plan, plan_digest, catalog, now))
        said += problems[:MOST_SAID]
        if len(problems) > MOST_SAID:
            more = f"{len(problems) - MOST_SAID} more samples of `{name}` cannot be taken in either"
            said.append(Diagnostic("TS744", more, whole(name), hint="mend the first ones; the rest may be alike"))
        found.append(held)
    return found, said


# Against the plan.


def _held(
    file: File, workload: Workload, plan: Plan, plan_digest: str, catalog: Catalog, now: datetime
) -> Iterator[Diagnostic]:
    """What of one file does not belong to this plan or cannot be, each with its place."""
    told = file.told
    place = whole(file.path)
    if told.plan != plan_digest:
        message = f"`{file.path}` was taken for the plan {told.plan[:12]}…, not this one ({plan_digest[:12]}…)"
        hint = f'figures count for the limits that were fixed before them; of this plan: "plan": "{plan_digest}"'
        yield Diagnostic("TS743", message, place, hint=hint)
        return
    sides = {side.id: side for side in plan.candidates}
    backends = [c.backend for c in plan.cells if c.workload == workload.name]
    for what, have, known in (
        ("workload", told.workload, [workload.name]),
        ("backend", told.backend, backends),
        ("candidate", told.candidate, list(sides)),
    ):
        if have not in known:
            message = f"`{file.path}` is of the {what} `{have[:60]}`, which `{workload.name}` of this plan has not"
            yield Diagnostic("TS743", message, place, hint=f"here it is: {', '.join(dict.fromkeys(known))}")
            return
    yield from _versions(file, (plan.baseline, sides[told.candidate]))
    if _base(catalog.metrics["error.rate"], told.share.unit, told.share.value, catalog, None) is None:
        message = f'the share is in "{told.share.unit}", and a share of the traffic is in %'
        yield Diagnostic("TS744", message, place, hint='for example: "share": {"value": 5, "unit": "%"}')
    elif workload.options.get("share"):
        part = float(workload.options["share"]["part"])
        if told.share.value / 100 < part * (1 - 1e-9):
            message = (
                f"`{file.path}` is of {told.share.value:g} % of the traffic, and the spec asks for {part * 100:g} %"
            )
            yield Diagnostic(
                "TS746", message, place, hint="serve the share that was agreed before, or agree on another"
            )
    counts = workload.options.get("counts")
    items = str(counts["unit"]) if counts else None
    for index, sample in enumerate(told.samples):
        wrong = _sample_problem(sample, told, catalog, items, now)
        if wrong is not None:
            code, message, way = wrong
            yield Diagnostic(code, message, file.at(index), hint=way)


def _versions(file: File, sides: tuple[Side, Side]) -> Iterator[Diagnostic]:
    told = file.told.torch
    for side in sides:
        have = told.get(side.id)
        if have is None:
            message = f"`{file.path}` does not say which torch {side.id} served with"
            hint = f'for example: "torch": {{"{side.id}": "{side.torch or "2.14.1"}"}}'
            yield Diagnostic("TS743", message, whole(file.path), hint=hint)
        elif side.torch is not None and have.split("+")[0] != side.torch.split("+")[0]:
            message = f"{side.id} served with torch {have[:40]}, and the plan names {side.torch}"
            yield Diagnostic("TS743", message, whole(file.path), hint="only what the plan names can be judged by it")


Wrong = tuple[str, str, str | None]


def _sample_problem(
    sample: CanarySample, told: CanaryFile, catalog: Catalog, items: str | None, now: datetime
) -> Wrong | None:
    metric = catalog.metrics.get(sample.metric)
    gives = catalog.workloads[KIND].gives
    if metric is None or sample.metric not in gives:
        return "TS744", f"a canary gives no `{sample.metric[:60]}`", f"it gives: {', '.join(gives)}"
    if sample.side not in ("baseline", told.candidate):
        hint = f'write "baseline" or "{told.candidate}"'
        return "TS743", f"`{sample.side[:60]}` is no side of this comparison", hint
    base = _base(metric, sample.unit, sample.value, catalog, items)
    if base is None:
        fits = _fitting(metric, catalog, items)
        return "TS744", f'{metric.name} in "{sample.unit[:40]}": the unit does not fit', f"it is in {fits}"
    if not math.isfinite(base):
        return "TS744", f"{metric.name} is not a finite number", "leave out what was not measured"
    if base < 0 or (metric.dimension == "ratio" and base > 1):
        return "TS744", f"{metric.name} of {sample.value:g} {sample.unit} cannot be", "look at what wrote the file"
    if metric.dimension == "ratio" and sample.requests is None:
        hint = 'a share says nothing without what it is of; for example: "requests": 18234'
        return "TS744", f"{metric.name} does not say of how many requests", hint
    try:
        since, until = moment(sample.since), moment(sample.until)
    except ValueError:
        return "TS745", f"the window {sample.since} to {sample.until} is no time", "for example: 2026-11-03T04:00Z"
    if until <= since:
        return "TS745", f"the window ends at {sample.until}, not after it begins ({sample.since})", None
    if (until - now).total_seconds() > CLOCKS_S:
        return "TS745", f"the window ends at {sample.until}, which is still to come", "take it in when it is over"
    return None


def moment(text: str) -> datetime:
    """A time of a file in UTC. Raises ValueError."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _base(metric: Metric, unit: str, value: float, catalog: Catalog, items: str | None) -> float | None:
    """The figure in the metric's base unit; None where the unit does not fit."""
    known = catalog.units.get(unit)
    if metric.dimension == "rate":
        things, slash, rest = unit.partition("/")
        return value if slash and rest == "s" and things and known is None and things == (items or things) else None
    if metric.dimension in ("count", "number"):
        return value if unit in ("", "1") else None
    if known is None or known.dimension not in FITS[metric.dimension]:
        return None
    return float(f"{value!r}e{known.power}") if known.power and "e" not in repr(value) else value * known.factor


def _fitting(metric: Metric, catalog: Catalog, items: str | None) -> str:
    if metric.dimension == "rate":
        return f"{items or 'requests'}/s"
    return ", ".join(u.name for u in catalog.units.values() if u.dimension in FITS[metric.dimension]) or "plain numbers"


# One cell for one candidate.


def _of_cell(
    workload: Workload, cell: Cell, side: Side, files: list[File], catalog: Catalog
) -> tuple[Canary, Diagnostic | None]:
    mine = [f for f in files if f.told.candidate == side.id and f.told.backend == cell.backend]
    if not mine:
        pattern = str(workload.options.get("files") or "")
        message = f'no file "{pattern}" holds figures of {cell.label} for {side.id}'
        hint = "put the files beside the spec, then `torchspec run` again; until then the row is not run and defers"
        place = Span(workload.place.file, workload.place.line, workload.place.column, workload.place.line,
                     workload.place.column + 1) if workload.place else None  # fmt: skip
        return Canary(cell, side.id, refused=message), Diagnostic("TS741", message, place, (), hint, Severity.WARNING)
    problem = _contradiction(mine) or _too_short(workload, mine, side.id)
    if problem is not None:
        return Canary(cell, side.id, refused=_first([problem])), problem
    counts = workload.options.get("counts")
    items = str(counts["unit"]) if counts else None
    bodies = tuple(
        _body(cell, side.id, file, sample, number, catalog, items)
        for number, (file, sample) in enumerate((f, s) for f in mine for s in f.told.samples)
    )
    return Canary(cell, side.id, tuple(mine), bodies), None


def _windows(files: list[File]) -> Iterator[tuple[File, int, CanarySample, float, float]]:
    for file in files:
        for index, sample in enumerate(file.told.samples):
            yield file, index, sample, moment(sample.since).timestamp(), moment(sample.until).timestamp()


def _contradiction(files: list[File]) -> Diagnostic | None:
    """A group that is told twice at one time, or files that do not count in the same terms."""
    first = files[0]
    for file in files[1:]:
        if file.told.grouped_by != first.told.grouped_by:
            message = f"`{file.path}` is grouped by {file.told.grouped_by}, `{first.path}` by {first.told.grouped_by}"
            return Diagnostic("TS745", message, whole(file.path), hint="group all files alike")
    held: dict[tuple[str, str, str], list[tuple[float, float, File, int]]] = {}
    rates: dict[str, str] = {}
    for file, index, sample, since, until in _windows(files):
        if "/" in sample.unit and rates.setdefault(sample.metric, sample.unit) != sample.unit:
            message = f"{sample.metric} is in {sample.unit} here and in {rates[sample.metric]} before"
            return Diagnostic("TS744", message, file.at(index), hint="count one thing in all files")
        held.setdefault((sample.metric, sample.side, sample.group), []).append((since, until, file, index))
    for (metric, side, group), own in held.items():
        own.sort(key=lambda one: one[:2])
        for before, after in pairwise(own):
            if after[0] < before[1]:
                message = f"{metric} of {first.told.grouped_by} {group[:60]} ({side}) stands twice for one time"
                return Diagnostic("TS745", message, after[2].at(after[3]), hint="give each group and time once")
    return None


def covered(windows: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The windows joined where they meet, in order."""
    joined: list[tuple[float, float]] = []
    for since, until in sorted(windows):
        if joined and since <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], until))
        else:
            joined.append((since, until))
    return joined


def common_s(one: list[tuple[float, float]], two: list[tuple[float, float]]) -> float:
    """How many seconds two sets of joined windows have in common."""
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in two)


def _too_short(workload: Workload, files: list[File], candidate: str) -> Diagnostic | None:
    share = workload.options.get("share")
    if not share:
        return None
    asked = float(share["seconds"])
    by_metric: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for _, _, sample, since, until in _windows(files):
        by_metric.setdefault(sample.metric, {}).setdefault(sample.side, []).append((since, until))
    for metric, sides in by_metric.items():
        new, old = covered(sides.get(candidate, ())), covered(sides.get("baseline", ()))
        served, both = common_s(new, new), common_s(new, old)
        if served < asked * (1 - 1e-9):
            message = f"{metric} of {candidate} covers {_hours(served)}, and the spec asks for {_hours(asked)}"
            hint = "serve the time that was agreed before, and add its files"
            return Diagnostic("TS746", message, whole(files[0].path), hint=hint)
        if old and both < asked * (1 - 1e-9):
            message = (
                f"{metric} of the baseline covers {_hours(both)} of the time that {candidate} served, and the spec "
                f"asks for {_hours(asked)}"
            )
            hint = "another day's traffic is no comparison: give the baseline's figures of the same time"
            return Diagnostic("TS746", message, whole(files[0].path), hint=hint)
    return None


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.4g} h" if seconds >= 3600 else f"{seconds / 60:.4g} min"


def _body(
    cell: Cell, candidate: str, file: File, sample: CanarySample, number: int, catalog: Catalog, items: str | None
) -> dict[str, Any]:
    metric = catalog.metrics[sample.metric]
    value = _base(metric, sample.unit, sample.value, catalog, items)
    told = file.told
    detail: Mapping[str, Any] = {
        "group": sample.group,
        "grouped_by": told.grouped_by,
        "since": sample.since,
        "until": sample.until,
        "requests": sample.requests,
        "share": told.share.value / 100,
        "file": file.path,
        "sha256": file.sha256,
    }
    return {
        "cell": cell.id,
        "candidate": candidate,
        "side": sample.side,
        "metric": sample.metric,
        "value": value,
        "unit": BASE_UNITS.get(metric.dimension, sample.unit if metric.dimension == "rate" else "1"),
        "repeat": number,
        "meter": told.by,
        "against": None,
        "process": None,
        "detail": dict(detail),
    }
