"""Takes in evidence that the emitted harness wrote on another machine: checked, marked with its origin, never twice.

Each record keeps its time, run, kind and body; the body gains `origin`, its number and hash in the ledger it comes
from. Numbers that point to other records (`control.timing`, `note.about`) become the numbers here. A note before them
says what was taken in, and when. The other ledger is kept beside ours, byte for byte, and so are the logs and files
of canaries that it names.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from torchspec.core.canon import file_digest
from torchspec.core.diagnostics import Diagnostic, Result, Severity
from torchspec.ledger.errors import LedgerError, at_line, cannot
from torchspec.ledger.read import read, verify
from torchspec.ledger.write import Writer
from torchspec.model.evidence import Record

LEDGER = "ledger.jsonl"


@dataclass(frozen=True, slots=True)
class Taken:
    """What `ingest` did: `runs` of the other ledger, records `added`, records that were here `already`."""

    runs: tuple[str, ...]
    added: int
    already: int
    head: str  # of the other ledger


def identity(record: Record) -> str:
    """The hash under which a record was first written, wherever it has been taken in since."""
    origin = record.body.get("origin")
    return str(origin["hash"]) if isinstance(origin, dict) and "hash" in origin else record.hash


def ingest(
    folder: Path, plan_digest: str, harness_digests: Mapping[str, str], into: Path, served: Collection[str] = ()
) -> Result[Taken]:
    """Take the evidence in `folder` into the evidence folder `into`.

    Its chain must hold, and each of its runs must name the plan `plan_digest` and, for its backend, the harness in
    `harness_digests` (backend -> SHA-256). A run that took in a canary's files names none, and may speak of the cells
    in `served` (ids) and of no other. Nothing is taken in otherwise (TS711 to TS716, TS718). The same evidence twice is
    the same evidence; a ledger that has grown since adds what is new. Also TS701 to TS708 where one cannot be used.
    """
    source = folder / LEDGER
    if source.exists() and (into / LEDGER).exists() and source.samefile(into / LEDGER):
        message = f"`{folder}` is this plan's own evidence folder"
        return Result(None, (Diagnostic("TS711", message, hint="name the folder with the evidence from elsewhere"),))
    try:
        with _quiet(source):
            found = _examine(source, plan_digest, harness_digests, served)
            if isinstance(found, Diagnostic):
                return Result(None, (found,))
            return _take(source, found, into)
    except LedgerError as error:
        return Result(None, (error.diagnostic,))


@contextmanager
def _quiet(source: Path) -> Iterator[None]:
    """While inside, no harness writes the other ledger. Raises LedgerError."""
    if not source.is_file():
        message = f"there is no evidence in `{source.parent}`: it has no {LEDGER}"
        hint = "name the folder that was given to the harness as --evidence"
        raise LedgerError(Diagnostic("TS711", message, hint=hint))
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise cannot("read", source, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        message = f"a harness is still writing `{source}`"
        raise LedgerError(Diagnostic("TS708", message, hint="wait until its run has ended")) from None
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Examined:
    runs: tuple[str, ...]
    hashes: frozenset[bytes]
    head: str
    said: tuple[Diagnostic, ...]


def _examine(source: Path, plan: str, harnesses: Mapping[str, str], served: Collection[str]) -> _Examined | Diagnostic:
    """Hold the other ledger against the plan and the harnesses; why it is refused, or what is in it."""
    report = verify(source)
    if report.problems:
        first = report.problems[0]
        message = f"the evidence in `{source.parent}` does not hold: {first.message}"
        return Diagnostic("TS712", message, first.span, hint="copy it again from where it was measured")
    if not report.count:
        message = f"there is no evidence in `{source.parent}`: its ledger is empty"
        return Diagnostic("TS711", message, hint="run the harness's `pair` there first")
    runs: list[str] = []
    canaries: set[str] = set()
    hashes: set[bytes] = set()
    for record in read(source):
        hashes.add(bytes.fromhex(identity(record)))
        place = at_line(source, record.seq + 1)
        if record.kind == "run.start":
            body, backend = record.body, str(record.body["backend"])
            if body["plan"] != plan:
                message = f"run {record.run} measured the plan {body['plan'][:12]}…, not this one ({plan[:12]}…)"
                hint = "compile the spec that it measured, or measure again with the harness of this one"
                return Diagnostic("TS713", message, place, hint=hint)
            if body.get("harness") is None and body.get("canary") is not None:  # no harness ran: files were taken in
                runs.append(record.run)
                canaries.add(record.run)
                continue
            canaries.discard(record.run)
            harness = body.get("harness") or {"sha256": "no harness", "backend": None}
            stated = harness["sha256"]
            if harnesses.get(backend) != stated or harness["backend"] != backend:
                mine = harnesses.get(backend)
                this = f"the one compiled is {mine[:12]}…" if mine else f"no harness for {backend} was compiled"
                message = f"run {record.run} was measured by the harness {stated[:12]}… for {backend}; {this}"
                return Diagnostic(
                    "TS714", message, place, hint="measure again with the harness file of this compilation"
                )
            runs.append(record.run)
        elif record.run not in runs and record.kind != "note":
            message = f"record {record.seq} belongs to run {record.run}, which never began"
            return Diagnostic("TS716", message, place, hint="copy the whole ledger from where it was measured")
        if record.run in canaries and not _of_a_service(record, served):
            cell = record.body.get("cell")
            what = f"a `{record.kind}` of {cell}" if cell else f"a `{record.kind}`"
            message = f"run {record.run} took in files of a service, without a harness, and holds {what}"
            hint = "only a harness gives that: measure it with the harness of this compilation"
            return Diagnostic("TS718", message, place, hint=hint)
    return _Examined(tuple(dict.fromkeys(runs)), frozenset(hashes), report.head, report.warnings)


def _of_a_service(record: Record, served: Collection[str]) -> bool:
    """Whether a run that only took in a canary's files may hold this record."""
    if record.kind in ("sample", "cell.done"):
        return record.body.get("cell") in served
    return record.kind in ("run.start", "note", "run.end")


