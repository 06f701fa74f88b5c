"""Appends to a ledger: one writer at a time, each record whole on the disk before the next, nothing half-written kept.

A record that cannot be written completely (a full disk, an error of the device) is taken back by truncating the file to
where it ended before. What a killed writer left behind (bytes after the last newline) is set aside in a file of its own
before anything is added, and a note in the ledger says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from torchspec.core.canon import canonical, sha256_hex
from torchspec.core.diagnostics import Diagnostic
from torchspec.ledger.errors import LedgerError, cannot
from torchspec.ledger.read import last_record
from torchspec.model.evidence import GENESIS, VERSION, Record

#: How long to wait for another writer.
PATIENCE_S = 10.0


def now() -> str:
    """The present time as records have it: UTC, ISO 8601, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def encode(seq: int, when: str, run: str, kind: str, body: Mapping[str, Any], prev: str) -> tuple[bytes, str]:
    """The line (with its newline) and the hash of a record. Raises ValueError where the body is not JSON."""
    record = {
        "v": VERSION,
        "seq": seq,
        "time": when,
        "run": run,
        "kind": kind,
        "body": dict(body),
        "prev": prev,
    }
    digest = sha256_hex(canonical(record))
    return canonical({**record, "hash": digest}) + b"\n", digest


@dataclass(frozen=True, slots=True)
class Torn:
    """A torn tail that was set aside: where to, its size in bytes, its digest, the record number it would have had."""

    file: Path
    size: int
    sha256: str
    seq: int


class Writer:
    """The only writer of a ledger while it is open (a context manager).

    Opening waits for another writer (`patience_s`), makes the file and its folder where they are missing, checks the
    last record and sets a torn tail aside (`torn`). Raises LedgerError.
    """

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        self.path = path
        self.torn: Torn | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise cannot("write", path, error) from error
        try:
            self._lock(patience_s)
            self._find_end()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.sync()
        finally:
            os.close(self._descriptor)

    def _lock(self, patience_s: float) -> None:
        end = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    message = f"another program is writing `{self.path}`"
                    hint = "wait until the other run has ended, or stop it"
                    raise LedgerError(Diagnostic("TS708", message, hint=hint)) from None
                time.sleep(0.02)
            except OSError as error:
                raise cannot("lock", self.path, error) from error

    def _find_end(self) -> None:
        with os.fdopen(os.dup(self._descriptor), "rb") as stream:
            last, self._end = last_record(self.path, stream)
            self.seq = last.seq + 1 if last else 0
            self.head = last.hash if last else GENESIS
            self._unsynced = False
            size = os.fstat(self._descriptor).st_size
            if size > self._end:
                self.torn = self._set_aside(stream, size)
            elif size == 0:
                _sync_folder(self.path.parent)
        if self.torn:
            text = f"{self.torn.size} bytes of a record that was being written were set aside"
            detail = {"file": self.torn.file.name, "sha256": self.torn.sha256, "bytes": self.torn.size}
            run = last.run if last else "r-none"
            self.append(run, "note", {"by": "torchspec", "text": text, "what": "torn tail", **detail})

    def _set_aside(self, stream: BinaryIO, size: int) -> Torn:
        stream.seek(self._end)
        data = stream.read(size - self._end)
        number = 1
        while (aside := self.path.with_name(f"{self.path.stem}.torn-{number}")).exists():
            number += 1
        try:
            with aside.open("xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            _sync_folder(self.path.parent)
            os.ftruncate(self._descriptor, self._end)
            os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise cannot("set the torn tail aside in", aside, error) from error
        return Torn(aside, len(data), sha256_hex(data), self.seq)

    def append(
        self, run: str, kind: str, body: Mapping[str, Any], *, when: str | None = None, sync: bool = True
    ) -> Record:
        """Add one record; with `sync` it is on the disk when this returns. Raises LedgerError; then nothing was added.

        `when` is the time of the record where that is not now (evidence taken in from elsewhere keeps its own).
        Raises ValueError where `body` holds what JSON cannot (a float that is not finite).
        """
        when = when or now()
        line, digest = encode(self.seq, when, run, kind, body, self.head)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            if sync:
                os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise cannot("write", self.path, error) from error
        record = Record(self.seq, when, run, kind, dict(body), self.head, digest)
        self._end += len(line)
        self.seq, self.head = self.seq + 1, digest
        self._unsynced = not sync
        return record

    def sync(self) -> None:
        """Everything added so far is on the disk when this returns. Raises LedgerError."""
        if self._unsynced:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise cannot("write", self.path, error) from error
            self._unsynced = False


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system lets a folder be synced
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def append(path: Path, run: str, kind: str, body: Mapping[str, Any]) -> Record:
    """Add one record under the lock, on the disk when this returns. Raises LedgerError, and then nothing was added."""
    with Writer(path) as writer:
        return writer.append(run, kind, body)


def recover(path: Path) -> Torn | None:
    """Set a torn tail aside, if there is one. A ledger that does not exist stays so. Raises LedgerError."""
    if not path.exists():
        return None
    with Writer(path) as writer:
        return writer.torn
