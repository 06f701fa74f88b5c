"""NVIDIA GPUs: device events for time; the device's own accounting and the allocator's counters for memory."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .device import Device, read_switches

NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


class Cuda(Device):
    """torch's cuda device on an NVIDIA build. `Rocm` shares its calls but not its probe."""

    name = "cuda"
    torch_name = "cuda"
    clock = "cuda event"
    shortest_ns = 1_000_000
    clocks_program: str | None = "nvidia-smi"
    shared_meter = True  # `mem_get_info` is the device's own account
    vendor = "NVIDIA"

    def built(self) -> bool:
        """Whether this torch was built for this vendor."""
        import torch

        return torch.version.cuda is not None and getattr(torch.version, "hip", None) is None

    def missing(self) -> str | None:
        import torch

        if not self.built():
            return f"this torch ({torch.__version__}) was not built for {self.name}"
        if not torch.cuda.is_available():
            return f"this machine has no {self.vendor} GPU that torch {torch.__version__} can use"
        return None

    def probe(self) -> dict[str, Any]:
        import torch

        facts: dict[str, Any] = {"cuda": torch.version.cuda, "hip": getattr(torch.version, "hip", None)}
        if self.missing() is not None:
            return facts
        properties = torch.cuda.get_device_properties(0)
        facts.update(
            name=properties.name,
            memory_bytes=properties.total_memory,
            processors=properties.multi_processor_count,
            capability=".".join(map(str, torch.cuda.get_device_capability(0))),
            devices=torch.cuda.device_count(),
            cudnn=torch.backends.cudnn.version(),
            driver=driver_version(NVIDIA_DRIVER),
        )
        return facts

    def precision(self) -> dict[str, Any]:
        import torch

        backends = torch.backends
        return {
            **super().precision(),
            **read_switches(
                {
                    "matmul_tf32": lambda: backends.cuda.matmul.allow_tf32,
                    "cudnn_tf32": lambda: backends.cudnn.allow_tf32,
                    "fp16_reduced_reduction": lambda: backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
                    "bf16_reduced_reduction": lambda: backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
                    "cudnn_deterministic": lambda: backends.cudnn.deterministic,
                    "cudnn_benchmark": lambda: backends.cudnn.benchmark,
                }
            ),
        }

    def be_deterministic(self) -> None:
        """Before the first matrix product, since the library reads the variable when it starts."""
        import torch

        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False

    def seed(self, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        torch.cuda.manual_seed_all(seed)

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def empty_cache(self) -> None:
        import torch

        torch.cuda.empty_cache()

    def sample(self, step: Callable[[], Any], calls: int, samples: int, plants: list[float]) -> list[list[float]]:
        import torch

        out: list[list[float]] = [[] for _ in plants or [0.0]]
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            self.synchronize()
            for _ in range(samples):
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                for _ in range(calls):
                    step()
                end.record()
                end.synchronize()
                own = start.elapsed_time(end) * 1e6
                begin = now = time.perf_counter_ns()
                for place, plant in enumerate(plants or [0.0]):  # the planted work is host time after the device's own
                    while now - begin < own * plant:
                        now = time.perf_counter_ns()
                    out[place].append((own + (now - begin)) / calls)
        finally:
            if was_enabled:
                gc.enable()
        return out

    def memory(self, step: Callable[[], Any], steps: int, wanted: set[str]) -> dict[str, tuple[float, str]]:
        """One step goes before: what only a first step takes (plans, workspaces tried out) is no peak of the work."""
        import torch

        self.synchronize()
        self.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        step()
        self.synchronize()
        self.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        lowest = free
        for _ in range(steps):
            step()
            self.synchronize()
            lowest = min(lowest, torch.cuda.mem_get_info()[0])
        peak_reserved, peak_allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
        # The allocator gives memory back only when told to, so free memory after a step is at its lowest unless it was
        # told to within the step; its own reserved peak bounds that from below.
        driver = max(free - lowest, peak_reserved - reserved)
        unused = max(0.0, 1.0 - peak_allocated / peak_reserved) if peak_reserved else 0.0
        return {
            "memory.driver_peak": (float(driver), "mem_get_info and allocator"),
            "memory.reserved_peak": (float(peak_reserved - reserved), "max_memory_reserved"),
            "memory.allocated_peak": (float(peak_allocated - allocated), "max_memory_allocated"),
            "memory.fragmentation": (unused, "max_memory_reserved and max_memory_allocated"),
        }


def driver_version(place: Path) -> str | None:
    """The kernel driver's version as its file tells it, None where there is none."""
    try:
        return place.read_text(encoding="utf-8", errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return None
