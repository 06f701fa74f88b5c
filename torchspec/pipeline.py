"""The order of the stages up to a compiled spec, and nothing else. `pipeline_run` goes on from there.

Every function returns values and diagnostics; printing and exit codes are `cli`'s. Heavy stages are imported where they
are used, so that `check` loads no Git, no PDF and no statistics.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchspec import __version__
from torchspec.core.diagnostics import Diagnostic, Result

if TYPE_CHECKING:
    from torchspec.check import CheckResult
    from torchspec.model.plan import Plan
    from torchspec.model.registration import Deviation, Lock, LockedFile
    from torchspec.provenance.timestamp import Stamp
    from torchspec.specdiff import Change

LATEST = "latest"
HISTORY = "history"  # every plan that was compiled here, by digest: what registration compares
POINTER = "local.json"  # where the spec is on this machine; no part of any digest


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled spec on disk: its folder below `out/`, what is in it, and where the spec is here."""

    folder: Path
    spec: Path
    plan: Plan
    plan_digest: str
    lock: Lock
    lock_digest: str

    @property
    def evidence(self) -> Path:
        return self.folder / "evidence"

    @property
    def ledger(self) -> Path:
        return self.evidence / "ledger.jsonl"

    def harness(self, backend: str) -> Path:
        return self.folder / "harness" / f"{backend}.py"


@dataclass(frozen=True, slots=True)
class Lowered:
    """A checked spec as a plan, with what diagnostics need to be shown."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    written: tuple[LockedFile, ...] = ()  # the spec files as they are on disk, deviations and all
    deviations: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileOutcome:
    """What `compile` has to say; `compiled` is None where an error stopped it, and then nothing was written."""

    compiled: Compiled | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str]


def check(spec: Path, params: Mapping[str, str]) -> CheckResult:
    """Parse and check a spec: everything that can be said of it before anything runs."""
    from torchspec.check import check_spec

    return check_spec(spec, params)


def lower_spec(spec: Path, params: Mapping[str, str]) -> Lowered:
    """From a spec file to a Plan, in memory."""
    from torchspec import catalog, lower
    from torchspec.model.registration import Deviation, LockedFile

    checked = check(spec, params)
    if checked.spec is None or any(d.is_error for d in checked.diagnostics):
        return Lowered(None, tuple(checked.diagnostics), checked.sources)
    lowered = lower.lower(checked.spec, catalog.load(), __version__)
    return Lowered(
        lowered.value,
        (*checked.diagnostics, *lowered.diagnostics),
        checked.sources,
        tuple(LockedFile(s.path, s.sha256) for s in checked.spec.sources),
        tuple(Deviation(*(part.text for part in d)) for d in checked.spec.deviations),
    )


def compile_spec(spec: Path, out: Path, params: Mapping[str, str]) -> CompileOutcome:
    """Check, lower, emit and lock a spec into `out/<name>`. Writes the lock last: it vouches for the rest."""
    from torchspec import catalog
    from torchspec.core.canon import digest
    from torchspec.core.files import pretty, write_whole
    from torchspec.emit import bundle, plugin_work
    from torchspec.emit import verify as emitted
    from torchspec.model.codec import schema_errors, to_json
    from torchspec.provenance import git, terms
    from torchspec.provenance import lock as locking

    lowered = lower_spec(spec, params)
    plan = lowered.plan

    def stop(*more: Diagnostic) -> CompileOutcome:
        return CompileOutcome(None, (*lowered.diagnostics, *more), lowered.sources)

    if plan is None or any(d.is_error for d in lowered.diagnostics):
        return stop()
    value = to_json(plan)
    wrong = schema_errors("plan", value)
    if wrong:
        raise AssertionError(f"a plan of ours breaks its schema at {wrong[0][0]}: {wrong[0][1]}")
    tables = catalog.load()
    kinds = [workload.kind for workload in plan.workloads]
    faults = plugin_work.problems(tables.works, kinds)
    if faults:
        return stop(*faults)
    try:
        harness = bundle.emit(plan, tables.works)
    except bundle.BundleError as error:
        fault = plugin_work.clash(error, tables.works, kinds)
        if fault is None:
            raise
        return stop(fault)
    for backend, text in harness.items():
        problems = emitted.problems(text)
        if problems:
            raise AssertionError(f"the {backend} harness of ours is not self-contained: {problems[0]}")
    files = [*(Path(f.path) for f in plan.spec[1:]), *(Path(f.path) for f in plan.files)]
    lock = locking.make_lock(
        plan,
        digest(value),
        harness,
        tables.digest,
        git.describe(spec, files),
        params,
        plugins=tables.plugins,
        spec=lowered.written,
        deviations=lowered.deviations,
    )
    folder = out / plan.name
    try:
        for backend, text in harness.items():
            write_whole(folder / "harness" / f"{backend}.py", text.encode())
        for stale in (folder / "harness").glob("*.py"):
            if stale.stem not in harness:
                stale.unlink()
        terms.remember(folder / HISTORY, plan, digest(value))
        write_whole(folder / "plan.json", pretty(value))
        write_whole(folder / POINTER, pretty({"spec": os.path.relpath(spec, folder)}))
        locking.write_lock(lock, folder / "lock.json")
        _point(out / LATEST, plan.name)
    except OSError as error:
        reason = f"{folder} cannot be written: {error.strerror or error}"
        return stop(Diagnostic("TS690", reason, hint="free some space, or give another folder with --out"))
    compiled = Compiled(folder, spec, plan, digest(value), lock, locking.lock_digest(lock))
    return CompileOutcome(compiled, lowered.diagnostics, lowered.sources)


def stamp(compiled: Compiled, url: str) -> Result[Stamp]:
    """Have the plan's digest stamped by the RFC 3161 authority at `url`; a stamp that it has already stays."""
    from torchspec.provenance import timestamp

    return timestamp.stamp_plan(compiled.folder / HISTORY, compiled.plan_digest, timestamp.client(url))


def _point(link: Path, target: str) -> None:
    """Turn a symbolic link to another target, so that it is never missing in between."""
    new = link.with_name(f".{link.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    os.replace(new, link)


@dataclass(frozen=True, slots=True)
class DiffOutcome:
    """The changes between two specs, the more important first; None where one of them does not compile."""

    changes: tuple[Change, ...] | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str]


def diff_specs(old: str, new: str) -> DiffOutcome:
    """Compare two specs: two files; or a git revision (`main`, or `main...HEAD`) and a spec in the repository."""
    from torchspec import specdiff

    def compare(first: Path, second: Path) -> DiffOutcome:
        one, two = lower_spec(first, {}), lower_spec(second, {})
        said = (*one.diagnostics, *two.diagnostics)
        errors = tuple(d for d in said if d.is_error)
        if one.plan is None or two.plan is None:
            return DiffOutcome(None, errors, {**one.sources, **two.sources})
        changes = specdiff.diff(one.plan, two.plan, deviations=(one.deviations, two.deviations))
        return DiffOutcome(changes, (), {})

    if Path(old).is_file():
        return compare(Path(old), Path(new))
    from torchspec.provenance import revisions

    with revisions.checkout(old, Path(new)) as found:
        if found.value is None:
            return DiffOutcome(None, found.diagnostics, {})
        return compare(*found.value)
