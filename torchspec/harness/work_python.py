"""The team's own code: `path:function` returns (module, inputs) or (module, inputs, loss_fn)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from .work import Unsupported, Work


def team_function(folder: Path, entry: dict[str, str]) -> Any:
    """The function that `entry` {"path", "function"} names below `folder`. Imports of files beside it work."""
    path = folder / entry["path"]
    if not path.is_file():
        raise FileNotFoundError(f"the plan carries no file {entry['path']}")
    for place in (str(folder), str(path.parent)):
        if place not in sys.path:
            sys.path.insert(0, place)
    name = "team_" + "".join(c if c.isalnum() else "_" for c in entry["path"])
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{entry['path']} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return getattr(sys.modules[name], entry["function"])


class TeamCode(Work):
    """Calls the entry without arguments. `inputs` is a tensor, a tuple or a dict; `loss_fn(output, inputs)` a scalar.

    The workload's option `counts` says how many items one step works off: {"value": 64, "unit": "queries"}.
    """

    kind = "python"

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self._given: Any = None
        counts = task.options.get("counts")
        if isinstance(counts, dict):
            self.items_unit = str(counts.get("unit", "items"))

    def _returned(self, again: bool = False) -> Any:
        if self._given is None or again:
            if self.task.entry is None:
                raise Unsupported("the workload names no entry, such as path:function", "backend")
            given = team_function(self.task.team, self.task.entry)()
            if not isinstance(given, tuple) or len(given) not in (2, 3):
                name = self.task.entry["function"]
                raise TypeError(
                    f"{name} must return (module, inputs) or (module, inputs, loss_fn), not {type(given).__name__}"
                )
            self._given = given
        return self._given

    def inputs(self) -> Any:
        return self._returned()[1]

    def module(self, path: str | None) -> Any:
        if path is not None:
            raise Unsupported(f"the team's code has no path {path}", "backend")
        return self._returned(again=True)[0]

    def loss(self, output: Any, inputs: Any) -> Any:
        given = self._returned()
        return given[2](output, inputs) if len(given) == 3 else super().loss(output, inputs)

    def items(self) -> int:
        counts = self.task.options.get("counts")
        return int(counts.get("value", 1)) if isinstance(counts, dict) else 1
