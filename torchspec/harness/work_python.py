"""The team's own code: `path:function`, which returns what is to be measured.

    (module, inputs)                        inputs: a tensor, a tuple (positional) or a dict (by keyword)
    (module, inputs, loss_fn)               loss_fn(output, inputs) gives the scalar to go backward from
    (module, inputs, loss_fn, optimizer)    optimizer(parameters) gives a torch.optim.Optimizer; loss_fn may be None
    step                                    a function without arguments; the workload's `counts` says what it does

Beside it the file may hold `accuracy(output, inputs)`: the share of right answers, from 0 to 1, for `task.accuracy`;
and, where the code stands in for token-by-token decoding, `first_token(module, inputs)`: all between a request and its
first token.

The function is given what its parameters name: axes of the shape, `data` (lines of the slice), `dtype`, `seed`,
`device`. It takes every axis that the spec says but `dtype`, to which the module is converted; a `step` converts
nothing, and takes `dtype` too where the spec says another one than float32.
"""

from __future__ import annotations

import inspect
from typing import Any

from .modes import COMPILED
from .precision import mixed
from .team import call_team, old_path, team_file, team_function
from .trees import convert, tensors
from .work import Job, ModuleJob, Task, Unsupported, Work


class TeamCode(Work):
    """`counts` says how many items one step works off: {"value": 64, "unit": "queries"}; `autocast` mixed precision.

    `stands_for`: the work of another kind in whose place the team's code stands. Its items are counted as that kind
    counts them, unless `counts` says otherwise.
    """

    kind = "python"

    def __init__(self, task: Task, stands_for: Work | None = None) -> None:
        super().__init__(task)
        self._given: Any = None
        self._stands_for = stands_for
        self.counts: Any = task.options.get("counts")
        if isinstance(self.counts, dict):
            self.items_unit = str(self.counts.get("unit", "items"))
        elif stands_for is not None:
            self.items_unit = stands_for.items_unit

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

    def first_token(self, module: Any, inputs: Any) -> Any:
        """All between a request and its first token, as the team's own `first_token` does it."""
        entry = self.task.entry
        first = getattr(team_file(self.task.team, entry["path"]), "first_token", None) if entry is not None else None
        if not callable(first):
            where = entry["path"] if entry is not None else "the workload"
            why = "that does all between a request and its first token"
            raise Unsupported(f"{where} has no function first_token(module, inputs) {why}", "backend")
        return first(module, inputs)

    def whole_step(self) -> bool:
        outer = self._stands_for is not None and self._stands_for.whole_step()
        return outer or len(self.returned()) == 4 or super().whole_step()

    def optimizer(self, parameters: list[Any]) -> Any:
        given = self.returned()
        return given[3](parameters) if len(given) == 4 else super().optimizer(parameters)

    def rows(self) -> int:
        """Rows of the first input: the samples of a step."""
        return int(next((t.shape[0] for t in tensors(self.inputs()).values() if t.dim()), 1))

    def items(self) -> int:
        if isinstance(self.counts, dict):
            return int(self.counts.get("value", 1))
        if self._stands_for is None:
            return 1
        # Where the team's function takes no batch, the kind's own would be a count that the work never got.
        return self._stands_for.items() if "batch" in self.task.axes else self.rows()

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
        if mode in (*COMPILED, "export"):
            raise Unsupported("a step() is no module to compile or export", "backend")
        asked, entry = work.task.axes.get("dtype", "float32"), work.task.entry
        named = inspect.signature(team_function(work.task.team, entry)).parameters if entry is not None else {}
        if asked != "float32" and entry is not None and "dtype" not in named:
            name = entry["function"]
            raise TypeError(
                f"{name} takes no dtype, and nothing converts a step() to {asked}: it would be its label only"
            )
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
