"""`check_spec`: all checks of a spec, in their order, into one checked value and one list of mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from torchspec import catalog as catalogs
from torchspec.catalog import Catalog
from torchspec.check import claims, controls, question
from torchspec.check import warnings as warning
from torchspec.check.bind import Bound
from torchspec.check.deviations import deviations
from torchspec.check.gates import GateSets
from torchspec.check.load import Loaded, bound_lines, data_slice, load, team_file
from torchspec.check.matrix import expand, judge_lines
from torchspec.check.policy import policy
from torchspec.check.spec import (
    BackendDecl,
    CheckedSpec,
    CheckResult,
    FileText,
    SideDecl,
    Text,
    TogetherDecl,
    WaiverDecl,
)
from torchspec.check.structure import Context, walk
from torchspec.check.team import hold
from torchspec.check.values import text_of, texts
from torchspec.check.workload import Known
from torchspec.check.workloads import Workloads
from torchspec.core.diagnostics import Span, sort_diagnostics

_NOTHING: Mapping[str, str] = MappingProxyType({})


def check_spec(path: Path, params: Mapping[str, str] = _NOTHING, catalog: Catalog | None = None) -> CheckResult:
    """Everything that can be said of the spec at `path` before anything runs.

    `params`: what `--set` says, by name. The result's `spec` is None where a mistake is an error. Never raises for
    what a file holds; reads the spec, its imports and the team's entry files, and nothing else.
    """
    context = Context(catalog or catalogs.load())
    context.found += context.catalog.problems
    loaded = load(context, path, params)
    spec = _elaborate(context, loaded, path) if loaded.first is not None else None
    if spec is not None and not any(d.is_error for d in context.found):
        context.found += [*warning.warnings(spec), *policy(spec, context.catalog)]
    found = sort_diagnostics(warning.audible(context.silenced, context.found))
    failed = any(d.is_error for d in found)
    return CheckResult(None if failed else spec, found, loaded.texts)


def _elaborate(context: Context, loaded: Loaded, path: Path) -> CheckedSpec | None:
    lines = walk(context, "file", loaded.statements)
    place = loaded.first or Span(str(path), 1, 1, 1, 2)
    whole = not any(s.broken or not s.word for s in loaded.statements)
    upgrade_line = bound_lines(lines, "upgrade")
    upgrade = question.upgrade(context, upgrade_line) if upgrade_line else None
    frozen = controls.frozen(context, bound_lines(lines, "frozen"))
    baselines = [s for b in lines.get("baseline", []) for s in controls.sides(context, b)]
    candidates = [s for b in lines.get("candidate", []) for s in controls.sides(context, b)]
    _one_of_each(context, baselines, candidates)
    backends, optionals = controls.backends(context, lines.get("backend", []), lines.get("optional", []))
    source_list = claims.sources(context, lines.get("source", []))
    sets = GateSets(context)
    for line in lines.get("gates", []):
        sets.declare(line)
    work = Workloads(context)
    ranks = {b.name.text: b.ranks for b in backends}
    ranks.update({name: () for name in context.meant if name in context.catalog.backends and name not in ranks})
    over = {b.name.text: b.over.text for b in backends if b.over is not None}
    known = Known(ranks, sets.names, [s.name.text for s in upgrade.stages] if upgrade else [], over)
    places = {id(s): i for i, s in enumerate(loaded.statements)}
    work_lines = [*lines.get("workload", []), *lines.get("lane", [])]
    for line in sorted(work_lines, key=lambda b: places[id(b.statement)]):
        if line.row.word == "lane":
            work.lane(line, known)
        else:
            work.workload(line, known)
    files = _files(context, loaded, work)
    gate_sets = sets.all({g.text for w in work.made for g in w.gate_sets})
    claim_list = claims.claims(context, lines.get("claim", []), source_list, work.made, work.names)
    togethers = _together(context, lines.get("together", []), work.names)
    waivers = _waivers(context, lines.get("waive", []), work, backends)
    going_back = question.rollback(context, bound_lines(lines, "rollback"))
    budget = question.measure(context, bound_lines(lines, "measure"))
    meta_line = bound_lines(lines, "meta")
    meta = question.meta(meta_line.statement.block or (), context) if meta_line else {}
    silenced = warning.silenced(context, lines.get("silence", []))
    context.silenced = {code.text for code, _ in silenced}
    main = loaded.files[0].data
    deviated = deviations(context, bound_lines(lines, "deviations"), loaded.statements, main)
    if whole:
        for word, example in _REQUIRED:
            if word not in lines and not (word == "workload" and "lane" in lines):
                context.missing(word, f"the spec has no `{word}`", place, f"for example: {example}")
    matrix = expand(context, work.made)
    judge_lines(context, matrix, gate_sets, place)
    if any(d.is_error for d in context.found) or upgrade is None or not baselines:
        return None
    return CheckedSpec(
        name=path.name.removesuffix(".tspec"),
        file=str(path),
        folder=str(path.parent),
        sources=tuple(loaded.files),
        upgrade=upgrade,
        params=tuple(loaded.params),
        frozen=frozen,
        baseline=baselines[0],
        candidates=tuple(candidates),
        backends=tuple(backends),
        optionals=tuple(optionals),
        source_list=tuple(source_list),
        claims=tuple(claim_list),
        workloads=tuple(matrix.workloads),
        lanes=tuple(work.lanes),
        gate_sets=gate_sets,
        waivers=tuple(waivers),
        togethers=tuple(togethers),
        rollback=going_back,
        cells=tuple(matrix.cells),
        removed=tuple(matrix.removed),
        gates=tuple(matrix.gates),
        budget=budget,
        files=files,
        meta=meta,
        silenced=silenced,
        deviations=deviated,
        span=place,
    )


_REQUIRED = (
    ("upgrade", 'upgrade "torch 2.13 to 2.14" {'),
    ("baseline", 'baseline torch "2.13.0"'),
    ("candidate", 'candidate torch "2.14.1"'),
    ("backend", "backend cpu"),
    ("workload", "workload reranker {"),
    ("gates", "gates service {"),
)


def _one_of_each(context: Context, baselines: list[SideDecl], candidates: list[SideDecl]) -> None:
    if len(baselines) > 1:
        context.say("TS402", "there is one baseline", baselines[1].span, "write another spec for the other")
    seen: set[tuple[str | None, ...]] = set()
    for side in candidates:
        key = tuple(t.text if t else None for t in (side.torch, side.python, side.path))
        if key in seen:
            context.say("TS219", "this candidate stands twice", side.span, "keep one")
        seen.add(key)


def _together(context: Context, lines: list[Bound], names: list[str]) -> list[TogetherDecl]:
    made: list[TogetherDecl] = []
    for line in lines:
        for value in line.many():
            if value.text not in names:
                context.unknown("TS210", "workload", value.text, value.span, names)
        made.append(TogetherDecl(texts(line.many()), text_of(line.one(name="because")), line.statement.span))
    return made


def _waivers(context: Context, lines: list[Bound], work: Workloads, backends: list[BackendDecl]) -> list[WaiverDecl]:
    made: list[WaiverDecl] = []
    for line in lines:
        metric, workload, backend = line.one(0), line.one(1), line.one(name="on")
        if metric is None or workload is None:
            continue
        if metric.text not in context.catalog.metrics:
            context.unknown_metric(metric)
        if workload.text not in work.names:
            context.unknown("TS210", "workload", workload.text, workload.span, work.names)
        if backend is None:
            if "on" not in line.places and not line.broken:
                message = "`waive` lacks `on` and a backend"
                context.say("TS203", message, line.statement.word_span, "a waiver is for one workload on one backend")
        else:
            target = next((w for w in work.made if w.name.text == workload.text), None)
            known = [b.text for b in target.backends] if target else [b.name.text for b in backends]
            if backend.text not in known and backend.text not in context.misnamed:
                context.unknown("TS211", f"backend of `{workload.text}`", backend.text, backend.span, known)
        made.append(
            WaiverDecl(
                Text(metric.text, metric.span),
                Text(workload.text, workload.span),
                text_of(backend),
                text_of(line.one(name="until")),
                text_of(line.one(name="by")),
                text_of(line.one(name="because")),
                line.statement.span,
            )
        )
    return made


def _files(context: Context, loaded: Loaded, work: Workloads) -> tuple[FileText, ...]:
    """The team's files, each once; the workloads are held against what their own file tells."""
    made: dict[str, FileText] = {}
    for place, workload in enumerate(work.made):
        data_slice(context, loaded.folder, workload)
        entry = workload.entry
        found = team_file(context, loaded.folder, entry) if entry is not None else None
        if entry is not None and found is not None:
            made.setdefault(found[0].path, found[0])
            kind = context.catalog.workloads[workload.kind.text]
            work.made[place] = hold(context, workload, entry, kind, found[1])
    return tuple(made.values())
