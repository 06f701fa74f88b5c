"""The order of calls of each backend's device code, against a recording stand-in for torch's device modules."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.recording_torch import RecordingTorch
from torchspec.harness import forced, graph, worker
from torchspec.harness.device_cuda import Cuda
from torchspec.harness.device_mps import Mps
from torchspec.harness.device_rocm import Rocm
from torchspec.harness.environ import wants_determinism
from torchspec.harness.jobs import Job
from torchspec.harness.module_job import ModuleJob
from torchspec.harness.work_attention import AttentionJob

BUILDS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "cuda": (Cuda, {"cuda": "13.0"}),
    "rocm": (Rocm, {"hip": "7.1"}),
    "mps": (Mps, {"mps": True}),
}


def stand_in(monkeypatch: pytest.MonkeyPatch, **build: Any) -> RecordingTorch:
    torch = RecordingTorch(**build)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    return torch


@pytest.fixture(params=sorted(BUILDS))
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, RecordingTorch]:
    made, build = BUILDS[request.param]
    return made(), stand_in(monkeypatch, **build)


def test_a_step_goes_before_the_peaks_are_reset(backend: tuple[Any, RecordingTorch]) -> None:
    device, torch = backend
    device.memory(lambda: torch.work(400), 2, {"memory.driver_peak"})
    assert torch.calls.count("step") == 3
    if "reset_peak_memory_stats" in torch.calls:
        reset = torch.calls.index("reset_peak_memory_stats")
        assert torch.calls[:reset].count("step") == 1, "the warm-up comes before the reset, and alone"
        assert torch.calls[reset - 2 : reset] == ["synchronize", "empty_cache"]


def test_every_memory_step_is_waited_for(backend: tuple[Any, RecordingTorch]) -> None:
    device, torch = backend
    device.memory(lambda: torch.work(400), 3, {"memory.driver_peak"})
    after = [torch.calls[place + 1] for place, call in enumerate(torch.calls) if call == "step"]
    assert after == ["synchronize"] * 4


def test_cuda_peaks_stand_above_the_level_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = stand_in(monkeypatch, cuda="13.0")
    found = Cuda().memory(lambda: torch.work(400), 2, set())
    assert found["memory.allocated_peak"] == (400.0, "max_memory_allocated")
    assert found["memory.reserved_peak"] == (300.0, "max_memory_reserved")
    assert found["memory.driver_peak"] == (300.0, "mem_get_info and allocator")
    assert len({meter for _, meter in found.values()}) == 4, "each figure names its own meter"


def test_a_peak_of_the_first_step_alone_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = stand_in(monkeypatch, cuda="13.0")
    sizes = iter([5000, 400, 400])
    found = Cuda().memory(lambda: torch.work(next(sizes)), 2, set())
    assert found["memory.allocated_peak"][0] == 400.0


def test_mps_says_that_its_memory_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = stand_in(monkeypatch, mps=True)
    found = Mps().memory(lambda: torch.work(400), 2, set())
    assert found["memory.driver_peak"][1].startswith("driver_allocated_memory sampled")
    assert found["memory.allocated_peak"][1].startswith("current_allocated_memory sampled")


def test_mps_gives_what_its_allocator_holds_only_where_torch_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = stand_in(monkeypatch, mps=True)
    found = Mps().memory(lambda: torch.work(400), 2, set())
    assert "memory.reserved_peak" not in found, "what Metal holds is not what the allocator holds"
    assert "memory.fragmentation" not in found
    torch = stand_in(monkeypatch, mps=True, tells_reserved=True)
    found = Mps().memory(lambda: torch.work(400), 2, set())
    assert found["memory.reserved_peak"] == (300.0, "accelerator.memory_reserved sampled every 1 ms")
    assert 0.0 <= found["memory.fragmentation"][0] < 1.0
    assert len({meter for _, meter in found.values()}) == 4


def test_device_events_stand_around_the_calls_and_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for made, build in (BUILDS["cuda"], BUILDS["rocm"]):
        torch = stand_in(monkeypatch, **build)
        taken = made().sample(partial(torch.note, "step"), 3, 2, [])
        one = ["event.record", "step", "step", "step", "event.record", "event.synchronize", "event.elapsed_time"]
        assert torch.calls == ["synchronize", *one, *one]
        assert taken == [pytest.approx([2e6 / 3] * 2, rel=0.2)]


def test_mps_synchronises_before_each_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = stand_in(monkeypatch, mps=True)
    Mps().sample(lambda: torch.note("step"), 2, 2, [])
    assert torch.calls == ["synchronize", "step", "step", "synchronize"] * 2


class RecordedJob(Job):
    """A job whose steps are written down."""

    def __init__(self, torch: RecordingTorch) -> None:
        self.torch = torch

    def step(self) -> None:
        self.torch.note("step")

    def subject(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return None, (), {}

    def run_with(self, runner: Any) -> None:
        self.torch.note("compiled")


def with_clock(monkeypatch: pytest.MonkeyPatch, module: Any, torch: RecordingTorch) -> None:
    """From now on each look of `module` at the clock is written down too."""

    def look() -> float:
        torch.note("clock")
        return 0.0

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=look))


def bench_of(device: Any, **jobs: Job) -> worker.Bench:
    """A bench of one device, without a plan."""
    bench = object.__new__(worker.Bench)
    bench.device, bench.jobs = device, dict(jobs)
    return bench


def test_the_first_call_is_timed_on_a_device_that_is_done(
    backend: tuple[Any, RecordingTorch], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, torch = backend
    with_clock(monkeypatch, worker, torch)
    bench_of(device, own=RecordedJob(torch)).first("own")
    assert torch.calls == ["synchronize", "clock", "step", "synchronize", "clock"]


def test_warming_up_begins_on_a_device_that_is_done(backend: tuple[Any, RecordingTorch]) -> None:
    device, torch = backend
    bench_of(device, own=RecordedJob(torch)).warm("own", again=True)
    assert torch.calls[:5] == ["synchronize", "step", "synchronize", "step", "synchronize"]


def test_compiling_is_timed_on_a_device_that_is_done(
    backend: tuple[Any, RecordingTorch], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, torch = backend
    torch._dynamo = SimpleNamespace(reset=lambda: None, utils=SimpleNamespace(counters={}))  # type: ignore[attr-defined]
    torch.compile = lambda module: module  # type: ignore[attr-defined]
    monkeypatch.setattr(graph, "compiler_counts", dict)
    with_clock(monkeypatch, graph, torch)
    graph.compile_job(RecordedJob(torch), {}, device.synchronize)
    assert torch.calls == ["compiled", "synchronize", "clock", "step", "synchronize", "clock"]


class RecordedWork:
    """A kind of work that writes down where it is built, and in what."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def reference(self) -> None:
        return None

    def job(self, frozen: Any, mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        torch = sys.modules["torch"]
        torch.note(f"built {mode} on {device} in {dtype}")  # type: ignore[attr-defined]
        return RecordedJob(torch)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["infer", "train", "compile", "train_compiled", "export"])
