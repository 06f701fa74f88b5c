"""How long a step waits for communication, from torch's profiler.

Communication in flight: the profiler's `gloo:*` ranges (each lasts from when a gloo thread takes up the operation to
its end), or `nccl*` kernels on a CUDA device. Computing: `aten::*` ranges on the threads that are not gloo's, or the
other kernels of the device. What `record_function` draws on a device is a label around kernels and neither: torch
marks it from 2.5 on, and it has the name of a range of the host, which no kernel has. **Waiting** is the time in which
communication is in flight and nothing is computed (exposed communication); **overlap** is the share of the time in
flight that is not waiting. So it does not matter who waits, the reducer of ddp in C++ or fsdp2's hooks in Python; a
rank whose peer is late waits as long as that is late. The interpreter's own work between two operators counts as
waiting while communication is in flight. Must not know what is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

Interval = tuple[float, float]


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of intervals, sorted, without overlaps and without empty ones."""
    out: list[Interval] = []
    for begin, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)


def shared(a: list[Interval], b: list[Interval]) -> float:
    """How long two merged lists of intervals overlap."""
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def communication_account(events: Iterable[tuple[str, int, bool, float, float]], steps: int) -> dict[str, float]:
    """From (name, thread, on the device, begin, end) in microseconds to seconds a step.

    {"wait_s", "flight_s", "compute_s", "overlap"}; overlap is 1.0 where nothing was in flight.
    """
    seen = list(events)
    host = {name for name, _, device, _, _ in seen if not device}
    known = [event for event in seen if not (event[2] and event[0] in host)]
    on_device = any(device and name.startswith("nccl") for name, _, device, _, _ in known)
    if on_device:
        flight = merged((begin, end) for name, _, device, begin, end in known if device and name.startswith("nccl"))
        compute = merged(
            (begin, end) for name, _, device, begin, end in known if device and not name.startswith("nccl")
        )
    else:
        threads = {thread for name, thread, _, _, _ in known if name.startswith("gloo:")}
        flight = merged((begin, end) for name, _, _, begin, end in known if name.startswith("gloo:"))
        compute = merged(
            (begin, end) for name, thread, _, begin, end in known if name.startswith("aten::") and thread not in threads
        )
    in_flight = length(flight)
    wait = in_flight - shared(flight, compute)
    scale = 1e-6 / steps
    return {"wait_s": wait * scale, "flight_s": in_flight * scale, "compute_s": length(compute) * scale,
            "overlap": 1.0 - wait / in_flight if in_flight > 0 else 1.0}  # fmt: skip


def ranges_of(events: Iterable[Any], on_device: Any) -> Iterator[tuple[str, int, bool, float, float]]:
    """What `communication_account` takes, from a profiler's events; without the labels that torch marks as such."""
    for e in events:
        device = e.device_type == on_device
        if not (device and getattr(e, "is_user_annotation", False)):
            yield str(e.name), int(e.thread), device, float(e.time_range.start), float(e.time_range.end)


def profile_waiting(step: Callable[[], Any], steps: int) -> dict[str, float]:
    """Run `steps` steps under the profiler and account for them."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    with profile(activities=activities) as recorded:
        for _ in range(steps):
            step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return communication_account(ranges_of(recorded.events(), torch.autograd.DeviceType.CUDA), steps)
