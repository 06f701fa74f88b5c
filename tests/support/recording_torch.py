"""A recording stand-in for torch's device modules: no device, only the order in which it is called.

It answers what a device module would and writes each call down, so that tests can hold a backend's device code to the
order of its calls on a machine without the device. It says nothing about whether a real torch accepts these calls.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class RecordingTorch:
    """`calls` is the list of names in order; `allocated`, `reserved` and `free` are what the meters show."""

    __version__ = "0.0.0-stand-in"

    def __init__(
        self, *, cuda: str | None = None, hip: str | None = None, mps: bool = False, there: bool = True,
        tells_reserved: bool = False,
    ):  # fmt: skip
        self.calls: list[str] = []
        self.allocated, self.reserved, self.free = 100, 200, 10_000
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved
        self.there = there
        self.deterministic = False
        self.version = SimpleNamespace(cuda=cuda, hip=hip)
        self.cuda = _Cuda(self)
        self.mps = _Mps(self)
        if tells_reserved:
            self.accelerator = SimpleNamespace(memory_reserved=lambda: self.reserved - 50)
        matmul = SimpleNamespace(
            allow_tf32=False,
            allow_fp16_reduced_precision_reduction=True,
            allow_bf16_reduced_precision_reduction=True,
        )
        self.backends = SimpleNamespace(
            cuda=SimpleNamespace(matmul=matmul),
            cudnn=SimpleNamespace(version=lambda: 90000, allow_tf32=True, deterministic=False, benchmark=True),
            mps=SimpleNamespace(is_built=lambda: mps, is_available=lambda: mps and there),
        )

    def note(self, call: str) -> None:
        self.calls.append(call)

    def device(self, name: str) -> str:
        self.note(f"device {name}")
        return name

    def manual_seed(self, seed: int) -> None:
        self.note(f"manual_seed {seed}")

    def get_float32_matmul_precision(self) -> str:
        return "highest"

    def are_deterministic_algorithms_enabled(self) -> bool:
        return self.deterministic

    def use_deterministic_algorithms(self, mode: bool) -> None:
        self.note(f"use_deterministic_algorithms {mode}")
        self.deterministic = mode

    def work(self, grows: int) -> None:
        """What a test's step does: the work, which holds `grows` bytes at its peak and gives them back."""
        self.note("step")
        self.peak_allocated = max(self.peak_allocated, self.allocated + grows)
        self.reserved = max(self.reserved, self.allocated + grows)
        self.peak_reserved = max(self.peak_reserved, self.reserved)


class _Event:
    def __init__(self, torch: RecordingTorch) -> None:
        self._torch = torch

    def record(self) -> None:
        self._torch.note("event.record")

    def synchronize(self) -> None:
        self._torch.note("event.synchronize")

    def elapsed_time(self, end: _Event) -> float:
        self._torch.note("event.elapsed_time")
        return 2.0


class _Cuda:
    """torch.cuda."""

    def __init__(self, torch: RecordingTorch) -> None:
        self._torch = torch

    def is_available(self) -> bool:
        return self._torch.there

    def synchronize(self) -> None:
        self._torch.note("synchronize")

    def manual_seed_all(self, seed: int) -> None:
        self._torch.note(f"cuda.manual_seed_all {seed}")

    def empty_cache(self) -> None:
        self._torch.note("empty_cache")
        self._torch.reserved = self._torch.allocated + 100

    def reset_peak_memory_stats(self) -> None:
        self._torch.note("reset_peak_memory_stats")
        self._torch.peak_allocated, self._torch.peak_reserved = self._torch.allocated, self._torch.reserved

    def mem_get_info(self) -> tuple[int, int]:
        return self._torch.free - self._torch.reserved, self._torch.free

    def memory_allocated(self) -> int:
        return self._torch.allocated

    def memory_reserved(self) -> int:
        return self._torch.reserved

    def max_memory_allocated(self) -> int:
        self._torch.note("max_memory_allocated")
        return self._torch.peak_allocated

    def max_memory_reserved(self) -> int:
        self._torch.note("max_memory_reserved")
        return self._torch.peak_reserved

    def Event(self, enable_timing: bool) -> _Event:
        assert enable_timing
        return _Event(self._torch)

    def get_device_properties(self, index: int) -> Any:
        names = {"name": "stand-in", "total_memory": 10_000, "multi_processor_count": 4}
        return SimpleNamespace(**names, gcnArchName="gfx942:sramecc+:xnack-")

    def get_device_capability(self, index: int) -> tuple[int, int]:
        return 9, 0

    def device_count(self) -> int:
        return 1


class _Mps:
    """torch.mps, which keeps no peak of its own."""

    def __init__(self, torch: RecordingTorch) -> None:
        self._torch = torch

    def synchronize(self) -> None:
        self._torch.note("synchronize")

    def manual_seed(self, seed: int) -> None:
        self._torch.note(f"mps.manual_seed {seed}")

    def empty_cache(self) -> None:
        self._torch.note("empty_cache")
        self._torch.reserved = self._torch.allocated + 100

    def driver_allocated_memory(self) -> int:
        return self._torch.reserved

    def current_allocated_memory(self) -> int:
        return self._torch.allocated

    def recommended_max_memory(self) -> int:
        return 5_000
