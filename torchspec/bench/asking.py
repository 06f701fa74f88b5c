"""How a program of another tool is asked: its environment, its time, and what it said. Knows no tool."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: What a fresh process costs before it measures anything, roughly; decides how many of them fit into the time.
START_S = 2.5
#: A peer that takes longer than so many times its time gives no answer.
PATIENCE = 5.0


class Unavailable(Exception):
    """A peer cannot be run here, and why."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question: interpreter, where peers are installed, the works, the planted ratio, the limit, and the time."""

    python: str
    packages: str | None
    works: Sequence[str]
    planted: float
    limit: float
    budget_s: float
    tail: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def each_s(self) -> float:
        """The time for one work on one side, once both processes have started."""
        return max(0.3, (self.budget_s - 2 * START_S) / 2 / len(self.works))


def environment(ask: Ask, place: Path, planted: bool) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    paths = [str(place), *([ask.packages] if ask.packages else [])]
    env = {**keep, "HOME": str(place), "PYTHONPATH": os.pathsep.join(paths)}
    env |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if planted:
        env |= {"BENCH_SLOWER": repr(ask.planted), "BENCH_TAIL": str(ask.tail)}
    return env


def call(ask: Ask, place: Path, planted: bool, arguments: list[str], allowed: tuple[int, ...] = (0,)) -> str:
    """What a peer prints, on both streams where it ended with another status than 0. Raises Unavailable."""
    return ran(ask, place, planted, [ask.python, *arguments], allowed)


def ran(ask: Ask, place: Path, planted: bool, command: list[str], allowed: tuple[int, ...] = (0,)) -> str:
    limit = PATIENCE * ask.budget_s
    process = subprocess.Popen(
        command,
        env=environment(ask, place, planted),
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=max(1.0, limit - (time.monotonic() - ask.begun)))
    except subprocess.TimeoutExpired:
        raise Unavailable(f"no answer within {limit:.0f} s, {PATIENCE:g} times the time that it was given") from None
    finally:  # with everything that it has started
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode not in allowed:
        last = (err or out).strip().splitlines()
        raise Unavailable(last[-1] if last else f"ended with status {process.returncode}")
    return out if process.returncode == 0 else f"{out}\n{err}"


def needs(ask: Ask, place: Path, module: str) -> None:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        call(ask, place, False, ["-c", code])
    except Unavailable:
        raise Unavailable(f"{module} is not installed for this interpreter; --packages names where it is") from None
