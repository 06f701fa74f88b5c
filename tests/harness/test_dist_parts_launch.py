"""Jobs of ranks are launched, found by their token and ended whole. The launchers are stand-ins: no torch is needed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from torchspec.harness.dist_launch import Launch
from torchspec.harness.dist_peer import LaunchFailed
from torchspec.harness.dist_processes import LAUNCH_TOKEN, launch_environment, processes_with_token, rank_disagreements
from torchspec.harness.dist_wire import wire_frame


def test_what_would_steer_torchrun_is_left_out():
    steering = ("PET_NNODES", "MASTER_ADDR", "RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID", "GROUP_RANK", "WORLD_SIZE")
    base = dict.fromkeys((*steering, "PATH", "RANKING"), "1") | {"OMP_NUM_THREADS": "7"}
    env = launch_environment(base, "token", 2)
    assert set(base) - set(env) == set(steering)
    assert env["OMP_NUM_THREADS"] == "7"
    assert launch_environment({}, "token", 2)["OMP_NUM_THREADS"] == "2"
    assert env[LAUNCH_TOKEN] == "token"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
def test_processes_are_found_by_the_whole_token():
    code = [sys.executable, "-c", "import time; time.sleep(60)"]
    mine = subprocess.Popen(code, env={**os.environ, LAUNCH_TOKEN: "abc"}, start_new_session=True)
    other = subprocess.Popen(code, env={**os.environ, LAUNCH_TOKEN: "abcd"})
    try:
        end = time.monotonic() + 10
        while processes_with_token("abc") != [mine.pid] and time.monotonic() < end:
            time.sleep(0.02)
        assert processes_with_token("abc") == [mine.pid]
    finally:
        mine.kill()
        other.kill()
        mine.wait()
        other.wait()
    assert processes_with_token("abc") == []


def test_what_ranks_do_not_share_is_named():
    one = {"torch": "2.14.1", "env": {"OMP_NUM_THREADS": "1"}}
    two = {"torch": "2.14.1", "env": {"OMP_NUM_THREADS": "2"}, "extra": 1}
    assert rank_disagreements([one, one]) == {}
    assert rank_disagreements([one, two]) == {"env": [one["env"], two["env"]], "extra": [None, 1]}


# Launching, with stand-ins for torchrun: an interpreter that is not there, and programs that are no ranks.


def launched(tmp_path, text: str, **options):
    program = tmp_path / "stand_in_for_torchrun.py"
    program.write_text(text)
    launcher = tmp_path / "stand_in_for_python"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
    launcher.chmod(0o755)
    return Launch(str(launcher), ["none"], side="baseline", ranks=2, folder=str(tmp_path / "job"), settings={},
                  env=dict(os.environ), **options)  # fmt: skip


def test_an_interpreter_that_is_gone(tmp_path):
    job = Launch(
        str(tmp_path / "gone"), [], side="baseline", ranks=1, folder=str(tmp_path / "job"), settings={}, env={}
    )
    with pytest.raises(LaunchFailed, match="FileNotFoundError") as failed:
        job.launch()
    assert failed.value.how == "exited"
    job.close()


def test_a_launcher_that_ends_says_its_last_words(tmp_path):
    text = "import sys; print('no such module'); sys.exit(3)"
    with launched(tmp_path, text) as job, pytest.raises(LaunchFailed, match="no such module") as failed:
        job.ready(10)
    assert (failed.value.how, failed.value.code) == ("exited", 3)


def test_ranks_that_never_come_are_a_hang_and_leave_nothing(tmp_path):
    text = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""
    job = launched(tmp_path, text)
    job.launch()
    end = time.monotonic() + 10
    while len(processes_with_token(job.token)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    assert len(processes_with_token(job.token)) == 2
    with pytest.raises(LaunchFailed, match="no answer within") as failed:
        job.ready(0.3)
    assert failed.value.how == "hung"
    job.close()
    assert processes_with_token(job.token) == []


def test_a_stranger_is_not_taken_for_a_rank(tmp_path):
    with launched(tmp_path, "import time; time.sleep(600)") as job:
        described = json.loads((tmp_path / "job" / "job.json").read_text())
        stranger = socket.create_connection((described["host"], described["port"]))
        stranger.sendall(wire_frame({"token": "guess", "rank": 0, "world": 2, "restart": 0, "pid": 1}))
        for _ in range(20):
            job.pump(0.05)
        assert job.current() == []
        stranger.settimeout(5)
        assert stranger.recv(1) == b""
        stranger.close()
        assert oct((tmp_path / "job" / "job.json").stat().st_mode)[-3:] == "600"


def test_answers_of_stand_in_ranks_come_in_rank_order(tmp_path):
    text = """
