"""Starts one distributed job through torchrun with one side's own interpreter, talks to its ranks, and ends it whole.

`Launch` supervises: every wait has a deadline; a rank that dies, raises or hangs becomes a `LaunchFailed` that says so;
`close` leaves no process and no port behind, however the job ended. Standard library only; must not import torch, and
knows nothing of what a command measures.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .dist_peer import LaunchFailed, RankPeer
from .dist_processes import launch_environment, processes_with_token, signal_label, tie_to_parent
from .dist_wire import WireError, take_frame, wire_frame, write_json_whole

#: How long after one rank's error the others may still answer.
ANSWER_GRACE_S = 2.0
#: How long a job that was told to end may take before it is killed. Its evidence is complete by then.
POLITE_END_S = 1.0
LOG_TAIL = 4000


class Launch:
    """One torchrun launch: `ranks` processes of `program` on this machine. Use it as a context manager.

    `settings` go to the ranks as they are. `env` is the base environment. `restarts` is torchrun's --max-restarts.
    `monitor_s` is how often torchrun looks at its ranks. `program` is the rank program's command line behind the
    interpreter.
    """

    def __init__(
        self,
        python: str,
        program: Sequence[str],
        *,
        side: str,
        ranks: int,
        folder: str,
        settings: Mapping[str, Any],
        env: Mapping[str, str],
        threads: int = 1,
        restarts: int = 0,
        monitor_s: float = 0.1,
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        self.side, self.ranks, self.folder = side, ranks, folder
        self.token = secrets.token_hex(16)
        self.log = os.path.join(folder, "job.log")
        self.peers: list[RankPeer] = []
        self.messages: list[dict[str, Any]] = []
        self._on_wait = on_wait
        self._next = 0
        self._told_to_end = False
        self._answers: dict[int, dict[int, dict[str, Any]]] = {}
        self._agent: subprocess.Popen[bytes] | None = None
        os.makedirs(folder, exist_ok=True)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=max(64, ranks))
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.env = launch_environment(env, self.token, threads)
        description = {
            "host": "127.0.0.1", "port": self._listener.getsockname()[1], "token": self.token, "side": side,
            "ranks": ranks, "threads": threads, "settings": dict(settings),
        }  # fmt: skip
        path = os.path.join(folder, "job.json")
        write_json_whole(path, description)
        self.argv = [
            python, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={ranks}",
            "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", f"--rdzv-id={self.token}",
            "--rdzv-conf=is_host=1,join_timeout=60,read_timeout=60", "--local-addr=127.0.0.1",
            f"--max-restarts={restarts}", f"--monitor-interval={monitor_s}", f"--log-dir={folder}",
            *program, "--job", path,
        ]  # fmt: skip

    def __enter__(self) -> Launch:
        self.launch()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(self) -> None:
        """Start torchrun. Raises LaunchFailed where the interpreter cannot be started."""
        with open(self.log, "ab") as log:
            try:
                self._agent = subprocess.Popen(
                    self.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self.env,
                    start_new_session=True,
                    preexec_fn=tie_to_parent if sys.platform == "linux" else None,
                )
            except OSError as error:
                raise LaunchFailed("exited", f"{type(error).__name__}: {error}", doing="starting torchrun") from None

    # Waiting

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            sock, _ = self._listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peers.append(RankPeer(sock))
            self._selector.register(sock, selectors.EVENT_READ, self.peers[-1])

    def _drop(self, peer: RankPeer) -> None:
        peer.lost = True
        self._selector.unregister(peer.socket)
        peer.socket.close()
        if peer.hello is not None:
            self.messages.append({"event": "lost", "rank": peer.rank, "restart": peer.restart, "at": time.monotonic()})

    def _feed(self, peer: RankPeer) -> None:
        try:
            data = peer.socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return
        peer.buffer += data
        try:
            frame = take_frame(peer.buffer)
            while frame is not None:
                self._frame(peer, frame)
                frame = take_frame(peer.buffer)
        except WireError:
            self._drop(peer)

    def _frame(self, peer: RankPeer, frame: dict[str, Any]) -> None:
        if peer.hello is None:
            if frame.get("token") != self.token:
                raise WireError("a stranger")
            peer.hello = frame
            return
        if frame.get("event") == "answer":
            self._answers.setdefault(int(frame["id"]), {})[peer.rank] = frame
        else:
            if frame.get("event") == "ready":
                peer.ready = {**frame, "at": time.monotonic()}
            self.messages.append({**frame, "rank": peer.rank, "restart": peer.restart, "at": time.monotonic()})

    def pump(self, seconds: float) -> None:
        """Take what has arrived, waiting up to `seconds` for the first of it."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.data is None:
                self._accept()
            else:
                self._feed(key.data)
        if self._on_wait is not None:
            self._on_wait()

    def wait(self, until: Callable[[], bool], timeout_s: float, doing: str, *, may_lose: bool = False) -> None:
        """Wait until `until()`. Raises LaunchFailed: time is over, torchrun ended or (unless `may_lose`) a rank."""
        end = time.monotonic() + timeout_s
        while not until():
            if self._agent is not None and self._agent.poll() is not None:
                self.pump(0.2)  # what was sent before the end
                if until():
                    return
                raise self._ended(doing)
            gone = [peer for peer in self.current() if peer.lost]
            if gone and not may_lose:
                raise self._lost(gone[0], doing)
            left = end - time.monotonic()
            if left <= 0:
                raise self._hung(doing, timeout_s)
            self.pump(min(left, 0.2))

    def current(self) -> list[RankPeer]:
        """The connections of torchrun's latest round of ranks, in rank order."""
        known = [peer for peer in self.peers if peer.hello is not None]
        latest = max((peer.restart for peer in known), default=0)
        return sorted((peer for peer in known if peer.restart == latest), key=lambda peer: peer.rank)

    # What went wrong

    def rank_log(self, rank: int, restart: int = 0) -> str:
        """The file that holds what one rank printed in one of its lives."""
        return os.path.join(self.folder, f"rank-{rank}.{restart}.log")

    def tail(self) -> str:
        """The end of what torchrun itself printed."""
        try:
            with open(self.log, "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - LOG_TAIL))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _exit_of(self, pid: int) -> int | None:
        """What torchrun said about the exit of its rank `pid`: a status, or the negative number of a signal."""
        match = re.search(r"exitcode\s*:\s*(-?\d+)\s*\(pid:\s*%d\)" % pid, self.tail())
        return int(match.group(1)) if match else None

    def _ended(self, doing: str) -> LaunchFailed:
        """torchrun has ended: the rank that it names as the root cause, else how it ended itself."""
        code = self._agent.returncode if self._agent is not None else None
        tail = self.tail()
        cause = re.search(r"Root Cause.*?\n\s*rank\s*:\s*(\d+).*?\n\s*exitcode\s*:\s*(-?\d+)", tail, re.DOTALL)
        if cause is not None:
            return self._gone(int(cause.group(1)), int(cause.group(2)), doing)
        if code is not None and code < 0:
            return LaunchFailed("killed", "torchrun was killed", doing=doing, signal_name=signal_label(-code))
        last = [line for line in tail.splitlines() if line.strip()]
        return LaunchFailed("exited", last[-1][:400] if last else "torchrun ended", doing=doing, code=code)

    def _gone(self, rank: int, status: int | None, doing: str) -> LaunchFailed:
        if status is not None and status < 0:
            name = signal_label(-status)
            return LaunchFailed("killed", f"killed by {name}", doing=doing, rank=rank, signal_name=name)
        error = "its connection closed" if status is None else f"exit status {status}"
        words = self._last_words(rank)
        return LaunchFailed("exited", error + (f"; its last words: {words}" if words else ""), doing=doing, rank=rank,
                            code=status)  # fmt: skip

    def _last_words(self, rank: int) -> str:
        """The last line that a rank printed in its latest life."""
        restart = max((peer.restart for peer in self.peers if peer.rank == rank), default=0)
        try:
            with open(self.rank_log(rank, restart), encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except OSError:
            return ""
        return lines[-1][:300] if lines else ""

    def _lost(self, peer: RankPeer, doing: str) -> LaunchFailed:
        end = time.monotonic() + 5.0
        while self._agent is not None and self._agent.poll() is None and time.monotonic() < end:
            self.pump(0.1)
        if self._agent is not None and self._agent.poll() is not None:
            return self._ended(doing)
        return self._gone(peer.rank, self._exit_of(peer.pid), doing)

    def _hung(self, doing: str, timeout_s: float) -> LaunchFailed:
        """Nothing for too long: the ranks write where they stand to the log, and the silent ones are named."""
        pending = self._answers.get(self._next, {})
        silent = [peer for peer in self.current() if peer.rank not in pending]
        ours = processes_with_token(self.token)  # a number may be another process's by now
        for peer in silent:
            if not peer.lost and (peer.pid in ours or sys.platform != "linux"):
                with contextlib.suppress(OSError):
                    os.kill(peer.pid, signal.SIGUSR1)
        self.pump(0.5)
        rank = silent[0].rank if len(silent) == 1 else None
        named = ", ".join(str(peer.rank) for peer in silent) or "none connected"
        return LaunchFailed("hung", f"no answer within {timeout_s:g} s (silent ranks: {named})", doing=doing, rank=rank,
                         detail={"silent": [peer.rank for peer in silent]})  # fmt: skip

    # Asking

    def ready(self, timeout_s: float = 90.0) -> list[dict[str, Any]]:
        """Wait until every rank has joined; what each says about itself, in rank order."""

        def all_ready() -> bool:
            now = self.current()
            return len(now) == self.ranks and all(peer.ready is not None for peer in now)

        self.wait(all_ready, timeout_s, "starting")
        return [peer.ready or {} for peer in self.current()]

    def back(self, restart: int) -> bool:
        """Whether all ranks of torchrun's restart number `restart` have joined."""
        now = [peer for peer in self.current() if peer.restart == restart and peer.ready is not None]
        return len(now) == self.ranks

    def tell(self, do: str, *, each: Sequence[Mapping[str, Any]] | None = None, **payload: Any) -> int:
        """Send a command to every rank without waiting; its number. `each` adds fields rank by rank."""
        self._next += 1
        for peer in self.current():
            extra = each[peer.rank] if each is not None else {}
            with contextlib.suppress(OSError):
                peer.socket.sendall(wire_frame({"id": self._next, "do": do, **payload, **extra}))
        return self._next

    def answers(self, number: int) -> dict[int, dict[str, Any]]:
        """What has been answered to command `number` so far, by rank: {"ok", "value" or "error"}."""
        return self._answers.get(number, {})

    def ask(
        self, do: str, wait_s: float = 60.0, *, each: Sequence[Mapping[str, Any]] | None = None, **payload: Any
    ) -> list[Any]:
        """Send a command to every rank; their answers in rank order. LaunchFailed names the first rank that failed."""
        number = self.tell(do, each=each, **payload)
        answers = self._answers.setdefault(number, {})
        failed_at: list[float] = []

        def done() -> bool:
            if any(not answer["ok"] for answer in answers.values()) and not failed_at:
                failed_at.append(time.monotonic())
            return len(answers) == self.ranks or bool(failed_at and time.monotonic() > failed_at[0] + ANSWER_GRACE_S)

        try:
            self.wait(done, wait_s, do)
        except LaunchFailed as failure:
            if failure.how != "hung" or not failed_at:
                raise  # a rank that died is the cause; what the others then raise is the consequence
        bad = [rank for rank in sorted(answers) if not answers[rank]["ok"]]
        if bad:
            error = answers[bad[0]]["error"]
            raise LaunchFailed("raised", error["message"], doing=do, rank=bad[0], detail={"error": error, "ranks": bad})
        del self._answers[number]
        return [answers[rank]["value"] for rank in range(self.ranks)]

    # The end

    def finish(self) -> None:
        """Tell the ranks to end, without waiting; `close` waits."""
        running = self._agent is not None and self._agent.poll() is None and not self._told_to_end
        if running and self.current() and not any(peer.lost for peer in self.current()):
            self.tell("end")
            self._told_to_end = True

    def close(self, polite: bool = True) -> None:
        """End the job: politely where all is well, by force where not. Afterwards no process of it is left.

        The ranks end by themselves; torchrun is not waited for, which would take a second to take itself down.
        """
        agent = self._agent
        if agent is not None:
            if polite:
                self.finish()
                end = time.monotonic() + POLITE_END_S
                while self._told_to_end and time.monotonic() < end and not all(peer.lost for peer in self.current()):
                    self.pump(0.05)
            self.kill()
        for peer in self.peers:
            peer.socket.close()
        self._selector.close()
        self._listener.close()

    def kill(self) -> list[int]:
        """Kill every process of the job; those that could not be killed within 5 s."""
        agent = self._agent
        end = time.monotonic() + 5.0
        while True:
            pids = processes_with_token(self.token)
            if sys.platform != "linux":
                pids = [peer.pid for peer in self.peers if not peer.lost]
            for pid in sorted(pids, key=lambda pid: agent is not None and pid == agent.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if agent is not None:
                if agent.poll() is None:
                    with contextlib.suppress(OSError):
                        os.killpg(agent.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    agent.wait(timeout=1.0)
            if not pids or time.monotonic() > end:
                return pids
            time.sleep(0.02)
