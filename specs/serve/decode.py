"""The service's decoder, cut down to two layers: one step of token-by-token generation over a cache."""

from __future__ import annotations

import torch

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 32000, 256, 4, 2, 2048


class Block(torch.nn.Module):
    """Attention of one new position over the cache, then a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before = torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.after = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, position: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        seen = torch.cat((cache, self.before(position)), dim=1)
        position = position + self.attention(seen[:, -1:], seen, seen, need_weights=False)[0]
        return position + self.down(torch.nn.functional.silu(self.up(self.after(position))))


class Decoder(torch.nn.Module):
    """Logits of the next token, (batch, vocabulary), from its id and one cache of (batch, context, width) a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, token: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
        position = self.tokens(token)
        for block, cache in zip(self.blocks, caches, strict=True):
            position = block(position, cache)
        return self.head(position[:, -1])


def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module and one step's inputs: a token and a full cache."""
    caches = (torch.randn(1, CONTEXT, WIDTH) for _ in range(LAYERS))
    return Decoder().eval(), (torch.randint(0, VOCABULARY, (1, 1)), *caches)
