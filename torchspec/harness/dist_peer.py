"""What the driver knows of one rank's connection, and how it says that a job failed. Values only."""

from __future__ import annotations

import socket
from typing import Any


class LaunchFailed(Exception):
    """A job that did not do what it was asked. `how` is raised, exited, killed or hung, as in a side.failed record."""

    def __init__(
        self,
        how: str,
        error: str,
        *,
        doing: str,
        rank: int | None = None,
        code: int | None = None,
        signal_name: str | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        who = "the job" if rank is None else f"rank {rank}"
        super().__init__(f"{who} {how} while {doing}: {error}")
        self.how, self.error, self.doing, self.rank = how, error, doing, rank
        self.code, self.signal_name, self.detail = code, signal_name, detail or {}


class RankPeer:
    """One rank's connection. `restart` counts torchrun's restarts, so that a rank's later lives are told apart."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.buffer = bytearray()
        self.hello: dict[str, Any] | None = None
        self.ready: dict[str, Any] | None = None
        self.lost = False

    @property
    def rank(self) -> int:
        return int(self.hello["rank"]) if self.hello else -1

    @property
    def restart(self) -> int:
        return int(self.hello["restart"]) if self.hello else -1

    @property
    def pid(self) -> int:
        return int(self.hello["pid"]) if self.hello else 0
