"""Faults of ranks without torch: who is named slow, who is blamed for nothing, what a stopped run does not write."""

from __future__ import annotations

import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness.dist_fault_trials import who_was_slow
from torchspec.harness.dist_trials import RecoveryTrials
from torchspec.harness.supervise import WorkerFailed


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
