"""Attention masks and score modifications by name, as functions of positions: one source for every path.

A mask says whether a query sees a key; a score modification changes one score. FlexAttention takes them as they are,
and the dense paths evaluate the same functions over all positions, so that the paths cannot differ in what they mask.
Every row sees at least its own position. Must not import torch when it is loaded.

A shape is (batch, heads, queries, keys) everywhere here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: (batch, head, query position, key position) -> whether the query sees the key.
Mask = Callable[[Any, Any, Any, Any], Any]
#: (score, batch, head, query position, key position) -> score.
Score = Callable[[Any, Any, Any, Any, Any], Any]
Shape = tuple[int, int, int, int]
#: Attention by rows makes so many bytes of scores at once, or one query's where these are more.
ROWS_BYTES = 1 << 26


def mask_named(name: str, parameters: dict[str, int]) -> Mask | None:
    """The mask of that name; None for "none". Raises KeyError for another name.

    `parameters`: window, block, document_length, prefix (positions).
    """
    window, block = int(parameters.get("window", 256)), int(parameters.get("block", 128))
    length, prefix = int(parameters.get("document_length", 128)), int(parameters.get("prefix", 64))
    masks: dict[str, Mask | None] = {
        "none": None,
        "causal": lambda b, h, q, k: q >= k,
        "sliding_window": lambda b, h, q, k: (q >= k) & (q - k < window),
        # A block sees itself, and every second block before it.
        "block_sparse": lambda b, h, q, k: (q // block >= k // block) & ((q // block - k // block) % 2 == 0),
        "document": lambda b, h, q, k: (q // length == k // length) & (q >= k),
        "prefix": lambda b, h, q, k: (q >= k) | (k < prefix),
    }
    return masks[name]


def score_named(name: str, heads: int) -> Score | None:
    """The score modification of that name; None for "none". Raises KeyError for another name."""
    import torch

    scores: dict[str, Score | None] = {
        "none": None,
        "relative_bias": lambda s, b, h, q, k: s + (k - q) * 0.01,
        "alibi": lambda s, b, h, q, k: s + (k - q) * torch.exp2(-(h + 1) * 8.0 / heads),
        "soft_cap": lambda s, b, h, q, k: 20.0 * torch.tanh(s / 20.0),
    }
    return scores[name]


def positions(shape: Shape, device: Any, first: int = 0) -> tuple[Any, Any, Any, Any]:
    """Index tensors of all dimensions that broadcast against each other; queries are counted from `first`."""
    import torch

    places = []
    for dim, size in enumerate(shape):
        view = [1, 1, 1, 1]
        view[dim] = size
        start = first if dim == 2 else 0
        places.append(torch.arange(start, start + size, device=device).view(view))
    return places[0], places[1], places[2], places[3]


def batch_and_heads(seen: Any) -> tuple[int, int]:
    """(batch, heads) of what a mask gave: 1 where it is the same for all of them."""
    sizes = (1,) * (4 - seen.dim()) + tuple(seen.shape)
    return sizes[0], sizes[1]


def mask_sizes(mask: Mask, shape: Shape, device: Any) -> tuple[int, int]:
    """For how many sequences and heads of `shape` the mask has to be evaluated, each by itself: 1 where it does not
    tell them apart."""
    return batch_and_heads(mask(*positions((*shape[:2], 1, 1), device)))


def dense_mask(mask: Mask | None, shape: Shape, device: Any, first: int = 0) -> Any:
    """Whether each query (from `first` on) sees each key, as booleans that broadcast against scores of `shape`: batch
    and heads are 1 where the mask does not tell them apart. None without a mask."""
    if mask is None:
        return None
    seen = mask(*positions(shape, device, first))
    return seen.expand(*batch_and_heads(seen), *shape[2:]).contiguous()


def dense_attention(query: Any, key: Any, value: Any, seen: Any, score: Score | None, first: int = 0) -> Any:
    """Attention spelled out, all scores in memory. `first`: the position of the first query."""
    import torch

    scores = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
    if score is not None:
        scores = score(scores, *positions(tuple(scores.shape), scores.device, first)).to(query.dtype)
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def attention_by_rows(query: Any, key: Any, value: Any, mask: Mask | None, score: Score | None) -> Any:
    """What `dense_attention` gives, from a part of the queries at a time, so that long sequences fit into memory: what
    the other paths are held against. The backward pass makes each part's scores once more."""
    import torch
    from torch.utils.checkpoint import checkpoint

    batch, heads, queries, _ = query.shape
    rows = max(1, ROWS_BYTES // (batch * heads * key.shape[2] * query.element_size()))

    def part(some: Any, key: Any, value: Any, first: int) -> Any:
        seen = dense_mask(mask, (batch, heads, some.shape[2], key.shape[2]), some.device, first)
        return dense_attention(some, key, value, seen, score, first)

    if rows >= queries:
        return part(query, key, value, 0)
    parts = [
        checkpoint(part, query[:, :, first : first + rows], key, value, first, use_reentrant=False)
        for first in range(0, queries, rows)
    ]
    return torch.cat(parts, dim=2)
