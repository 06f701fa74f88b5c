"""Worker processes as the driver sees them: started, asked, given up on, and never left behind.

Each worker has a process group and a log of its own. A worker that raises answers; one that exits, is killed, hangs or
sends garbage becomes a `WorkerFailed` that says which. Must not know what is asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from .chain import file_sha256
from .environ import looks_secret
from .frames import FrameError, FrameTimeout, PipeClosed, receive_frame, send_frame

#: How much of a log's end is kept as a worker's last words.
TAIL_BYTES = 4000


class WorkerFailed(Exception):
    """A worker did not answer: `how` is raised, exited, killed or hung."""

    def __init__(self, how: str, doing: str, error: str, exit_code: int | None = None, signal_name: str | None = None):
        super().__init__(error)
        self.how, self.doing, self.error, self.exit_code, self.signal_name = how, doing, error, exit_code, signal_name
        self.worker: Worker | None = None


class Unable(Exception):
    """A worker answered that this version, backend or machine cannot do what was asked."""

    def __init__(self, reason: str, where: str) -> None:
        super().__init__(reason)
        self.where = where


def without_secrets(text: str) -> str:
    """`text` with every word that looks like a secret replaced, for logs that go into evidence."""
    return re.sub(r"\S+", lambda word: "(withheld)" if looks_secret("", word.group()) else word.group(), text)


def log_tail(path: Path) -> dict[str, Any]:
    """{"file": name, "sha256", "tail"} of a worker's log."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
            tail = stream.read().decode("utf-8", "replace")
        return {"file": path.name, "sha256": file_sha256(path), "tail": without_secrets(tail)}
    except OSError:
        return {"file": path.name, "sha256": None, "tail": ""}


class Answer(dict[str, Any]):
    """What a worker answered. One that lacks what it was asked for is no answer, and its worker has failed."""

    def __init__(self, reply: dict[str, Any], worker: Worker) -> None:
        super().__init__(reply)
        self._worker = worker

    def __missing__(self, name: str) -> Any:
        self._worker.kill()
        raise self._worker._failed("exited", f"the worker sent what is no answer (it lacks {name})")


class Worker:
    """One worker process of one side."""

    def __init__(
        self,
        python: str,
        harness: Path,
        side: str,
        arguments: dict[str, Any],
        env: dict[str, str],
        log: Path,
        cwd: Path,
    ) -> None:
        self.side, self.log = side, log
        self.cache = Path(env["TORCHINDUCTOR_CACHE_DIR"]).parent
        self.doing = "starting"
        self.ended = False
        self._requests = 0
        command_read, self._commands = os.pipe()
        self._replies, reply_write = os.pipe()
        told = {**arguments, "commands": command_read, "replies": reply_write, "parent": os.getpid(), "side": side}
        try:
            with open(log, "ab") as stream:
                self.process = subprocess.Popen(
                    [python, "-s", str(harness), "worker", json.dumps(told)],
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    env=env,
                    cwd=cwd,
                    pass_fds=(command_read, reply_write),
                    start_new_session=True,
                )
        except OSError as error:
            os.close(self._commands)
            os.close(self._replies)
            self.ended = True
            why = error.strerror or str(error)
            raise WorkerFailed("exited", "starting", f"the interpreter of {side} cannot be started: {why}") from error
        finally:
            os.close(command_read)
            os.close(reply_write)

    def pids(self) -> list[int] | None:
        """The processes whose time is this worker's own; None where they come and go while it measures."""
        return [self.process.pid]

    def send(self, do: str, **arguments: Any) -> None:
        """Asks without waiting. `receive` gives the answer."""
        self.doing = do
        self._requests += 1
        with contextlib.suppress(PipeClosed):  # `receive` finds out why
            send_frame(self._commands, {"do": do, "request": self._requests, **arguments})

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The answer to the last `send`. Raises WorkerFailed or Unable."""
        try:
            reply = receive_frame(self._replies, timeout_s)
        except FrameTimeout:
            raise self._hung(timeout_s) from None
        except FrameError as garbage:
            self.kill()
            raise self._failed("exited", f"the worker sent what is no answer ({garbage})") from garbage
        except (PipeClosed, OSError) as closed:
            raise self._gone() from closed
        if reply.pop("request", None) != self._requests:
            self.kill()
            raise self._failed("exited", "the worker sent an answer to another question")
        if reply.pop("ok", None) is True:
            return Answer(reply, self)
        if "unsupported" in reply:
            raise Unable(str(reply["unsupported"]), str(reply.get("where", "version")))
        raise self._failed("raised", str(reply.get("error", "an answer without a reason")))

    def ask(self, do: str, timeout_s: float, **arguments: Any) -> dict[str, Any]:
        """`send` and `receive`."""
        self.send(do, **arguments)
        return self.receive(timeout_s)

    def _failed(self, how: str, error: str, code: int | None = None, name: str | None = None) -> WorkerFailed:
        failure = WorkerFailed(how, self.doing, without_secrets(error), code, name)
        failure.worker = self
        return failure

    def _gone(self) -> WorkerFailed:
        """The pipes are closed: find out how the process ended."""
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._failed("exited", "the worker closed its pipes but went on")
        self.kill()
        if code >= 0:
            return self._failed("exited", self._last_words(f"the worker exited with status {code}"), code)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return self._failed("killed", self._last_words(f"the worker was killed by {name}"), None, name)

    def _last_words(self, otherwise: str) -> str:
        lines = [line.strip() for line in log_tail(self.log)["tail"].splitlines() if line.strip()]
        return f"{otherwise}; its last words: {lines[-1][:300]}" if lines else otherwise

    def _hung(self, timeout_s: float) -> WorkerFailed:
        """No answer in time: ask for a stack in the log, then kill."""
        stopped = self._state() in ("T", "t")
        if hasattr(signal, "SIGUSR1") and not stopped:
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGUSR1)
            time.sleep(0.3)
        self.kill()
        what = "was stopped (SIGSTOP) and gave" if stopped else "gave"
        return self._failed("hung", f"the worker {what} no answer within {timeout_s:g} s")

    def _state(self) -> str:
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii", errors="replace")
            return text.rsplit(")", 1)[1].split()[0]
        except (OSError, IndexError):
            return ""

    def close(self) -> None:
        """Ends a worker that has nothing more to do; kills it and everything it started where it does not go."""
        if self.ended:
            return
        with contextlib.suppress(PipeClosed):
            send_frame(self._commands, {"do": "end"})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=3)
        self.kill()

    def kill(self) -> None:
        """Kills the worker and its process group, waits for it, and closes the pipes. Harmless when repeated."""
        if self.ended:
            return
        self.ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        for fd in (self._commands, self._replies):
            with contextlib.suppress(OSError):
                os.close(fd)


def child_failed(failure: WorkerFailed) -> dict[str, Any]:
    """The part of a `side.failed` body that tells how a worker failed."""
    log = log_tail(failure.worker.log) if failure.worker is not None else {"file": None, "sha256": None, "tail": ""}
    return {
        "doing": failure.doing,
        "how": failure.how,
        "exit": failure.exit_code,
        "signal": failure.signal_name,
        "error": failure.error,
        "log": log,
    }
