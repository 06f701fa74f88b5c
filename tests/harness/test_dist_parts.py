"""Parts of the distributed backend that need no torch: frames, environments, intervals, formulas, merging."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchspec.harness import dist_model, dist_train
from torchspec.harness.dist_checks import losses_apart
from torchspec.harness.dist_collective import (
    INPUT_FACTOR,
    INPUT_MASK,
    bus_factor,
    input_rule,
    operation_bytes,
)
from torchspec.harness.dist_fault_trials import who_was_slow
from torchspec.harness.dist_launch import Launch
from torchspec.harness.dist_peer import LaunchFailed
from torchspec.harness.dist_processes import (
    LAUNCH_TOKEN,
    launch_environment,
    processes_with_token,
    rank_disagreements,
)
from torchspec.harness.dist_trials import RecoveryTrials
from torchspec.harness.dist_wait import communication_account, length, merged, ranges_of, shared
from torchspec.harness.dist_wire import WireError, take_frame, wire_frame, write_json_whole
from torchspec.harness.dist_worker import slowest
from torchspec.harness.supervise import WorkerFailed
from torchspec.harness.work import Unsupported

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")


# Frames.


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=20))
def test_a_frame_comes_back_however_it_is_cut(value):
    data = wire_frame({"value": value}) + wire_frame({"value": 1})
    buffer = bytearray()
    got = []
    for byte in data:
        buffer.append(byte)
        frame = take_frame(buffer)
        if frame is not None:
            got.append(frame)
    assert [frame["value"] for frame in got] == [value, 1]
    assert not buffer


def test_floats_that_are_not_finite_travel_as_words():
    frame = take_frame(bytearray(wire_frame({"x": [math.nan, math.inf, -math.inf, 0.5]})))
    assert frame == {"x": ["nan", "inf", "-inf", 0.5]}


@pytest.mark.parametrize("data", [struct.pack(">I", 3) + b"{{{", struct.pack(">I", 1 << 30) + b"x"])
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(WireError):
        take_frame(bytearray(data))


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "value.json"
    write_json_whole(str(path), {"a": 1})
    with pytest.raises(TypeError):
        write_json_whole(str(path), {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


# Processes.


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


# What collectives are given.


def inputs_by_the_rule(rank: int, turn: int, count: int) -> tuple[int, ...]:
    return tuple(input_rule(index, rank, turn) for index in range(count))


def test_no_two_ranks_and_turns_hold_the_same_input():
    """A rule that repeats hides a swap: rank 8 held what rank 0 did, and each rank in the next turn what its neighbour
    had held in this one."""
    count = 48
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    for rank in range(96):
        for turn in range(6):
            mine = inputs_by_the_rule(rank, turn, count)
            assert seen.setdefault(mine, (rank, turn)) == (rank, turn)
    shifted = {mine[1:] for mine in seen} & {mine[:-1] for mine in seen}
    assert shifted == set()


@pytest.mark.parametrize("start", [0, 1 << 20, 1 << 33])
def test_inputs_are_small_whole_numbers_of_every_kind(start):
    """Small, so that sums over 64 ranks are exact in bfloat16; products stay within 64 bits wherever the element is."""
    held = [input_rule(index, rank, 3) for index in range(start, start + 2048) for rank in (0, 1, 511)]
    assert set(held) == set(range(-4, 4))
    counts = [held.count(value) for value in range(-4, 4)]
    assert min(counts) > 0.8 * len(held) / 8
    assert INPUT_MASK * INPUT_FACTOR < 1 << 63


# Overlap.


@pytest.mark.parametrize(("blocks", "named"), [(0, True), (1, True), (3, False)])
def test_an_overlap_that_would_do_nothing_is_unsupported(monkeypatch: pytest.MonkeyPatch, blocks: int, named: bool):
    """Prefetching is told from block to block: a team's module without a list of blocks has none to tell."""

    class Blocks(list[Any]):
        pass

    class Part:
        def __init__(self) -> None:
            self.told: list[str] = []

        def set_modules_to_forward_prefetch(self, following: Any) -> None:
            self.told.append("forward")

        def set_modules_to_backward_prefetch(self, following: Any) -> None:
            self.told.append("backward")

    parts = Blocks(Part() for _ in range(blocks))
    module = SimpleNamespace(modules=lambda: [parts] if blocks else [])
    nn = SimpleNamespace(ModuleList=Blocks, Sequential=Blocks)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(nn=nn, float32="float32"))
    monkeypatch.setattr(dist_model, "_shard_function", lambda: (lambda *given, **more: None, lambda **more: None))
    task = SimpleNamespace(options={"overlap": "prefetch"})
    work: Any = SimpleNamespace(task=task, dtype=lambda: "float32")
    if named:
        with pytest.raises(Unsupported, match="ModuleList or Sequential of two blocks"):
            dist_model._shard(work, module, None, False)
        return
    assert dist_model._shard(work, module, None, False) is module
    assert [sorted(part.told) for part in parts] == [["forward"], ["backward", "forward"], ["backward"]]