import json, socket, struct, sys, threading
job = json.load(open(sys.argv[-1]))
def send(s, value):
    data = json.dumps(value).encode(); s.sendall(struct.pack(">I", len(data)) + data)
def rank(r):
    s = socket.create_connection((job["host"], job["port"]))
    send(s, {"token": job["token"], "rank": r, "world": 2, "restart": 0, "pid": 1})
    send(s, {"event": "ready", "environment": {}})
    while True:
        head = s.recv(4)
        if not head: return
        frame = json.loads(s.recv(struct.unpack(">I", head)[0]))
        if frame["do"] == "end": return
        if frame["do"] == "fail" and r == 1:
            send(s, {"event": "answer", "id": frame["id"], "ok": False,
                     "error": {"message": "ValueError: no", "traceback": ""}})
        elif frame["do"] == "quiet" and r == 1: continue
        else: send(s, {"event": "answer", "id": frame["id"], "ok": True, "value": [r, frame["mine"]]})
threads = [threading.Thread(target=rank, args=(r,)) for r in (1, 0)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    with launched(tmp_path, text) as job:
        job.ready(20)
        each = [{"mine": "a"}, {"mine": "b"}]
        assert job.ask("anything", 10, each=each) == [[0, "a"], [1, "b"]]
        with pytest.raises(LaunchFailed, match="rank 1 raised while fail: ValueError: no"):
            job.ask("fail", 10, mine=0)
        with pytest.raises(LaunchFailed, match="silent ranks: 1") as failed:
            job.ask("quiet", 0.5, mine=0)
        assert (failed.value.how, failed.value.rank) == ("hung", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
def test_a_hang_is_asked_for_its_stack_and_nobody_else_is(tmp_path):
    """The number of a process may be another one's by now: SIGUSR1 would end it."""
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    text = """
import json, os, signal, socket, struct, sys, time
job = json.load(open(sys.argv[-1]))
heard = os.path.join(os.path.dirname(sys.argv[-1]), "heard")
signal.signal(signal.SIGUSR1, lambda *given: open(heard, "w").close())
def send(s, value):
    data = json.dumps(value).encode(); s.sendall(struct.pack(">I", len(data)) + data)
held = []
for r, pid in ((0, os.getpid()), (1, BYSTANDER)):
    s = socket.create_connection((job["host"], job["port"])); held.append(s)
    send(s, {"token": job["token"], "rank": r, "world": 2, "restart": 0, "pid": pid})
    send(s, {"event": "ready", "environment": {}})
while True: time.sleep(0.05)
""".replace("BYSTANDER", str(bystander.pid))
    try:
        with launched(tmp_path, text) as job:
            job.ready(20)
            with pytest.raises(LaunchFailed, match="silent ranks: 0, 1"):
                job.ask("quiet", 0.5)
            assert (tmp_path / "job" / "heard").exists()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_nothing_is_loaded_between_fork_and_exec():
    """Loading a library there may wait for ever for a lock that another thread held at the fork."""
    code = (
        "import ctypes, os, sys\n"
        "from torchspec.harness.dist_processes import tie_to_parent\n"
        "from torchspec.supervise.guard import prctl\n"
        "def never(*given, **more): raise RuntimeError('loaded after the fork')\n"
        "ctypes.CDLL = never\n"
        "tie_to_parent()\n"
        "prctl(1, 9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
