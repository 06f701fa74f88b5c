"""`ModuleJob`: a `torch.nn.Module` to infer with, train, compile or export, from what was frozen for it.

Must not: read clocks, spawn, write files, or draw random numbers that were not seeded by the caller.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from typing import Any

from .jobs import Job, Unsupported
from .modes import BACKWARD
from .restored import optimizer_digests
from .trees import convert, tensors


class ModuleJob(Job):
    """A `torch.nn.Module` in one of the modes."""

    def __init__(self, work: Any, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any):
        import torch

        self.work, self.mode, self.device = work, mode, device
        self.items, self.items_unit = work.items(), work.items_unit
        torch.manual_seed(work.task.seed)
        module = work.module(path)
        module.load_state_dict(frozen["weights"], strict=path in (None, work.reference()))
        self.inputs = convert(frozen["inputs"], device, dtype)
        self.cotangents = convert(frozen["cotangents"], device, dtype)
        self.module = module.to(device=device) if dtype is None else module.to(device=device, dtype=dtype)
        if dtype is None and work.dtype() is not None:
            self.module = self.module.to(dtype=work.dtype())
        self.trains = mode in BACKWARD
        self.module.train(self.trains)
        self._padding: Any = None
        self._output: Any = None
        self.run_with(self.module)
        self.tuned = self._tuned() if self.trains and work.whole_step() and self._parameters() else None

    def _tuned(self) -> Any:
        """The optimizer of a whole step. It learns at a rate of zero: all of its work, and the weights stay the frozen
        ones, so that every step is the same. (One that is captured on a device divides by its rate, and keeps it.)"""
        optimizer = self.work.optimizer(self._parameters())
        for group in getattr(optimizer, "param_groups", []):
            if "lr" in group and not group.get("capturable"):
                group["lr"] = group["lr"] * 0.0
        return optimizer

    def run_with(self, runner: Any) -> None:
        """Sets what a step calls, and everything about it that need not be looked up inside a step."""
        args, kwargs = self.arguments()
        placed = tensors([list(args), kwargs])
        self._differentiable(placed)
        self.runner = runner
        self._call = functools.partial(runner, *args, **kwargs)
        self._leaves = {k: p for k, p in self.module.named_parameters() if p.requires_grad}
        self._leaves.update({f"input.{k}": v for k, v in placed.items() if v.requires_grad})

    def _differentiable(self, placed: dict[str, Any]) -> None:
        """Has the backward pass give gradients of these inputs too, where the kind compares them."""
        if self.trains and self.work.input_gradients:
            for value in placed.values():
                value.requires_grad_(value.is_floating_point() or value.is_complex())

    def _parameters(self) -> list[Any]:
        return [p for p in self.module.parameters() if p.requires_grad]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs as positional and keyword arguments."""
        if isinstance(self.inputs, dict):
            return (), self.inputs
        return (tuple(self.inputs) if isinstance(self.inputs, (tuple, list)) else (self.inputs,)), {}

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        return contextlib.nullcontext() if self.trains else torch.no_grad()

    def _forward_backward(self) -> Any:
        import torch

        for leaf in self._leaves.values():
            leaf.grad = None
        output = self._call()
        self._output = output
        loss = self.work.loss(output, self.inputs)
        if loss is not None:
            loss.backward()
            return loss.detach()
        found = {"output": output} if isinstance(output, torch.Tensor) else tensors(output)
        torch.autograd.backward([found[name] for name in self.cotangents], list(self.cotangents.values()))
        return None

    def results(self, gradients: bool) -> dict[str, dict[str, Any]]:
        if not gradients:
            return super().results(False)
        found = self.gradients()  # output and gradients of one and the same pass
        return {"output": {name: value.detach() for name, value in tensors(self._output).items()}, "gradient": found}

    def step(self) -> Any:
        if not self.trains:
            return self._call()
        result = self._forward_backward()
        if self.tuned is not None:
            self.tuned.step()
        return result

    def forward(self) -> Any:
        import torch

        with torch.no_grad():
            return self._call()

    def gradients(self) -> dict[str, Any]:
        self._forward_backward()
        return {k: v.grad.detach().clone() for k, v in self._leaves.items() if v.grad is not None}

    def losses(self, steps: int) -> list[float]:
        if not self.trains:
            raise Unsupported("only a training cell has a loss", "backend")
        optimizer = self.work.optimizer(self._parameters())
        values = []
        for _ in range(steps + 1):
            loss = self._forward_backward()
            if loss is None:
                raise Unsupported("this work has no scalar loss", "backend")
            values.append(float(loss))
            optimizer.step()
        return values

    def accuracy(self) -> dict[str, Any]:
        import torch

        with torch.no_grad():
            return self.work.accuracy(self._call(), self.inputs)  # type: ignore[no-any-return]

    def weights(self) -> dict[str, Any]:
        return dict(self.module.state_dict())

    def subject(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        args, kwargs = self.arguments()
        return self.module, args, kwargs

    def call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._differentiable(tensors([list(args), kwargs]))
        return self.runner(*args, **kwargs)

    def relayout(self, padding: int) -> None:
        import torch

        self._padding = torch.empty(max(1, padding), dtype=torch.uint8)
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            tensor.grad = None
            tensor.data = tensor.data.clone()
        self.inputs = convert(self.inputs)
        self.cotangents = convert(self.cotangents)
        self.run_with(self.runner)

    def checkpoint(self) -> dict[str, Any]:
        import torch

        saved: dict[str, Any] = {"module": {name: value.clone() for name, value in self.weights().items()}}
        if self.trains and self._parameters():
            optimizer = self.work.optimizer(self._parameters())
            self._forward_backward()
            optimizer.step()
            saved["optimizer"] = optimizer.state_dict()
            self.module.load_state_dict(saved["module"])
            saved["rng"] = torch.get_rng_state()
            saved["drawn"] = torch.rand(8)
            torch.set_rng_state(saved["rng"])
        return saved

    def restore(self, saved: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = {}
        self.module.load_state_dict(saved["module"], strict=True)
        if "optimizer" in saved:
            optimizer = self.work.optimizer(self._parameters())
            before = copy.deepcopy(saved["optimizer"])  # torch may go on with the very tensors that it is given
            optimizer.load_state_dict(saved["optimizer"])
            told = {**optimizer_digests(optimizer.state_dict(), before), "next": self._go_on(optimizer)}
            self.module.load_state_dict(saved["module"])
        if "rng" in saved:
            import torch

            torch.set_rng_state(saved["rng"])
            if not torch.equal(torch.rand(8), saved["drawn"]):
                raise ValueError("the same random state gives other random numbers here")
        return told

    def _go_on(self, optimizer: Any) -> list[float]:
        """A step, and what is finite where the work goes on: each weight's largest value behind it, and the loss."""
        self._forward_backward()
        optimizer.step()
        found = [float(p.detach().abs().max()) for p in self._parameters() if p.numel()]
        loss = self._forward_backward()
        return found if loss is None else [float(loss), *found]
