"""How long a call takes on a device that works on behind the host, and how many calls a timed sample of it holds."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.recording_torch import RecordingTorch
from torchspec.harness import measure, worker
from torchspec.harness.device_cpu import Cpu
from torchspec.harness.device_cuda import Cuda
from torchspec.harness.device_mps import Mps
from torchspec.harness.device_rocm import Rocm
from torchspec.harness.jobs import Job


class Queue:
    """A device on a clock of its own: launching a call, running it, and waiting for all of them take so many ns."""

    def __init__(self, launch: int, call: int, wait: int) -> None:
        self.launch, self.call, self.wait = launch, call, wait
        self.now, self.done, self.waits, self.steps = 0, 0, 0, 0

    def step(self) -> None:
        self.steps += 1
        self.now += self.launch
        self.done = max(self.done, self.now) + self.call

    def synchronize(self) -> None:
        self.waits += 1
        self.now = max(self.now, self.done) + self.wait

    def clock(self) -> Any:
        return SimpleNamespace(perf_counter_ns=lambda: self.now, perf_counter=lambda: self.now * 1e-9)


@pytest.mark.parametrize(("device", "shortest"), [(Cuda, 1_000_000), (Rocm, 1_000_000), (Mps, 5_000_000)])
@pytest.mark.parametrize(("launch", "call"), [(2_000, 7_000), (9_000, 4_000)])
def test_a_short_call_is_not_timed_as_its_launch_and_a_wait(
    device: type[Any], shortest: int, launch: int, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a wait of 150 us a call of 7 us was taken for one of 160 us, and every sample held one."""
    queue, made = Queue(launch, call, 150_000), device()
    monkeypatch.setattr(measure, "time", queue.clock())
    monkeypatch.setattr(made, "synchronize", queue.synchronize)
    call_ns = made.warm(queue.step, 0.03)
    assert max(launch, call) <= call_ns <= 1.2 * max(launch, call)
    calls, samples = measure.block_shape(call_ns, 10.0, made.shortest_ns)
    assert made.shortest_ns == shortest
    assert calls * call_ns >= shortest
    assert 5e6 <= calls * samples * call_ns <= 15e6
    assert queue.now < 0.2e9, "and it does not take long"


@pytest.mark.parametrize("call", [3_000_000, 40_000_000, 5_000_000_000])
def test_a_long_call_is_waited_for_by_itself(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, made = Queue(5_000, call, 150_000), Cuda()
    monkeypatch.setattr(measure, "time", queue.clock())
    monkeypatch.setattr(made, "synchronize", queue.synchronize)
    assert call <= made.warm(queue.step, 0.03) <= call * 1.1
    assert queue.steps <= 12
    assert measure.block_shape(call, 10.0, made.shortest_ns)[0] == 1


def test_the_cpu_is_warmed_call_by_call() -> None:
    assert Cpu().shortest_ns == measure.SHORTEST_SAMPLE_NS == 20_000


def test_a_worker_waits_once_for_a_batch_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = RecordingTorch(cuda="13.0")
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    bench: Any = object.__new__(worker.Bench)

    class Work(Job):
        def step(self) -> None:
            torch.work(1)

    bench.device, bench.jobs = Cuda(), {"own": Work()}
    assert bench.warm("own")["call_ns"] > 0
    calls = torch.calls
    assert calls[:3] == ["synchronize", "step", "synchronize"], "what only the first call does is in no batch"
    batches = [len(part.split()) for part in " ".join(calls).split("synchronize") if part.strip()]
    assert max(batches) > 10
    assert calls[-1] == "synchronize"
