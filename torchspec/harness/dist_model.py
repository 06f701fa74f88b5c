"""The work of the kinds fsdp2 and ddp: what is frozen, and how one training step is wrapped for a group of ranks.

`batch` rows are one rank's share of a step; the frozen global batch holds `batch` times `ranks` rows, and one rank
alone takes all of them, so that the loss curve of N ranks and of one are the same curve. In bfloat16 or float16 the
weights stay float32: fsdp2 computes in that type by its mixed precision policy and reduces gradients in float32, ddp
computes by autocast.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import signal
import time
from typing import Any

from .dist_rank import RankState
from .trees import convert
from .work import Task, Unsupported, Work
from .work_python import TeamCode

#: Distinct global batches; step i takes batch i modulo this.
FROZEN_BATCHES = 4
#: What the option `overlap` may name, each an addition to fsdp2's default.
OVERLAPS = ("prefetch", "separate_reduce_scatter", "reduce_scatter_buffers")


class RankedTraining(Work):
    """Axes: layers, hidden, batch (rows per rank), ranks, dtype. Options: overlap, steps. An entry brings its module.

    The entry returns (module, inputs, loss_fn); `inputs` is the global batch, cut by rows among the ranks.
    """

    items_unit = "samples"
    timed_optimizer = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.team = TeamCode(task, self) if task.entry is not None else None
        if self.team is not None:
            self.items_unit = self.team.items_unit

    def shape(self) -> tuple[int, int, int, int]:
        """(layers, hidden, batch, ranks)."""
        values = (("layers", 2), ("hidden", 256), ("batch", 8), ("ranks", 1))
        layers, hidden, batch, ranks = (int(self.axis(name, default)) for name, default in values)
        return layers, hidden, batch, ranks

    def inputs(self) -> Any:
        import torch

        if self.team is not None:
            return self.team.inputs()
        _, hidden, batch, ranks = self.shape()
        rows = batch * ranks
        return torch.randn(FROZEN_BATCHES, rows, hidden), torch.randn(FROZEN_BATCHES, rows, hidden)

    def module(self, path: str | None) -> Any:
        import torch

        if self.team is not None:
            return self.team.module(path)
        layers, hidden, _, _ = self.shape()

        class Residual(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.norm = torch.nn.LayerNorm(hidden)
                self.wide = torch.nn.Linear(hidden, hidden)
                self.back = torch.nn.Linear(hidden, hidden)

            def forward(self, rows: Any) -> Any:
                return rows + self.back(torch.nn.functional.gelu(self.wide(self.norm(rows))))

        class Residuals(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.blocks = torch.nn.ModuleList(Residual() for _ in range(layers))
                self.head = torch.nn.Linear(hidden, hidden)

            def forward(self, rows: Any) -> Any:
                for block in self.blocks:
                    rows = block(rows)
                return self.head(rows)

        return Residuals()

    def items(self) -> int:
        """Rows of the global batch, the team's own where it brings one; or what `counts` says of its code."""
        if self.team is None:
            return self.shape()[2] * self.shape()[3]
        return self.team.items() if isinstance(self.team.counts, dict) else self.team.rows()

    def freeze(self) -> dict[str, Any]:
        """Inputs and initial weights, both float32 whatever the cell's dtype: precision is the policy's."""
        import torch

        torch.manual_seed(self.task.seed)
        inputs = convert(self.inputs())
        torch.manual_seed(self.task.seed)
        return {"inputs": inputs, "weights": convert(dict(self.module(None).state_dict())), "cotangents": {}}

    def cut(self, inputs: Any, index: int, part: int, parts: int) -> tuple[Any, ...]:
        """Rank `part`'s rows of `parts` shares of the global batch of step `index`. Raises ValueError if uneven."""
        whole = inputs if self.team is not None else tuple(part[index % FROZEN_BATCHES] for part in inputs)
        if not isinstance(whole, (tuple, list)):
            whole = (whole,)
        for tensor in whole:
            if tensor.shape[0] % parts:
                raise ValueError(f"a global batch of {tensor.shape[0]} rows cannot be cut among {parts} ranks")
        return tuple(tensor.chunk(parts)[part] for tensor in whole)

    def loss_of(self, module: Any, rows: tuple[Any, ...]) -> Any:
        """The scalar loss of one share: a mean over its rows."""
        import torch

        if self.team is not None:
            return self.team.loss(module(*rows), rows)
        return torch.nn.functional.mse_loss(module(rows[0]).to(rows[1].dtype), rows[1])


