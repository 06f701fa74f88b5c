"""Reads and verifies a ledger as a stream: memory does not grow with the number of records. Writes nothing."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchspec.core.canon import canonical, sha256_hex
from torchspec.core.diagnostics import Diagnostic, Severity
from torchspec.ledger import upgrade
from torchspec.ledger.errors import LedgerError, at_line, cannot
from torchspec.model.bodies import line_error
from torchspec.model.evidence import GENESIS, VERSION, Record

#: A longer line is not a record.
LINE_LIMIT = 64 * 1024 * 1024
MAX_PROBLEMS = 20
FIELDS = frozenset({"v", "seq", "time", "run", "kind", "body", "prev", "hash"})


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """What `verify` found. `head` is the hash of the last whole record (64 zeros when there is none).

    `problems` are root causes in order, at most MAX_PROBLEMS; `more` counts the rest. `torn_tail` is the number of
    bytes after the last whole line: a record that was being written when its writer died, no part of the evidence and
    no problem of what is there; `warnings` says so.
    """

    count: int
    head: str
    problems: tuple[Diagnostic, ...]
    torn_tail: int
    more: int = 0
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


def parse_line(line: bytes) -> Record:
    """One line (without its newline) as a record. Raises ValueError, in words for people, where it is none.

    The line must be the canonical JSON of a record; its hash is checked, its place in the chain and its body are not.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict) or value.keys() != FIELDS:
        raise ValueError("it is not a record with the fields " + ", ".join(sorted(FIELDS)))
    if not upgrade.readable(value["v"]):
        raise ValueError(upgrade.unreadable(value["v"]))
    texts = ("time", "run", "kind", "prev", "hash")
    if (
        type(value["seq"]) is not int
        or not isinstance(value["body"], dict)
        or any(type(value[t]) is not str for t in texts)
    ):
        raise ValueError("its fields do not have the types of a record")
    try:
        if canonical(value) != line:
            raise ValueError("it is not in canonical form (keys in order, no spaces, no key twice)")
        stated = value.pop("hash")
        actual = sha256_hex(canonical(value))
    except (ValueError, RecursionError) as error:
        raise ValueError(str(error) or "it is nested too deeply") from None
    if actual != stated:
        raise Changed(f"its content gives the hash {actual[:12]}…, it states {stated[:12]}…", value["seq"], stated)
    body = upgrade.upgraded(value["v"], value["kind"], value["body"])
    return Record(value["seq"], value["time"], value["run"], value["kind"], body, value["prev"], stated)


