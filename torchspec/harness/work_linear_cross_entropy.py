"""The fused loss head: `torch.nn.functional.linear_cross_entropy`, with options or without, beside the unfused pair."""

from __future__ import annotations

from typing import Any

from .work import Unsupported, Work

#: Names of the unfused path: `linear` and then `cross_entropy`, the whole logits in memory.
UNFUSED = ("unfused", "cross_entropy", "torch.nn.functional.cross_entropy")


class LinearCrossEntropy(Work):
    """Axes: tokens, hidden, vocabulary, dtype. The workload's option `options` says how the fused form is called:

    absent or "default": `LinearCrossEntropyOptions()`; "none": no options, which is the reference path; a mapping: its
    entries are passed to `LinearCrossEntropyOptions`. Output: the scalar mean loss.
    """

    kind = "linear_cross_entropy"
    items_unit = "tokens"
    input_gradients = True
    scalar = True

    def inputs(self) -> Any:
        import torch

        tokens, hidden, vocabulary = self._shape()
        return torch.randn(tokens, hidden), torch.randint(0, vocabulary, (tokens,))

    def _shape(self) -> tuple[int, int, int]:
        return int(self.axis("tokens", 1024)), int(self.axis("hidden", 128)), int(self.axis("vocabulary", 32000))

    def _options(self) -> Any:
        import torch

        chosen = self.task.options.get("options", "default")
        if chosen in ("none", None, False):
            return None
        if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
            raise Unsupported(f"torch {torch.__version__} has no torch.nn.LinearCrossEntropyOptions")
        return torch.nn.LinearCrossEntropyOptions(**(chosen if isinstance(chosen, dict) else {}))

    def module(self, path: str | None) -> Any:
        import torch

        _, hidden, vocabulary = self._shape()
        functional = torch.nn.functional
        if path is None and not hasattr(functional, "linear_cross_entropy"):
            raise Unsupported(f"torch {torch.__version__} has no torch.nn.functional.linear_cross_entropy")
        if path is not None and path not in UNFUSED:
            raise Unsupported(f"linear_cross_entropy has no path {path}", "backend")
        options = self._options() if path is None else None

        class LossHead(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(vocabulary, hidden) * hidden**-0.5)

            def forward(self, hidden_states: Any, target: Any) -> Any:
                if path is not None:
                    return functional.cross_entropy(functional.linear(hidden_states, self.weight), target)
                return functional.linear_cross_entropy(hidden_states, self.weight, target, options=options)

        return LossHead()

    def items(self) -> int:
        return self._shape()[0]
