"""Collectives over all ranks: what a rank does to time them and to check them against a single-process result.

Bandwidths follow the definitions of NVIDIA's nccl-tests (doc/PERFORMANCE.md in github.com/NVIDIA/nccl-tests): with S
the size of the operation in bytes, t its time and n the number of ranks, the algorithm bandwidth is S/t, and the bus
bandwidth is S/t times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, and 1 for
broadcast. `bytes` of a cell is one rank's message: S itself, but for all_gather, where S is n times as much. A barrier
moves nothing and has no bandwidth; neither has anything on one rank, but for broadcast by its formula.

Each timed call starts from a barrier and a rank's time is its own; the driver takes the slowest rank's, call by call.
"""

from __future__ import annotations

import datetime
import random
import time
from typing import Any

from .dist_rank import RankCommand, RankState, transports_available
from .work import Unsupported

#: Rounds of a check: a barrier that is dropped one time in three stays unseen with probability (2/3) ** 36 < 1e-6.
BARRIER_ROUNDS = 36
#: How late the late rank of a barrier check comes.
BARRIER_LATE_S = 0.004
COLLECTIVE_VALUES = 8  # inputs are whole numbers from -4 to 3: sums over 64 ranks are exact even in bfloat16


def bus_factor(operation: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth; 0 where nothing moves."""
    if operation == "all_reduce":
        return 2.0 * (ranks - 1) / ranks
    if operation in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0 if operation == "broadcast" else 0.0


def operation_bytes(operation: str, message: int, ranks: int) -> int:
    """S of the formulas, from one rank's message in bytes."""
    if operation == "barrier":
        return 0
    return message * ranks if operation == "all_gather" else message


def transport_group(state: RankState, transport: str) -> Any:
    """The process group of all ranks over `transport`. Raises Unsupported on every rank when one rank lacks it."""
    import torch.distributed as dist

    if transport in state.groups:
        return state.groups[transport]
    mine = transports_available().get(
        transport, {"available": False, "error": f"unknown transport {transport}", "where": "version"}
    )
    everyone: list[Any] = [None] * state.world
    dist.all_gather_object(everyone, mine)
    for rank, answer in enumerate(everyone):
        if not answer["available"]:
            raise Unsupported(f"{transport} on rank {rank}: {answer['error']}", answer["where"])
    timeout = datetime.timedelta(seconds=state.timeout_s)
    if transport == "torchcomms":
        from torch.distributed import config

        backend = "nccl" if state.device == "cuda" else "gloo"
        with config.patch(use_torchcomms=True):
            group = dist.new_group(timeout=timeout, backend=backend)
    else:
        group = dist.new_group(timeout=timeout, backend=transport)
    state.groups[transport] = group
    return group


class Collective:
    """One collective of one cell, with its buffers."""

    def __init__(self, state: RankState, cell: dict[str, Any]) -> None:
        import torch

        self.state = state
        self.operation = str(cell["operation"])
        self.message: int = int(cell["bytes"])
        self.transport = str(cell.get("transport") or ("nccl" if state.device == "cuda" else "gloo"))
        self.group = transport_group(state, self.transport)
        self.device = "cpu" if self.transport == "gloo" else state.device
        self.dtype = getattr(torch, str(cell.get("dtype") or "float32"))
        count = max(1, self.message // self.dtype.itemsize)
        if self.operation in ("reduce_scatter", "all_to_all"):
            count = max(state.world, count - count % state.world)
        self.count: int = count
        self.padding: Any = None
        self.build(0)

    def build(self, padding: int) -> None:
        """New buffers, behind a padding allocation, so that memory layout is sampled and not fixed."""
        import torch

        self.padding = torch.empty(max(1, padding), dtype=torch.uint8)
        self.send = torch.zeros(self.count, dtype=self.dtype, device=self.device)
        self.receive = torch.zeros(self.shape_out(), dtype=self.dtype, device=self.device)

    def shape_out(self) -> int:
        if self.operation == "all_gather":
            return self.count * self.state.world
        if self.operation == "reduce_scatter":
            return self.count // self.state.world
        return self.count

    def barrier(self) -> None:
        import torch.distributed as dist

        drop = self.state.planted("barrier_dropped")
        if drop is not None:
            draws = self.state.work.setdefault("draws", random.Random(int(drop.get("seed", 1))))
            if draws.random() < 1.0 / float(drop.get("one_in", 3)):
                return
        dist.barrier(group=self.group)

    def call(self) -> None:
        """Run the collective once, from `send` into `receive` (in place where it is in place)."""
        import torch.distributed as dist

        if self.operation == "all_reduce":
            dist.all_reduce(self.send, group=self.group)
            wrong = self.state.planted("wrong_sum")
            if wrong is not None:
                self.send[-1] += 1
        elif self.operation == "all_gather":
            dist.all_gather_into_tensor(self.receive, self.send, group=self.group)
        elif self.operation == "reduce_scatter":
            dist.reduce_scatter_tensor(self.receive, self.send, group=self.group)
        elif self.operation == "broadcast":
            dist.broadcast(self.send, src=0, group=self.group)
        elif self.operation == "all_to_all":
            dist.all_to_all_single(self.receive, self.send, group=self.group)
        elif self.operation == "barrier":
            self.barrier()
        else:
            raise Unsupported(f"no collective {self.operation!r}", "version")
        if self.device != "cpu":
            self.state.synchronize()

    def time(self, calls: int, extra_ns: int) -> list[int]:
        """Nanoseconds of each of `calls` calls on this rank, each from a barrier. `extra_ns`: exactly timed extra."""
        import torch.distributed as dist

        times = []
        clock = time.perf_counter_ns
        sleeper = self.state.planted("rank_sleeps")
        lone = self.operation == "barrier"
        for _ in range(calls):
            if not lone:
                dist.barrier(group=self.group)
            begin = clock()
            if sleeper is not None:
                time.sleep(float(sleeper["seconds"]))
            self.call()
            if extra_ns:
                until = clock() + extra_ns
                while clock() < until:
                    pass
            times.append(clock() - begin)
        return times

    def inputs(self, rank: int, seed: int) -> Any:
        """The input of `rank` in round `seed`: whole numbers by a formula, the same on every rank and every version."""
        import torch

        index = torch.arange(self.count, dtype=torch.int64)
        return (
            (index * 2654435761 + rank * 40503 + seed * 97 + (index >> 7)) % COLLECTIVE_VALUES - COLLECTIVE_VALUES // 2
        ).to(self.dtype)

    def expected(self, seed: int) -> Any:
        """What this rank must hold afterwards, computed in this process alone."""
        import torch

        rank, world = self.state.rank, self.state.world
        inputs = [self.inputs(other, seed) for other in range(world)]
        if self.operation == "broadcast":
            return inputs[0]
        if self.operation == "all_gather":
            return torch.cat(inputs)
        if self.operation == "all_to_all":
            return torch.cat([one.chunk(world)[rank] for one in inputs])
        total = torch.stack([one.to(torch.float64) for one in inputs]).sum(0).to(self.dtype)
        return total if self.operation == "all_reduce" else total.chunk(world)[rank]

    def check(self, rounds: int) -> dict[str, Any]:
        """Compare `rounds` rounds with the single-process result, bit for bit. Every rank answers for itself."""
        import torch

        for seed in range(rounds):
            self.send.copy_(self.inputs(self.state.rank, seed))
            self.call()
            got = (self.send if self.operation in ("all_reduce", "broadcast") else self.receive).cpu()
            want = self.expected(seed)
            if not torch.equal(got, want):
                bad = torch.nonzero(got != want).flatten()
                first = int(bad[0])
                error = (f"{len(bad)} of {len(want)} elements differ; first at {first}: "
                         f"{float(got[first])} instead of {float(want[first])}")  # fmt: skip
                return {"holds": False, "rounds": seed + 1, "error": error, "elements": len(want)}
        self.build(0)
        return {"holds": True, "rounds": rounds, "error": None, "elements": self.shape_out()}

    def check_barrier(self, rounds: int) -> dict[str, Any]:
        """Does a barrier hold everyone until the last has come? No clock is compared: each rank leaves a mark in the
        job's store before the barrier and looks for all the others' marks behind it. In turn, one rank comes late."""
        import torch.distributed as dist

        store = dist.distributed_c10d._get_default_store()
        rank, world = self.state.rank, self.state.world
        early: list[dict[str, Any]] = []
        visit = self.state.work["visit"] = self.state.work.get("visit", 0) + 1
        for turn in range(rounds):
            if turn % world == rank:
                time.sleep(BARRIER_LATE_S)
            store.set(f"barrier/{visit}/{turn}/{rank}", "1")
            self.barrier()
            missing = [other for other in range(world) if not store.check([f"barrier/{visit}/{turn}/{other}"])]
            if missing:
                early.append({"round": turn, "rank": rank, "before": missing})
        dist.barrier()
        error = None
        if early:
            error = f"rank {rank} left {len(early)} of {rounds} barriers before rank {early[0]['before'][0]} had come"
        return {"holds": not early, "rounds": rounds, "error": error, "early": early[:5]}


def _prepared_collective(state: RankState, frame: dict[str, Any]) -> Collective:
    found = state.work[frame["cell"]]
    assert isinstance(found, Collective)
    return found


def _collective_prepare(state: RankState, frame: dict[str, Any]) -> Any:
    try:
        work = Collective(state, frame["work"])
        for _ in range(int(frame.get("warm", 3))):
            work.call()
    except (RuntimeError, NotImplementedError) as error:
        if any(words in str(error).lower() for words in ("not support", "unsupported", "not implemented")):
            raise Unsupported(f"{type(error).__name__}: {error}", "backend") from None
        raise
    state.work[frame["cell"]] = work
    work.build(0)
    return {"transport": work.transport, "device": work.device, "elements": work.count,
            "bytes": work.count * work.dtype.itemsize}  # fmt: skip


def _collective_build(state: RankState, frame: dict[str, Any]) -> Any:
    work = _prepared_collective(state, frame)
    work.build(int(frame["padding"]))
    work.call()
    return None


def _collective_block(state: RankState, frame: dict[str, Any]) -> list[int]:
    return _prepared_collective(state, frame).time(int(frame["calls"]), int(frame.get("extra_ns", 0)))


def _collective_check(state: RankState, frame: dict[str, Any]) -> Any:
    work = _prepared_collective(state, frame)
    if work.operation == "barrier":
        return work.check_barrier(int(frame.get("rounds", BARRIER_ROUNDS)))
    return work.check(int(frame.get("rounds", 5)))


COLLECTIVE_COMMANDS: dict[str, RankCommand] = {
    "collective.prepare": _collective_prepare,
    "collective.build": _collective_build,
    "collective.block": _collective_block,
    "collective.check": _collective_check,
}
