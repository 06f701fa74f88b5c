"""What else the machine did while something was timed: load, what others and the host took, clocks, heat, memory.

Reads counters of the system, and for NVIDIA GPUs samples of `nvidia-smi`. Must not judge: what is too much is for
others to say. What is not told here is None.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

#: Bits of NVML's clock event reasons (nvml.h) that are heat or a failing supply: clocks below what was asked for by
#: half and more (hardware, its thermal part, its power brake), or lowered by the driver from heat. A power cap is not
#: among them: a device that works hard is at its cap all the time.
SLOWED = {0x8: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake"}
#: More reasons that are told, as context.
REASONS = SLOWED | {0x2: "applications clocks", 0x4: "power cap", 0x10: "sync boost", 0x100: "display clocks"}
EVERY_MS = 500


class Clocks:
    """Clock, heat and slowdowns of an NVIDIA device during a pair, from `nvidia-smi`, asked twice a second.

    Asked about is the one that a worker takes: the first of CUDA_VISIBLE_DEVICES, else number 0 in the driver's order.
    Where `ranks` share them, every one is.
    """

    def __init__(self, program: str, visible: str | None, ranks: bool = False) -> None:
        one = (visible or "0").split(",")[0].strip()
        chosen = (visible or "").replace(" ", "") if ranks else one
        self.command = [program, *(["-i", chosen] if chosen else [])]

    def watch(self) -> Watch | None:
        """Begins to sample; None where the program cannot be started."""
        query = "--query-gpu=clocks.sm,temperature.gpu,clocks_throttle_reasons.active"
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - `Watch` closes it
        try:
            process = subprocess.Popen(
                [*self.command, query, "--format=csv,noheader,nounits", f"--loop-ms={EVERY_MS}"],
                stdin=subprocess.DEVNULL,
                stdout=kept,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            kept.close()
            return None
        return Watch(process, kept)


class Watch:
    """Sampling that has begun."""

    def __init__(self, process: subprocess.Popen[bytes], kept: Any) -> None:
        self._process, self._kept = process, kept

    def end(self) -> dict[str, Any] | None:
        """What the samples say (`clocks_told`)."""
        self._process.kill()
        self._process.wait()
        with self._kept as stream:
            stream.seek(0)
            return clocks_told(stream.read().decode("ascii", "replace"))


def clocks_told(text: str) -> dict[str, Any] | None:
    """{"samples", "mhz" (median), "lowest_mhz", "celsius" (highest), "reasons", "throttled"} of lines "MHz, C, bits".

    What a device does not support is None, and a last line that was cut short counts for nothing. None: no whole line.
    """
    clocks: list[float] = []
    heat: list[float] = []
    bits = 0
    told = samples = 0
    for line in text.splitlines(keepends=True):
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 3 or not line.endswith("\n"):
            continue
        samples += 1
        for part, values in ((parts[0], clocks), (parts[1], heat)):
            with contextlib.suppress(ValueError):
                values.append(float(part))
        with contextlib.suppress(ValueError):
            bits |= int(parts[2], 16)
            told += 1
    if not samples:
        return None
    return {
        "samples": samples,
        "mhz": median(clocks) if clocks else None,
        "lowest_mhz": min(clocks, default=None),
        "celsius": max(heat, default=None),
        "reasons": [word for bit, word in sorted(REASONS.items()) if bits & bit],
        "throttled": any(bits & bit for bit in SLOWED) if told else None,
    }


class Noise:
    """From its making to `stop`: what the machine did meanwhile."""

    def __init__(self, clocks: Clocks | None) -> None:
        self._before = noise_now()
        self._after = self._before
        self._watch = clocks.watch() if clocks is not None else None
        self._device: dict[str, Any] | None = None

    def stop(self) -> None:
        """Leaves no sampling process behind, whatever became of the pair."""
        if self._watch is not None:
            self._device = self._watch.end()
            self._watch = None
        self._after = noise_now()

    def told(self, pinned: dict[str, float | None] | None) -> dict[str, Any]:
        """The body of a `noise` record; `pinned` are the `foreign_shares`."""
        return noise_between(self._before, self._after, pinned, self._device)


def noise_now() -> dict[str, Any]:
    """Counters of the machine at one moment; `noise_between` makes a record of two of them."""
    held: dict[str, Any] = {"load": [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None}
    with contextlib.suppress(OSError, ValueError, IndexError):
        ticks = [int(x) for x in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
        held["ticks"] = ticks
    with contextlib.suppress(OSError, ValueError):
        speeds = [
            float(line.split(":")[1])
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
            if line.startswith("cpu MHz")
        ]
        held["frequency_mhz"] = round(sum(speeds) / len(speeds), 1) if speeds else None
    with contextlib.suppress(OSError, IndexError, ValueError):
        held["memory_pressure"] = float(
            Path("/proc/pressure/memory").read_text(encoding="ascii").split()[1].split("=")[1]
        )
    with contextlib.suppress(OSError, ValueError):
        throttles = [
            int(p.read_text()) for p in Path("/sys/devices/system/cpu").glob("cpu*/thermal_throttle/*_throttle_count")
        ]
        held["throttles"] = sum(throttles) if throttles else None
    return held


def descendants(pids: list[int]) -> list[int]:
    """These processes and all that they have started and that live: a compiler's are the work's own."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            children.setdefault(int(_fields(path)[1]), []).append(int(path.parent.name))
    found = list(dict.fromkeys(pids))
    for pid in found:  # it grows meanwhile
        found += [child for child in children.get(pid, ()) if child not in found]
    return found


