"""Runs a program so that nothing of it outlives torchspec, reads its output line by line, and passes Ctrl-C on.

Used by `provision` (pip) and `execute` (harnesses). Must not know what the program is for, and must not print.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

GUARD = Path(__file__).with_name("guard.py")
LINE_LIMIT = 64 * 1024
#: How long a program may take to end after it was told that its time is over.
GRACE_S = 20.0

OnLine = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended. `exit` is its status, or None when signal number `signal` ended it.

    `interrupted`: Ctrl-C or SIGTERM reached torchspec meanwhile. `timed_out`: its time was over. `killed` counts
    descendants that had to be killed, `left` holds those that could not be. `error`: it could not be started, or its
    guard was lost.
    """

    exit: int | None
    signal: int | None
    wall_s: float
    interrupted: bool = False
    timed_out: bool = False
    killed: int = 0
    left: tuple[int, ...] = ()
    error: str | None = None


class _Lines:
    """Bytes in, lines out. A line beyond LINE_LIMIT is cut there and its rest dropped."""

    def __init__(self, name: str, on_line: OnLine) -> None:
        self._name, self._on_line = name, on_line
        self._held = bytearray()
        self._dropping = False

    def feed(self, data: bytes) -> None:
        for index, piece in enumerate(data.split(b"\n")):
            if index:
                self.flush()
                self._dropping = False
            if self._dropping:
                continue
            self._held += piece[: LINE_LIMIT - len(self._held)]
            if len(self._held) >= LINE_LIMIT:
                self.flush()
                self._dropping = True

    def flush(self) -> None:
        if self._held:
            line = bytes(self._held)
            self._held.clear()
            self._on_line(self._name, line)


class _Signals:
    """While inside: the first SIGINT or SIGTERM is passed on, the second one kills. Only the main thread can."""

    def __init__(self, interrupt: Callable[[], None], kill: Callable[[], None]) -> None:
        self._interrupt, self._kill = interrupt, kill
        self._before: dict[int, Any] = {}
        self.seen = 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.seen += 1
        (self._interrupt if self.seen == 1 else self._kill)()

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Control:
    """The pipe to the guard."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def interrupt(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, b"i")

    def kill(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def run(
    argv: Sequence[str],
    on_line: OnLine,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit_s: float | None = None,
    grace_s: float = GRACE_S,
    hold: int | None = None,
) -> Ending:
    """Run `argv` to its end; `on_line(stream, line)` gets each line ("out" or "err", without the newline).

    `limit_s` is the time it may take; then it is interrupted, and killed `grace_s` later. `hold` is a file descriptor
    (a lock) that stays open until the last process of the program has gone, even when torchspec is killed. An exception
    of `on_line` kills the program and is raised again.
    """
    control_read, control_write = os.pipe()
    report_read, report_write = os.pipe()
    command = [sys.executable, "-I", "-S", str(GUARD), str(control_read), str(report_write), "--", *argv]
    passed = [control_read, report_write] + ([hold] if hold is not None else [])
    began = time.monotonic()
    control = _Control(control_write)
    report = bytearray()
    timed_out = False
    with _Signals(control.interrupt, control.kill) as signals:
        try:
            guard = _start(command, env, cwd, passed)
        except OSError as error:
            control.kill()
            os.close(report_read)
            return Ending(None, None, 0.0, error=f"{type(error).__name__}: {error}")
        finally:
            os.close(control_read)
            os.close(report_write)
        try:
            timed_out = _pump(guard, report_read, report, on_line, control, began, limit_s, grace_s)
        finally:
            control.kill()
            guard.wait()
            while chunk := os.read(report_read, 4096):
                report += chunk
            os.close(report_read)
            for stream in (guard.stdout, guard.stderr):
                if stream is not None:
                    stream.close()
    interrupted = signals.seen > 0
    try:
        told = json.loads(report)
    except ValueError:
        told = {"exit": None, "signal": None, "error": "the process that guarded it was killed"}
    return Ending(
        told["exit"],
        told["signal"],
        time.monotonic() - began,
        interrupted,
        timed_out,
        told.get("killed", 0),
        tuple(told.get("left", ())),
        told["error"],
    )


def _start(
    command: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, passed: Sequence[int]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        cwd=cwd,
        pass_fds=passed,
        start_new_session=True,
    )


def _pump(
    guard: subprocess.Popen[bytes],
    report_read: int,
    report: bytearray,
    on_line: OnLine,
    control: _Control,
    began: float,
    limit_s: float | None,
    grace_s: float,
) -> bool:
    """Read until the guard has reported. Returns whether the time limit was reached."""
    assert guard.stdout is not None
    assert guard.stderr is not None
    lines = {guard.stdout.fileno(): _Lines("out", on_line), guard.stderr.fileno(): _Lines("err", on_line)}
    for descriptor in lines:
        os.set_blocking(descriptor, False)
    open_ends = set(lines)
    deadline = None if limit_s is None else began + limit_s
    timed_out = False
    ended = False
    while not ended:
        ready, _, _ = select.select([*open_ends, report_read], [], [], 0.25)
        if report_read in ready:
            chunk = os.read(report_read, 4096)
            report += chunk
            ended = not chunk
        for descriptor in (d for d in list(open_ends) if d in ready or ended):
            if not _drain(descriptor, lines[descriptor], until_empty=ended):
                open_ends.discard(descriptor)
        if deadline is not None and time.monotonic() > deadline:
            if timed_out:
                control.kill()
                deadline = None
            else:
                timed_out = True
                control.interrupt()
                deadline = time.monotonic() + grace_s
    for line in lines.values():
        line.flush()
    return timed_out


def _drain(descriptor: int, lines: _Lines, until_empty: bool) -> bool:
    """Read what is there. False at the end of the stream."""
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        lines.feed(data)
        if not until_empty:
            return True
