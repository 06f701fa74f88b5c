"""Environments for the two sides: an interpreter that is already there, or a venv made by pip; locked, and cached.

Must not import torch, and must not know what is measured. Subprocesses run under `torchspec.supervise`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from torchspec.core.canon import digest
from torchspec.core.diagnostics import Diagnostic, Result, Severity
from torchspec.model.plan import Backend, Plan, Side
from torchspec.provision import archives
from torchspec.provision.cache import cache_folder
from torchspec.provision.differences import BROKEN_CONTROLS, Difference, diff_environments, differences
from torchspec.provision.interpreters import Probed, find_python, matches, probe, span_of
from torchspec.provision.lock import make_lock, torch_brings, versions
from torchspec.provision.pip import OnEvent
from torchspec.provision.rebuild import Rebuilt, Restored, rehearse, restore
from torchspec.provision.venvs import Made, Request, obtain, os_diagnostic, refused_requirements

__all__ = [
    "BROKEN_CONTROLS",
    "Difference",
    "Environment",
    "Rebuilt",
    "Restored",
    "cache_folder",
    "diff_environments",
    "differences",
    "ensure",
    "rehearse",
    "restore",
    "torch_brings",
    "wheels_of",
]


@dataclass(frozen=True, slots=True)
class Environment:
    """One side's environment, ready to run: `lock` says what is in it, `digest` is the lock's. `seconds` to get it."""

    side: str
    python: Path
    lock: dict[str, Any]
    digest: str
    reused: bool
    seconds: float
    log: Path | None = None


def ensure(
    plan: Plan,
    side: Side,
    *,
    spec_folder: Path,
    cache: Path,
    on_event: OnEvent,
    backend: Backend | None = None,
) -> Result[Environment]:
    """The environment of `side`: probed where it is there already, else made in `cache` (see `cache_folder`) or reused.

    `backend` gives the wheels to use; without it, the plan's backends where they agree on them. A candidate is made
    with the baseline's versions of all that torch does not pin, so that time alone makes no difference between the
    sides; the baseline is made first where it is missing. Errors carry the codes TS601 to TS620. Those in
    BROKEN_CONTROLS come beside an environment and say that it is not what the spec promises. Raises KeyboardInterrupt
    after Ctrl-C.
    """
    if side.python is not None:
        return _existing(plan, side, spec_folder)
    began = time.monotonic()
    torch = side.torch or ""
    if wrong := refused_requirements(torch, plan.frozen.packages, span_of(side.place)):
        return Result(None, (wrong,))
    found = find_python(plan.frozen.python, side.place)
    if found.value is None:
        return Result(None, found.diagnostics)
    constraints: dict[str, str] = {}
    if side.role == "candidate":
        first = ensure(plan, plan.baseline, spec_folder=spec_folder, cache=cache, on_event=on_event, backend=backend)
        if first.value is None:
            return first
        constraints = _shared(first.value.lock, plan.frozen.packages)
    request = Request(
        torch, plan.frozen.packages, found.value, wheels_of(plan, backend), tuple(sorted(constraints.items()))
    )
    made = obtain(request, cache, side.id, side.place, on_event)
    if made.value is None:
        return Result(None, made.diagnostics)
    lock = made.value.lock
    seconds = time.monotonic() - began
    environment = Environment(
        side.id, made.value.python, lock, digest(lock), made.value.reused, seconds, made.value.log
    )
    wrong_version = _torch_differs(side, lock["torch"])
    said = [*made.diagnostics, *([wrong_version] if wrong_version else [])]
    if plan.rollback is not None and side.role == "baseline":
        said += _kept(made.value, cache, request.wheels, side, on_event)
    return Result(environment, tuple(said))


def _kept(made: Made, cache: Path, wheels: str | None, side: Side, on_event: OnEvent) -> list[Diagnostic]:
    """Keeps the archives that going back would need. That they could not be kept is a warning here; where it matters,
    in the rehearsal, it fails."""
    try:
        with made.log.open("a", encoding="utf-8") as log:
            kept = archives.keep(
                made.lock, made.python, cache, log, made.log, wheels=wheels, side=side.id, on_event=on_event
            )
    except OSError as error:
        return [replace(os_diagnostic(error, "keeping archives", cache), severity=Severity.WARNING)]
    return [replace(one, severity=Severity.WARNING) for one in kept.diagnostics]


def wheels_of(plan: Plan, backend: Backend | None) -> str | None:
    """The index of wheels for `backend`; without one, the plan's backends' where they agree on it."""
    if backend is not None:
        return backend.wheels
    named = {b.wheels for b in plan.backends}
    return named.pop() if len(named) == 1 else None


def _shared(lock: dict[str, Any], packages: tuple[str, ...]) -> dict[str, str]:
    """The baseline's versions that the candidate is to have too: all but torch, its pins, and what the spec names."""
    named = {str(canonicalize_name(Requirement(text).name)) for text in packages}
    pinned = {name for name, entry in lock["torch_brings"].items() if entry["pinned"]}
    return {name: v for name, v in versions(lock).items() if name not in {"torch", "pip"} | named | pinned}


