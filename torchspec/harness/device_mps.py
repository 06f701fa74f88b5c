"""Apple GPUs through Metal: the host's clock after synchronising; memory is sampled, since Metal keeps no peak.

`torch.mps.Event` does not time calls here: in versions of torch that this must run on, an event's time is the host's
clock as read in a callback that Metal runs when it gets to it, and `elapsed_time` behind `synchronize` may never return
(pytorch issue 162872). Waiting for the device and reading the clock says the same, and returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .device import Device
from .environ import cpu_model

#: Seconds between two looks at the driver's figures.
LOOK_EVERY_S = 0.001


def apple_name(ask: Callable[[], str] | None) -> str:
    """The chip's name, the same whichever torch asks: as the system tells it where the chip holds the GPU too, else as
    Metal does where this torch asks it."""
    told = cpu_model()
    if told.startswith("Apple") or ask is None:
        return told
    try:
        return ask() or told
    except (RuntimeError, AttributeError):
        return told


class Mps(Device):
    """torch's mps device."""

    name = "mps"
    torch_name = "mps"
    shortest_ns = 5_000_000  # a wait for Metal takes 0.1 ms and more

    def missing(self) -> str | None:
        import torch

        if not torch.backends.mps.is_built():
            return f"this torch ({torch.__version__}) was not built for mps"
        if not torch.backends.mps.is_available():
            return "this machine has no Apple GPU that torch can use"
        return None

    def probe(self) -> dict[str, Any]:
        import platform

        import torch

        ask = getattr(torch.backends.mps, "get_name", None) if self.missing() is None else None
        facts: dict[str, Any] = {"name": apple_name(ask), "macos": platform.mac_ver()[0]}
        if self.missing() is None and hasattr(torch.mps, "recommended_max_memory"):
            facts["recommended_bytes"] = torch.mps.recommended_max_memory()
        return facts

    def seed(self, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        torch.mps.manual_seed(seed)

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()

    def empty_cache(self) -> None:
        import torch

        torch.mps.empty_cache()

    def reserved(self) -> int | None:
        """What torch's allocator holds, None where this torch does not tell: what Metal holds is another figure."""
        import torch

        read = getattr(getattr(torch, "accelerator", None), "memory_reserved", None)
        try:
            return int(read()) if read is not None else None
        except (RuntimeError, NotImplementedError):
            return None

    def memory(self, step: Callable[[], Any], steps: int, wanted: set[str]) -> dict[str, tuple[float, str]]:
        import torch

        self.synchronize()
        self.empty_cache()
        driver, allocated = torch.mps.driver_allocated_memory(), torch.mps.current_allocated_memory()
        reserved = self.reserved() or 0
        step()  # what only a first step takes, such as compiled shaders, is no peak of the work
        self.synchronize()
        self.empty_cache()
        highest = [driver, allocated, 0]
        unused = 0.0
        done = threading.Event()

        def look() -> None:
            nonlocal unused
            now = torch.mps.current_allocated_memory()
            highest[0] = max(highest[0], torch.mps.driver_allocated_memory())
            highest[1] = max(highest[1], now)
            held = self.reserved() or 0
            if held > highest[2]:
                highest[2], unused = held, max(0.0, 1.0 - now / held)

        def watch() -> None:
            while not done.wait(LOOK_EVERY_S):
                look()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        for _ in range(steps):
            step()
            self.synchronize()
            look()
        done.set()
        watcher.join()
        sampled = f"sampled every {LOOK_EVERY_S * 1e3:g} ms"
        found = {
            "memory.driver_peak": (float(highest[0] - driver), f"driver_allocated_memory {sampled}"),
            "memory.allocated_peak": (float(highest[1] - allocated), f"current_allocated_memory {sampled}"),
        }
        if highest[2] > 0:  # an allocator that tells nothing, or that tells 0 while tensors are held, is not believed
            found["memory.reserved_peak"] = (float(highest[2] - reserved), f"accelerator.memory_reserved {sampled}")
            found["memory.fragmentation"] = (unused, f"memory_reserved and current_allocated_memory {sampled}")
        return found