def test_all_work_is_built_on_the_device_that_was_asked_for(
    mode: str, backend: tuple[Any, RecordingTorch], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, torch = backend
    torch.float64 = torch.float32 = "wide"  # type: ignore[attr-defined]
    monkeypatch.setitem(worker.KINDS, "recorded", RecordedWork)  # type: ignore[arg-type]
    monkeypatch.setattr(worker, "load_tree", lambda path: {"inputs": {}, "weights": {}})
    monkeypatch.setattr(worker, "tree_digest", str)
    monkeypatch.setattr(worker, "save_tree", lambda tree, path: None)
    monkeypatch.setattr(worker.Bench, "_results", lambda self, job, gradients: {})
    bench = bench_of(device)
    bench.side, bench.team, bench.settings, bench.works = "candidate", Path(), {}, {}
    cell = {"workload": "w", "mode": mode, "axes": {}}
    workload = {"kind": "recorded", "options": {}, "beside": "old", "entry": None}
    bench.embedded = SimpleNamespace(  # type: ignore[assignment]
        gates=lambda cell: [],
        cells={"c": cell},
        workloads={"w": workload},
        frozen={"seed": 1},
        backend=device.name,
        side=lambda name: {},
    )
    place = device.torch_name
    plain = "train" if mode.startswith("train") else "infer"
    for variant in ("own", "eager", "beside"):
        torch.calls.clear()
        opened = bench.open(variant, "c", "frozen", variant)
        assert opened["compiles"] == ("compile" in mode and variant != "eager")
        (built,) = [call for call in torch.calls if call.startswith("built")]
        assert built == f"built {plain if variant == 'eager' else mode} on {place} in None"
    for where, expected in ((device.name, place), ("cpu", "cpu")):
        torch.calls.clear()
        bench.reference("c", "frozen", f"{where}.float64", "out")
        (built,) = [call for call in torch.calls if call.startswith("built")]
        assert built == f"built {plain} on {expected} in wide"
    with pytest.raises(worker.Unsupported, match="cannot be made on"):
        bench.reference("c", "frozen", "tpu.float64", "out")


def test_work_is_put_on_the_device_and_seeds_are_set_on_it(backend: tuple[Any, RecordingTorch]) -> None:
    device, torch = backend
    device.seed(7)
    assert device.place() == device.torch_name != "cpu"
    assert "manual_seed 7" in torch.calls
    assert any("." in call and call.endswith(" 7") for call in torch.calls)


@pytest.mark.parametrize("name", sorted(BUILDS))
def test_a_build_for_another_device_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, build = BUILDS[name]
    for other, (_, another) in BUILDS.items():
        stand_in(monkeypatch, **another)
        assert (made().missing() is None) == (other == name), f"{name} on a build for {other}"
    stand_in(monkeypatch, **build, there=False)
    assert made().missing().startswith("this machine has no")


def test_rocm_has_a_probe_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, hip="7.1")
    found = Rocm().probe()
    assert found["hip"] == "7.1"
    assert found["architecture"] == "gfx942"
    assert found["miopen"] == 90000
    assert "cuda" not in found
    assert "capability" not in found


