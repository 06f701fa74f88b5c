"""Workers that go wrong in every way: each becomes a WorkerFailed that says how, and nothing stays behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torchspec.harness.supervise import Unable, Worker, WorkerFailed, child_failed

PRELUDE = """
import json, os, signal, struct, subprocess, sys, time
told = json.loads(sys.argv[2])
def receive():
    length, = struct.unpack(">I", os.read(told["commands"], 4))
    global asked
    asked = json.loads(os.read(told["commands"], length))
    return asked
def send(value):
    data = json.dumps({"request": asked["request"], **value}).encode()
    os.write(told["replies"], struct.pack(">I", len(data)) + data)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """Starts a worker that runs `code` after the prelude."""
    started: list[Worker] = []

    def run(code: str) -> Worker:
        script = tmp_path / "worker.py"
        script.write_text(PRELUDE + code, encoding="utf-8")
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache" / "inductor")}
        worker = Worker(sys.executable, script, "candidate", {}, env, tmp_path / "log", tmp_path)
        started.append(worker)
        return worker

    yield run
    for worker in started:
        worker.kill()


def failure(worker: Worker, timeout_s: float = 20.0) -> WorkerFailed:
    with pytest.raises(WorkerFailed) as caught:
        worker.ask("step", timeout_s)
    return caught.value


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_an_answer_is_an_answer_whatever_is_printed(start: Callable[[str], Worker]) -> None:
    worker = start("""
print("\\x00\\x00\\x00\\x05hello", flush=True)
os.write(1, os.urandom(100_000)); os.write(2, b"noise")
asked = receive(); send({"ok": True, "asked": asked})
""")
    assert worker.ask("step", 20, count=3) == {"asked": {"do": "step", "request": 1, "count": 3}}


@pytest.mark.parametrize("code", [
    "receive(); send({'ok': True}); send({'ok': True, 'ns': [9]}); receive(); send({'ok': True, 'ns': [1]})",
    "receive(); send({'ok': True}); receive(); send({'ok': True, 'request': None})",
    "receive(); send({'ok': True}); receive(); send({'ok': True, 'request': 1})",
])  # fmt: skip
def test_an_answer_to_another_question_is_no_answer(start: Callable[[str], Worker], code: str) -> None:
    worker = start(code)
    assert worker.ask("first", 20) == {}
    found = failure(worker)
    assert (found.how, found.error) == ("exited", "the worker sent an answer to another question")
    assert worker.ended


def test_an_answer_that_lacks_what_was_asked_for_is_no_answer(start: Callable[[str], Worker]) -> None:
    worker = start("receive(); send({'ok': True}); time.sleep(60)")
    answer = worker.ask("block", 20)
    with pytest.raises(WorkerFailed) as caught:
        answer["ns"]
    assert (caught.value.how, caught.value.doing) == ("exited", "block")
    assert "it lacks ns" in caught.value.error
    assert worker.ended


@pytest.mark.parametrize(
    ("code", "how", "exit_code", "signal_name", "says"),
    [
        ("receive(); send({'ok': False, 'error': 'ValueError: no', 'type': 'ValueError'})", "raised", None, None, "no"),
        ("receive(); print('last words'); sys.exit(3)", "exited", 3, None, "last words"),
        ("receive(); os._exit(0)", "exited", 0, None, "status 0"),
        ("receive(); os.kill(os.getpid(), signal.SIGKILL)", "killed", None, "SIGKILL", "SIGKILL"),
        ("receive(); os.abort()", "killed", None, "SIGABRT", "SIGABRT"),
        ("receive(); os.write(told['replies'], b'garbage that is no frame')", "exited", None, None, "no answer"),
        (
            "receive(); os.write(told['replies'], b'\\0\\0\\0\\4nope'); time.sleep(60)",
            "exited",
            None,
            None,
            "no answer",
        ),
        (
            "receive(); b = b'[' * 50000; os.write(told['replies'], struct.pack('>I', len(b)) + b); time.sleep(60)",
            "exited",
            None,
            None,
            "no answer",
        ),
        ("receive(); os.close(told['replies']); time.sleep(60)", "exited", None, None, "went on"),
        ("raise SystemExit('never asked')", "exited", 1, None, "never asked"),
    ],
)
def test_each_way_to_fail_is_told_apart(
    start: Callable[[str], Worker], code: str, how: str, exit_code: int | None, signal_name: str | None, says: str
) -> None:
    worker = start(code)
    found = failure(worker)
    assert (found.how, found.exit_code, found.signal_name) == (how, exit_code, signal_name)
    assert says in found.error
    assert found.doing == "step"
    body = child_failed(found)
    assert body["log"]["file"] == "log"
    assert len(body["log"]["sha256"]) == 64


def test_a_worker_that_hangs_is_killed_and_its_children_too(start: Callable[[str], Worker]) -> None:
    worker = start("""
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
receive(); send({"ok": True, "child": child.pid}); receive(); time.sleep(600)
""")
    child = worker.ask("hello", 20)["child"]
    found = failure(worker, 0.5)
    assert found.how == "hung"
    assert "0.5 s" in found.error
    for _ in range(50):
        if not alive(child):
            break
        time.sleep(0.1)
    assert not alive(child)
    assert not alive(worker.process.pid)


def test_a_stopped_worker_is_named_as_stopped(start: Callable[[str], Worker]) -> None:
    found = failure(start("receive(); os.kill(os.getpid(), signal.SIGSTOP)"), 1.0)
    assert found.how == "hung"
    assert "SIGSTOP" in found.error


def test_what_cannot_be_done_is_no_failure(start: Callable[[str], Worker]) -> None:
    worker = start("receive(); send({'ok': False, 'unsupported': 'no such dtype', 'where': 'version'})")
    with pytest.raises(Unable, match="no such dtype"):
        worker.ask("open", 20)


def test_a_missing_interpreter_is_a_failure_to_start(tmp_path: Path) -> None:
    env: dict[str, Any] = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "a" / "b")}
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(WorkerFailed, match="cannot be started"):
        Worker(str(tmp_path / "gone"), tmp_path / "x.py", "baseline", {}, env, tmp_path / "log", tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_secrets_in_a_log_do_not_reach_evidence(start: Callable[[str], Worker]) -> None:
    worker = start("receive(); print('token=hf_abcdefghijklmnop at work'); sys.exit(1)")
    found = failure(worker)
    assert "hf_" not in str(child_failed(found))
    assert "at work" in child_failed(found)["log"]["tail"]
