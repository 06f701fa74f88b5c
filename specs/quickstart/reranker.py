"""A small reranker: a transformer encoder over query-and-passage tokens, with a head that gives one score a pair."""

from __future__ import annotations

import torch

VOCABULARY, WIDTH, HEADS, LAYERS = 4096, 128, 4, 2
PAIRS, LENGTH = 8, 64


class Reranker(torch.nn.Module):
    """Scores of shape (pairs,) from token ids of shape (pairs, length)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.positions = torch.nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, dim_feedforward=4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.score = torch.nn.Linear(WIDTH, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(self.tokens(ids) + self.positions[: ids.shape[1]])
        return self.score(self.norm(hidden.mean(dim=1))).squeeze(-1)


def build(length: int = LENGTH) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module and one batch of inputs, as torchspec's `python` kind of work wants them."""
    return Reranker().eval(), (torch.randint(0, VOCABULARY, (PAIRS, length)),)
