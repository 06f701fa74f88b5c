"""AMD GPUs. torch calls the device cuda; the probe, and what counts as missing, are ROCm's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .device_cuda import Cuda, driver_version

AMD_DRIVER = Path("/sys/module/amdgpu/version")


class Rocm(Cuda):
    """torch's cuda device on a HIP build."""

    name = "rocm"
    clock = "hip event"
    clocks_program = None
    vendor = "AMD"

    def built(self) -> bool:
        import torch

        return getattr(torch.version, "hip", None) is not None

    def probe(self) -> dict[str, Any]:
        import torch

        facts: dict[str, Any] = {"hip": getattr(torch.version, "hip", None), "driver": driver_version(AMD_DRIVER)}
        if self.missing() is not None:
            return facts
        properties = torch.cuda.get_device_properties(0)
        facts.update(
            name=properties.name,
            memory_bytes=properties.total_memory,
            processors=properties.multi_processor_count,
            architecture=str(getattr(properties, "gcnArchName", "")).split(":")[0] or None,
            devices=torch.cuda.device_count(),
            miopen=torch.backends.cudnn.version(),
        )
        return facts
