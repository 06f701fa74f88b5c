"""Attention over q, k and v under one mask: by `scaled_dot_product_attention`, by FlexAttention, spelled out, or by the
team's own old path."""

from __future__ import annotations

from typing import Any

from .masks import Mask, Score, dense_attention, dense_mask, mask_named, score_named
from .precision import mixed
from .team import old_path
from .work import Job, ModuleJob, Unsupported, Work

MASK_PARAMETERS = ("window", "block", "document_length", "prefix")


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

    def mask(self) -> Mask | None:
        """The mask of this cell."""
        name = str(self.axis("mask", "none"))
        parameters = {key: int(self.axis(key, 0)) for key in MASK_PARAMETERS if self.axis(key, None) is not None}
        try:
            return mask_named(name, parameters)
        except KeyError:
            raise Unsupported(f"{self.kind} has no mask {name}", "backend") from None

    def score(self) -> Score | None:
        """The score modification of this workload."""
        return score_named(str(self.task.options.get("score", "none")), self.sizes()[1])

    def module(self, path: str | None) -> Any:
        path = path or self.own_path
        makers = {"sdpa": self._sdpa, "flex_attention": self._flex, "dense": self._dense}
        made = makers[path]() if path in makers else old_path(self.task, path)
        return mixed(made, self.task.options)

    def _sdpa(self) -> Any:
        import torch

        mask, causal, shape = self.mask(), str(self.axis("mask", "none")) == "causal", self._score_shape()
        score = self.score()
        if score is not None:
            raise Unsupported("scaled_dot_product_attention takes no score modification", "backend")

        class ScaledDotProduct(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                seen = None if causal else dense_mask(mask, shape, "cpu")
                self.register_buffer("seen", seen, persistent=False)

            def forward(self, query: Any, key: Any, value: Any) -> Any:
                attend = torch.nn.functional.scaled_dot_product_attention
                return attend(query, key, value, attn_mask=self.seen, is_causal=causal)

        return ScaledDotProduct()

    def _dense(self) -> Any:
        import torch

        mask, score, shape = self.mask(), self.score(), self._score_shape()

        class Dense(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("seen", dense_mask(mask, shape, "cpu"), persistent=False)

            def forward(self, query: Any, key: Any, value: Any) -> Any:
                return dense_attention(query, key, value, self.seen, score)

        return Dense()

    def _flex(self) -> Any:
        import torch

        try:
            from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        except ImportError as error:
            raise Unsupported(f"torch {torch.__version__} has no FlexAttention: {error}") from error
        mask, score = self.mask(), self.score()
        _, _, seq, _ = self.sizes()
        kernel = str(self.task.options.get("kernel", "auto")).upper()
        options = None if kernel == "AUTO" else {"BACKEND": kernel}

        class Flex(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("place", torch.empty(0), persistent=False)
                self.block_mask: Any = None
                self._build()

            def _build(self) -> None:
                if mask is not None:
                    self.block_mask = create_block_mask(mask, None, None, seq, seq, device=self.place.device)

            def _apply(self, fn: Any, recurse: bool = True) -> Any:
                moved = super()._apply(fn, recurse)
                self._build()  # on the device that the module is on now
                return moved

            def forward(self, query: Any, key: Any, value: Any) -> Any:
                return flex_attention(
                    query, key, value, score_mod=score, block_mask=self.block_mask, kernel_options=options
                )

        return Flex()

    def _score_shape(self) -> tuple[int, int, int, int]:
        batch, heads, seq, _ = self.sizes()
        return batch, heads, seq, seq

    def items(self) -> int:
        batch, _, seq, _ = self.sizes()
        return batch * seq

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        return AttentionJob(self, frozen, mode, path, device, dtype)


class AttentionJob(ModuleJob):
    """What torch says it cannot do (FlexAttention's backward on some devices) is unsupported, not a failure."""

    def _forward_backward(self) -> Any:
        try:
            return super()._forward_backward()
        except NotImplementedError as error:
            raise Unsupported(str(error), "version") from error
