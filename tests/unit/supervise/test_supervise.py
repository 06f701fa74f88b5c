"""Programs end with torchspec, whatever happens to either."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from torchspec.supervise import LINE_LIMIT, run

ROOT = Path(__file__).resolve().parents[3]


def program(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(text))
    return [sys.executable, str(file)]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"


def wait_for(condition, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def test_lines_of_both_streams_and_the_exit_status(tmp_path):
    lines = []
    text = "import sys; print('one'); print('two', file=sys.stderr); print('last', end=''); sys.exit(7)"
    argv = program(tmp_path, text)
    ending = run(argv, lambda stream, line: lines.append((stream, line)))
    assert sorted(lines) == [("err", b"two"), ("out", b"last"), ("out", b"one")]
    assert (ending.exit, ending.signal, ending.error) == (7, None, None)


def test_a_signal_is_told_apart_from_an_exit_status(tmp_path):
    ending = run(program(tmp_path, "import os; os.kill(os.getpid(), 9)"), lambda *_: None)
    assert (ending.exit, ending.signal) == (None, 9)


def test_a_program_that_is_not_there(tmp_path):
    ending = run([str(tmp_path / "absent")], lambda *_: None)
    assert ending.exit is None
    assert "FileNotFoundError" in (ending.error or "")


def test_endless_lines_are_cut_and_the_next_line_is_whole(tmp_path):
    lines = []
    run(program(tmp_path, "print('x' * 3_000_000); print('after')"), lambda _, line: lines.append(line))
    assert [len(line) for line in lines] == [LINE_LIMIT, 5]
    assert lines[1] == b"after"


def test_descendants_that_detached_are_killed(tmp_path):
    note = tmp_path / "pids"
    argv = program(
        tmp_path,
        f"""
        import os, subprocess, sys
        code = "import time; time.sleep(600)"
        one = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        nest = "import subprocess, sys; a = [sys.executable, '-c', sys.argv[1]]; "
        nest += "print(subprocess.Popen(a, start_new_session=True).pid)"  # a grandchild whose parent is gone at once
        out = subprocess.Popen([sys.executable, "-c", nest, code], stdout=open({str(note)!r}, "w"))
        out.wait()
        open({str(note)!r}, "a").write(str(one.pid) + "\\n")
        """,
    )
    ending = run(argv, lambda *_: None)
    pids = [int(line) for line in note.read_text().split()]
    assert len(pids) == 2
    assert ending.exit == 0
    assert ending.killed >= 2
    assert ending.left == ()
    assert not any(alive(pid) for pid in pids)


def test_the_time_limit_interrupts_first_and_kills_after_the_grace(tmp_path):
    polite = run(
        program(tmp_path, "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: raise SystemExit(130)"),
        lambda *_: None,
        limit_s=3.0,
    )
    assert (polite.exit, polite.timed_out) == (130, True)
    stubborn = run(
        program(tmp_path, "import signal, time\nsignal.signal(2, signal.SIG_IGN)\ntime.sleep(60)"),
        lambda *_: None,
        limit_s=3.0,
        grace_s=0.3,
    )
    assert (stubborn.signal, stubborn.timed_out) == (9, True)
    assert stubborn.wall_s < 20


def test_an_exception_of_the_reader_kills_the_program(tmp_path):
    seen = []

    def on_line(_: str, line: bytes) -> None:
        seen.append(int(line))
        raise RuntimeError("reader")

    with pytest.raises(RuntimeError, match="reader"):
        run(program(tmp_path, "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"), on_line)
    assert not alive(seen[0])


DRIVE = """
import sys
sys.path.insert(0, {root!r})
from torchspec.supervise import run
ending = run({argv!r}, lambda _, line: print(line.decode(), flush=True))
print("ending", ending.exit, ending.signal, ending.interrupted, flush=True)
"""


def start(tmp_path: Path, text: str) -> tuple[subprocess.Popen[str], list[int]]:
    argv = program(tmp_path, text)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVE.format(root=str(ROOT), argv=argv)], stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    return driver, [int(word) for word in driver.stdout.readline().split()]


TWO = """
import os, signal, subprocess, sys, time
if {stubborn}: signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_nothing_is_left_when_torchspec_is_killed(tmp_path):
    driver, pids = start(tmp_path, TWO.format(stubborn=True))
    driver.kill()
    driver.wait()
    assert len(pids) == 2
    assert wait_for(lambda: not any(alive(pid) for pid in pids))


def test_the_first_interrupt_is_passed_on_once(tmp_path):
    driver, pids = start(tmp_path, TWO.format(stubborn=False))
    driver.send_signal(signal.SIGINT)
    out, _ = driver.communicate(timeout=20)
    assert "ending 130 None True" in out
    assert not any(alive(pid) for pid in pids)


def test_the_second_interrupt_kills(tmp_path):
    driver, pids = start(tmp_path, TWO.format(stubborn=True))
    driver.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert alive(pids[0])
    driver.send_signal(signal.SIGINT)
    out, _ = driver.communicate(timeout=20)
    assert "ending None 9 True" in out
    assert not any(alive(pid) for pid in pids)


def test_a_held_lock_stays_until_the_program_is_gone(tmp_path):
    lock = tmp_path / "lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    states = []

    def look() -> None:
        other = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            states.append("free")
        except BlockingIOError:
            states.append("held")
        finally:
            os.close(other)

    def on_line(*_: object) -> None:
        os.close(descriptor)  # as when torchspec is killed
        look()

    run(program(tmp_path, "print('now')"), on_line, hold=descriptor)
    look()
    assert states == ["held", "free"]
