"""Collectives over all ranks: what a rank does to time them and to check them against a single-process result.

Bandwidths follow the definitions of NVIDIA's nccl-tests (doc/PERFORMANCE.md in github.com/NVIDIA/nccl-tests): with S
the size of the operation in bytes, t its time and n the number of ranks, the algorithm bandwidth is S/t, and the bus
bandwidth is S/t times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, and 1 for
broadcast. `bytes` of a cell is one rank's message: S itself, but for all_gather, where S is n times as much. A barrier
moves nothing and has no bandwidth; neither has anything on one rank, but for broadcast by its formula.

Each timed call starts from a barrier and a rank's time is its own; the driver takes the slowest rank's, call by call.
"""

from __future__ import annotations

import random
import time
from typing import Any

from .dist_item import RANK_ITEMS, RankItem, rank_item
from .dist_rank import RankCommand, RankState
from .dist_transports import transport_device, transport_group
from .measure import timed_samples
from .trees import tree_digest
from .work import Unsupported, Work

#: Rounds of a check: a barrier that is dropped one time in three stays unseen with probability (2/3) ** 36 < 1e-6.
BARRIER_ROUNDS = 36
#: How late the late rank of a barrier check comes.
BARRIER_LATE_S = 0.004
#: How many elements of each rank's input are frozen; the rest follows by the rule.
FROZEN_ELEMENTS = 4096
COLLECTIVE_VALUES = 8  # inputs are whole numbers from -4 to 3: sums over 64 ranks are exact even in bfloat16
#: Of the rule of the inputs: 32 bits, and a factor whose products with them fit into the 64 of a whole number.
INPUT_MASK = 0xFFFFFFFF
INPUT_FACTOR = 0x45D9F3B


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


def stirred(held: Any) -> Any:
    """32 bits, mixed so that neighbours have nothing in common; a whole number or a tensor of such."""
    held = ((held ^ (held >> 16)) * INPUT_FACTOR) & INPUT_MASK
    held = ((held ^ (held >> 16)) * INPUT_FACTOR) & INPUT_MASK
    return held ^ (held >> 16)


def input_rule(index: Any, rank: int, turn: int) -> Any:
    """What `rank` holds at element `index` in round `turn`: the same in every version, and of another rank or round
    another one, so that a swap is seen. `index` is a whole number or a tensor of such."""
    place = stirred((rank * 0x9E3779B1 + turn * 0x85EBCA77 + 1) & INPUT_MASK)
    held = stirred((stirred(index & INPUT_MASK) + place) & INPUT_MASK)
    return held % COLLECTIVE_VALUES - COLLECTIVE_VALUES // 2