# Waiting.


def intervals():
    one = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (float(min(pair)), float(max(pair))))
    return st.lists(one, max_size=8)


@settings(deadline=None)
@given(intervals(), intervals())
def test_lengths_of_unions_and_overlaps_are_those_of_sets_of_points(a, b):
    def points(parts):
        return {x for begin, end in parts for x in range(int(begin), int(end))}

    assert length(merged(a)) == len(points(a))
    assert shared(merged(a), merged(b)) == len(points(a) & points(b))


def test_waiting_is_communication_without_computation():
    events = [
        ("gloo:all_reduce", 2, False, 0.0, 100.0),
        ("aten::copy_", 2, False, 0.0, 100.0),  # gloo's own thread computes nothing of ours
        ("aten::mm", 1, False, 40.0, 70.0),
        ("aten::addmm", 1, False, 50.0, 120.0),
        ("FSDP::all_gather", 1, False, 0.0, 100.0),  # a label, not work
    ]
    found = communication_account(events, steps=2)
    expected = {"wait_s": 20e-6, "flight_s": 50e-6, "compute_s": 40e-6, "overlap": 0.6}
    assert found == pytest.approx(expected)


def test_on_a_device_kernels_count_and_host_operators_do_not():
    events = [("ncclKernel", 7, True, 0.0, 10.0), ("gemm", 7, True, 5.0, 30.0), ("aten::mm", 1, False, 0.0, 10.0)]
    assert communication_account(events, 1)["wait_s"] == pytest.approx(5e-6)
    assert communication_account([], 1) == {"wait_s": 0.0, "flight_s": 0.0, "compute_s": 0.0, "overlap": 1.0}


def test_labels_that_a_profiler_draws_on_the_device_are_neither_computing_nor_communication():
    """Torch's own ranges (record_function of FSDP, of c10d) appear there beside the kernels that they hold."""
    kernels = [("ncclDevKernel_AllGather", 20, True, 0.0, 10.0), ("gemm", 7, True, 5.0, 30.0)]
    labels = ("FSDP::all_gather", "nccl:_all_gather_base", "ProfilerStep#1")
    host = [(name, 1, False, 0.0, 40.0) for name in labels]
    drawn = [(name, 20, True, 0.0, 40.0) for name in labels]
    bare = communication_account(kernels, 1)
    assert bare == pytest.approx({"wait_s": 5e-6, "flight_s": 10e-6, "compute_s": 25e-6, "overlap": 0.5})
    assert communication_account([*host, *kernels, *drawn], 1) == bare

    def told(name: str, device: bool, begin: float, end: float, **more: Any) -> Any:
        spans = SimpleNamespace(start=begin, end=end)
        return SimpleNamespace(name=name, thread=1, device_type="cuda" if device else "cpu", time_range=spans, **more)

    rows = [told(name, device, begin, end) for name, _, device, begin, end in kernels]  # torch 2.4 has no such mark
    rows.append(told("a label without its host range", True, 0.0, 40.0, is_user_annotation=True))
    assert communication_account(ranges_of(rows, "cuda"), 1) == bare


