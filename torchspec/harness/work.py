"""What a workload kind is to the harness: `Work` (one class a kind) and `Job` (the work, built and ready to step).

## To add a kind

Write `work_<kind>.py` beside this file with one subclass of `Work` and set `kind` to the catalog row's name; defining
the class registers it, and the bundler takes the file along wherever a cell needs it. The least that works:

    class RmsNorm(Work):
        kind = "rms_norm"
        items_unit = "tokens"
        input_gradients = True                  # in train mode the gradients of floating-point inputs are compared too

        def inputs(self):                       # once, on the CPU, by the baseline; torch is seeded already
            import torch

            return (torch.randn(self.axis("tokens", 512), self.axis("hidden", 256)),)

        def module(self, path):                 # its weights are frozen too; `path` is None for the kind itself,
            import torch                        # or a name from the workload's `beside` or a side's `path`

            return torch.nn.RMSNorm(self.axis("hidden", 256))

        def items(self):
            return self.axis("tokens", 512)

Everything else (freezing, digests, casting, float64 reference, train, compile, export, memory, determinism, gradients,
checkpoints) is done from these by `ModuleJob`. What may be overridden, when a kind needs it:

- `loss(output, args)`: the scalar to go backward from. By default a scalar output is its own loss, and anything else
  goes backward from frozen random cotangents.
- `reference()`: the path that the float64 reference on the CPU takes (default: the kind's own).
- `optimizer(parameters)`: for `loss.final`, checkpoints and, where `timed_optimizer` is True, inside the timed step.
- `job(parts, mode, path, device, dtype)`: a `Job` of your own, where the work is no single module (token-by-token
  decoding, collectives, bare operators). Implement what makes sense; the base class answers `Unsupported` for the rest.

Raise `Unsupported("reason")` for what this torch, backend or machine cannot do; it becomes an `unsupported` record.
Any other exception counts as the work having failed on that side.

Must not: read clocks, spawn, write files, or draw random numbers outside `inputs` and `module`.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Any

from .trees import convert, tensors


class Unsupported(Exception):
    """What this version, backend or machine cannot do. `where` is "version", "backend" or "machine"."""

    def __init__(self, reason: str, where: str = "version") -> None:
        super().__init__(reason)
        self.where = where


class Task:
    """What a work is told: one cell of the plan, its workload, the seed, and where the team's files lie.

    `mode` is infer, train, compile or export; `axes` the cell's axis values; `options` the workload's own words.
    """

    def __init__(self, cell: dict[str, Any], workload: dict[str, Any], seed: int, team: Path, settings: dict[str, str]):
        self.cell = cell
        self.workload = workload
        self.mode: str = cell["mode"]
        self.axes: dict[str, Any] = cell["axes"]
        self.options: dict[str, Any] = workload["options"]
        self.beside: str | None = workload["beside"]
        self.entry: dict[str, str] | None = workload["entry"]
        self.seed = seed
        self.team = team
        self.settings = settings


#: kind -> its class; filled as the work modules define their classes.
KINDS: dict[str, type[Work]] = {}


class Work:
    """One workload kind. Subclasses set `kind` and write `inputs`, `module` and `items`; see the module's recipe."""

    kind = ""
    items_unit = "calls"
    input_gradients = False
    timed_optimizer = False
    #: Whether the work runs in float64 on the CPU, from which the shapes of random cotangents are then taken.
    has_float64 = True
    #: Whether the output is a scalar loss already, so that no cotangents are needed to go backward.
    scalar = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if vars(cls).get("kind"):  # its own: a class between a kind and its subclasses takes no kind's place
            KINDS[cls.kind] = cls

    def __init__(self, task: Task) -> None:
        self.task = task

    def axis(self, name: str, default: Any) -> Any:
        """The cell's value on an axis, or the workload's option of that name, or `default`."""
        return self.task.axes.get(name, self.task.options.get(name, default))

    def dtype(self) -> Any:
        """The cell's torch dtype, or None where the matrix has no dtype axis. Raises Unsupported for an unknown one."""
        import torch

        name = self.task.axes.get("dtype")
        if name is None:
            return None
        found = getattr(torch, str(name), None)
        if not isinstance(found, torch.dtype):
            raise Unsupported(f"torch {torch.__version__} has no dtype {name}")
        return found

    def inputs(self) -> Any:
        """Example inputs on the CPU: a tensor, a tuple (positional) or a dict (by keyword)."""
        raise NotImplementedError

    def module(self, path: str | None) -> Any:
        """The torch.nn.Module under test on the CPU, in float32 or its own dtype."""
        raise NotImplementedError

    def items(self) -> int:
        """Items of `items_unit` that one step works off."""
        return 1

    def loss(self, output: Any, inputs: Any) -> Any:
        """The scalar tensor to go backward from, or None for frozen cotangents."""
        import torch

        return output if isinstance(output, torch.Tensor) and output.dim() == 0 else None

    def reference(self) -> str | None:
        """The path taken by the float64 reference."""
        return None

    def optimizer(self, parameters: list[Any]) -> Any:
        import torch

        return torch.optim.AdamW(parameters, lr=1e-3)

    def freeze(self) -> dict[str, Any]:
        """Inputs, initial weights and cotangents, made once on the CPU in the cell's dtype.

        {"inputs": tree, "weights": {name: tensor}, "cotangents": {output path: tensor}}
        """
        import torch

        dtype = self.dtype()
        torch.manual_seed(self.task.seed)
        inputs = convert(self.inputs(), dtype=dtype)
        torch.manual_seed(self.task.seed)
        module = self.module(None)
        weights = convert(dict(module.state_dict()), dtype=dtype)
        cotangents: dict[str, Any] = {}
        if self.task.mode == "train" and not self.scalar:
            frozen = {"inputs": inputs, "weights": weights, "cotangents": {}}
            wide = torch.float64 if self.has_float64 else None
            job = self.job(frozen, "infer", self.reference(), torch.device("cpu"), wide)
            output = job.forward()
            if self.loss(output, inputs) is None:
                torch.manual_seed(self.task.seed + 1)
                cotangents = {
                    name: random_cotangent(value, dtype)
                    for name, value in tensors(output).items()
                    if value.is_floating_point() or value.is_complex()
                }
        return {"inputs": inputs, "weights": weights, "cotangents": cotangents}

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        """The work, built on `device` in `dtype` (None: as frozen) from what was frozen. Overridden for odd kinds."""
        return ModuleJob(self, frozen, mode, path, device, dtype)


