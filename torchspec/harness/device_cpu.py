"""The host's processor. Work is done when the call returns, so nothing has to be synchronised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .device import HostMemory
from .environ import cpu_model
from .measure import timed_samples, warm_up


class Cpu(HostMemory):
    """torch's cpu device."""

    name = "cpu"

    def probe(self) -> dict[str, Any]:
        import torch

        capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
        return {
            "name": cpu_model(),
            "capability": capability() if capability is not None else None,
            "mkl": torch.backends.mkl.is_available(),
            "mkldnn": torch.backends.mkldnn.is_available(),
            "openmp": torch.backends.openmp.is_available(),
        }

    def warm(self, step: Callable[[], Any], at_least_s: float) -> float:
        return warm_up(step, at_least_s)

    def sample(self, step: Callable[[], Any], calls: int, samples: int, plants: list[float]) -> list[list[float]]:
        return timed_samples(step, calls, samples, plants, None)
