"""`Job`: the work of one cell, built and ready to step, and what it answers where it cannot do something.

The base class answers `Unsupported` for all but its ambient and its path; `module_job.py` has the job of a module, and
a kind that is no module brings its own. Must not: read clocks, spawn, or write files.
"""

from __future__ import annotations

import contextlib
from typing import Any

from .trees import tensors


class Unsupported(Exception):
    """What this version, backend or machine cannot do. `where` is "version", "backend" or "machine"."""

    def __init__(self, reason: str, where: str = "version") -> None:
        super().__init__(reason)
        self.where = where


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

    def accuracy(self) -> dict[str, Any]:
        """{"value": share of right answers on the frozen inputs, "by": who says what is right}."""
        raise Unsupported("this kind of work has no answers that are right or wrong", "backend")

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

    def restore(self, saved: dict[str, Any]) -> dict[str, Any]:
        """Loads what `checkpoint` gave, strictly, and goes on with one optimizer step; then back to those weights.

        Where there is an optimizer: {"optimizer", "expected_optimizer": digests of what it holds and of what was saved,
        "next": numbers that are finite where the work goes on}."""
        raise Unsupported("this kind of work has no state", "backend")
