"""Finds Python interpreters and asks them what they are. Installs nothing and imports no torch."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchspec.core.diagnostics import Diagnostic, Result, Span
from torchspec.model.plan import Place
from torchspec.supervise import Ending, run

ASKS = Path(__file__).with_name("asks.py")
MARK = b"torchspec-answer"
ASK_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Probed:
    """What an interpreter said of itself. `packages`: normal name -> {version, requires}."""

    python: str
    implementation: str
    platform: str
    executable_sha256: str | None
    in_venv: bool
    torch: str | None
    packages: dict[str, dict[str, Any]]
    markers: dict[str, str]


def span_of(place: Place | None) -> Span | None:
    """A plan's place as a diagnostic's span of one column."""
    return Span(place.file, place.line, place.column, place.line, place.column + 1) if place else None


def clean_env(extra: dict[str, str] | None = None) -> dict[str, str]:
    """The environment for another interpreter: ours without what would make it a different one."""
    dropped = {"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    return {**{k: v for k, v in os.environ.items() if k not in dropped}, **(extra or {})}


def describe(ending: Ending) -> str:
    """How a helper program ended, in a few words."""
    if ending.error:
        return ending.error
    if ending.timed_out:
        return "it did not answer in time"
    return f"it was ended by signal {ending.signal}" if ending.signal else f"it ended with status {ending.exit}"


def probe(python: Path, place: Place | None = None, *, limit_s: float = ASK_LIMIT_S) -> Result[Probed]:
    """Ask the interpreter at `python`. Errors: TS601 (not there), TS602 (cannot be run, or is no Python)."""
    span = span_of(place)
    if not python.exists():
        dangling = " (a link to something that is gone)" if python.is_symlink() else ""
        hint = 'give the path of an interpreter (`…/venv/bin/python`), or let torchspec make one: `torch "…"`'
        return _refused("TS601", f"there is no interpreter at `{python}`{dangling}", span, hint)
    if python.is_dir():
        inside = python / "bin" / "python"
        hint = f"name the interpreter in it: `{inside}`" if inside.exists() else "name the interpreter itself"
        return _refused("TS602", f"`{python}` is a folder, not an interpreter", span, hint)
    if not os.access(python, os.X_OK):
        return _refused("TS602", f"`{python}` may not be executed", span, f"chmod +x {python}")
    answers: list[bytes] = []
    words: list[str] = []

    def on_line(stream: str, line: bytes) -> None:
        if stream == "out" and line.startswith(MARK):
            answers.append(line[len(MARK) :])
        elif len(words) < 200:
            words.append(line.decode("utf-8", "replace"))

    ending = _ask(python, on_line, limit_s)
    if ending.interrupted:
        raise KeyboardInterrupt
    try:
        told = json.loads(answers[0])
        return Result(Probed(**told))
    except (IndexError, ValueError, TypeError):
        notes = tuple(w for w in words[-3:] if w.strip())
        hint = "it must be a Python of version 3.10 or later that starts on this machine"
        return Result(
            None, (Diagnostic("TS602", f"`{python}` cannot be run: {describe(ending)}", span, hint=hint, notes=notes),)
        )


def _ask(python: Path, on_line: Any, limit_s: float) -> Ending:
    """The script goes in as text (`-c`), so that the interpreter needs no access to torchspec's own files."""
    script = ASKS.read_text(encoding="utf-8")
    return run([str(python), "-I", "-c", script], on_line, env=clean_env(), limit_s=limit_s, grace_s=2.0)


def _refused(code: str, message: str, span: Span | None, hint: str) -> Result[Probed]:
    return Result(None, (Diagnostic(code, message, span, hint=hint),))


@dataclass(frozen=True, slots=True)
class Found:
    """An interpreter to make environments with, and its full version."""

    path: Path
    version: str
    platform: str


VERSION = (
    "import platform, sys, sysconfig; "
    "print('torchspec-answer' + platform.python_version() + ' ' + sysconfig.get_platform())"
)


def matches(version: str, wanted: str) -> bool:
    """Whether full version `version` is one of `wanted` ("3.12" takes 3.12.4, not 3.1)."""
    return version.split(".")[: wanted.count(".") + 1] == wanted.split(".")


def find_python(wanted: str | None, place: Place | None = None) -> Result[Found]:
    """An interpreter of version `wanted` ("3.12"): the running one where it fits, else from PATH.

    None takes the running one. Error: TS610.
    """
    tried: list[str] = []
    own = Path(getattr(sys, "_base_executable", None) or sys.executable)
    minor = ".".join(wanted.split(".")[:2]) if wanted else "3"
    names = dict.fromkeys((f"python{minor}", "python3", "python"))
    folders = [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    seen: set[Path] = set()
    for path in [own, *(folder / name for name in names for folder in folders)]:
        if path in seen or not os.access(path, os.X_OK) or path.is_dir():
            continue
        seen.add(path)
        said = _version(path)
        if isinstance(said, Found) and (wanted is None or matches(said.version, wanted)):
            return Result(said)
        tried.append(f"{path}: {said.version if isinstance(said, Found) else said}")
    message = f"there is no Python {wanted or '3'} on this machine"
    hint = f'install it so that `python{wanted or 3}` is on PATH, or name an interpreter that has torch: `python "…"`'
    notes = tuple(f"tried {one}" for one in tried[:8])
    return Result(None, (Diagnostic("TS610", message, span_of(place), hint=hint, notes=notes),))


def _version(path: Path) -> Found | str:
    answers: list[str] = []

    def on_line(stream: str, line: bytes) -> None:
        if stream == "out" and line.startswith(MARK):
            answers.extend(line[len(MARK) :].decode("ascii", "replace").split())

    ending = run([str(path), "-I", "-c", VERSION], on_line, env=clean_env(), limit_s=20.0, grace_s=1.0)
    if ending.interrupted:
        raise KeyboardInterrupt
    return Found(path, answers[0], answers[1]) if len(answers) == 2 else f"cannot be run ({describe(ending)})"
