"""AMD GPUs. torch calls the device cuda; the probe, and what counts as missing, are ROCm's own."""

from __future__ import annotations

from .device_cuda import Cuda


class Rocm(Cuda):
    """torch's cuda device on a HIP build."""

    name = "rocm"
    clock = "hip event"
    vendor = "AMD"

    def built(self) -> bool:
        import torch

        return getattr(torch.version, "hip", None) is not None
