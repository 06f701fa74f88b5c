"""Runs pip in an environment, keeps its log, and turns its failures into diagnostics.

pip reads the user's own configuration (pip.conf, PIP_*). Neither the log nor a diagnostic nor a lock holds an index
address or the place of a local package: an archive is known by its file name and its SHA-256.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from torchspec.core.diagnostics import Diagnostic, Span
from torchspec.provision.interpreters import clean_env, describe
from torchspec.supervise import Ending, run

OnEvent = Callable[[dict[str, Any]], None]

#: Settings of the user's that would install somewhere else, or nothing at all.
DROPPED = frozenset({"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_DRY_RUN", "PIP_REPORT", "PIP_REQUIREMENT",
                     "PIP_REQUIRE_VIRTUALENV", "PIP_PYTHON", "PIP_QUIET", "PIP_VERBOSE", "PIP_LOG"})  # fmt: skip

_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>(),]+", re.IGNORECASE)
_PLACE = re.compile(r"^(\s*)(Looking in (?:indexes|links):).*$")
_LOCAL = re.compile(
    r"^(\s*(?:Processing|Obtaining|Using cached|Downloading|Saved|Link requires).*?)\s\.{0,2}/(?:\S*/)?(\S+)"
)


def redact(line: str) -> str:
    """A line of pip without addresses of indexes and without the folders of local archives."""
    line = _PLACE.sub(r"\1\2 (not recorded)", line)
    line = _URL.sub(lambda match: "…/" + (unquote(urlsplit(match[0]).path.rstrip("/").rpartition("/")[2]) or "…"), line)
    return _LOCAL.sub(r"\1 \2", line)


@dataclass(frozen=True, slots=True)
class PipRun:
    """How pip ended, and its last lines that say why (redacted)."""

    ending: Ending
    lines: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.ending.exit == 0 and not self.ending.interrupted


def logged(
    argv: Sequence[str], log: TextIO, *, hold: int | None, temporary: Path, side: str, on_event: OnEvent
) -> PipRun:
    """Run a command, stream its redacted output to `log` and its progress to `on_event`. Raises KeyboardInterrupt."""
    kept: list[str] = []
    log.write("$ " + " ".join(Path(a).name if os.sep in a else redact(a) for a in argv) + "\n")

    def on_line(_: str, raw: bytes) -> None:
        line = redact(raw.decode("utf-8", "replace").rstrip())
        log.write(line + "\n")
        log.flush()
        kept.append(line)
        del kept[:-200]
        if what := progress_of(line):
            on_event({"event": "doing", "what": what, "side": side})

    env = {k: v for k, v in clean_env({"TMPDIR": str(temporary), "PIP_NO_INPUT": "1"}).items() if k not in DROPPED}
    ending = run(argv, on_line, env=env, hold=hold, grace_s=10.0)
    log.write(f"# {describe(ending)} after {ending.wall_s:.1f} s\n")
    log.flush()
    if ending.interrupted:
        raise KeyboardInterrupt
    return PipRun(ending, tuple(kept))


def progress_of(line: str) -> str | None:
    """The few lines of pip that tell a waiting person something, in their words."""
    text = line.strip()
    if match := re.match(r"(?:Downloading|Using cached) (\S+) \(([^)]+)\)", text):
        return f"fetching {match[1]} ({match[2]})"
    if match := re.match(r"Building wheels? for (?:collected packages: )?(.+)", text):
        return f"building {match[1]}"
    if text.startswith("Installing collected packages:"):
        return f"unpacking {text.count(',') + 1} packages"
    return None


def archives(report: Path) -> dict[str, dict[str, str | None]]:
    """What pip's report says was installed: normal name -> {"file", "sha256"}. Raises OSError, ValueError, KeyError."""
    found: dict[str, dict[str, str | None]] = {}
    for item in json.loads(report.read_text(encoding="utf-8"))["install"]:
        info = item["download_info"]
        archive: Mapping[str, Any] = info.get("archive_info") or {}
        sha256 = (archive.get("hashes") or {}).get("sha256")
        if sha256 is None and str(archive.get("hash", "")).startswith("sha256="):
            sha256 = archive["hash"].partition("=")[2]
        name = unquote(urlsplit(info["url"]).path.rstrip("/").rpartition("/")[2]) if archive else None
        commit = (info.get("vcs_info") or {}).get("commit_id")
        found[str(canonicalize_name(item["metadata"]["name"]))] = {"file": name or commit, "sha256": sha256}
    return found


