"""A training run that survives a killed rank: checkpoints every few steps, and goes on from the newest one.

The driver asks for the run; the victim kills itself with SIGKILL in the middle of a backward pass; torchrun restarts
all ranks; the driver asks the new ranks to go on. Must not restart anything by itself: that is torchrun's part.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from .dist_checkpoint import newest_checkpoint, read_sharded, write_checkpoint
from .dist_model import TrainingRun
from .dist_rank import RankCommand, RankState
from .dist_train import training_item


def _kill_in_backward(run: TrainingRun) -> None:
    """Arrange that this process dies when the backward pass reaches the middle of the model."""
    layers = [module for module in run.module.modules() if not list(module.children()) and list(module.parameters())]

    def die(*_: Any) -> None:
        run.state.say("dying", step=run.index)
        os.kill(os.getpid(), signal.SIGKILL)

    layers[len(layers) // 2].register_full_backward_pre_hook(die)


def _recover_run(state: RankState, frame: dict[str, Any]) -> Any:
    """Train to `steps` steps from the newest checkpoint below `root` (or from the start), one every `every` steps.

    `victim` {"rank", "step"}: that rank dies in that step of its first life. After each step the driver is told; the
    answer has the step the run began at and the losses since then.
    """
    cell = training_item(state, frame)
    run = cell.fresh()
    root = Path(frame["root"])
    found = newest_checkpoint(root)
    if found is not None:
        run.index = 0
        read_sharded(run, found[1])
        run.index = found[0]
    begin = run.index
    victim = frame.get("victim") or {}
    doomed = state.restart == 0 and victim.get("rank") == state.rank
    losses = []
    while run.index < int(frame["steps"]):
        if doomed and run.index == int(victim["step"]):
            _kill_in_backward(run)
        loss = run.global_loss(run.step())
        losses.append(loss)
        if state.rank == 0:
            state.say("step", step=run.index - 1, loss=loss)
        if run.index % int(frame["every"]) == 0:
            write_checkpoint(run, root, whole=False)
    return {"began_at": begin, "losses": losses}


def _recover_reference(state: RankState, frame: dict[str, Any]) -> Any:
    """The losses of the same run without a fault, from the start."""
    return training_item(state, frame).fresh().losses(int(frame["steps"]))


RECOVER_COMMANDS: dict[str, RankCommand] = {
    "recover.run": _recover_run,
    "recover.reference": _recover_reference,
}
