"""What a rank does in a training cell: steps, outputs, waiting, one rank's loss curve, and scaling.

Must not decide what is too slow, and must not write evidence.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from .dist_item import RANK_ITEMS, RankItem, rank_item, rank_work
from .dist_model import PlainRun, RankedTraining, TrainingRun, whole_gradients
from .dist_rank import RankCommand, RankState
from .dist_wait import profile_waiting
from .measure import timed_samples
from .numerics import compare_trees, numbers_apart
from .trees import load_tree, save_tree, tensors, tree_digest
from .work import Unsupported, Work

#: Steps behind an output: its losses, and the weights at the end.
OUTPUT_STEPS = 3


class TrainingItem(RankItem):
    """One fsdp2 or ddp cell on one rank: what was frozen, and the run that is being timed."""

    def __init__(self, state: RankState, work: Work, frozen: dict[str, Any]) -> None:
        super().__init__(state, work, frozen)
        assert isinstance(work, RankedTraining)
        self.training = work
        self.items, self.items_unit = work.items(), work.items_unit
        self.padding: Any = None
        self.run: TrainingRun | None = self.fresh()

    def fresh(self, solo: bool = False) -> TrainingRun:
        """A new run from the frozen weights. Any other one is dropped first."""
        self.run = None
        gc.collect()
        return TrainingRun(self.state, self.training, self.frozen, solo)

    def running(self) -> TrainingRun:
        if self.run is None:
            self.run = self.fresh()
        return self.run

    def renew(self) -> None:
        self.run = self.fresh()

    def relayout(self, padding: int) -> None:
        import torch

        self.run = None
        gc.collect()
        self.padding = torch.empty(max(1, padding), dtype=torch.uint8)
        self.renew()

    def step(self) -> Any:
        return self.running().step()

    def samples(self, calls: int, count: int, plants: list[float]) -> list[list[float]]:
        return timed_samples(self.running().step, calls, count, plants, self.state.synchronize)

    def outputs(self) -> dict[str, Any]:
        import torch

        run = self.fresh()
        first = run.global_loss(run.backward())
        gradients = whole_gradients(run)
        run.advance()
        losses = [first, *run.losses(OUTPUT_STEPS - 1)]
        state = run.full_state()
        if self.state.rank != 0:
            return {}
        output = {"losses": torch.tensor(losses, dtype=torch.float64)}
        output.update({f"weight.{name}": value for name, value in tensors(state["model"]).items()})
        return {"output": output, "gradient": gradients}

    def losses(self, steps: int) -> list[float]:
        return self.fresh().losses(steps + 1)


def training_item(state: RankState, frame: dict[str, Any]) -> TrainingItem:
    """The training cell that a command speaks of. Raises Unsupported for another kind."""
    found = rank_item(state, frame)
    if not isinstance(found, TrainingItem):
        raise Unsupported("this is no training on ranks", "backend")
    return found


def _meet(state: RankState) -> None:
    import torch.distributed as dist

    dist.barrier()


def _train_reference(state: RankState, frame: dict[str, Any]) -> Any:
    """The outputs of one process without any wrapping, in the dtype of `against`, on the CPU; rank 0's work."""
    import torch

    where, dtype = frame["against"].split(".", 1)
    work = rank_work(state, frame["cell"])
    if where != "cpu":
        raise Unsupported(f"a reference on {where} cannot be made by ranks", "backend")
    if state.rank != 0:
        return None
    frozen = load_tree(Path(frame["frozen"]))
    if isinstance(work, RankedTraining):
        found = PlainRun(work, frozen, getattr(torch, dtype)).outputs(OUTPUT_STEPS)
    else:
        found = {"output": frozen["reference"]}
    save_tree(found, Path(frame["path"]))
    return {"digest": tree_digest(found)}


def _train_wait(state: RankState, frame: dict[str, Any]) -> dict[str, float]:
    """Seconds a step on this rank, from the profiler; see dist_wait."""
    run = training_item(state, frame).running()
    _meet(state)
    found = profile_waiting(run.step, int(frame["steps"]))
    if not found["flight_s"]:
        raise Unsupported("torch's profiler shows no communication in these steps", "version")
    return found


def _state_errors(ours: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """The worst figures of whole states against each other, floating-point tensors only."""

    def floats(tree: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in tensors(tree).items() if value.is_floating_point()}

    worst = compare_trees(floats(ours), floats(reference))
    return {"max_abs": worst["max_abs"], "max_rel": worst["max_rel"], "where": worst["worst"].get("max_rel", "")}


def _train_curve(state: RankState, frame: dict[str, Any]) -> Any:
    """The loss curve of all ranks and of rank 0 alone on the same global batches, and how far the end states differ."""
    steps = int(frame["steps"])
    cell = training_item(state, frame)
    run = cell.fresh()
    losses = run.losses(steps)
    ours = run.full_state()
    del run
    answer: dict[str, Any] = {"losses": losses}
    if state.rank == 0:
        alone = cell.fresh(solo=True)
        reference = alone.losses(steps)
        theirs = alone.full_state()
        answer.update(
            one_rank=reference,
            curve_max_rel=numbers_apart(losses, reference),
            model=_state_errors(ours["model"], theirs["model"]),
            optimizer=_state_errors(ours["optimizer"], theirs["optimizer"]),
        )
    _meet(state)
    return answer


def _train_scaling(state: RankState, frame: dict[str, Any]) -> Any:
    """Blocks of steps of all ranks and of rank 0 alone in turn, each rank on the same number of rows: nanoseconds."""
    calls, rounds = int(frame["calls"]), int(frame["rounds"])
    cell = training_item(state, frame)
    together = cell.running()
    alone = TrainingRun(state, cell.training, cell.frozen, solo=True) if state.rank == 0 else None
    if alone is not None:
        alone.share = state.world
        timed_samples(alone.step, 1, 3, [], state.synchronize)
    taken: dict[str, list[float]] = {"together": [], "alone": []}
    for _ in range(rounds):
        _meet(state)
        taken["together"] += timed_samples(together.step, 1, calls, [], state.synchronize)[0]
        _meet(state)
        if alone is not None:
            taken["alone"] += timed_samples(alone.step, 1, calls, [], state.synchronize)[0]
    _meet(state)
    return taken


RANK_ITEMS["fsdp2"] = TrainingItem
RANK_ITEMS["ddp"] = TrainingItem
TRAIN_COMMANDS: dict[str, RankCommand] = {
    "reference": _train_reference,
    "train.wait": _train_wait,
    "train.curve": _train_curve,
    "train.scaling": _train_scaling,
}
