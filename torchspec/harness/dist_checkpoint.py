"""Checkpoints of a training run: written, read by another version or another number of ranks, damaged and refused.

A checkpoint is a folder `step-<n>`: `sharded/` by torch.distributed.checkpoint, and `whole.pt`, a full state dict by
torch.save. It is written beside its place and renamed, so that a folder of that name is whole: what a crash leaves
behind has another name. Everything here runs on all ranks, but for what is said to be rank 0's.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .dist_model import TrainingRun
from .dist_rank import RankCommand, RankState
from .dist_train import TrainingItem, training_item
from .trees import load_tree, save_tree, tree_digest

#: What a crash may leave of a checkpoint, each of which must be refused.
DAMAGES = ("data cut in half", "metadata cut in half", "no metadata yet", "whole file cut in half")


def checkpoint_folder(root: Path, step: int) -> Path:
    return root / f"step-{step:06d}"


def newest_checkpoint(root: Path) -> tuple[int, Path] | None:
    """(steps done, folder) of the newest whole checkpoint below `root`."""
    found = sorted(path for path in root.glob("step-*") if path.is_dir() and path.name[5:].isdigit())
    return (int(found[-1].name[5:]), found[-1]) if found else None


def write_checkpoint(run: TrainingRun, root: Path, whole: bool = True) -> Path:
    """Write the run's state after `run.index` steps; the folder, whole. `whole`: the full state dict as well."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    state = run.state
    path = checkpoint_folder(root, run.index)
    partial = path.with_name(f"partial-{path.name}")
    first = run.solo or state.rank == 0
    if first:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    if not run.solo:
        dist.barrier()
    model, optimizer = get_state_dict(run.module, run.optimizer)
    held = {"model": model, "optimizer": optimizer}
    dcp.save(held, checkpoint_id=str(partial / "sharded"), process_group=run.group())
    if whole:
        full = run.full_state()
        if first:
            save_tree(full, partial / "whole.pt")
    slow = state.planted("slow_checkpoint")
    if slow is not None:
        time.sleep(float(slow["seconds"]))
    foreign = state.planted("foreign_checkpoint")
    if first and foreign is not None:
        _make_foreign(partial)
    if first:
        shutil.rmtree(path, ignore_errors=True)
        os.replace(partial, path)
    if not run.solo:
        dist.barrier()
    return path


def _make_foreign(folder: Path) -> None:
    """A planted fault: the metadata names a class that no other version has."""
    for path in folder.glob("sharded/.metadata"):
        data = path.read_bytes()
        path.write_bytes(data.replace(b"MetadataIndex", b"MetadataFuture"[:13]))


def read_sharded(run: TrainingRun, folder: Path) -> None:
    """Load `sharded/` into the run, in place; the number of ranks may differ from the one that wrote it."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model, optimizer = get_state_dict(run.module, run.optimizer)
    held = {"model": model, "optimizer": optimizer}
    dcp.load(held, checkpoint_id=str(folder / "sharded"), process_group=run.group())
    set_state_dict(run.module, run.optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"])


def read_whole(run: TrainingRun, folder: Path) -> None:
    """Load `whole.pt` into the run: every rank reads the whole file and keeps its share."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

    held = load_tree(folder / "whole.pt")
    options = StateDictOptions(full_state_dict=True, strict=True)
    set_state_dict(
        run.module,
        run.optimizer,
        model_state_dict=held["model"],
        optim_state_dict=held["optimizer"],
        options=options,
    )


def state_digests(run: TrainingRun) -> dict[str, str]:
    """Digests of the whole state, on the group's first rank; empty elsewhere."""
    full = run.full_state()
    if not run.solo and run.state.rank != 0:
        return {}
    return {"model": tree_digest(full["model"]), "optimizer": tree_digest(full["optimizer"])}


def reason_of(error: BaseException) -> str:
    """One line about an error; where torch gathered the ranks' errors, the first rank's own."""
    failures = getattr(error, "failures", None)
    if isinstance(failures, dict) and failures:
        rank = min(failures)
        held = failures[rank]
        inner = held[0] if isinstance(held, (tuple, list)) else held
        return f"rank {rank}: {type(inner).__name__}: {inner}".strip().splitlines()[0][:300]
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]


def _disturbed(cell: TrainingItem, solo: bool = False) -> TrainingRun:
    """A run with other weights than any checkpoint's, so that a load that does nothing is seen."""
    import torch

    run = cell.fresh(solo)
    with torch.no_grad():
        for parameter in run.module.parameters():
            parameter.add_(1.0)
    return run