class Changed(ValueError):
    """A record whose content does not give its hash; `seq` and `stated` are what it says of itself."""

    def __init__(self, message: str, seq: int, stated: str) -> None:
        super().__init__(message)
        self.seq, self.stated = seq, stated


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines with their newline; the last one may lack it; one beyond the limit comes as its first LINE_LIMIT bytes."""
    while line := stream.readline(LINE_LIMIT):
        yield line
        if len(line) == LINE_LIMIT and not line.endswith(b"\n"):
            while (rest := stream.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
                pass


def _open(path: Path) -> BinaryIO:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise LedgerError(Diagnostic("TS702", f"cannot read `{path}`: it is not a regular file"))
        return path.open("rb")
    except OSError as error:
        raise cannot("read", path, error) from error


def read(path: Path) -> Iterator[Record]:
    """The records in order, each checked against the chain; a torn tail is not a record and is left out.

    Raises LedgerError at the first line that is not what the chain says. A ledger that does not exist has no records.
    """
    if not path.exists():
        return
    seq, prev = 0, GENESIS
    with _open(path) as stream:
        try:
            for line in _lines(stream):
                if not line.endswith(b"\n") and len(line) < LINE_LIMIT:
                    return
                problem, record = _check(path, line, seq, prev)
                if record is None or problem is not None:
                    assert problem is not None
                    raise LedgerError(problem)
                yield record
                seq, prev = seq + 1, record.hash
        except OSError as error:
            raise cannot("read", path, error) from error


def _check(path: Path, line: bytes, seq: int, prev: str) -> tuple[Diagnostic | None, Record | None]:
    """One line against the place it stands in. A record that is only misplaced comes back with its problem."""
    place = at_line(path, seq + 1)
    if not line.endswith(b"\n"):
        return Diagnostic("TS705", f"record {seq} is longer than {LINE_LIMIT >> 20} MiB", place), None
    try:
        record = parse_line(line[:-1])
    except Changed as error:
        hint = "restore the ledger from a copy; evidence that was changed cannot be judged"
        return Diagnostic(
            "TS703", f"record {error.seq} was changed after it was written: {error}", place, hint=hint
        ), None
    except ValueError as error:
        return Diagnostic("TS705", f"line {seq + 1} is not a record of evidence: {error}", place), None
    if record.seq != seq or record.prev != prev:
        return Diagnostic("TS704", _misplaced(record, seq, prev), place), record
    return None, record


def _misplaced(record: Record, seq: int, prev: str) -> str:
    if record.seq > seq:
        last = record.seq - 1
        return f"record {seq} is missing" if last == seq else f"records {seq} to {last} are missing"
    if record.seq < seq:
        return f"record {record.seq} stands where record {seq} belongs (doubled or out of order)"
    before = "the start of a ledger" if seq == 0 else f"record {seq - 1}"
    return f"record {seq} does not follow {before}: it names {record.prev[:12]}… before it, there stands {prev[:12]}…"


def verify(path: Path, *, bodies: bool = True) -> LedgerReport:
    """Check the whole ledger: sequence, chain, hashes, and with `bodies` each body against its kind.

    Goes on after a problem, so that each root cause is named once. Raises LedgerError only where the file cannot be
    read; a ledger that does not exist is empty.
    """
    problems: list[Diagnostic] = []
    count, more, torn = 0, 0, 0
    seq, prev = 0, GENESIS
    said: tuple[Diagnostic, ...] = ()

    def found(problem: Diagnostic) -> None:
        nonlocal more
        if len(problems) < MAX_PROBLEMS:
            problems.append(problem)
        else:
            more += 1

    if not path.exists():
        return LedgerReport(0, GENESIS, (), 0)
    with _open(path) as stream:
        try:
            for number, line in enumerate(_lines(stream), 1):
                if not line.endswith(b"\n") and len(line) < LINE_LIMIT:
                    torn = len(line)
                    break
                count += 1
                problem, record = _check(path, line, seq, prev)
                if problem is not None:
                    at = at_line(path, number)
                    found(Diagnostic(problem.code, problem.message, at, hint=problem.hint))
                if record is None:
                    prev = _stated_hash(line) or prev
                    seq += 1
                    continue
                if bodies and problem is None and (wrong := _body_error(record)):
                    found(Diagnostic("TS706", f"record {record.seq} ({record.kind}): {wrong}", at_line(path, number)))
                seq, prev = record.seq + 1, record.hash
        except OSError as error:
            raise cannot("read", path, error) from error
    if torn:
        message = f"the last {torn} bytes are a record that was being written when its writer ended"
        hint = "`torchspec run` sets them aside and goes on; no complete record is lost"
        said = (Diagnostic("TS707", message, at_line(path, count + 1), hint=hint, severity=Severity.WARNING),)
    return LedgerReport(count, prev, tuple(problems), torn, more, said)


def _stated_hash(line: bytes) -> str | None:
    """The hash that a damaged record states, so that the record after it is not blamed too."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    stated = value.get("hash") if isinstance(value, dict) else None
    return stated if isinstance(stated, str) else None


def _body_error(record: Record) -> str | None:
    return line_error(
        {
            "v": VERSION,
            "seq": record.seq,
            "time": record.time,
            "run": record.run,
            "kind": record.kind,
            "body": record.body,
            "prev": record.prev,
            "hash": record.hash,
        }
    )


def head(path: Path) -> str:
    """The hash of the last whole record, 64 zeros where there is none. Reads only the end; checks that record alone."""
    if not path.exists():
        return GENESIS
    with _open(path) as stream:
        last, _ = last_record(path, stream)
    return last.hash if last else GENESIS


def last_record(path: Path, stream: BinaryIO) -> tuple[Record | None, int]:
    """The last whole record and the offset where it ends. Raises LedgerError where the last line is no record."""
    try:
        size = stream.seek(0, os.SEEK_END)
        end = _last_newline(stream, size) + 1
        begin = _last_newline(stream, end - 1) + 1 if end else 0
        if end == 0:
            return None, 0
        if end - begin > LINE_LIMIT:
            raise LedgerError(Diagnostic("TS705", f"the last line of `{path}` is longer than {LINE_LIMIT >> 20} MiB"))
        stream.seek(begin)
        line = stream.read(end - begin)
    except OSError as error:
        raise cannot("read", path, error) from error
    try:
        return parse_line(line[:-1]), end
    except ValueError as error:
        message = f"the last record of `{path}` does not hold, so nothing can follow it: {error}"
        hint = "`torchspec ledger verify` names each damaged record; restore the ledger from a copy"
        raise LedgerError(Diagnostic("TS703", message, hint=hint)) from None


def _last_newline(stream: BinaryIO, before: int) -> int:
    """The offset of the last newline that stands before offset `before`, or -1."""
    block = 1 << 16
    while before > 0:
        begin = max(0, before - block)
        stream.seek(begin)
        at = stream.read(before - begin).rfind(b"\n")
        if at >= 0:
            return begin + at
        before = begin
    return -1
