"""What must be alike: the devices and switches of precision of both sides, and a side's device and what the spec names.

Pure: compares what was probed. Must not probe, and must not decide what follows from a difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

#: Facts of a device that are the machine's. The rest (versions of cuDNN, what torch was built with) is torch's own.
MACHINES_OWN = ("name", "memory_bytes", "processors", "architecture", "devices", "driver", "macos")
#: Switch of precision, as it is read back -> the setting that freezes it.
FREEZING = {
    "float32_matmul_precision": "float32_matmul_precision",
    "deterministic_algorithms": "deterministic_algorithms",
    "matmul_tf32": "tf32",
    "cudnn_tf32": "tf32",
    "fp16_reduced_reduction": "allow_reduced_precision_reduction",
    "bf16_reduced_reduction": "allow_reduced_precision_reduction",
    "cudnn_benchmark": "cudnn_benchmark",
    "cudnn_deterministic": "deterministic_algorithms",
}


def device_differences(one: dict[str, Any], two: dict[str, Any]) -> list[tuple[str, Any, Any, str]]:
    """(what, the baseline's, the candidate's, reason) of every difference. What one side does not have is none: a
    switch that a version lacks, or all of a device that is missing, which is unsupported."""
    found = []
    for part in MACHINES_OWN:
        a, b = one.get(part), two.get(part)
        if a is not None and b is not None and a != b:
            reason = f"the device's {part} is {a} in the baseline and {b} in the candidate"
            found.append((f"device {part}", a, b, reason))
    here, there = one.get("precision") or {}, two.get("precision") or {}
    for switch in sorted({*here, *there}):
        a, b = here.get(switch), there.get(switch)
        if a is not None and b is not None and a != b:
            freeze = f"`setting {FREEZING[switch]}` freezes it" if switch in FREEZING else "no `setting` freezes it"
            reason = f"{switch} is {a} in the baseline and {b} in the candidate; {freeze}"
            found.append((f"precision {switch}", a, b, reason))
    return found


def words_in(text: str) -> str:
    """Letters and digits of `text` as words, each with a space on both sides."""
    return f" {' '.join(re.findall(r'[a-z0-9]+', re.sub(r'[(](?:r|tm|c)[)]', ' ', text.lower())))} "


def other_hardware(named: Sequence[str], device: dict[str, Any]) -> str | None:
    """Why a device is none of those that the plan names for its backend; None where it is one, or none is named.

    A name is found in what the device is called (or in its architecture) as whole words: "M4 Max" in "Apple M4 Max",
    "Xeon Platinum 8370C" in "Intel(R) Xeon(R) Platinum 8370C CPU".
    """
    called = [str(device[part]) for part in ("name", "architecture") if device.get(part)]
    if not named or any(words_in(name) in words_in(text) for name in named for text in called):
        return None
    wanted = " or ".join(named)
    return f"the plan names {wanted}, and this machine has {called[0] if called else 'a device that tells no name'}"