class CollectiveWork(Work):
    """Axes: operation, bytes, ranks, dtype. Option: transport. Frozen is the rule of the inputs, and a sample."""

    kind = "collective"

    def count(self) -> int:
        """Elements of one rank's message."""
        size: int = self.dtype().itemsize
        count = max(1, int(self.axis("bytes", 1 << 20)) // size)
        ranks = int(self.axis("ranks", 1))
        if self.axis("operation", "all_reduce") in ("reduce_scatter", "all_to_all"):
            return max(ranks, count - count % ranks)
        return count

    def values(self, rank: int, turn: int, count: int) -> Any:
        """The input of `rank` in round `turn`: whole numbers by a formula, the same everywhere and in every version."""
        import torch

        return input_rule(torch.arange(count, dtype=torch.int64), rank, turn).to(self.dtype())

    def expected(self, rank: int, turn: int) -> Any:
        """What `rank` must hold afterwards, computed in this process alone. One rank's input is held at a time."""
        import torch

        ranks, operation = int(self.axis("ranks", 1)), str(self.axis("operation", "all_reduce"))
        count = self.count()
        if operation in ("broadcast", "barrier"):
            return self.values(0, turn, count)
        inputs = (self.values(other, turn, count) for other in range(ranks))
        if operation == "all_gather":
            return torch.cat(list(inputs))
        if operation == "all_to_all":
            return torch.cat([one.chunk(ranks)[rank].clone() for one in inputs])
        total = torch.zeros(count, dtype=torch.float64)
        for one in inputs:
            total += one.to(torch.float64)
        total = total.to(self.dtype())
        return total if operation == "all_reduce" else total.chunk(ranks)[rank]

    def freeze(self) -> dict[str, Any]:
        count = min(self.count(), FROZEN_ELEMENTS)
        rule = {"rule": "whole numbers from -4 to 3 by element, rank and round", "elements": self.count()}
        first = [self.values(rank, 0, count) for rank in range(int(self.axis("ranks", 1)))]
        return {"inputs": {**rule, "first": first}, "weights": {}, "cotangents": {}, "reference": {
            "result": self.expected(0, 0).double()}}  # fmt: skip


class CollectiveItem(RankItem):
    """One collective of one cell on one rank, with its buffers."""

    def __init__(self, state: RankState, work: Work, frozen: dict[str, Any]) -> None:
        super().__init__(state, work, frozen)
        assert isinstance(work, CollectiveWork)
        self.collective = work
        self.operation = str(work.axis("operation", "all_reduce"))
        self.transport = str(work.axis("transport", None) or ("nccl" if state.device == "cuda" else "gloo"))
        self.group = transport_group(state, self.transport)
        self.device = transport_device(state, self.transport)
        self.dtype = work.dtype()
        self.count: int = work.count()
        size = operation_bytes(self.operation, self.count * self.dtype.itemsize, state.world)
        self.bus_bytes = size * bus_factor(self.operation, state.world)
        self.operation_bytes = float(size) if self.bus_bytes else 0.0
        self.padding: Any = None
        self.renew()
        try:
            for _ in range(3):
                self.step()
        except (RuntimeError, NotImplementedError) as error:
            if any(words in str(error).lower() for words in ("not support", "unsupported", "not implemented")):
                raise Unsupported(f"{type(error).__name__}: {error}", "backend") from None
            raise

    def digests(self) -> dict[str, str]:
        """Of what this rank makes by the rule, so that another rule in another version is found."""
        count = min(self.count, FROZEN_ELEMENTS)
        first = [self.collective.values(rank, 0, count) for rank in range(self.state.world)]
        return {"inputs": tree_digest({**self.frozen["inputs"], "first": first}), "weights": tree_digest({})}

    def relayout(self, padding: int) -> None:
        import torch

        self.padding = torch.empty(max(1, padding), dtype=torch.uint8)
        self.renew()

    def renew(self) -> None:
        import torch

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

    def step(self) -> None:
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

    def samples(self, calls: int, count: int, plants: list[float]) -> list[list[float]]:
        import torch.distributed as dist

        taken: list[list[float]] = [[] for _ in plants or [0.0]]
        lone = self.operation == "barrier"
        for _ in range(count):
            if not lone:
                dist.barrier(group=self.group)
            one = timed_samples(self.slow_step, calls, 1, plants, None)
            for held, new in zip(taken, one, strict=True):
                held += new
        return taken

    def slow_step(self) -> None:
        """A call, behind the sleep of a planted slow rank where a test asked for one."""
        sleeper = self.state.planted("rank_sleeps")
        if sleeper is not None:
            time.sleep(float(sleeper["seconds"]))
        self.step()

    def outputs(self) -> dict[str, Any]:
        self.send.copy_(self.collective.values(self.state.rank, 0, self.count))
        self.step()
        result = (self.receive if self.elsewhere() else self.send).cpu().clone()
        self.renew()
        return {"output": {"result": result}} if self.state.rank == 0 else {}

    def elsewhere(self) -> bool:
        """Whether the result lies in `receive` and not in place."""
        return self.operation in ("all_gather", "reduce_scatter", "all_to_all")

    def check(self, rounds: int) -> dict[str, Any]:
        """Compare `rounds` rounds with the single-process result, bit for bit. Every rank answers for itself."""
        import torch

        answer: dict[str, Any] = {"holds": True, "rounds": rounds, "error": None, "elements": self.shape_out()}
        for turn in range(rounds):
            self.send.copy_(self.collective.values(self.state.rank, turn, self.count))
            self.step()
            got = (self.receive if self.elsewhere() else self.send).cpu()
            want = self.collective.expected(self.state.rank, turn)
            if answer["holds"] and not torch.equal(got, want):
                bad = torch.nonzero(got != want).flatten()
                first = int(bad[0])
                error = (
                    f"rank {self.state.rank}, round {turn}: {len(bad)} of {len(want)} elements differ; "
                    f"first at {first}: {float(got[first])} instead of {float(want[first])}"
                )
                answer.update(holds=False, error=error)
        self.renew()
        return answer

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
            store.add(f"barrier/{visit}/{turn}/{rank}", 1)  # unlike `set`, it waits until the store has taken it
            self.barrier()
            missing = [other for other in range(world) if not store.check([f"barrier/{visit}/{turn}/{other}"])]
            if missing:
                early.append({"round": turn, "rank": rank, "before": missing})
        dist.barrier()
        error = None
        if early:
            error = f"rank {rank} left {len(early)} of {rounds} barriers before rank {early[0]['before'][0]} had come"
        return {"holds": not early, "rounds": rounds, "error": error, "early": early[:5]}


def _collective_check(state: RankState, frame: dict[str, Any]) -> Any:
    item = rank_item(state, frame)
    if not isinstance(item, CollectiveItem):
        raise Unsupported("this is no collective", "backend")
    if item.operation == "barrier":
        return item.check_barrier(int(frame.get("rounds", BARRIER_ROUNDS)))
    return item.check(int(frame.get("rounds", 5)))


RANK_ITEMS["collective"] = CollectiveItem
COLLECTIVE_COMMANDS: dict[str, RankCommand] = {"collective.check": _collective_check}