def _checkpoint_write(state: RankState, frame: dict[str, Any]) -> Any:
    """`steps` steps, a checkpoint before the last of them and one behind, and then `further` steps without a stop."""
    cell = training_item(state, frame)
    run = cell.fresh()
    root = Path(frame["root"])
    run.losses(int(frame["steps"]) - 1)
    before = write_checkpoint(run, root)
    earlier = state_digests(run)
    run.losses(1)
    path = write_checkpoint(run, root)
    digests = state_digests(run)
    return {"path": str(path), "earlier_path": str(before), "digests": digests, "earlier": earlier,
            "bytes": bytes_below(path), "losses": run.losses(int(frame["further"]))}  # fmt: skip


def bytes_below(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.rglob("*") if part.is_file())


def _checkpoint_time(state: RankState, frame: dict[str, Any]) -> Any:
    """One step, then seconds of writing its sharded checkpoint below `root` and, with `load`, of reading it back, each
    from a barrier on; this rank's own."""
    import torch.distributed as dist

    run = training_item(state, frame).fresh()
    run.losses(1)
    root = Path(frame["root"])

    def timed(act: Callable[[], Any]) -> float:
        state.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        act()
        state.synchronize()
        return time.perf_counter() - begin

    found: dict[str, Any] = {"save_s": timed(partial(write_checkpoint, run, root, whole=False))}
    path = checkpoint_folder(root, run.index)
    if frame["load"]:
        found["load_s"] = timed(partial(read_sharded, run, path))
    size = bytes_below(path)
    dist.barrier()  # nobody removes what another still reads
    if state.rank == 0:
        shutil.rmtree(root, ignore_errors=True)
    return {**found, "bytes": size}


def _load_and_go_on(run: TrainingRun, form: str, path: Path, index: int, further: int) -> dict[str, Any]:
    begin = time.perf_counter()
    (read_sharded if form == "sharded" else read_whole)(run, path)
    seconds = time.perf_counter() - begin
    run.index = index
    return {"digests": state_digests(run), "seconds": seconds, "losses": run.losses(further)}


def _checkpoint_read(state: RankState, frame: dict[str, Any]) -> Any:
    """Load a checkpoint in one form (sharded or whole) into a fresh run, on all ranks or on rank 0 alone, and go on."""
    import torch.distributed as dist

    cell = training_item(state, frame)
    solo = bool(frame.get("solo"))
    if solo and state.rank != 0:
        dist.barrier()
        return None
    run = _disturbed(cell, solo)
    try:
        return _load_and_go_on(run, frame["form"], Path(frame["path"]), int(frame["index"]), int(frame["further"]))
    finally:
        if solo:
            dist.barrier()


def _checkpoint_write_alone(state: RankState, frame: dict[str, Any]) -> Any:
    """Rank 0 alone trains `steps` steps and writes a checkpoint: what all ranks then load is resharded."""
    import torch.distributed as dist

    cell = training_item(state, frame)
    answer = None
    if state.rank == 0:
        run = cell.fresh(solo=True)
        run.losses(int(frame["steps"]))
        path = write_checkpoint(run, Path(frame["root"]))
        answer = {"path": str(path), "digests": state_digests(run), "losses": run.losses(int(frame["further"]))}
    dist.barrier()
    return answer


def _damage(folder: Path, copy: Path, damage: str) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    metadata = copy / "sharded" / ".metadata"
    if damage == "no metadata yet":
        metadata.unlink()
        return
    largest = max((copy / "sharded").glob("*.distcp"), key=lambda path: path.stat().st_size)
    victim = {"metadata cut in half": metadata, "whole file cut in half": copy / "whole.pt"}.get(damage, largest)
    os.truncate(victim, victim.stat().st_size // 2)


def _checkpoint_damaged(state: RankState, frame: dict[str, Any]) -> Any:
    """What becomes of checkpoints that a crash cut short: {damage: the error, or None where it was taken for whole}."""
    import torch.distributed as dist

    cell = training_item(state, frame)
    path = Path(frame["path"])
    found: dict[str, Any] = {}
    for damage in DAMAGES:
        copy = path.with_name("damaged-" + damage.replace(" ", "-"))
        if state.rank == 0:
            _damage(path, copy, damage)
        dist.barrier()
        run = cell.fresh()
        try:
            (read_whole if damage.startswith("whole") else read_sharded)(run, copy)
            found[damage] = None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # torch's CheckpointException is no Exception
            found[damage] = reason_of(error)
        dist.barrier()
    return found


CHECKPOINT_COMMANDS: dict[str, RankCommand] = {
    "checkpoint.write": _checkpoint_write,
    "checkpoint.write_alone": _checkpoint_write_alone,
    "checkpoint.read": _checkpoint_read,
    "checkpoint.damaged": _checkpoint_damaged,
    "checkpoint.time": _checkpoint_time,
}
