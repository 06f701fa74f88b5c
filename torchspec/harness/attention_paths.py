"""The ways of attention: by `scaled_dot_product_attention`, by FlexAttention, spelled out, and spelled out by rows.

Each is a module that takes query, key and value, and `held`: what its mask and score modification are at the length of
these, made once for each length and outside of a timed step. Without `held` a module holds that by itself, as in a
program that is exported. Must not know of cells or jobs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .jobs import Unsupported
from .masks import Mask, Score, Shape, attention_by_rows, dense_attention, dense_mask, mask_sizes

#: (shape, device) -> the mask and the score modification there.
Pattern = Callable[[Shape, Any], tuple[Mask | None, Score | None]]
#: What a block mask is to hold where the order of the gradient's sums is to be the same each time.
WRITE_ORDER = "compute_dq_write_order"


def score_shape(query: Any, key: Any) -> Shape:
    """(batch, heads, queries, keys)."""
    return query.shape[0], query.shape[1], query.shape[2], key.shape[2]


def holding(make: Callable[[Shape, Any], Any], attend: Callable[..., Any]) -> Any:
    """A module that calls attend(query, key, value, seen, score) with what make(shape, device) gives: (seen, score)."""
    import torch

    class Holding(torch.nn.Module):  # type: ignore[misc]
        seen: Any

        def __init__(self) -> None:
            super().__init__()
            self.attend = attend
            self.at: Any = None
            self.score: Score | None = None
            self.blocks: Any = None
            self.register_buffer("seen", None, persistent=False)

        def make(self, query: Any, key: Any) -> tuple[Any, Score | None]:
            """What holds for inputs like these."""
            made: tuple[Any, Score | None] = make(score_shape(query, key), query.device)
            return made

        def hold(self, query: Any, key: Any) -> tuple[Any, Score | None]:
            """The same, kept for the next call. At a length that is a symbol, as in an export for all lengths, it is a
            part of the program."""
            shape = score_shape(query, key)
            if not all(isinstance(size, int) for size in shape):
                return self.make(query, key)
            if self.at != (shape, query.device):
                seen, self.score = self.make(query, key)
                self.seen, self.blocks = (seen, None) if isinstance(seen, torch.Tensor) else (None, seen)
                self.at = (shape, query.device)
            return self.seen if self.blocks is None else self.blocks, self.score

        def forward(self, query: Any, key: Any, value: Any, held: Any = None) -> Any:
            return self.attend(query, key, value, *(self.hold(query, key) if held is None else held))

    return Holding()


def sdpa_module(pattern: Pattern, causal: bool) -> Any:
    """`causal`: its own causal form, without a mask."""
    import torch

    def make(shape: Shape, device: Any) -> Any:
        return None if causal else dense_mask(pattern(shape, device)[0], shape, device), None

    def attend(query: Any, key: Any, value: Any, seen: Any, score: None) -> Any:
        attention = torch.nn.functional.scaled_dot_product_attention
        return attention(query, key, value, attn_mask=seen, is_causal=causal)

    return holding(make, attend)


def dense_module(pattern: Pattern) -> Any:
    """All scores in memory."""

    def make(shape: Shape, device: Any) -> Any:
        mask, score = pattern(shape, device)
        return dense_mask(mask, shape, device), score

    return holding(make, dense_attention)


def by_rows_module(pattern: Pattern) -> Any:
    """For references: a part of the scores in memory at a time."""
    import torch

    class ByRows(torch.nn.Module):  # type: ignore[misc]
        def forward(self, query: Any, key: Any, value: Any) -> Any:
            return attention_by_rows(query, key, value, *pattern(score_shape(query, key), query.device))

    return ByRows()


def flex_module(pattern: Pattern, kernel: str) -> Any:
    """`kernel`: auto, or the one that FlexAttention has to take. Raises Unsupported where this torch lacks it."""
    import torch

    try:
        from torch.nn.attention import flex_attention as offered
    except ImportError as error:
        raise Unsupported(f"torch {torch.__version__} has no FlexAttention: {error}") from error
    options = None if kernel == "auto" else {"BACKEND": kernel.upper()}
    words = getattr(getattr(offered, "FlexKernelOptions", None), "__annotations__", {})
    if options is not None and "BACKEND" not in words:
        raise Unsupported(f"FlexAttention of torch {torch.__version__} lets nobody choose a kernel")

    def make(shape: Shape, device: Any) -> Any:
        mask, score = pattern(shape, device)
        if mask is None:
            return None, score
        known = inspect.signature(offered.create_block_mask).parameters
        ordered = kernel == "flash" and torch.are_deterministic_algorithms_enabled()  # its backward pass asks for it
        more = {WRITE_ORDER: True} if ordered and WRITE_ORDER in known else {}
        sizes = (*mask_sizes(mask, shape, device), *shape[2:])
        return offered.create_block_mask(mask, *sizes, device=device, **more), score

    def attend_with(function: Callable[..., Any]) -> Callable[..., Any]:
        def attend(query: Any, key: Any, value: Any, blocks: Any, score: Score | None) -> Any:
            return function(query, key, value, score_mod=score, block_mask=blocks, kernel_options=options)

        return attend

    module = holding(make, attend_with(offered.flex_attention))

    def fuse() -> None:
        torch._dynamo.reset()  # what earlier work of this process had compiled does not count against this one
        module.attend = attend_with(torch.compile(offered.flex_attention, fullgraph=True))

    module.fuse = fuse
    return module
