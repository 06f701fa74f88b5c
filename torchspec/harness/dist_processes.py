"""Processes of a distributed job: how they are marked, found and ended, and the environment they start with.

torchrun starts each rank in a session of its own, so a process group does not hold them all. Every process of a job
carries the job's token in its environment and is found by it. Standard library only; knows nothing of what they do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

LAUNCH_TOKEN = "TORCHSPEC_JOB"
#: What a launcher or a cluster may have left in the environment; it would steer torchrun past this job's settings.
TORCHRUN_VARIABLES = re.compile(
    r"^(PET_.*|TORCHELASTIC_.*|MASTER_(ADDR|PORT)|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|GROUP_.*|ROLE_.*)$"
)


def _linux_prctl() -> Any:
    """The function of that name, None where there is none. Looked up here and not between a fork and what follows: a
    lock that another thread held at that moment would never be given back."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return ctypes.CDLL(None, use_errno=True).prctl
    return None


LINUX_PRCTL = _linux_prctl()


def tie_to_parent() -> None:
    """Ask Linux to kill this process when the thread that started it ends. Elsewhere the channel is the only leash."""
    if LINUX_PRCTL is not None:
        LINUX_PRCTL(1, signal.SIGKILL)


def processes_with_token(token: str) -> list[int]:
    """Processes, this one aside, whose environment carries the token (Linux; elsewhere empty). Zombies do not count."""
    found = []
    needle = f"{LAUNCH_TOKEN}={token}".encode("ascii")
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if needle in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found


def _loopback_name() -> str:
    return "lo0" if sys.platform == "darwin" else "lo"


def launch_environment(base: Mapping[str, str], token: str, threads: int) -> dict[str, str]:
    """A job's environment: the frozen one, without what would steer torchrun, bound to loopback, with the token."""
    env = {name: value for name, value in base.items() if not TORCHRUN_VARIABLES.match(name)}
    env.setdefault("OMP_NUM_THREADS", str(threads))
    env.setdefault("GLOO_SOCKET_IFNAME", _loopback_name())
    env.setdefault("NCCL_SOCKET_IFNAME", _loopback_name())
    env[LAUNCH_TOKEN] = token
    return env


def signal_label(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def rank_disagreements(environments: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What the ranks of one job do not share: name -> each rank's value. Empty where all agree, as they must."""
    names = sorted({name for environment in environments for name in environment})
    found = {}
    for name in names:
        values = [environment.get(name) for environment in environments]
        if any(value != values[0] for value in values[1:]):
            found[name] = values
    return found