def _take(source: Path, found: _Examined, into: Path) -> Result[Taken]:
    target = into / LEDGER
    with Writer(target) as writer:
        here: dict[bytes, int] = {}
        for record in read(target):
            known = bytes.fromhex(identity(record))
            if known in found.hashes:
                here[known] = record.seq
            elif record.run in found.runs and not _is_ours(record):
                message = f"run {record.run} is in the ledger already, with records that `{source.parent}` lacks"
                hint = "one of the two was cut or rewritten: find out which, and take in the whole one"
                return Result(None, (Diagnostic("TS715", message, at_line(target, record.seq + 1), hint=hint),))
        already = len(here)
        said = list(found.said)
        if already < len(found.hashes):
            said += _keep(source, found.head, into)
            _announce(writer, source, found)
        numbers: dict[int, int] = {}
        added = 0
        for record in read(source):
            known = bytes.fromhex(identity(record))
            if known not in here:
                body = {**_renumbered(record, numbers), "origin": _origin(record)}
                here[known] = writer.append(record.run, record.kind, body, when=record.time, sync=False).seq
                added += 1
            numbers[record.seq] = here[known]
    return Result(Taken(found.runs, added, already, found.head), tuple(said))


def _is_ours(record: Record) -> bool:
    """Whether a record is torchspec's own remark about a run, here or where it was taken in before."""
    return record.kind == "note" and record.body.get("by") == "torchspec"


def _origin(record: Record) -> dict[str, Any]:
    origin = record.body.get("origin")
    return dict(origin) if isinstance(origin, dict) else {"seq": record.seq, "hash": record.hash}


def _renumbered(record: Record, numbers: Mapping[int, int]) -> dict[str, Any]:
    """The body with numbers of other records as they are here."""
    body = dict(record.body)
    for kind, name in (("control", "timing"), ("note", "about")):
        if record.kind == kind and isinstance(body.get(name), list):
            body[name] = [numbers.get(number, number) for number in body[name]]
    return body


def _announce(writer: Writer, source: Path, found: _Examined) -> None:
    text = f"evidence of {', '.join(found.runs)} was taken in from another machine"
    about = {"head": found.head, "ledger": file_digest(source), "file": _kept_name(found.head)}
    writer.append(found.runs[0], "note", {"by": "torchspec", "what": "ingest", "text": text, "about": None, **about})


def _kept_name(head: str) -> str:
    return f"ingested/{head[:16]}.jsonl"


def _keep(source: Path, head: str, into: Path) -> list[Diagnostic]:
    """Copies of the other ledger and of the files that it names. One that is missing or unlike is a warning."""
    said = []
    try:
        kept = into / _kept_name(head)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, kept)
        for record in read(source):
            if record.kind == "run.start":
                said += _keep_canary(source.parent, record, into)
            log = record.body.get("log")
            if record.kind != "side.failed" or not isinstance(log, dict) or not log["sha256"]:
                continue
            place = _log_of(source.parent, record.run, str(log["file"]))
            if place is None or file_digest(source.parent / place) != log["sha256"]:
                message = f"the log `{log['file']}` of run {record.run} is missing or is not the one that was recorded"
                said.append(Diagnostic("TS717", message, severity=Severity.WARNING, hint="copy the folder `logs` too"))
                continue
            (into / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.parent / place, into / place)
    except OSError as error:
        raise cannot("write", into, error) from error
    return said


def _keep_canary(folder: Path, start: Record, into: Path) -> list[Diagnostic]:
    """Copies of a canary's files, by their digests."""
    said = []
    for file in (start.body.get("canary") or {}).get("files") or ():
        place, sha256 = PurePosixPath(str(file["kept"])), str(file["sha256"])
        own = folder / place
        inside = place == PurePosixPath("canary") / f"{sha256[:16]}.json" and own.is_file()
        if not inside or not own.resolve().is_relative_to(folder.resolve()) or file_digest(own) != sha256:
            message = f"the file `{file['file']}` of run {start.run} is missing or is not the one that was recorded"
            said.append(Diagnostic("TS717", message, severity=Severity.WARNING, hint="copy the folder `canary` too"))
            continue
        (into / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own, into / place)
    return said


def _log_of(folder: Path, run: str, name: str) -> PurePosixPath | None:
    """A log's place below `folder`, as recorded or in the run's own folder; None where it is no plain file there."""
    for place in (PurePosixPath(name), PurePosixPath("logs") / run / name):
        inside = not place.is_absolute() and ".." not in place.parts and place.parts[:1] == ("logs",)
        file = folder / place
        if inside and file.is_file() and file.resolve().is_relative_to(folder.resolve()):
            return place
    return None


def runs_in(path: Path) -> Collection[str]:
    """The runs that a ledger knows, in order of their beginning."""
    return tuple(dict.fromkeys(record.run for record in read(path) if record.kind == "run.start"))
