"""What a workload kind is to the harness: `Work`, one class a kind. `jobs.py` has the work built and ready to step.

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
- `accuracy(output, inputs)`: the share of right answers, for `task.accuracy`.
- `optimizer(parameters)`: for `loss.final` and checkpoints, and within a whole training step (`whole_step`): where
  `timed_optimizer` is True or `step.time` is asked for.
- `job(parts, mode, path, device, dtype)`: a `Job` of your own, where the work is no single module (token-by-token
  decoding, collectives, bare operators). Implement what makes sense; the base class answers `Unsupported` for the rest.

Raise `Unsupported("reason")` for what this torch, backend or machine cannot do; it becomes an `unsupported` record.
Any other exception counts as the work having failed on that side.

Must not: read clocks, spawn, write files, or draw random numbers outside `inputs` and `module`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .jobs import Job, Unsupported
from .modes import BACKWARD
from .module_job import ModuleJob
from .trees import convert, tensors

#: What a file of a kind needs, from here alone.
__all__ = ["KINDS", "Job", "ModuleJob", "Task", "Unsupported", "Work", "random_cotangent"]


class Task:
    """What a work is told: one cell of the plan, its workload, the seed, and where the team's files lie.

    `mode` is infer, train, compile, train_compiled or export; `axes` the cell's axis values; `options` the workload's
    own words; `metrics` what is asked of the cell.
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
        self.metrics: set[str] = set()


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

    def accuracy(self, output: Any, inputs: Any) -> dict[str, Any]:
        """{"value": share of right answers, "by": who says what is right}."""
        raise Unsupported("this kind of work has no answers that are right or wrong", "backend")

    def reference(self) -> str | None:
        """The path taken by the float64 reference."""
        return None

    def whole_step(self) -> bool:
        """Whether a training step ends with the optimizer's, rather than with the gradients."""
        return self.timed_optimizer or "step.time" in self.task.metrics

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
        if self.task.mode in BACKWARD and not self.scalar:
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
