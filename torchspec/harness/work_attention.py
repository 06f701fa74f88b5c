"""Scaled dot product attention: `torch.nn.functional.scaled_dot_product_attention`, causal or without a mask."""

from __future__ import annotations

from typing import Any

from .work import Unsupported, Work


class Attention(Work):
    """Axes: batch, heads, seq, head_dim, mask (causal or none), dtype. q, k, v are (batch, heads, seq, head_dim)."""

    kind = "attention"
    items_unit = "tokens"
    input_gradients = True

    def inputs(self) -> Any:
        import torch

        shape = (self.axis("batch", 1), self.axis("heads", 4), self.axis("seq", 256), self.axis("head_dim", 64))
        return tuple(torch.randn(shape) for _ in range(3))

    def module(self, path: str | None) -> Any:
        import torch

        mask = str(self.axis("mask", "none"))
        if mask not in ("causal", "none"):
            raise Unsupported(f"attention has the masks causal and none, not {mask}", "backend")
        if path not in (None, "sdpa"):
            raise Unsupported(f"attention has no path {path}", "backend")

        class ScaledDotProductAttention(torch.nn.Module):  # type: ignore[misc]
            def forward(self, query: Any, key: Any, value: Any) -> Any:
                return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=mask == "causal")

        return ScaledDotProductAttention()

    def items(self) -> int:
        return int(self.axis("batch", 1)) * int(self.axis("seq", 256))
