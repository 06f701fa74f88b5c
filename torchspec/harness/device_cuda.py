"""NVIDIA GPUs: device events for time; the device's own accounting and the allocator's counters for memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from .device import Device


class Cuda(Device):
    """torch's cuda device on an NVIDIA build. `Rocm` shares its calls but not its probe."""

    name = "cuda"
    torch_name = "cuda"
    clock = "cuda event"
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
            architecture=getattr(properties, "gcnArchName", None),
            devices=torch.cuda.device_count(),
            cudnn=torch.backends.cudnn.version(),
        )
        return facts

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
        import torch

        self.synchronize()
        self.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        free, _ = torch.cuda.mem_get_info()
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        lowest = free
        for _ in range(steps):
            step()
            self.synchronize()
            lowest = min(lowest, torch.cuda.mem_get_info()[0])
        peak_reserved = torch.cuda.max_memory_reserved()
        # The allocator gives memory back only when told to, so free memory after a step is at its lowest unless it was
        # told to within the step; its own reserved peak bounds that from below.
        driver = max(free - lowest, peak_reserved - reserved)
        return {
            "memory.driver_peak": (float(driver), "mem_get_info and allocator"),
            "memory.reserved_peak": (float(peak_reserved - reserved), "max_memory_reserved"),
            "memory.allocated_peak": (float(torch.cuda.max_memory_allocated() - allocated), "max_memory_allocated"),
        }
