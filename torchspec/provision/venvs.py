"""Makes environments from a request, in the cache: a venv, pip, a lock. From a lock: see `rebuild`."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from torchspec.core.canon import digest
from torchspec.core.diagnostics import Diagnostic, Result, Span
from torchspec.model.plan import Place
from torchspec.provision import pip
from torchspec.provision.cache import Slot, usual_seconds
from torchspec.provision.interpreters import Found, Probed, probe, span_of
from torchspec.provision.lock import make_lock, versions
from torchspec.provision.pip import OnEvent, PipRun

#: Fewer free bytes than this explain a failure that has no better reason.
NEARLY_FULL = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What one environment is to hold. `constraints`: name -> version, kept where torch's requirements allow it."""

    torch: str
    packages: tuple[str, ...]
    python: Found
    wheels: str | None
    constraints: tuple[tuple[str, str], ...]

    def key(self) -> str:
        """Names the environment in the cache; the address of an index goes into it only as part of a digest."""
        asked = {
            "torch": self.torch,
            "packages": sorted(self.packages),
            "python": self.python.version,
            "platform": self.python.platform,
            "wheels": self.wheels,
            "constraints": [list(pair) for pair in self.constraints],
        }
        return digest(asked)[:20]


@dataclass(frozen=True, slots=True)
class Made:
    """An environment that is whole."""

    python: Path
    lock: dict[str, Any]
    reused: bool
    seconds: float
    log: Path


def refused_requirements(torch: str, packages: tuple[str, ...], span: Span | None) -> Diagnostic | None:
    """What pip must not be given: a torch that is no version, a package that is no requirement (an option, a path)."""
    try:
        Version(torch)
    except InvalidVersion:
        return Diagnostic(
            "TS611", f"`{torch}` is not a version of torch", span, hint='write it in full: `torch "2.14.1"`'
        )
    for package in packages:
        try:
            Requirement(package)
        except InvalidRequirement as error:
            message = f"`{package}` is not a package requirement: {str(error).splitlines()[0]}"
            return Diagnostic("TS612", message, span, hint='write a name and a version: `package "numpy==2.4.0"`')
    return None


def os_diagnostic(error: OSError, doing: str, cache: Path) -> Diagnostic:
    """A disk that is full (TS615) or a folder that cannot be written (TS618)."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, or set TORCHSPEC_CACHE to a folder on a larger disk"
        return Diagnostic("TS615", f"the disk is full while {doing} below `{cache}`", hint=hint)
    hint = "make it writable for you, or set TORCHSPEC_CACHE to another folder"
    return Diagnostic("TS618", f"cannot go on {doing} below `{cache}`: {error.strerror or error}", hint=hint)


def obtain(request: Request, cache: Path, side: str, place: Place | None, on_event: OnEvent) -> Result[Made]:
    """The environment for `request` from the cache, made there first where it is not whole.

    Raises KeyboardInterrupt after Ctrl-C; what was half made is gone then.
    """
    slot = Slot(cache, request.key())
    began = time.monotonic()

    def waiting() -> None:
        what = f"waiting for another torchspec that is installing torch {request.torch}"
        on_event({"event": "doing", "what": what, "side": side})

    try:
        with slot.locked(waiting) as hold:
            if lock := _reusable(slot):
                return Result(Made(slot.python, lock, True, time.monotonic() - began, slot.log))
            usual = usual_seconds(cache)
            about = f"about {usual:.0f} s" if usual else "usually one to five minutes"
            on_event({"event": "doing", "what": f"installing torch {request.torch} ({about})", "side": side})
            slot.discard()
            try:
                result = _build(slot, request, hold, side, place, on_event)
                if result.value is not None:
                    slot.finish(result.value, time.monotonic() - began)
            except BaseException:
                slot.discard()
                raise
            if result.value is None:
                slot.discard()
                return Result(None, result.diagnostics)
            return Result(
                Made(slot.python, result.value, False, time.monotonic() - began, slot.log), result.diagnostics
            )
    except OSError as error:
        return Result(None, (os_diagnostic(error, f"installing torch {request.torch}", cache),))


def _reusable(slot: Slot) -> dict[str, Any] | None:
    """The slot's lock where the environment is whole and still holds what the lock says."""
    lock = slot.recorded()
    if lock is None:
        return None
    probed = probe(slot.python).value
    if probed is None or unlike(probed, lock) is not None:
        return None
    return lock


