"""One run at a time in an evidence folder, and what a program says kept in a log of bounded size."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from torchspec.core.diagnostics import Diagnostic

LOCK = ".run.lock"
LOG_LIMIT = 32 * 1024 * 1024


class Busy(Exception):
    """Another run has the folder; `diagnostic` says which."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@contextlib.contextmanager
def only_run(evidence: Path, run: str) -> Iterator[int]:
    """Hold the folder for `run`; the value is the lock's file descriptor. Raises Busy, or OSError.

    The lock is the system's own: it ends with the last process that holds it, however that ends.
    """
    evidence.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(evidence / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(_busy(evidence, descriptor)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"run": run, "pid": os.getpid()}).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _busy(evidence: Path, descriptor: int) -> Diagnostic:
    try:
        other = json.loads(os.pread(descriptor, 4096, 0))
        who = f" (run {other['run']}, process {other['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        who = ""
    message = f"another run is measuring into `{evidence}`{who}"
    return Diagnostic("TS631", message, hint="wait until it has ended, or stop it with Ctrl-C where it runs")


class Log:
    """A log that stops growing at LOG_LIMIT bytes, and says so. A disk that is full does not stop the run for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: BinaryIO = path.open("ab")
        self._room = LOG_LIMIT

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()

    def line(self, data: bytes) -> None:
        if self._room <= 0:
            return
        self._room -= len(data) + 1
        with contextlib.suppress(OSError):
            self._stream.write(data + b"\n")
            if self._room <= 0:
                self._stream.write(b"(more was said; the log ends here)\n")
            self._stream.flush()
