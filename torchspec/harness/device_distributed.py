"""Several processes a side. A worker of this device is a job of ranks under torchrun; see dist_worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .device import DEVICES, Device
from .dist_cell import CURVE_METRICS, ROUND_METRICS
from .dist_cells import RankCells
from .dist_checks import CHECKPOINT_FACTS
from .dist_fault_trials import FAULT_FACTS
from .dist_program import run_rank
from .dist_times import CHECKPOINT_TIMES
from .dist_trials import RECOVERY_METRICS
from .dist_worker import RankRun
from .needs import MORE_KNOWN, MORE_REPEATED


class Distributed(Device):
    """`torch.distributed` with as many ranks as the cell says."""

    name = "distributed"
    run_type = RankRun
    cells_type = RankCells
    commands: ClassVar[dict[str, Callable[[list[str], Any], int]]] = {"rank": run_rank}

    def missing(self) -> str | None:
        import torch

        if not torch.distributed.is_available():
            return f"this torch ({torch.__version__}) has no distributed support"
        below = DEVICES.get(self.over or "")
        return below().missing() if below is not None else None

    def probe(self) -> dict[str, Any]:
        import torch

        available = torch.distributed.is_available()
        facts: dict[str, Any] = {"available": available}
        for name in ("gloo", "nccl", "mpi", "ucc", "xccl"):
            check = getattr(torch.distributed, f"is_{name}_available", None) if available else None
            facts[name] = bool(check()) if check is not None else False
        return facts


MORE_KNOWN.update({*CURVE_METRICS, *CHECKPOINT_FACTS, *RECOVERY_METRICS, *FAULT_FACTS, "collective.correct"})
MORE_REPEATED.update({*ROUND_METRICS, *CHECKPOINT_TIMES})
MORE_KNOWN.update(MORE_REPEATED)
