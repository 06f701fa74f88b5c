"""What every cell is to a rank: `RankItem`, built from frozen work and asked over and over; and the commands about it.

All ranks get every command and do the same, so that collectives meet. An item's outputs come whole on rank 0 and are
empty elsewhere. To add a kind: subclass, and register it in `RANK_ITEMS` by the kind's name. Must not write evidence.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from .device import DEVICES
from .dist_rank import RankCommand, RankState
from .graph import close_enough
from .memory import give_back_heap, with_planted
from .trees import load_tree, save_tree, tree_digest
from .work import KINDS, Task, Unsupported, Work
from .worker import compare_saved, involuntary_switches


class RankItem:
    """One cell on one rank."""

    items = 1
    items_unit = "calls"
    #: Bytes a call that cross the bus by the usual formula; 0 for what is no collective.
    bus_bytes = 0.0
    #: The size of the operation by the usual formula, in bytes; 0 where no bytes move.
    operation_bytes = 0.0

    def __init__(self, state: RankState, work: Work, frozen: dict[str, Any]) -> None:
        self.state, self.work, self.frozen = state, work, frozen

    def digests(self) -> dict[str, str]:
        """Digests of the inputs and weights that this rank holds."""
        return {"inputs": tree_digest(self.frozen["inputs"]), "weights": tree_digest(self.frozen["weights"])}

    def step(self) -> Any:
        """One call of the work, on all ranks."""
        raise NotImplementedError

    def relayout(self, padding: int) -> None:
        """Build the work anew behind an allocation of `padding` bytes."""

    def renew(self) -> None:
        """Back to the frozen weights, nothing of before kept."""

    def samples(self, calls: int, count: int, plants: list[float]) -> list[list[float]]:
        """Per-call nanoseconds on this rank, as `measure.timed_samples` gives them."""
        raise NotImplementedError

    def outputs(self) -> dict[str, Any]:
        """{"output": {name: tensor}, "gradient": {..}} from the frozen start, on rank 0."""
        raise NotImplementedError

    def losses(self, steps: int) -> list[float]:
        raise Unsupported("this kind of work has no loss", "backend")


#: kind -> its item; filled by the modules of the kinds.
RANK_ITEMS: dict[str, type[RankItem]] = {}


def rank_task(state: RankState, cell_id: str) -> Task:
    """The cell, its workload and the plan's seed, as a work takes them."""
    embedded = state.embedded
    cell = embedded.cells[cell_id]
    workload = embedded.workloads[cell["workload"]]
    return Task(cell, workload, int(embedded.frozen["seed"]), Path(state.settings["team"]), embedded.frozen["settings"])


def rank_work(state: RankState, cell_id: str) -> Work:
    task = rank_task(state, cell_id)
    kind = KINDS.get(task.workload["kind"])
    if kind is None:
        raise Unsupported(f"this harness has no workload of the kind {task.workload['kind']} on ranks", "backend")
    return kind(task)


def rank_item(state: RankState, frame: dict[str, Any]) -> RankItem:
    """The item that a command speaks of."""
    found = state.work[frame["name"]]
    assert isinstance(found, RankItem)
    return found


def _rank_freeze(state: RankState, frame: dict[str, Any]) -> Any:
    """Rank 0 makes inputs and weights; the others have nothing to do."""
    work = rank_work(state, frame["cell"])
    if state.rank != 0:
        return None
    frozen = work.freeze()
    save_tree(frozen, Path(frame["path"]))
    return {"inputs": tree_digest(frozen["inputs"]), "weights": tree_digest(frozen["weights"])}


def _rank_open(state: RankState, frame: dict[str, Any]) -> Any:
    work = rank_work(state, frame["cell"])
    kind = RANK_ITEMS.get(work.kind)
    if kind is None:
        raise Unsupported(f"the kind {work.kind} cannot run on ranks", "backend")
    state.work.pop(frame["name"], None)
    gc.collect()
    item = kind(state, work, load_tree(Path(frame["frozen"])))
    state.work[frame["name"]] = item
    return {**item.digests(), "items": item.items, "items_unit": item.items_unit, "bus_bytes": item.bus_bytes,
            "operation_bytes": item.operation_bytes}  # fmt: skip


def _rank_close(state: RankState, frame: dict[str, Any]) -> None:
    state.work.pop(frame["name"], None)
    gc.collect()


def _rank_relayout(state: RankState, frame: dict[str, Any]) -> None:
    rank_item(state, frame).relayout(int(frame["padding"]))


def _rank_block(state: RankState, frame: dict[str, Any]) -> Any:
    """A timed block on this rank, from a barrier on."""
    import torch.distributed as dist

    item = rank_item(state, frame)
    before = involuntary_switches()
    dist.barrier()
    taken = item.samples(int(frame["calls"]), int(frame["samples"]), list(frame["plants"]))
    return {"ns": taken, "preempted": involuntary_switches() - before}


def _rank_outputs(state: RankState, frame: dict[str, Any]) -> Any:
    found = rank_item(state, frame).outputs()
    if state.rank != 0:
        return None
    save_tree(found, Path(frame["path"]))
    return {part: tree_digest(tree) for part, tree in found.items()}


def _rank_repeats(state: RankState, frame: dict[str, Any]) -> Any:
    item = rank_item(state, frame)
    seen: dict[str, list[str]] = {}
    for _ in range(int(frame["count"])):
        for part, tree in item.outputs().items():
            seen.setdefault(part, []).append(tree_digest(tree))
    return {"digests": seen}


def _rank_compare(state: RankState, frame: dict[str, Any]) -> Any:
    """Errors of one saved result against another, part by part; rank 0's work."""
    if state.rank != 0:
        return None
    truth = frame.get("truth")
    return compare_saved(Path(frame["values"]), Path(frame["references"]), None if truth is None else Path(truth))


def _rank_same(state: RankState, frame: dict[str, Any]) -> Any:
    if state.rank != 0:
        return None
    ours, theirs = load_tree(Path(frame["values"]))["output"], load_tree(Path(frame["references"]))["output"]
    return {**close_enough(ours, theirs), "bit_identical": tree_digest(ours) == tree_digest(theirs)}


def _rank_losses(state: RankState, frame: dict[str, Any]) -> Any:
    return {"losses": rank_item(state, frame).losses(int(frame["steps"]))}


def _rank_memory(state: RankState, frame: dict[str, Any]) -> Any:
    """Peaks on this rank over `steps` steps from a fresh start, above the level before the first; with `planted` bytes
    more alive in each step than the work needs, where that is given.

    The work stepped once before and is gone, so that code which loads at the first step is not charged to it.
    """
    import torch.distributed as dist

    item = rank_item(state, frame)
    item.renew()
    item.step()
    item.renew()
    give_back_heap()
    dist.barrier()
    device, planted = DEVICES[state.device](), int(frame.get("planted", 0))
    step = with_planted(item.step, planted, device.place()) if planted else item.step
    found = device.memory(step, int(frame["steps"]), set(frame["wanted"]))
    return {"peaks": {name: list(value) for name, value in found.items()}}


ITEM_COMMANDS: dict[str, RankCommand] = {
    "freeze": _rank_freeze,
    "open": _rank_open,
    "close": _rank_close,
    "relayout": _rank_relayout,
    "block": _rank_block,
    "outputs": _rank_outputs,
    "repeats": _rank_repeats,
    "compare": _rank_compare,
    "same": _rank_same,
    "losses": _rank_losses,
    "memory": _rank_memory,
}
