"""What a device is to the harness: `Device`, with one subclass and one file (`device_<backend>.py`) a backend.

A device says whether it is there, seeds, synchronises, times calls and measures memory. To add one: subclass, set
`name` and `torch_name`, and override what differs; defining the class registers it in `DEVICES`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar

from .measure import SHORTEST_SAMPLE_NS, timed_samples, warm_batches
from .memory import ResidentPeak, allocated_peak

#: backend -> its class; filled as the device modules define their classes.
DEVICES: dict[str, type[Device]] = {}


def read_switches(readers: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each reader gives; None where this torch does not have what it reads."""
    found: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            found[name] = read()
        except (AttributeError, RuntimeError, NotImplementedError):
            found[name] = None
    return found


class Device:
    """A place where torch runs. The base class answers for the CPU and for what all devices share."""

    name = ""
    torch_name = "cpu"
    #: What `sample` reads: the host's clock after synchronising, or the device's own events.
    clock = "perf_counter_ns"
    #: A timed sample is at least so long: beside it, reading the clock and waiting for the device are little.
    shortest_ns = SHORTEST_SAMPLE_NS
    clocks_program: str | None = None  # tells the device's clocks, as `noise.Clocks` asks for them
    #: Whether `memory` reads what all processes on the device hold together: then the two sides are asked in turn.
    shared_meter = False
    #: Set by a device whose sides are more than one process each, in place of the driver's own: the run, and what
    #: measures its cells before they are timed.
    run_type: Any = None
    cells_type: Any = None
    #: Further commands of the emitted file: name -> function of (arguments, Embedded) that gives the exit status.
    commands: ClassVar[dict[str, Callable[[list[str], Any], int]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        DEVICES[cls.name] = cls

    #: The device backend below this one, where it is one of several ranks.
    over: str | None = None

    def __init__(self) -> None:
        #: What a reader should know of the last `memory`: {metric: {..}}.
        self.notes: dict[str, dict[str, Any]] = {}

    def missing(self) -> str | None:
        """Why this machine or this torch cannot run it; None where it can."""
        return None

    def place(self) -> Any:
        """The torch.device that work is put on."""
        import torch

        return torch.device(self.torch_name)

    def probe(self) -> dict[str, Any]:
        """Hardware and driver, as JSON types; works where the device is missing."""
        return {}

    def precision(self) -> dict[str, Any]:
        """Switches of precision and determinism as they stand in this process; None where this torch has no such."""
        import torch

        return read_switches(
            {
                "float32_matmul_precision": torch.get_float32_matmul_precision,
                "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
            }
        )

    def be_deterministic(self) -> None:
        """Throws the device's own switches for determinism, beside `torch.use_deterministic_algorithms`."""

    def seed(self, seed: int) -> None:
        import torch

        torch.manual_seed(seed)

    def synchronize(self) -> None:
        """Returns when everything queued has run."""

    def warm(self, step: Callable[[], Any], at_least_s: float) -> float:
        """Runs until the work is warm; ns of a call."""
        return warm_batches(step, self.synchronize, self.shortest_ns, at_least_s)

    def sample(self, step: Callable[[], Any], calls: int, samples: int, plants: list[float]) -> list[list[float]]:
        """Per-call nanoseconds; see `measure.timed_samples`."""
        return timed_samples(step, calls, samples, plants, self.synchronize)

    def empty_cache(self) -> None:
        """Gives back what the device's allocator keeps."""

    def memory(self, step: Callable[[], Any], steps: int, wanted: set[str]) -> dict[str, tuple[float, str]]:
        """{metric: (bytes, meter)} of the peaks over `steps` steps, above the level before the first.

        Called in a fresh process. Only the metrics in `wanted` need be there; one that this device or this torch
        cannot give is left out, and the caller records it as unsupported.
        """
        return {}


class HostMemory(Device):
    """The two meters of work that runs in this process's own memory.

    The first step of a process also loads code and modules that torch loads late, which counts: it is memory that the
    process did not have before. `notes` tells that part from the work's own: the peak of the first step, that of one
    more step above the level that the earlier ones left, and how many modules the first one imported.
    """

    name = "host"

    def memory(self, step: Callable[[], Any], steps: int, wanted: set[str]) -> dict[str, tuple[float, str]]:
        modules = len(sys.modules)
        resident = ResidentPeak()
        resident.start()
        step()
        first = resident.peak()
        imported = len(sys.modules) - modules
        for _ in range(steps - 1):
            step()
        whole = resident.peak()
        again = ResidentPeak()
        again.start()
        step()
        parts = {"first_step": first, "later_step": again.peak(), "modules_imported": imported}
        self.notes["memory.driver_peak"] = parts
        found = {"memory.driver_peak": (float(whole), resident.meter)}
        if "memory.allocated_peak" in wanted:
            found["memory.allocated_peak"] = (float(allocated_peak(step)), "torch profiler")
        return found