def test_precision_that_a_torch_lacks_is_none_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = stand_in(monkeypatch, cuda="13.0")
    del torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    found = Cuda().precision()
    assert found["matmul_tf32"] is False
    assert found["cudnn_benchmark"] is True
    assert found["bf16_reduced_reduction"] is None


def attention_job(
    torch: RecordingTorch, monkeypatch: pytest.MonkeyPatch, place: str, path: str | None, cell_mode: str, mode: str
) -> AttentionJob:
    """A job of attention on a place, of which only what it compiles is written down."""

    def built(self: Any, work: Any, frozen: Any, mode: str, path: str | None, device: Any, dtype: Any) -> None:
        self.inputs = (SimpleNamespace(device=SimpleNamespace(type=device)),)
        self.module = SimpleNamespace(fuse=lambda: torch.note("fuse"))
        self.mode = mode

    monkeypatch.setattr(ModuleJob, "__init__", built)
    work = SimpleNamespace(own_path="flex_attention", task=SimpleNamespace(mode=cell_mode))
    return AttentionJob(work, {}, mode, path, place, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_flex_attention_is_compiled_where_its_kernels_are(
    mode: str, backend: tuple[Any, RecordingTorch], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, torch = backend
    attention_job(torch, monkeypatch, device.torch_name, None, mode, mode)
    attention_job(torch, monkeypatch, device.torch_name, "flex_attention", mode, mode)
    assert torch.calls == ["fuse", "fuse"]
    attention_job(torch, monkeypatch, device.torch_name, "sdpa", mode, mode)
    attention_job(torch, monkeypatch, "cpu", None, mode, mode)
    attention_job(torch, monkeypatch, device.torch_name, None, "compile", "compile")
    attention_job(torch, monkeypatch, device.torch_name, None, "compile", "infer")  # its eager form
    assert torch.calls == ["fuse", "fuse"]


def test_determinism_throws_the_switches_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = stand_in(monkeypatch, cuda="13.0")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    Cuda().be_deterministic()
    assert torch.backends.cudnn.deterministic is True
    assert torch.backends.cudnn.benchmark is False
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    assert wants_determinism({"deterministic": "on"})
    assert not wants_determinism({"deterministic": "off"})
    assert not wants_determinism({})


def test_a_forced_process_throws_the_switches_before_any_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library of matrix products reads its variable when it starts, and never again."""
    torch = stand_in(monkeypatch, cuda="13.0")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    bench = bench_of(Cuda())

    class MockWorker:
        def ask(self, do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
            if do == "force_determinism":
                return bench.force_determinism()
            if do == "repeats":
                torch.work(0)
                return {"digests": {"output": ["one"]}}
            if do == "open":  # building may compute already
                torch.note(f"with {os.environ.get('CUBLAS_WORKSPACE_CONFIG')}")
                torch.work(0)
            return {"compiles": False}

        def close(self) -> None:
            torch.note("close")

    run = SimpleNamespace(
        timeout_s=1.0, start_timeout_s=1.0, start=lambda side, purpose: MockWorker(), frozen_file=lambda cell: Path("f")
    )
    cell = SimpleNamespace(
        run=run, cell="c", needs=SimpleNamespace(forced_each=2), _seen=lambda side, opened: torch.note("seen")
    )
    said = forced.Answers()
    forced._forced_process(cell, 0, "baseline", {"output": "determinism.output_forced"}, said)
    assert torch.calls == [
        "use_deterministic_algorithms True", "with :4096:8", "step", "seen", "step", "close",
    ]  # fmt: skip
    assert torch.backends.cudnn.deterministic is True
    assert said.switches["deterministic_algorithms"] is True
    assert said.switches["cudnn_benchmark"] is False
    assert (said.digests, said.refused) == ({"output": ["one"]}, {})
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
