"""Workers that are started while a pair is timed: which, when, and that none is left; and one real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from mock_workers import BUDGET, WORK, Bench, never

from torchspec.harness import spares
from torchspec.harness.environ import tie_to_cores
from torchspec.model.plan import Plan


@pytest.fixture
def make(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str], list[int]], Bench]:
    def made(metrics: list[str], cores: list[int]) -> Bench:
        monkeypatch.setattr(spares, "usable_cores", lambda: cores)
        return Bench(make_plan(WORK, metrics, budget=BUDGET), tmp_path, never, monkeypatch)

    return made


def purposes(bench: Bench) -> list[str]:
    return [purpose for purpose, _ in bench.started]


def test_the_next_pairs_workers_start_while_a_pair_is_timed(make: Callable[..., Bench]) -> None:
    bench = make(["latency.p50"], [0, 1])
    assert set(bench.go().values()) == {None}
    # three pairs of controls and three of measuring; only the very first has to wait for its workers
    assert sorted(purposes(bench)[:2]) == ["time-control-a", "time-control-b"]
    assert purposes(bench)[2:] == ["time-spare"] * 10
    sides = [worker.side for _, worker in bench.started]
    assert sides[:6] == ["baseline"] * 6
    assert [sorted(sides[place : place + 2]) for place in (6, 8, 10)] == [["baseline", "candidate"]] * 3
    assert all(worker.ended for _, worker in bench.started)
    assert all(worker.asked["block"] > 0 for _, worker in bench.started)  # none was started in vain


@pytest.mark.parametrize(
    ("metrics", "cores"),
    [(["latency.p95"], [0, 1]), (["latency.p50", "latency.p99"], [0, 1]), (["latency.p50"], [0])],
    ids=["a tail is timed", "one of two is a tail", "no other core"],
)
def test_nothing_starts_beside_what_it_would_disturb(
    make: Callable[..., Bench], metrics: list[str], cores: list[int]
) -> None:
    bench = make(metrics, cores)
    assert set(bench.go().values()) == {None}
    assert "time-spare" not in purposes(bench)


def test_a_run_whose_work_takes_every_core_keeps_none(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make(["latency.p50"], [0, 1])
    monkeypatch.setattr(bench.run, "keeps_spares", False)
    bench.go()
    assert "time-spare" not in purposes(bench)


def test_spares_that_nobody_takes_are_ended(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the first look a pair is likely to be followed by another; where it was the last one, its spares end."""
    monkeypatch.setattr(spares, "usable_cores", lambda: [0, 1])
    budget = replace(BUDGET, min_pairs=3, max_pairs=6)
    bench = Bench(make_plan(WORK, ["latency.p50"], budget=budget), tmp_path, never, monkeypatch)
    bench.go()
    unused = [worker for _, worker in bench.started if not worker.asked]
    assert all(worker.ended for _, worker in bench.started)
    assert len(unused) <= 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system ties no process to cores")
def test_every_thread_of_a_worker_is_tied_and_one_that_is_gone_is_no_error() -> None:
    code = "import threading, time; threading.Thread(target=time.sleep, args=(20,)).start(); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        core = {max(os.sched_getaffinity(process.pid))}
        tie_to_cores(process.pid, core)
        threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
        assert len(threads) == 2
        assert all(os.sched_getaffinity(thread) == core for thread in threads)
        process.kill()
    tie_to_cores(2**22 + 1, {0})
