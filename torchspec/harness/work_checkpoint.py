"""Training state as a distributed checkpoint (`torch.distributed.checkpoint`) of one process, which one side writes and
the other reads. Over several ranks the kinds fsdp2 and ddp do the same with shards.

The folder that torch writes travels as bytes within the saved tree. Writes nothing but that folder, in a temporary
place.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from .trees import map_leaves, tree_digest
from .work import Job, ModuleJob, Unsupported, Work
from .work_python import TeamCode

#: Rows of one step of the kind's own module.
ROWS = 8
#: What the folder holds; each is a part of the state and of the tree that is saved beside it.
STATE_PARTS = ("module", "optimizer", "rng")


class Checkpoint(Work):
    """Axes: layers, hidden, dtype. An entry gives the team's own module. A step is a whole training step with AdamW."""

    kind = "checkpoint"
    items_unit = "samples"
    timed_optimizer = True

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.team = TeamCode(task, self) if task.entry is not None else None

    def inputs(self) -> Any:
        import torch

        return self.team.inputs() if self.team is not None else (torch.randn(ROWS, int(self.axis("hidden", 256))),)

    def module(self, path: str | None) -> Any:
        import torch

        if self.team is not None:
            return self.team.module(path)
        hidden, layers = int(self.axis("hidden", 256)), int(self.axis("layers", 2))
        return torch.nn.Sequential(
            *(part for _ in range(layers) for part in (torch.nn.Linear(hidden, hidden), torch.nn.GELU()))
        )

    def items(self) -> int:
        return ROWS if self.team is None else self.team.rows()

    def loss(self, output: Any, inputs: Any) -> Any:
        return output.square().mean()

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        return CheckpointJob(self.team or self, frozen, mode, path, device, dtype)


class CheckpointJob(ModuleJob):
    """A module whose state goes through torch's distributed checkpoint."""

    def checkpoint(self) -> dict[str, Any]:
        saved = super().checkpoint()
        if "optimizer" not in saved:
            raise Unsupported("only a training cell has an optimizer's state", "backend")
        with tempfile.TemporaryDirectory() as folder:
            distributed_checkpoint("save", {part: saved[part] for part in STATE_PARTS}, folder)
            return {**saved, "files": packed(Path(folder))}

    def restore(self, saved: dict[str, Any]) -> dict[str, Any]:
        """Reads the folder into a state of this side's own making, which must become the saved one bit for bit."""
        import torch

        own = super().checkpoint()
        blank = map_leaves(lambda leaf: torch.zeros_like(leaf) if isinstance(leaf, torch.Tensor) else leaf, own)
        read = {part: blank[part] for part in STATE_PARTS}
        with tempfile.TemporaryDirectory() as folder:
            for name, data in saved["files"].items():
                place = Path(folder, *str(name).split("/"))
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(bytes(data.tolist()))
            distributed_checkpoint("load", read, folder)
        for part in STATE_PARTS:
            if tree_digest(read[part]) != tree_digest(saved[part]):
                raise ValueError(f"the distributed checkpoint gives another {part} state than was saved")
        return super().restore({**saved, **read})


def distributed_checkpoint(do: str, state: dict[str, Any], folder: str) -> None:
    """Saves `state` to `folder`, or loads into it, in this process alone."""
    try:
        from torch.distributed import checkpoint
    except ImportError as error:
        raise Unsupported(f"this torch has no torch.distributed.checkpoint: {error}") from error
    try:
        getattr(checkpoint, do)(state, checkpoint_id=folder, no_dist=True)
    except checkpoint.CheckpointException as failure:  # no Exception, which would end the process that asked
        causes = [f"{type(cause).__name__}: {cause}" for cause, _ in failure.failures.values()]
        raise ValueError(f"torch.distributed.checkpoint.{do} failed: {'; '.join(causes) or failure}") from failure


def packed(folder: Path) -> dict[str, Any]:
    """{name below `folder`: its bytes as a tensor}."""
    import torch

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        for path in files
    }
