"""Evidence on disk: canonical JSON, digests, and the append-only hash-chained ledger that `docs/evidence.md` describes.

One writer at a time; a record is one `write`. Bytes after the last newline (a record whose writer died) are kept in a
file beside the ledger before anything is added, and a `note` says so; a whole line that does not hold is refused, and
nothing is touched. Must not know what the records mean.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import json
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GENESIS = "0" * 64


class EvidenceError(Exception):
    """The ledger cannot be written or does not hold; the message says what to do."""


def canonical(value: Any) -> bytes:
    """`value` (JSON types only) as canonical JSON bytes. Raises ValueError on NaN or infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data`, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, 64 hex digits, read in blocks."""
    running = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            running.update(block)
    return running.hexdigest()


def plain(value: Any) -> Any:
    """`value` as JSON types that canonical JSON takes: floats that are not finite become "nan", "inf" or "-inf"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value if value is None or isinstance(value, (bool, int)) else str(value)


def seal(seq: int, time: str, run: str, kind: str, body: dict[str, Any], prev: str) -> dict[str, Any]:
    """A record with its hash: SHA-256 of the canonical JSON of the record without `hash`."""
    record = {"v": 1, "seq": seq, "time": time, "run": run, "kind": kind, "body": body, "prev": prev}
    return {**record, "hash": sha256_hex(canonical(record))}


def _checked(line: bytes, seq: int, prev: str) -> dict[str, Any] | None:
    """The record in `line` where it continues the chain, else None."""
    try:
        record = json.loads(line)
        body = {key: value for key, value in record.items() if key != "hash"}
        holds = record["seq"] == seq and record["prev"] == prev and record["hash"] == sha256_hex(canonical(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if holds else None


class Ledger:
    """`path` opened for appending by one run; `records` yields what it held when it was opened."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        #: The thread that is in the middle of a record, and what a signal handler wants raised once it is whole.
        self.writing: int | None = None
        self.pending: BaseException | None = None
        self.seq, self.head = 0, GENESIS
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            self._lock()
            torn, last_run = self._walk_to_end()
            if torn:
                aside = self._set_aside(torn)
                text = f"{len(torn)} bytes of a record that was being written were set aside"
                detail = {"file": aside.name, "sha256": sha256_hex(torn), "bytes": len(torn)}
                self._append("note", {"by": "harness", "text": text, "what": "torn tail", **detail}, last_run)
                self.sync()
        except BaseException:
            os.close(self._fd)
            raise

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EvidenceError(f"another run is writing {self.path.name}; wait until it has ended") from error

    def _walk_to_end(self) -> tuple[bytes, str]:
        """Follows the chain to its end: the bytes of a torn tail, and the last record's run ("r-none": there is none).

        Raises where a whole line does not hold, whichever it is: what was written whole and no longer holds was damaged
        later, and is not a record that was being written.
        """
        self._end, run = 0, "r-none"
        with open(self.path, "rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    return line, run
                record = _checked(line, self.seq, self.head)
                if record is None:
                    raise EvidenceError(
                        f"{self.path.name} does not hold at record {self.seq}: its content, its hash or its place in "
                        "the chain is wrong, so nothing can follow it. Put back a copy of the ledger that holds, or "
                        "keep this one as it is and choose another evidence folder"
                    )
                self._end += len(line)
                self.seq, self.head, run = self.seq + 1, record["hash"], record["run"]
        return b"", run

    def _set_aside(self, torn: bytes) -> Path:
        """Keeps the bytes of a torn tail in `ledger.torn-N`, and only then cuts them off the ledger."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.stem}.torn-{number}")).exists():
            number += 1
        try:
            with aside.open("xb") as out:
                out.write(torn)
                out.flush()
                os.fsync(out.fileno())
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # the name is there for good before the bytes leave the ledger
            finally:
                os.close(folder)
            os.ftruncate(self._fd, self._end)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise self._full(error) from error
        return aside

    def records(self) -> Iterator[dict[str, Any]]:
        """Every whole record, in order."""
        with open(self.path, "rb") as stream:
            for line in stream:
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def append(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Adds one record. On a full disk nothing of it stays behind, and EvidenceError says so.

        A signal handler must not raise in the middle of it: it sets `pending` while `writing` is its thread.
        """
        self.writing = threading.get_ident()
        try:
            record = self._append(kind, body)
        finally:
            self.writing = None
        if self.pending is not None:
            stopped, self.pending = self.pending, None
            raise stopped
        return record

    def _append(self, kind: str, body: dict[str, Any], run: str | None = None) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")
        record = seal(self.seq, now, run or self.run, kind, plain(body), self.head)
        line = canonical(record) + b"\n"
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise self._full(error) from error
        self._end += len(line)
        self.seq, self.head = self.seq + 1, record["hash"]
        return record

    def _full(self, error: OSError) -> EvidenceError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return EvidenceError(
                f"no space left while writing evidence to {self.path.name}: free some and run again; "
                "what was written holds and is not measured twice"
            )
        return EvidenceError(f"cannot write evidence to {self.path.name}: {error.strerror}")

    def sync(self) -> None:
        """Returns when everything appended is on the disk."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._full(error) from error

    def close(self) -> None:
        os.close(self._fd)
