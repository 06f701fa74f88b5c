"""The fused loss head: `linear_cross_entropy` as a function or a module, with options or without, beside the unfused
pair. Which path it took is told by the largest tensor of a step: the whole logits, or less."""

from __future__ import annotations

from typing import Any

from .precision import autocast
from .trees import tensors
from .work import Job, ModuleJob, Unsupported, Work

#: Names of the unfused path: `linear` and then `cross_entropy`, the whole logits in memory.
UNFUSED = ("unfused", "cross_entropy", "torch.nn.functional.cross_entropy")

#: Words of the workload that are options of torch's, by their names there.
OPTIONS = ("batch_chunk_size", "acc_policy")

#: Rows whose logits are compared: enough of them to see a drift, and few enough to keep.
LOGIT_ROWS = 16


class LinearCrossEntropy(Work):
    """Axes: tokens, hidden, vocabulary, dtype. Output: the scalar mean loss, and beside it the logits of the first rows
    as the head's weight gives them in the same precision. The workload's own words:

    `options`: absent or "default" is `LinearCrossEntropyOptions()`; "none" no options, which is the reference path.
    `batch_chunk_size` (rows; takes the place of its `chunking_method`) and `acc_policy` are passed to it. `form`:
    "functional", or "module" for `torch.nn.LinearCrossEntropyLoss`. `autocast`: a dtype for mixed precision. `steps`:
    optimizer steps of `loss.final`.
    """

    kind = "linear_cross_entropy"
    items_unit = "tokens"
    input_gradients = True
    scalar = True

    def inputs(self) -> Any:
        import torch

        tokens, hidden, vocabulary = self.sizes()
        return torch.randn(tokens, hidden), torch.randint(0, vocabulary, (tokens,))

    def sizes(self) -> tuple[int, int, int]:
        """(tokens, hidden, vocabulary)."""
        return int(self.axis("tokens", 1024)), int(self.axis("hidden", 128)), int(self.axis("vocabulary", 32000))

    def _options(self) -> Any:
        import torch

        chosen = self.task.options.get("options", "default")
        if chosen in ("none", None, False):
            return None
        if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
            raise Unsupported(f"torch {torch.__version__} has no torch.nn.LinearCrossEntropyOptions")
        given = {name: self.task.options[name] for name in OPTIONS if name in self.task.options}
        if "batch_chunk_size" in given:
            given["chunking_method"] = None  # torch takes one of the two
        try:
            return torch.nn.LinearCrossEntropyOptions(**given)
        except TypeError as error:  # a version that lacks one of them
            raise Unsupported(f"torch {torch.__version__}: {error}") from error

    def module(self, path: str | None) -> Any:
        if path is not None and path not in UNFUSED:
            raise Unsupported(f"linear_cross_entropy has no path {path}", "backend")
        if self.task.options.get("form") == "module":
            return self._as_module(path is not None)
        return self._as_function(path is not None)

    def _as_function(self, unfused: bool) -> Any:
        import torch

        _, hidden, vocabulary = self.sizes()
        functional, words = torch.nn.functional, self.task.options
        if not unfused and not hasattr(functional, "linear_cross_entropy"):
            raise Unsupported(f"torch {torch.__version__} has no torch.nn.functional.linear_cross_entropy")
        options = None if unfused else self._options()

        class LossHead(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(vocabulary, hidden) * hidden**-0.5)

            def forward(self, rows: Any, target: Any) -> Any:
                with autocast(words, rows.device.type):
                    if unfused:
                        return functional.cross_entropy(functional.linear(rows, self.weight), target)
                    return functional.linear_cross_entropy(rows, self.weight, target, options=options)

        return LossHead()

    def _as_module(self, unfused: bool) -> Any:
        import torch

        _, hidden, vocabulary = self.sizes()
        words = self.task.options
        if not unfused and not hasattr(torch.nn, "LinearCrossEntropyLoss"):
            raise Unsupported(f"torch {torch.__version__} has no torch.nn.LinearCrossEntropyLoss")
        options = None if unfused else self._options()

        class LossModule(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                if unfused:  # the same name of the weight, so that both paths take the same frozen one
                    self.loss = torch.nn.ModuleDict({"linear": torch.nn.Linear(hidden, vocabulary, bias=False)})
                else:
                    self.loss = torch.nn.LinearCrossEntropyLoss(hidden, vocabulary, options=options)

            def forward(self, rows: Any, target: Any) -> Any:
                with autocast(words, rows.device.type):
                    if unfused:
                        return torch.nn.functional.cross_entropy(self.loss["linear"](rows), target)
                    return self.loss(rows, target)

        return LossModule()

    def items(self) -> int:
        return self.sizes()[0]

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        return LossJob(self, frozen, mode, path, device, dtype)


class LossJob(ModuleJob):
    """Says whether the whole logits were made, and gives those of the first rows: a loss that takes another path must
    still be the loss of these."""

    def results(self, gradients: bool) -> dict[str, dict[str, Any]]:
        import torch

        found = super().results(gradients)
        rows = tensors(self.inputs)["0"][:LOGIT_ROWS]
        weight = next(iter(self.module.parameters()))
        with torch.no_grad(), autocast(self.work.task.options, rows.device.type):
            found["output"]["logits"] = torch.nn.functional.linear(rows, weight)
        return found

    def path_taken(self, seen: dict[str, Any]) -> str:
        tokens, _, vocabulary = self.work.sizes()
        if (tokens, vocabulary) in seen["shapes"]:
            return f"unfused: the whole logits ({tokens} x {vocabulary}) were made"
        fused = [name for name in seen["operators"] if "linear_cross_entropy" in name]
        if fused:
            return f"chunked: {fused[0]} was called, and no tensor of the shape {tokens} x {vocabulary} was seen"
        return f"chunked: no tensor of the shape {tokens} x {vocabulary} was made"
