"""Several processes. This device is never used by one worker alone: its cells need ranks, and say so."""

from __future__ import annotations

from typing import Any

from .device import Device


class Distributed(Device):
    """`torch.distributed` with as many ranks as the cell says."""

    name = "distributed"

    def missing(self) -> str | None:
        import torch

        if not torch.distributed.is_available():
            return f"this torch ({torch.__version__}) has no distributed support"
        return "this harness has no launcher for several ranks"

    def probe(self) -> dict[str, Any]:
        import torch

        available = torch.distributed.is_available()
        facts: dict[str, Any] = {"available": available}
        for name in ("gloo", "nccl", "mpi", "ucc", "xccl"):
            check = getattr(torch.distributed, f"is_{name}_available", None) if available else None
            facts[name] = bool(check()) if check is not None else False
        return facts
