"""What a rank does to measure training under fsdp2 or ddp: timed steps, waiting, memory, one rank's loss curve.

Each command works on the cell that `train.prepare` made. Must not decide what is too slow, and must not write evidence.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from .dist_model import RankedTraining, TrainingRun
from .dist_rank import RankCommand, RankState
from .dist_wait import profile_waiting
from .measure import timed_samples
from .memory import ResidentPeak, give_back_heap
from .numerics import compare_trees
from .trees import load_tree, save_tree, tensors, tree_digest
from .work import KINDS, Task


class PreparedTraining:
    """One training cell on one rank: its task, what was frozen, and the run that is being timed."""

    def __init__(self, state: RankState, frame: dict[str, Any]) -> None:
        task = Task(frame["task"]["cell"], frame["task"]["workload"], int(frame["task"]["seed"]),
                    Path(frame["task"]["team"]), dict(frame["task"]["settings"]))  # fmt: skip
        work = KINDS[task.workload["kind"]](task)
        assert isinstance(work, RankedTraining)
        self.state, self.work = state, work
        path = Path(frame["frozen"])
        if frame.get("make"):
            if state.rank == 0 and not path.exists():
                save_tree(work.freeze(), path)
            _meet(state)
        self.frozen = load_tree(path)
        self.padding: Any = None
        self.run: TrainingRun | None = None

    def fresh(self, solo: bool = False) -> TrainingRun:
        """A new run from the frozen weights."""
        return TrainingRun(self.state, self.work, self.frozen, solo)

    def running(self) -> TrainingRun:
        if self.run is None:
            self.run = self.fresh()
        return self.run


def _meet(state: RankState) -> None:
    import torch.distributed as dist

    dist.barrier()


def prepared_training(state: RankState, frame: dict[str, Any]) -> PreparedTraining:
    """The cell that a command speaks of."""
    found = state.work[frame["cell"]]
    assert isinstance(found, PreparedTraining)
    return found


def _train_prepare(state: RankState, frame: dict[str, Any]) -> Any:
    state.work.clear()
    gc.collect()
    cell = PreparedTraining(state, frame)
    state.work[frame["cell"]] = cell
    return {"inputs": tree_digest(cell.frozen["inputs"]), "weights": tree_digest(cell.frozen["weights"]),
            "items": cell.work.items(), "items_unit": cell.work.items_unit}  # fmt: skip


def _train_build(state: RankState, frame: dict[str, Any]) -> Any:
    """Builds the run anew behind a padding allocation, and takes `warm` steps; nanoseconds of each."""
    import torch

    cell = prepared_training(state, frame)
    cell.run = None
    gc.collect()
    cell.padding = torch.empty(max(1, int(frame["padding"])), dtype=torch.uint8)
    run = cell.running()
    return timed_samples(run.step, 1, int(frame["warm"]), 0.0, state.synchronize)


def _train_block(state: RankState, frame: dict[str, Any]) -> list[float]:
    """Nanoseconds of each of `calls` steps on this rank. `plant`: each is made longer by that share of its own time."""
    run = prepared_training(state, frame).running()
    _meet(state)
    return timed_samples(run.step, 1, int(frame["calls"]), float(frame.get("plant", 0.0)), state.synchronize)


def _train_wait(state: RankState, frame: dict[str, Any]) -> dict[str, float]:
    run = prepared_training(state, frame).running()
    _meet(state)
    return profile_waiting(run.step, int(frame["steps"]))


def _train_memory(state: RankState, frame: dict[str, Any]) -> dict[str, Any]:
    """Peaks over `steps` steps of a run that has not stepped yet, above the level before the first. Bytes.

    Another run stepped once before and is gone, so that code which loads at the first step is not charged to the work.
    """
    import torch

    cell = prepared_training(state, frame)
    cell.run = None
    cell.running().step()
    cell.run = None
    give_back_heap()
    run = cell.running()
    _meet(state)
    meter = ResidentPeak()
    cuda = state.device == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    meter.start()
    for _ in range(int(frame["steps"])):
        run.step()
    state.synchronize()
    found = {"memory.driver_peak": [meter.peak(), meter.meter]}
    if cuda:
        found["memory.allocated_peak"] = [torch.cuda.max_memory_allocated() - allocated, "torch.cuda"]
        found["memory.reserved_peak"] = [torch.cuda.max_memory_reserved() - reserved, "torch.cuda"]
    return found


def _state_errors(ours: dict[str, Any], reference: dict[str, Any]) -> dict[str, float]:
    """The worst figures of whole states against each other, floating-point tensors only."""

    def floats(tree: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in tensors(tree).items() if value.is_floating_point()}

    worst = compare_trees(floats(ours), floats(reference))
    return {name: float(worst[name]) for name in ("max_abs", "max_rel")} | {"where": worst["worst"].get("max_rel", "")}


def _train_curve(state: RankState, frame: dict[str, Any]) -> Any:
    """The loss curve of all ranks and of rank 0 alone on the same global batches, and how far the end states differ."""
    steps = int(frame["steps"])
    cell = prepared_training(state, frame)
    cell.run = None
    run = cell.fresh()
    losses = run.losses(steps)
    ours = run.full_state()
    answer: dict[str, Any] = {"losses": losses}
    if state.rank == 0:
        alone = cell.fresh(solo=True)
        reference = alone.losses(steps)
        theirs = alone.full_state()
        answer.update(
            one_rank=reference,
            curve_max_rel=max(abs(a - b) / max(abs(b), 1e-300) for a, b in zip(losses, reference, strict=True)),
            model=_state_errors(ours["model"], theirs["model"]),
            optimizer=_state_errors(ours["optimizer"], theirs["optimizer"]),
            digest=tree_digest(ours["model"]),
        )
    _meet(state)
    return answer


def _train_alone(state: RankState, frame: dict[str, Any]) -> list[float]:
    """Nanoseconds of steps of rank 0 alone on one rank's share of the rows; the others wait. For scaling 1 to N."""
    cell = prepared_training(state, frame)
    times: list[float] = []
    if state.rank == 0:
        cell.run = None
        gc.collect()
        alone = cell.fresh(solo=True)
        alone.share = state.world
        timed_samples(alone.step, 1, 3, 0.0, state.synchronize)
        times = timed_samples(alone.step, 1, int(frame["calls"]), 0.0, state.synchronize)
    _meet(state)
    return times


TRAIN_COMMANDS: dict[str, RankCommand] = {
    "train.prepare": _train_prepare,
    "train.build": _train_build,
    "train.block": _train_block,
    "train.wait": _train_wait,
    "train.memory": _train_memory,
    "train.curve": _train_curve,
    "train.alone": _train_alone,
}