def unlike(probed: Probed, lock: Mapping[str, Any]) -> str | None:
    """What differs between an environment and a lock, in words; None where nothing does. pip itself does not count."""
    there = {name: package["version"] for name, package in probed.packages.items() if name != "pip"}
    wanted = {name: version for name, version in versions(lock).items() if name != "pip"}
    for name in sorted(there.keys() | wanted.keys()):
        if there.get(name) != wanted.get(name):
            return f"{name} is {there.get(name, 'absent')}, the lock says {wanted.get(name, 'absent')}"
    if (probed.python, probed.platform) != (lock["python"], lock["platform"]):
        return f"Python is {probed.python} on {probed.platform}, the lock says {lock['python']} on {lock['platform']}"
    return None


def _build(
    slot: Slot, request: Request, hold: int, side: str, place: Place | None, on_event: OnEvent
) -> Result[dict[str, Any]]:
    span = span_of(place)
    slot.folder.mkdir()
    work = slot.folder / "tmp"
    work.mkdir()
    with slot.log.open("w", encoding="utf-8") as log:
        bench = Bench(slot.venv, request.python.path, work, log, slot.log, hold, side, on_event)
        if wrong := bench.make_venv(span):
            return Result(None, (wrong,))
        asked = [f"torch=={request.torch}", *request.packages]
        index = ["--extra-index-url", request.wheels] if request.wheels else []
        report = work / "report.json"
        done = bench.install(asked, index, report, dict(request.constraints))
        if not done.ok:
            return Result(None, (pip.failure(done, f"torch {request.torch}", request.torch, slot.log, span),))
        probed = probe(slot.python, place)
        if probed.value is None:
            return Result(None, probed.diagnostics)
        try:
            archives = pip.archives(report)
        except (ValueError, KeyError, TypeError) as error:
            message = f"pip installed torch {request.torch}, but its report cannot be read: {error}"
            return Result(None, (Diagnostic("TS616", message, span, hint=f"read {slot.log}"),))
    shutil.rmtree(work, ignore_errors=True)
    return Result(make_lock(probed.value, "pip", archives))


class Bench:
    """One venv in the making, and its log."""

    def __init__(
        self,
        venv: Path,
        base: Path,
        work: Path,
        log: TextIO,
        log_file: Path,
        hold: int | None,
        side: str,
        on_event: OnEvent,
    ) -> None:
        self.venv, self.base, self.work, self.side = venv, base, work, side
        self.log, self.log_file, self.hold, self.on_event = log, log_file, hold, on_event
        self.python = venv / "bin" / "python"

    def run(self, argv: list[str]) -> PipRun:
        return pip.logged(argv, self.log, hold=self.hold, temporary=self.work, side=self.side, on_event=self.on_event)

    def make_venv(self, span: Span | None) -> Diagnostic | None:
        done = self.run([str(self.base), "-I", "-m", "venv", str(self.venv)])
        if done.ok and self.python.exists():
            return None
        notes = pip.last_words(done.lines)
        if shutil.disk_usage(self.work).free < NEARLY_FULL:  # ensurepip hides the reason
            message = f"the disk is full: no virtual environment could be made below `{self.venv.parent}`"
            hint = "free some space, or set TORCHSPEC_CACHE to a folder on a larger disk"
            return Diagnostic("TS615", message, span, hint=hint, notes=notes)
        hint = "on Debian and Ubuntu: `apt install python3-venv`; else use a Python with venv and ensurepip"
        return Diagnostic("TS620", "a virtual environment could not be made", span, hint=hint, notes=notes)

    def pip(self, *arguments: str) -> PipRun:
        common = ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
        return self.run([str(self.python), "-I", "-m", "pip", "install", *common, *arguments])

    def install(self, asked: list[str], index: list[str], report: Path, constraints: dict[str, str]) -> PipRun:
        """Install with constraints; those that torch's own requirements refuse are given up, round after round."""
        while True:
            held: list[str] = []
            if constraints:
                file = self.work / "constraints.txt"
                file.write_text("".join(f"{name}=={version}\n" for name, version in sorted(constraints.items())))
                held = ["--constraint", str(file)]
            done = self.pip(*index, *held, "--report", str(report), *asked)
            blamed = pip.blamed_constraints(done.lines) & constraints.keys() if not done.ok else set()
            if not blamed:
                return done
            self.log.write(f"# the baseline's {', '.join(sorted(blamed))} cannot be kept here\n")
            constraints = {name: version for name, version in constraints.items() if name not in blamed}
