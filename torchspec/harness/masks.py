"""Attention masks and score modifications by name, as functions of positions: one source for every path.

A mask says whether a query sees a key; a score modification changes one score. FlexAttention takes them as they are,
and the dense paths evaluate the same functions over all positions, so that the paths cannot differ in what they mask.
Every row sees at least its own position. Must not import torch when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: (batch, head, query position, key position) -> whether the query sees the key.
Mask = Callable[[Any, Any, Any, Any], Any]
#: (score, batch, head, query position, key position) -> score.
Score = Callable[[Any, Any, Any, Any, Any], Any]


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


def positions(shape: tuple[int, int, int, int], device: Any) -> tuple[Any, Any, Any, Any]:
    """Index tensors of (batch, heads, queries, keys) that broadcast against each other."""
    import torch

    places = []
    for dim, size in enumerate(shape):
        view = [1, 1, 1, 1]
        view[dim] = size
        places.append(torch.arange(size, device=device).view(view))
    return places[0], places[1], places[2], places[3]


def dense_mask(mask: Mask | None, shape: tuple[int, int, int, int], device: Any) -> Any:
    """A boolean tensor of `shape` (batch, heads, queries, keys), or None without a mask."""
    return None if mask is None else mask(*positions(shape, device)).expand(shape)


def dense_attention(query: Any, key: Any, value: Any, seen: Any, score: Score | None) -> Any:
    """Attention spelled out, all scores in memory: what the other paths are held against."""
    import torch

    scores = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
    if score is not None:
        scores = score(scores, *positions(tuple(scores.shape), scores.device)).to(query.dtype)
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value