def _existing(plan: Plan, side: Side, spec_folder: Path) -> Result[Environment]:
    began = time.monotonic()
    python = Path(os.path.abspath(spec_folder / Path(side.python or "").expanduser()))
    probed = probe(python, side.place)
    if probed.value is None:
        return Result(None, probed.diagnostics)
    span = span_of(side.place)
    if probed.value.torch is None:
        message = f"`{side.python}` (Python {probed.value.python}) has no torch"
        hint = f'install it there, or let torchspec make the environment: `torch "{side.torch or "2.14.1"}"`'
        return Result(None, (Diagnostic("TS603", message, span, hint=hint),))
    lock = make_lock(probed.value, "interpreter", {})
    broken = [d for d in (_torch_differs(side, probed.value.torch), _python_differs(plan, side, probed.value)) if d]
    broken += _packages_differ(plan, side, probed.value)
    environment = Environment(side.id, python, lock, digest(lock), True, time.monotonic() - began)
    return Result(environment, tuple(broken))


def _torch_differs(side: Side, there: str | None) -> Diagnostic | None:
    """TS604 where the spec names a torch version and the environment holds another; "2.13.0" takes "2.13.0+cpu"."""
    if side.torch is None or there is None:
        return None
    try:
        named, held = Version(side.torch), Version(there)
        same = named == held if named.local else named.public == held.public
    except InvalidVersion:
        same = side.torch == there
    if same:
        return None
    where = f"`{side.python}` holds" if side.python else "the environment holds"
    message = f"broken control: the spec names torch {side.torch}, {where} torch {there}"
    return Diagnostic("TS604", message, span_of(side.place), hint=f'name what is there: `torch "{there}"`')


def _python_differs(plan: Plan, side: Side, probed: Probed) -> Diagnostic | None:
    wanted = plan.frozen.python
    if wanted is None or matches(probed.python, wanted):
        return None
    message = f"broken control: `frozen` names Python {wanted}, `{side.python}` is Python {probed.python}"
    return Diagnostic(
        "TS605", message, span_of(side.place), hint=f'use a Python {wanted}, or write `python "{probed.python}"`'
    )


def _packages_differ(plan: Plan, side: Side, probed: Probed) -> list[Diagnostic]:
    found = []
    for text in plan.frozen.packages:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # the compiler refuses it; nothing is installed from it here
        there = probed.packages.get(str(canonicalize_name(requirement.name)), {}).get("version")
        if there is None or not requirement.specifier.contains(there, prereleases=True):
            message = f"broken control: `frozen` names {text}, `{side.python}` has {there or 'none'}"
            hint = f'install it there: `{side.python} -m pip install "{text}"`'
            found.append(Diagnostic("TS606", message, span_of(side.place), hint=hint))
    return found
