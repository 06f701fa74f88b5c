"""Attention over q, k and v under one mask: by `scaled_dot_product_attention`, by FlexAttention, spelled out, or by the
team's own old path."""

from __future__ import annotations

import functools
from typing import Any

from .attention_paths import by_rows_module, dense_module, flex_module, sdpa_module
from .masks import Mask, Score, Shape, mask_named, score_named
from .precision import mixed
from .team import old_path
from .trace import HIGHER_ORDER
from .trees import tensors
from .work import Job, ModuleJob, Unsupported, Work

MASK_PARAMETERS = ("window", "block", "document_length", "prefix")
#: The path of references, which no spec names.
BY_ROWS = "dense, by rows"
ATTENTION_PATHS = ("sdpa", "flex_attention", "dense", BY_ROWS)
#: What torch's compiler says of a kernel that is not written, or whose package is not installed.
NO_KERNEL = ("NotImplementedError", "flash attention cannot be used")


class Attention(Work):
    """Axes: batch, heads, seq, head_dim, mask, dtype. q, k, v are (batch, heads, seq, head_dim); so is the output.

    `autocast`: a dtype for mixed precision. `beside` any other name than those of `module`: a function in the team's
    file that gives the module (query, key, value) -> output, or a function below torch that is called with the three.
    """

    kind = "attention"
    items_unit = "tokens"
    input_gradients = True
    own_path = "sdpa"

    def sizes(self) -> tuple[int, int, int, int]:
        """(batch, heads, seq, head_dim)."""
        return (
            int(self.axis("batch", 1)),
            int(self.axis("heads", 8)),
            int(self.axis("seq", 256)),
            int(self.axis("head_dim", 64)),
        )

    def inputs(self) -> Any:
        import torch

        return tuple(torch.randn(self.sizes()) for _ in range(3))

    def named_mask(self) -> Mask | None:
        """The mask of this cell by its name."""
        name = str(self.axis("mask", "none"))
        parameters = {key: int(self.axis(key, 0)) for key in MASK_PARAMETERS if self.axis(key, None) is not None}
        try:
            return mask_named(name, parameters)
        except KeyError:
            raise Unsupported(f"{self.kind} has no mask {name}", "backend") from None

    def named_score(self, heads: int) -> Score | None:
        """The score modification of this workload by its name."""
        return score_named(str(self.task.options.get("score", "none")), heads)

    def pattern(self, shape: Shape, device: Any) -> tuple[Mask | None, Score | None]:
        """The mask and the score modification for scores of `shape` on `device`."""
        return self.named_mask(), self.named_score(shape[1])

    def module(self, path: str | None) -> Any:
        path = path or self.own_path
        return mixed(self._path(path) if path in ATTENTION_PATHS else old_path(self.task, path), self.task.options)

    def _path(self, path: str) -> Any:
        options = self.task.options
        if path == "flex_attention":
            return flex_module(self.pattern, str(options.get("kernel", "auto")))
        if path == "sdpa":
            if options.get("score", "none") != "none":
                raise Unsupported("scaled_dot_product_attention takes no score modification", "backend")
            return sdpa_module(self.pattern, str(self.axis("mask", "none")) == "causal")
        return dense_module(self.pattern) if path == "dense" else by_rows_module(self.pattern)

    def reference(self) -> str | None:
        return BY_ROWS

    def items(self) -> int:
        batch, _, seq, _ = self.sizes()
        return batch * seq

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        return AttentionJob(self, frozen, mode, path, device, dtype)


class AttentionJob(ModuleJob):
    """Gives its module what holds at the length of its inputs, has FlexAttention make its kernel where that is what
    runs there, and says which way the scores went. What torch says it cannot do is unsupported, not a failure.

    FlexAttention is compiled by itself, as torch advises, where it infers or trains on a device. In a compiled or
    exported cell all of the work is; on a CPU the first call would take a minute.
    """

    def __init__(self, work: Attention, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any):
        self.path = path or work.own_path
        self.flex = self.path == "flex_attention"
        super().__init__(work, frozen, mode, path, device, dtype)
        if self.flex and work.task.mode in ("infer", "train") and self.inputs[0].device.type != "cpu":
            self.module.fuse()

    def _held(self, args: tuple[Any, ...], again: bool = False) -> dict[str, Any]:
        """What the module is given beside the inputs; an exported program has it inside."""
        hold = getattr(self.module, "make" if again else "hold", None)
        return {} if hold is None or self.mode == "export" else {"held": hold(args[0], args[1])}

    def run_with(self, runner: Any) -> None:
        super().run_with(runner)
        args, _ = self.arguments()
        self._call = functools.partial(runner, *args, **self._held(args))

    def call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._differentiable(tensors(list(args)))
        return self.runner(*args, **kwargs, **self._held(args, again=True))

    def step(self) -> Any:
        try:
            return super().step() if self.trains else self._call()
        except Exception as error:
            self._refuse(error)
            raise

    def forward(self) -> Any:
        try:
            return super().forward()
        except Exception as error:
            self._refuse(error)
            raise

    def _forward_backward(self) -> Any:
        try:
            return super()._forward_backward()
        except Exception as error:
            self._refuse(error)
            raise

    def _refuse(self, error: Exception) -> None:
        """Raises Unsupported where torch says that it has no such thing, whatever its compiler wraps around that."""
        if isinstance(error, NotImplementedError) and (self.flex or self.trains):
            raise Unsupported(str(error), "version") from error
        told = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines()]
        why = [line for line in told if any(word in line for word in NO_KERNEL)]
        if self.flex and why and not isinstance(error, Unsupported):
            raise Unsupported(why[0][:500], "version") from error

    def path_taken(self, seen: dict[str, Any]) -> str | None:
        """By the operators that were called: which of torch's for attention, or none, so that the scores were made. Of
        FlexAttention its own operator is called only where no kernel was made of it."""
        if self.path not in ATTENTION_PATHS:
            return None
        own = sorted(name for name in seen["names"] if name.startswith("aten._scaled_dot_product"))
        if own:
            return f"torch's {', '.join(own)}"
        if self.flex and HIGHER_ORDER + "flex_attention" not in seen["names"]:
            return "fused: a kernel that was made of FlexAttention"
        batch, heads, seq, _ = self.work.sizes()
        return f"unfused: all scores ({batch} x {heads} x {seq} x {seq}) were made"