def _fields(path: Path) -> list[str]:
    """The fields of a `/proc/PID/stat` behind the name, which may hold anything: state, parent and on."""
    return path.read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()


def core_use(cores: list[int], own: list[int], workers: list[int]) -> tuple[int, int, int, int] | None:
    """Clock ticks so far: of these cores in all, of their work, of the processes `own` and of `workers` with all that
    they start, and what the host gave to others; None: not told here."""
    total = busy = mine = stolen = 0
    try:
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
            name, *parts = line.split()
            if name in [f"cpu{core}" for core in cores]:
                ticks = [int(x) for x in parts[:8]]
                total += sum(ticks)
                busy += sum(ticks) - ticks[3] - ticks[4] - ticks[7]  # neither idle, nor waiting, nor stolen
                stolen += ticks[7]
        mine += sum(int(ticks) for pid in own for ticks in _fields(Path(f"/proc/{pid}/stat"))[11:13])
        for pid in descendants(workers):
            try:  # and of its children that have ended
                mine += sum(int(ticks) for ticks in _fields(Path(f"/proc/{pid}/stat"))[11:15])
            except (FileNotFoundError, ProcessLookupError):
                if pid in workers:
                    raise
    except (OSError, ValueError, IndexError):
        return None
    return (total, busy, mine, stolen) if total else None


def foreign_shares(
    before: tuple[int, int, int, int] | None, after: tuple[int, int, int, int] | None
) -> dict[str, float | None]:
    """Of the cores' time between two `core_use`: the share of other processes than our own, and the host's."""
    if before is None or after is None or after[0] <= before[0]:
        return {"pinned_share": None, "pinned_steal": None}
    total, busy, mine, stolen = (b - a for a, b in zip(before, after, strict=True))
    return {"pinned_share": max(0.0, min(1.0, (busy - mine) / total)), "pinned_steal": stolen / total}


def noise_between(
    before: dict[str, Any],
    after: dict[str, Any],
    pinned: dict[str, float | None] | None = None,
    device: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of a `noise` record for the time between two `noise_now`, with what `foreign_shares` says of the pinned
    cores and `clocks_told` of the device."""
    steal = busy = None
    if "ticks" in before and "ticks" in after:
        passed = [b - a for a, b in zip(before["ticks"], after["ticks"], strict=True)]
        total = sum(passed)
        if total > 0:
            steal, busy = passed[7] / total, 1 - (passed[3] + passed[4]) / total
    throttled = None
    if before.get("throttles") is not None and after.get("throttles") is not None:
        throttled = after["throttles"] > before["throttles"]
    if device is not None and device["throttled"] is not None:
        throttled = bool(throttled or device["throttled"])
    return {
        "cell": None,
        "load": after.get("load"),
        "steal": steal,
        "frequency_mhz": after.get("frequency_mhz"),
        "throttled": throttled,
        "memory_pressure": after.get("memory_pressure"),
        "others": {"busy_share": busy, **(pinned or foreign_shares(None, None))},
        "device": device,
    }
