"""Memory of this process: peak resident set above a level, and the peak of allocated tensors on the CPU.

Meters are named in the evidence, since they are different things: `VmHWM above VmRSS` (Linux, the kernel's high-water
mark, reset before the first step), `ru_maxrss above ru_maxrss` (elsewhere; a mark that cannot be reset) and
`torch profiler` (the tensor allocator's own events). Must not decide what is too much.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def resident_bytes(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process in bytes. Raises OSError where there is no such file."""
    for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {field}")


def give_back_heap() -> None:
    """Collects garbage and returns free heap pages to the system, so that the level is what is really in use."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class ResidentPeak:
    """Peak resident set above the level at `start`. `meter` says how it was measured."""

    def __init__(self) -> None:
        self.meter = ""
        self._level = 0

    def start(self) -> None:
        give_back_heap()
        try:
            CLEAR_REFS.write_text("5", encoding="ascii")
            self._level = resident_bytes("VmRSS")
            self.meter = "VmHWM above VmRSS"
        except OSError:
            self._level = self._maximum()
            self.meter = "ru_maxrss above ru_maxrss"

    @staticmethod
    def _maximum() -> int:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def peak(self) -> int:
        """Bytes above the level, from `start` until now."""
        now = resident_bytes("VmHWM") if self.meter.startswith("VmHWM") else self._maximum()
        return max(0, now - self._level)


def with_planted(step: Callable[[], Any], planted: int, place: Any) -> Callable[[], None]:
    """`step` with a tensor of `planted` bytes on device `place` alive for as long as it runs: written, so that it is
    resident."""
    import torch

    def more() -> None:
        held = torch.ones(planted, dtype=torch.uint8, device=place)
        step()
        del held

    return more


def allocated_peak(work: Callable[[], Any]) -> int:
    """Bytes of tensors alive at the worst moment of `work()`, above the level when it began (CPU allocator events)."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        kept = work()
    del kept
    cpu = torch.device("cpu").type
    events = [
        (event.start_ns(), event.nbytes())
        for event in recorded.profiler.kineto_results.events()
        if event.name() == "[memory]" and str(event.device_type()).lower().endswith(cpu)
    ]
    now = peak = 0
    for _, size in sorted(events, key=lambda pair: pair[0]):
        now += size
        peak = max(peak, now)
    return peak
