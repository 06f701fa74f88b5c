"""Stands between torchspec and a program, so that nothing of the program outlives torchspec.

Run as a file of its own (`python -I -S guard.py CONTROL REPORT -- ARGV…`); standard library only, imports nothing of
torchspec. CONTROL is the reading end of a pipe: the byte `i` sends SIGINT to the program, its end (torchspec closed it,
or was killed) kills the program and all its descendants. REPORT is the writing end of a pipe: one JSON object when all
is over, `{"exit": code or null, "signal": number or null, "killed": n, "left": [pid], "error": text or null}`.

On Linux the guard is a child subreaper: a descendant that detached itself comes back to the guard and is found. Where
the system lacks that, the program's process group is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GIVE_UP_S = 15.0


#: Looked up here, since nothing may be loaded between a fork and an exec.
PRCTL = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def prctl(option: int, value: int) -> None:
    """Linux's prctl; nothing elsewhere."""
    if PRCTL is not None:
        PRCTL(option, value, 0, 0, 0)


def descendants() -> list[int]:
    """Every living process below this one, by parent numbers from /proc; [] where there is no /proc."""
    parents: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as stream:
                    fields = stream.read().rpartition(b")")[2].split()
                if fields[0] != b"Z":
                    parents[int(name)] = int(fields[1])
    found: list[int] = []
    frontier = {os.getpid()}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += sorted(frontier)
    return found


def reap(child: int) -> int | None:
    """Collect every ended child; the wait status of `child` when it is among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, word = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                status = word
    return status


def kill_all(child: int) -> tuple[int, list[int], int | None]:
    """Kill what is left below this process. Returns how many were killed, who could not be, and `child`'s status."""
    killed: set[int] = set()
    status = None
    end = time.monotonic() + GIVE_UP_S
    while True:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        alive = descendants()
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        word = reap(child)
        status = word if word is not None else status
        if not alive or time.monotonic() > end:
            return len(killed), descendants(), status
        time.sleep(0.01)


def watch(control: int, wakeup: int, child: int) -> int | None:
    """Wait until the program ends (its wait status) or torchspec goes away (None)."""
    while True:
        ready, _, _ = select.select([control, wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
            status = reap(child)
            if status is not None:
                return status
        if control in ready:
            word = os.read(control, 64)
            if not word:
                return None
            if b"i" in word:
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGINT)


def main() -> int:
    control, report = int(sys.argv[1]), int(sys.argv[2])
    argv = sys.argv[4:]
    answer: dict[str, object] = {"exit": None, "signal": None, "killed": 0, "left": [], "error": None}
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)

    def before_exec() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    try:
        child = subprocess.Popen(argv, process_group=0, preexec_fn=before_exec)
    except OSError as error:
        answer["error"] = f"{type(error).__name__}: {error}"
        status = None
    else:
        for standard in (1, 2):
            os.close(standard)  # the program's output ends with the program
        status = watch(control, reading, child.pid)
        killed, left, late = kill_all(child.pid)
        status = late if status is None else status
        answer.update(killed=killed, left=left)
        child.returncode = 0
    if status is not None:
        code = os.waitstatus_to_exitcode(status)
        answer["signal" if code < 0 else "exit"] = abs(code)
    with contextlib.suppress(OSError):
        os.write(report, json.dumps(answer).encode())
    return 0


if __name__ == "__main__":
    sys.stdin = None
    os._exit(main())