def test_a_meter_that_sees_no_communication_says_nothing_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overlap of 1 where nothing was in flight would be a pass without evidence."""
    item = SimpleNamespace(running=lambda: SimpleNamespace(step=None))
    monkeypatch.setattr(dist_train, "training_item", lambda state, frame: item)
    monkeypatch.setattr(dist_train, "_meet", lambda state: None)
    account = communication_account([("aten::mm", 1, False, 0.0, 10.0)], 1)
    monkeypatch.setattr(dist_train, "profile_waiting", lambda step, steps: account)
    with pytest.raises(Unsupported, match="no communication"):
        dist_train._train_wait(SimpleNamespace(), {"steps": 1})  # type: ignore[arg-type]


# Formulas and merging.


def test_bus_bandwidth_follows_the_usual_formulas():
    assert [bus_factor(name, 4) for name in OPERATIONS] == [1.5, 0.75, 0.75, 1.0, 0.75]
    assert [bus_factor(name, 1) for name in ("all_reduce", "all_gather", "all_to_all", "barrier")] == [0, 0, 0, 0]
    assert [operation_bytes(name, 100, 4) for name in (*OPERATIONS, "barrier")] == [100, 400, 100, 100, 100, 0]


def test_a_call_is_as_slow_as_its_slowest_rank():
    assert slowest([[[1.0, 5.0], [2.0, 9.0]], [[3.0, 4.0], [1.0, 10.0]]]) == [[3.0, 5.0], [2.0, 10.0]]


def test_losses_are_as_far_apart_as_their_worst_step():
    assert losses_apart([1.0, 2.0], [1.0, 2.0]) == 0.0
    assert losses_apart([1.0, 2.2], [1.0, 2.0]) == pytest.approx(0.1)
    assert losses_apart([1.0], [1.0, 2.0]) == math.inf
    for place in range(3):  # wherever it is: a largest value that is sought past a NaN loses it
        odd = [1.0, 2.0, 3.0]
        odd[place] = math.nan
        assert math.isnan(losses_apart(odd, [1.0, 2.0, 3.0]))
        assert math.isnan(losses_apart([1.0, 2.0, 3.0], odd))


def test_the_leash_ends_a_rank_whose_driver_is_gone(tmp_path):
    server = socket.create_server(("127.0.0.1", 0))
    code = (
        f"import sys, time; sys.path.insert(0, {os.getcwd()!r})\n"
        "from torchspec.harness.dist_wire import Leash\n"
        f"Leash('127.0.0.1', {server.getsockname()[1]}, {{}})\n"
        "time.sleep(600)"
    )
    rank = subprocess.Popen([sys.executable, "-c", code])
    taken = []
    thread = threading.Thread(target=lambda: taken.append(server.accept()[0]))
    thread.start()
    thread.join(20)
    assert rank.poll() is None
    taken[0].close()
    assert rank.wait(10) == 70
    server.close()


def test_one_stall_of_a_busy_machine_does_not_name_the_wrong_rank():
    calm = {"slow": 1, "waits": [0.1, 0.001]}
    stalled = {"slow": 1, "waits": [0.1, 0.9]}
    assert who_was_slow([calm, stalled, calm]) == {1: 1}
    assert who_was_slow([calm, stalled, stalled]) == {1: 0}
    assert who_was_slow([{"slow": 0, "waits": [0.2, 0.3]}, calm]) == {0: 0, 1: 1}


def test_ranks_come_and_go_so_nobody_else_is_blamed_for_the_cores():
    """A pair of rank workers has no process of its own to hold the cores' time against: the share is not told."""
    from torchspec.harness.dist_worker import RankWorker
    from torchspec.harness.sides import Sides

    sides = object.__new__(Sides)
    sides.cores = [0]
    sides.a = sides.b = object.__new__(RankWorker)
    assert sides._use() is None


class MockRecoveryRun:
    """A run whose jobs are mocks that end when they are killed; it writes until it is stopped."""

    sides = ("baseline", "candidate")
    progress = SimpleNamespace(event=lambda *given, **more: None)
    past = SimpleNamespace(has=lambda *given, **more: False)

    def __init__(self) -> None:
        self.wrote: list[Any] = []
        self.stopped = False
        self.jobs: list[Any] = []

    def start_ranks(self, side: str, *given: Any, **more: Any) -> Any:
        ended = threading.Event()
        job = SimpleNamespace(side=side, ended=ended, send=lambda *a, **k: None, kill=ended.set)
        self.jobs.append(job)
        return job

    def side_failed(self, *given: Any) -> None:
        self.write_all(["side.failed"])

    def write_all(self, records: list[Any]) -> None:
        if self.stopped:
            raise RuntimeError("the run was stopped")
        self.wrote += records


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
def test_a_run_that_is_stopped_during_recovery_writes_no_fact_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs are killed once nothing can be written: a killed job is not one that did not come back."""

    class Stopped(BaseException):
        pass

    def stop(*given: Any) -> None:
        raise Stopped

    run = MockRecoveryRun()
    needs = SimpleNamespace(wants=lambda metric: metric == "recovery.rank_killed")
    cell = SimpleNamespace(cell="c", count=2, needs=needs, ranks=run, ran=set(), fact=lambda *given: given)
    trials = RecoveryTrials(cell)  # type: ignore[arg-type]

    def trial(side: str, repeat: int, worker: Any) -> dict[str, Any]:
        worker.ended.wait(10)
        raise WorkerFailed("exited", "training", "torchrun was killed")

    monkeypatch.setattr(trials, "_trial", trial)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Stopped):
            trials.all()
    finally:
        signal.signal(signal.SIGALRM, before)
    time.sleep(0.3)
    assert run.wrote == []
    run.stopped = True
    for job in run.jobs:
        job.kill()