def random_cotangent(value: Any, dtype: Any) -> Any:
    """A standard normal tensor of the shape of `value`, real or complex as it is, in `dtype` (None: float32)."""
    import torch

    if value.is_complex():
        return torch.randn(value.shape, dtype=torch.complex64)
    return torch.randn(value.shape).to(dtype if dtype is not None and dtype.is_floating_point else torch.float32)


class Job:
    """The work, built. `step` is what is timed; everything else looks at it. All of it runs on one device."""

    items = 1
    items_unit = "calls"

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        """Entered once around many steps (no-grad and the like), so that its cost is not charged to a step."""
        return contextlib.nullcontext()

    def step(self) -> Any:
        """One unit of work, as the mode says. Called inside `ambient`."""
        raise NotImplementedError

    def forward(self) -> Any:
        """The output of one forward pass, detached; enters `ambient` by itself."""
        raise Unsupported("this kind of work has no outputs to compare", "backend")

    def gradients(self) -> dict[str, Any]:
        """Gradients by name after one forward and backward from the frozen weights."""
        raise Unsupported("this kind of work has no gradients", "backend")

    def results(self, gradients: bool) -> dict[str, dict[str, Any]]:
        """What one run of the work gives: {"output": {name: tensor}}, and "gradient" where asked."""
        found = {"output": tensors(self.forward())}
        if gradients:
            found["gradient"] = self.gradients()
        return found

    def losses(self, steps: int) -> list[float]:
        """The loss before each of `steps` optimizer steps, and after the last; leaves the job used up."""
        raise Unsupported("this kind of work has no loss", "backend")

    def weights(self) -> dict[str, Any]:
        """The weights that the job holds, by name."""
        return {}

    def path_taken(self, seen: dict[str, Any]) -> str | None:
        """Which path the work took, in words, from what `trace.watch` saw of a step; None where there is but one."""
        return None

    def first_token(self) -> Any:
        """All work between a request and its first token."""
        raise Unsupported("this kind of work gives no tokens", "backend")

    def subject(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """(module, args, kwargs) to compile or export."""
        raise Unsupported("this kind of work has no module to compile or export", "backend")

    def run_with(self, runner: Any) -> None:
        """From now on steps call `runner` (the compiled or exported form) instead of the module itself."""
        raise Unsupported("this kind of work has no module to compile or export", "backend")

    def call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One forward pass of what steps run, with other inputs. Called inside `ambient`."""
        raise Unsupported("this kind of work takes no other inputs", "backend")

    def relayout(self, padding: int) -> None:
        """Moves inputs and weights to other places in memory, after an allocation of `padding` bytes."""

    def checkpoint(self) -> dict[str, Any]:
        """{"module": state dict}, and in train mode {"optimizer": its state after one step, "rng": the random state,
        "drawn": the numbers that follow from it}. The weights stay as they were."""
        raise Unsupported("this kind of work has no state", "backend")

    def restore(self, saved: dict[str, Any]) -> None:
        """Loads what `checkpoint` gave, strictly, and goes on with one optimizer step; then back to those weights."""
        raise Unsupported("this kind of work has no state", "backend")


class ModuleJob(Job):
    """A `torch.nn.Module` in one of the four modes."""

    def __init__(self, work: Work, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any):
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
        self.module.train(mode == "train")
        self._padding: Any = None
        self._output: Any = None
        self.run_with(self.module)
        self.tuned = work.optimizer(self._parameters()) if work.timed_optimizer and mode == "train" else None

    def run_with(self, runner: Any) -> None:
        """Sets what a step calls, and everything about it that need not be looked up inside a step."""
        args, kwargs = self.arguments()
        placed = tensors([list(args), kwargs])
        if self.mode == "train" and self.work.input_gradients:
            for value in placed.values():
                value.requires_grad_(value.is_floating_point() or value.is_complex())
        self.runner = runner
        self._call = functools.partial(runner, *args, **kwargs)
        self._leaves = {k: p for k, p in self.module.named_parameters() if p.requires_grad}
        self._leaves.update({f"input.{k}": v for k, v in placed.items() if v.requires_grad})

    def _parameters(self) -> list[Any]:
        return [p for p in self.module.parameters() if p.requires_grad]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs as positional and keyword arguments."""
        if isinstance(self.inputs, dict):
            return (), self.inputs
        return (tuple(self.inputs) if isinstance(self.inputs, (tuple, list)) else (self.inputs,)), {}

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        return contextlib.nullcontext() if self.mode == "train" else torch.no_grad()

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
        if self.mode != "train":
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
        if self.mode != "train":
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

    def weights(self) -> dict[str, Any]:
        return dict(self.module.state_dict())

    def subject(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        args, kwargs = self.arguments()
        return self.module, args, kwargs

    def call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
        if self.mode == "train" and self._parameters():
            optimizer = self.work.optimizer(self._parameters())
            self._forward_backward()
            optimizer.step()
            saved["optimizer"] = optimizer.state_dict()
            self.module.load_state_dict(saved["module"])
            saved["rng"] = torch.get_rng_state()
            saved["drawn"] = torch.rand(8)
            torch.set_rng_state(saved["rng"])
        return saved

    def restore(self, saved: dict[str, Any]) -> None:
        self.module.load_state_dict(saved["module"], strict=True)
        if "optimizer" in saved:
            optimizer = self.work.optimizer(self._parameters())
            optimizer.load_state_dict(saved["optimizer"])
            self._forward_backward()
            optimizer.step()
            self.module.load_state_dict(saved["module"])
        if "rng" in saved:
            import torch

            torch.set_rng_state(saved["rng"])
            if not torch.equal(torch.rand(8), saved["drawn"]):
                raise ValueError("the same random state gives other random numbers here")