class ShardedTraining(RankedTraining):
    kind = "fsdp2"


class ReplicatedTraining(RankedTraining):
    kind = "ddp"


def _shard_function() -> Any:
    """(fully_shard, MixedPrecisionPolicy) from where this torch keeps them."""
    with contextlib.suppress(ImportError):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        return fully_shard, MixedPrecisionPolicy
    try:
        from torch.distributed._composable.fsdp import MixedPrecisionPolicy as Policy
        from torch.distributed._composable.fsdp import fully_shard as shard
    except ImportError as error:
        raise Unsupported(f"this torch has no fully_shard: {error}") from None
    return shard, Policy


def _overlaps(work: RankedTraining) -> list[str]:
    chosen = work.task.options.get("overlap", [])
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    unknown = [name for name in names if name not in (*OVERLAPS, "none")]
    if unknown:
        raise Unsupported(f"no overlap option {unknown[0]!r}; there are {', '.join(OVERLAPS)}", "version")
    return [name for name in names if name != "none"]


def _shard(work: RankedTraining, module: Any, mesh: Any, solo: bool) -> Any:
    """fully_shard on each block and on the root, with the cell's precision policy and overlap options.

    `solo`: without a separate group for reduce-scatter. One rank alone has nobody to reduce with, and torch 2.13 waits
    for ever for the next group of all ranks where one of them has made a group more.
    """
    import torch

    shard, policy_type = _shard_function()
    dtype = work.dtype()
    policy = policy_type()
    if dtype is not None and dtype != torch.float32:
        policy = policy_type(param_dtype=dtype, reduce_dtype=torch.float32)
    lists = [part for part in module.modules() if isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential))]
    blocks = list(lists[0]) if lists else []
    for block in blocks:
        shard(block, mesh=mesh, mp_policy=policy)
    shard(module, mesh=mesh, mp_policy=policy)
    calls = {"separate_reduce_scatter": ("set_separate_reduce_scatter_group", True),
             "reduce_scatter_buffers": ("set_reduce_scatter_max_input_buffers", 2)}  # fmt: skip
    for name in _overlaps(work):
        if name == "prefetch":
            if len(blocks) < 2:
                raise Unsupported(
                    "prefetch needs a module with a ModuleList or Sequential of two blocks at least", "backend"
                )
            for this, following in itertools.pairwise(blocks):
                this.set_modules_to_forward_prefetch([following])
                following.set_modules_to_backward_prefetch([this])
            continue
        if name == "separate_reduce_scatter" and solo:
            continue
        method, value = calls[name]
        if not hasattr(module, method):
            raise Unsupported(f"torch {torch.__version__} has no FSDPModule.{method}", "version")
        getattr(module, method)(value)
    return module


