"""The lock: binds spec, imports, team files, plan, harness bytes, compiler, catalog and plugins to a commit.

Must not compile and must not ask git: both are given. `check_lock` is what stands between a compiled folder and a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from torchspec.core.canon import digest, file_digest, sha256_hex
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.core.files import pretty, strict_json, write_whole
from torchspec.model.codec import from_json, schema_errors, to_json
from torchspec.model.plan import Plan
from torchspec.model.registration import LOCK_SCHEMA, Deviation, GitState, Lock, LockedFile

PLAN_FILE, LOCK_FILE, HARNESS_FOLDER = "plan.json", "lock.json", "harness"
_AGAIN = "compile it again: `torchspec compile SPEC`"


@dataclass(frozen=True, slots=True)
class Locked:
    """A compiled folder that holds together: its plan, lock and harness files by backend."""

    plan: Plan
    plan_digest: str
    lock: Lock
    lock_digest: str
    harness: dict[str, Path]


def make_lock(
    plan: Plan,
    plan_digest: str,
    sources: Mapping[str, str],
    catalog_digest: str,
    git: GitState,
    params: Mapping[str, str],
    plugins: Mapping[str, str] | None = None,
    spec: Sequence[LockedFile] | None = None,
    deviations: Sequence[Deviation] = (),
) -> Lock:
    """The lock of a compiled plan. `sources` is the harness text by backend; digests are SHA-256, 64 hex digits.

    `spec` holds the digests of whole spec files (default: the plan's, for a spec without deviations).
    """
    return Lock(
        schema=LOCK_SCHEMA,
        name=plan.name,
        compiler=plan.compiler,
        catalog=catalog_digest,
        plugins=dict(sorted((plugins or {}).items())),
        spec=tuple(spec if spec is not None else (LockedFile(f.path, f.sha256) for f in plan.spec)),
        files=tuple(LockedFile(f.path, f.sha256) for f in plan.files),
        plan=plan_digest,
        harness={backend: sha256_hex(sources[backend].encode()) for backend in sorted(sources)},
        params=dict(sorted(params.items())),
        git=git,
        deviations=tuple(deviations),
    )


def lock_digest(lock: Lock) -> str:
    """The SHA-256 of the lock's canonical JSON, 64 hex digits: what a run records."""
    return digest(to_json(lock))


def write_lock(lock: Lock, path: Path) -> None:
    """Writes a lock, schema-checked, whole or not at all. Raises OSError; ValueError for what the schema refuses."""
    value = to_json(lock)
    errors = schema_errors("lock", value)
    if errors:
        raise ValueError(f"lock{errors[0][0][1:]}: {errors[0][1]}")
    write_whole(path, pretty(value))


def read_lock(path: Path) -> Result[Lock]:
    """Reads a lock. Diagnostics: TS804 with the reason."""
    value = _read(path, "lock", "TS804")
    if isinstance(value, Diagnostic):
        return Result(None, (value,))
    try:
        return Result(from_json(Lock, value))
    except msgspec.ValidationError as error:
        return Result(None, (Diagnostic("TS804", f"{path} is not a lock: {error}", hint=_AGAIN),))


def _read(path: Path, schema: str, code: str) -> Any | Diagnostic:
    try:
        value = strict_json(path.read_bytes())
    except FileNotFoundError:
        return Diagnostic(code, f"there is no {path}", hint=_AGAIN)
    except (OSError, ValueError) as error:
        return Diagnostic(code, f"{path} cannot be read: {error}", hint=_AGAIN)
    errors = schema_errors(schema, value)
    if errors:
        where, message = errors[0]
        return Diagnostic(code, f"{path} is not a {schema}: {where}: {message[:200]}", hint=_AGAIN)
    return value


def check_lock(folder: Path, *, spec_folder: Path | None = None) -> Result[Locked]:
    """Whether a compiled folder is what its lock says: the first thing that does not hold is the diagnostic.

    `folder` is `out/<name>`. With `spec_folder` the spec and team files there are compared as well (TS805).
    Diagnostics: TS801 (not compiled), TS802 (plan), TS803 (harness), TS804 (lock), TS805 (spec changed).
    """
    plan_path, lock_path = folder / PLAN_FILE, folder / LOCK_FILE
    if not plan_path.is_file():
        message = f"nothing is compiled in {folder}: there is no {PLAN_FILE}"
        return Result(None, (Diagnostic("TS801", message, hint="compile first: `torchspec compile SPEC`"),))
    read = read_lock(lock_path)
    lock = read.value
    if lock is None:
        return Result(None, read.diagnostics)
    value = _read(plan_path, "plan", "TS802")
    if isinstance(value, Diagnostic):
        return Result(None, (value,))
    try:
        plan = from_json(Plan, value)
    except msgspec.ValidationError as error:
        return Result(None, (Diagnostic("TS802", f"{plan_path} is not a plan: {error}", hint=_AGAIN),))
    problem = (
        _plan_problem(lock, value, plan_path)
        or _harness_problem(lock, folder / HARNESS_FOLDER)
        or (_spec_problem(lock, spec_folder) if spec_folder else None)
    )
    if problem:
        return Result(None, (problem,))
    harness = {backend: folder / HARNESS_FOLDER / f"{backend}.py" for backend in lock.harness}
    return Result(Locked(plan, lock.plan, lock, lock_digest(lock), harness))


def _plan_problem(lock: Lock, value: Any, path: Path) -> Diagnostic | None:
    found = digest(value)
    if found == lock.plan:
        return None
    message = f"{path} was changed after it was compiled: its digest is {found[:16]}, the lock says {lock.plan[:16]}"
    return Diagnostic("TS802", message, hint="write the change into the spec, commit it, and " + _AGAIN)


def _harness_problem(lock: Lock, folder: Path) -> Diagnostic | None:
    for backend, expected in sorted(lock.harness.items()):
        path = folder / f"{backend}.py"
        try:
            found = file_digest(path)
        except OSError as error:
            reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
            return Diagnostic("TS803", f"the harness file {path} {reason}", hint=_AGAIN)
        if found != expected:
            message = f"{path} was changed after it was compiled: {found[:16]}, the lock says {expected[:16]}"
            return Diagnostic("TS803", message, hint=_AGAIN)
    return None


def _spec_problem(lock: Lock, folder: Path) -> Diagnostic | None:
    for locked in (*lock.spec, *lock.files):
        path = folder / locked.path
        try:
            changed = file_digest(path) != locked.sha256
        except OSError as error:
            message = f"{path} cannot be read any more: {error.strerror}"
            return Diagnostic("TS805", message, hint="put the file back, or " + _AGAIN)
        if changed:
            message = f"{path} changed since it was compiled, so the plan in use is not the one that it says"
            return Diagnostic("TS805", message, hint=_AGAIN)
    return None
