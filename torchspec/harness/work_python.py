"""The team's own code: `path:function`, which returns what is to be measured.

    (module, inputs)                        inputs: a tensor, a tuple (positional) or a dict (by keyword)
    (module, inputs, loss_fn)               loss_fn(output, inputs) gives the scalar to go backward from
    (module, inputs, loss_fn, optimizer)    optimizer(parameters) gives a torch.optim.Optimizer; loss_fn may be None
    step                                    a function without arguments; the workload's `counts` says what it does

Beside it the file may hold `accuracy(output, inputs)`: the share of right answers, from 0 to 1, for `task.accuracy`.

The function is given what its parameters name: axes of the shape, `data` (lines of the slice), `dtype`, `seed`,
`device`.
"""

from __future__ import annotations

from typing import Any

from .precision import mixed
from .team import call_team, old_path, team_file, team_function
from .trees import convert, tensors
from .work import Job, ModuleJob, Task, Unsupported, Work


class TeamCode(Work):
    """`counts` says how many items one step works off: {"value": 64, "unit": "queries"}; `autocast` mixed precision."""

    kind = "python"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._given: Any = None
        self.counts: Any = task.options.get("counts")
        if isinstance(self.counts, dict):
            self.items_unit = str(self.counts.get("unit", "items"))

    def returned(self, again: bool = False, device: Any = None) -> Any:
        """What the team's function returns, checked; the same as before unless `again`."""
        if self._given is None or again:
            if self.task.entry is None:
                raise Unsupported("the workload names no entry, such as path:function", "backend")
            given = call_team(team_function(self.task.team, self.task.entry), self.task, device)
            if not (isinstance(given, tuple) and 2 <= len(given) <= 4) and not self._steps(given):
                form = "(module, inputs), (module, inputs, loss_fn), (module, inputs, loss_fn, optimizer) or step"
                raise TypeError(f"{self.task.entry['function']} must return {form}, not {type(given).__name__}")
            self._given = given
        return self._given

    def _steps(self, given: Any) -> bool:
        import torch

        return callable(given) and not isinstance(given, torch.nn.Module)

    def inputs(self) -> Any:
        return self.returned()[1]

    def module(self, path: str | None) -> Any:
        if path is None:
            return mixed(self.returned(again=True)[0], self.task.options)
        return mixed(old_path(self.task, path), self.task.options)

    def loss(self, output: Any, inputs: Any) -> Any:
        given = self.returned()
        if len(given) >= 3 and given[2] is not None:
            return given[2](output, inputs)
        found = getattr(output, "loss", None)
        return found if found is not None else super().loss(output, inputs)

    def accuracy(self, output: Any, inputs: Any) -> dict[str, Any]:
        """What the team's own `accuracy` says of the output."""
        entry = self.task.entry
        score = getattr(team_file(self.task.team, entry["path"]), "accuracy", None) if entry is not None else None
        if not callable(score):
            where = entry["path"] if entry is not None else "the workload"
            raise Unsupported(f"{where} has no function accuracy(output, inputs) that says what is right", "backend")
        value = float(score(output, inputs))
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"accuracy(output, inputs) gave {value}, which is no share between 0 and 1")
        return {"value": value, "by": f"accuracy of {entry['path']}"}  # type: ignore[index]

    def optimizer(self, parameters: list[Any]) -> Any:
        given = self.returned()
        return given[3](parameters) if len(given) == 4 else super().optimizer(parameters)

    def items(self) -> int:
        return int(self.counts.get("value", 1)) if isinstance(self.counts, dict) else 1

    def freeze(self) -> dict[str, Any]:
        import torch

        torch.manual_seed(self.task.seed)
        if self._steps(self.returned(again=True)):
            return {"inputs": {}, "weights": {}, "cotangents": {}}
        return super().freeze()

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        import torch

        torch.manual_seed(self.task.seed)
        if path is None and self._steps(self.returned(device=device)):
            torch.manual_seed(self.task.seed)
            self.returned(again=True, device=device)
            return StepJob(self, mode, dtype)
        return ModuleJob(self, frozen, mode, path, device, dtype)


class StepJob(Job):
    """The team's `step()`. It has no frozen inputs: it makes its own, from the seed that is set before it is built."""

    def __init__(self, work: TeamCode, mode: str, dtype: Any) -> None:
        if dtype is not None:
            raise Unsupported("a step() decides its own precision, so that it has no reference", "backend")
        if mode in ("compile", "export"):
            raise Unsupported("a step() is no module to compile or export", "backend")
        if not isinstance(work.counts, dict):
            raise Unsupported("a step() needs `counts`, such as: counts 64 queries per step", "backend")
        self.items, self.items_unit = work.items(), work.items_unit
        self._step = work.returned()

    def step(self) -> Any:
        return self._step()

    def forward(self) -> Any:
        return convert(self._step())

    def results(self, gradients: bool) -> dict[str, dict[str, Any]]:
        """What one more step returns; a step that returns nothing has nothing to compare."""
        return {"output": tensors(self.forward())}

    def losses(self, steps: int) -> list[float]:
        return [float(self._step()) for _ in range(steps + 1)]

    def weights(self) -> dict[str, Any]:
        return {}