class TrainingRun:
    """A model wrapped for one group of ranks, its optimizer, and its frozen batches. `solo`: rank 0 alone."""

    def __init__(self, state: RankState, work: RankedTraining, frozen: dict[str, Any], solo: bool = False) -> None:
        import torch
        from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

        self.state, self.work, self.solo = state, work, solo
        self.part, self.parts = (0, 1) if solo else (state.rank, state.world)
        self.share = self.parts  # into how many shares a global batch is cut
        device = torch.device(state.device, state.local_rank) if state.device == "cuda" else torch.device("cpu")
        torch.manual_seed(work.task.seed)
        module = work.module(None)
        module.load_state_dict(frozen["weights"])
        module = module.to(device).train()
        self.inputs = convert(frozen["inputs"], device)
        self.dtype = work.dtype()
        if work.kind == "fsdp2":
            mesh = DeviceMesh.from_group(state.solo, state.device) if solo else None
            module = _shard(work, module, mesh or init_device_mesh(state.device, (state.world,)), solo)
        else:
            if _overlaps(work):
                raise Unsupported("ddp has no such overlap option", "version")
            module = torch.nn.parallel.DistributedDataParallel(module, process_group=state.solo if solo else None)
        self.module = module
        self.optimizer = work.optimizer([p for p in module.parameters() if p.requires_grad])
        self.index = 0

    def group(self) -> Any:
        """The process group; None is all ranks."""
        return self.state.solo if self.solo else None

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        if self.work.kind == "ddp" and self.dtype not in (None, torch.float32):
            return torch.autocast(self.state.device, dtype=self.dtype)  # type: ignore[no-any-return]
        return contextlib.nullcontext()

    def backward(self) -> Any:
        """Forward and backward of one step; this rank's loss, detached."""
        sleeper = self.state.planted("rank_sleeps")
        if sleeper is not None and not self.solo:
            time.sleep(float(sleeper["seconds"]))
        doomed = self.state.planted("rank_dies")
        if doomed is not None and self.index >= int(doomed["step"]):
            os.kill(os.getpid(), signal.SIGKILL)
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision():
            loss = self.work.loss_of(self.module, self.work.cut(self.inputs, self.index, self.part, self.share))
        loss.backward()
        return loss.detach()

    def advance(self) -> None:
        """The optimizer's part of a step."""
        self.optimizer.step()
        self.index += 1

    def step(self) -> Any:
        """One whole step; this rank's loss, detached."""
        loss = self.backward()
        self.advance()
        return loss

    def global_loss(self, loss: Any) -> float:
        """The mean of all ranks' losses, in float64."""
        import torch.distributed as dist

        value = loss.double()
        if not self.solo:
            dist.all_reduce(value)
        return float(value) / self.parts

    def losses(self, steps: int) -> list[float]:
        """The global loss of each of the next `steps` steps."""
        return [self.global_loss(self.step()) for _ in range(steps)]

    def full_state(self) -> dict[str, Any]:
        """{"model": .., "optimizer": ..}: whole tensors on the CPU of the group's first rank, empty on the others.

        Copies: on one rank torch gives the parameters themselves, which the next step would change."""
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            get_model_state_dict,
            get_optimizer_state_dict,
        )

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        held = {"model": get_model_state_dict(self.module, options=options),
                "optimizer": get_optimizer_state_dict(self.module, self.optimizer, options=options)}  # fmt: skip
        return copy.deepcopy(held)


def whole_gradients(run: TrainingRun) -> dict[str, Any]:
    """{parameter: whole gradient on the CPU}; every rank takes part, and all hold the same."""
    found = {}
    for name, parameter in run.module.named_parameters():
        if parameter.grad is not None:
            gradient = parameter.grad
            gradient = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
            found[name.removeprefix("module.")] = gradient.detach().cpu().clone()
    return found


class PlainRun:
    """The same training in one process without any wrapping, on the whole global batch, in `dtype` on the CPU."""

    def __init__(self, work: RankedTraining, frozen: dict[str, Any], dtype: Any) -> None:
        import torch

        self.work = work
        torch.manual_seed(work.task.seed)
        module = work.module(None)
        module.load_state_dict(frozen["weights"])
        self.module = module.to(dtype).train()
        self.inputs = convert(frozen["inputs"], dtype=dtype)
        self.optimizer = work.optimizer([p for p in module.parameters() if p.requires_grad])

    def outputs(self, steps: int) -> dict[str, Any]:
        """Losses of `steps` steps, the weights behind them, and the gradients of the first; named as the ranks' are."""
        import torch

        losses, gradients = [], {}
        for index in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.work.loss_of(self.module, self.work.cut(self.inputs, index, 0, 1))
            loss.backward()
            losses.append(float(loss))
            if index == 0:
                named = self.module.named_parameters()
                gradients = {name: p.grad.detach().clone() for name, p in named if p.grad is not None}
            self.optimizer.step()
        output = {"losses": torch.tensor(losses, dtype=torch.float64)}
        output.update({f"weight.{name}": value.detach() for name, value in self.module.state_dict().items()})
        return {"output": output, "gradient": gradients}
