"""Run by the tests in an interpreter with torch: saves the state of a training and reads it, well and badly.

`python restored_program.py HARNESS_FOLDER SCRATCH` prints one JSON object: case -> why the state is not held, or null.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    package = types.ModuleType("harness")
    package.__path__ = [sys.argv[1]]
    sys.modules["harness"] = package
    import torch

    torch.set_num_threads(1)
    work_module, trees = importlib.import_module("harness.work"), importlib.import_module("harness.trees")
    restored = importlib.import_module("harness.restored")
    path, found = Path(sys.argv[2]) / "state.pt", {}
    axes = {"tokens": 16, "hidden": 8, "vocabulary": 50}

    class Wide(torch.optim.AdamW):
        """Gathers in float32 whatever the weights are, as some optimizers do; torch's loading narrows that."""

        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            for state in self.state.values():
                state["exp_avg"] = state["exp_avg"].float() + 1e-9

    class Forgetful(torch.optim.AdamW):
        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            super().load_state_dict({**state_dict, "state": {}})

    class Newer(torch.optim.AdamW):
        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            super().load_state_dict(state_dict)
            self.param_groups[0]["of_the_next_version"] = True

    class Lenient(torch.optim.AdamW):
        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            super().load_state_dict(state_dict)
            self.param_groups[0]["lr"] = 7.0

    def read(
        kind: str, dtype: str, mode: str = "train", reader: Any = None, writer: Any = None,
        change: Callable[[dict[str, Any]], None] = lambda saved: None,
    ) -> str | None:  # fmt: skip
        importlib.import_module(f"harness.work_{kind}")
        cell = {"id": "c", "workload": "w", "mode": mode, "axes": {"dtype": dtype, **axes}}
        workload = {"options": {}, "beside": None, "entry": None}
        made = work_module.KINDS[kind](work_module.Task(cell, workload, 1, Path(), {}))
        frozen = made.freeze()

        def job(optimizer: Any) -> Any:
            if optimizer is not None:
                made.optimizer = lambda parameters: optimizer(parameters, lr=1e-3)
            elif "optimizer" in vars(made):
                del made.optimizer
            return made.job(frozen, mode, None, torch.device("cpu"), None)

        trees.save_tree(job(writer).checkpoint(), path)
        saved = trees.load_tree(path)
        change(saved)
        held = job(reader)
        told = held.restore(saved)
        told |= {"weights": trees.tree_digest(held.weights()), "expected": trees.tree_digest(saved["module"])}
        return restored.restored_problem(told, sorted(saved))  # type: ignore[no-any-return]

    def poison(saved: dict[str, Any]) -> None:
        next(iter(saved["module"].values())).fill_(float("nan"))

    def poison_moments(saved: dict[str, Any]) -> None:
        saved["optimizer"]["state"][0]["exp_avg"].fill_(float("inf"))

    for kind in ("linear_cross_entropy", "checkpoint"):
        for dtype in ("float32", "bfloat16"):
            found[f"{kind} {dtype}"] = read(kind, dtype)
    loss = "linear_cross_entropy"
    found["inference"] = read(loss, "float32", "infer")
    found["wide"] = read(loss, "bfloat16", reader=Wide, writer=Wide)
    found["newer"] = read(loss, "float32", reader=Newer)
    found["forgetful"] = read(loss, "float32", reader=Forgetful)
    found["other setting"] = read(loss, "float32", reader=Lenient)
    found["weights that are NaN"] = read(loss, "float32", change=poison)
    found["moments that are infinite"] = read(loss, "float32", change=poison_moments)
    print("FOUND " + json.dumps(found))


if __name__ == "__main__":
    main()