def nearest(wanted: str, versions: Sequence[str]) -> list[str]:
    """Up to two versions below and two above `wanted`, in order; final ones unless `wanted` is a pre-release."""
    try:
        target = Version(wanted)
    except InvalidVersion:
        return list(versions[-3:])
    known = []
    for text in versions:
        try:
            known.append(Version(text))
        except InvalidVersion:
            continue
    known = sorted(v for v in set(known) if target.is_prerelease or not v.is_prerelease)
    below, above = [v for v in known if v < target], [v for v in known if v > target]
    return [str(v) for v in (*below[-2:], *above[:2])]


_NO_VERSION = re.compile(
    r"Could not find a version that satisfies the requirement ([^\s(]+).*?\(from versions: (.*?)\)"
)
_NETWORK = re.compile(
    r"NewConnectionError|Name or service not known|Temporary failure in name resolution|Connection refused|ProxyError"
    r"|Network is unreachable|ConnectTimeout|ReadTimeout|Read timed out|SSLError|CERTIFICATE_VERIFY_FAILED|Max retries",
    re.IGNORECASE,
)
_FULL = re.compile(r"No space left on device|Errno 28|Disk quota exceeded|Errno 122")
_CONSTRAINT = re.compile(r"The user requested \(constraint\) ([A-Za-z0-9._-]+)")


def blamed_constraints(lines: Sequence[str]) -> set[str]:
    """Names of constraints that pip says it cannot keep."""
    names = {match[1] for line in lines if (match := _CONSTRAINT.search(line))}
    names |= {re.split(r"[=<>!~;\[ ]", match[1])[0] for line in lines if (match := _NO_VERSION.search(line))}
    return {str(canonicalize_name(name)) for name in names}


def last_words(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines of pip's that say why, at most four."""
    told = [line.strip() for line in lines if line.strip()]
    errors = [line for line in told if line.lstrip().upper().startswith("ERROR")]
    return tuple(f"pip: {line[:300]}" for line in (errors or told)[-4:])


def failure(run_: PipRun, what: str, torch: str | None, log: Path, span: Span | None) -> Diagnostic:
    """Why pip failed, as a diagnostic: TS611 to TS617."""
    text = "\n".join(run_.lines)
    notes = (*last_words(run_.lines), f"pip's whole output is in {log}")
    missing = _NO_VERSION.search(text)
    if _FULL.search(text):
        hint = "free some space (an environment takes 1 to 8 GB), or set TORCHSPEC_CACHE to a folder on a larger disk"
        return Diagnostic("TS615", f"the disk is full: {what} could not be installed", span, hint=hint, notes=notes)
    network = _NETWORK.search(text) is not None
    if missing and not (network and missing[2].strip() in ("", "none")):
        name, _, wanted = missing[1].partition("==")
        known = [v.strip() for v in missing[2].split(",") if v.strip() not in ("", "none")]
        code = "TS611" if canonicalize_name(name) == "torch" else "TS612"
        if known:
            near = ", ".join(nearest(wanted, known)) or ", ".join(known[-3:])
            hint = f"nearest: {near}"
            message = f"no {name} {wanted} is available for this Python and machine"
            return Diagnostic(code, message, span, hint=hint, notes=notes)
        message = f"no version of {name} at all is available for this Python and machine"
        hint = "look at pip's configuration (`pip config list`) and at the Python version"
        return Diagnostic(code, message, span, hint=hint, notes=notes)
    if network:
        hint = "check the network and pip's configuration (`pip config list`), then run again"
        return Diagnostic(
            "TS614", f"the package index cannot be reached: {what} was not installed", span, hint=hint, notes=notes
        )
    if "THESE PACKAGES DO NOT MATCH THE HASHES" in text or "hashes are required" in text.lower():
        hint = "an archive was replaced since the lock was made: find out why before you trust it"
        return Diagnostic("TS617", f"an archive of {what} is not the one in the lock", span, hint=hint, notes=notes)
    if "ResolutionImpossible" in text or "conflicting dependencies" in text:
        hint = "change the versions in `frozen { package … }` so that they suit this torch"
        return Diagnostic("TS613", f"the frozen packages do not go with {what}", span, hint=hint, notes=notes)
    message = f"pip could not install {what}: {describe(run_.ending)}"
    return Diagnostic("TS616", message, span, hint=f"read {log}", notes=notes)
