"""The service's decoder, cut down to two layers: one step of token-by-token generation over a cache."""

from __future__ import annotations

import torch

VOCABULARY, WIDTH, HEADS, LAYERS = 32000, 256, 4, 2


class Block(torch.nn.Module):
    """Attention of new positions over the cache and themselves, then a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before = torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.after = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, rows: torch.Tensor, seen: torch.Tensor, hidden: torch.Tensor | None = None) -> torch.Tensor:
        rows = rows + self.attention(self.before(rows), seen, seen, attn_mask=hidden, need_weights=False)[0]
        return rows + self.down(torch.nn.functional.silu(self.up(self.after(rows))))


class Decoder(torch.nn.Module):
    """Logits of the next token, (batch, vocabulary), from the last token and one cache of (batch, context, width) a
    layer. The last column of `prompt` is the answer, and is not looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, prompt: torch.Tensor, *caches: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = self.tokens(prompt[:, -2:-1])
        for block, cache in zip(self.blocks, caches, strict=True):
            rows = block(rows, torch.cat((cache, block.before(rows)), dim=1))
        return {"logits": self.head(rows[:, -1])}

    def fill(self, prompt: torch.Tensor) -> list[torch.Tensor]:
        """The caches that all but the last token of a prompt leave."""
        rows, caches = self.tokens(prompt[:, :-2]), []
        hidden = torch.ones(rows.shape[1], rows.shape[1], dtype=torch.bool, device=rows.device).triu(1)
        for block in self.blocks:
            caches.append(block.before(rows))
            rows = block(rows, caches[-1], hidden)
        return caches


def build(context: int, batch: int, data: list[str]) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The decoder and one step's inputs: prompts of the frozen slice, a byte a token, and their full caches."""
    text = "\n".join(data).encode()
    length = context + 2
    places = torch.arange(batch * length) % len(text)
    prompt = torch.tensor(list(text))[places].view(batch, length)
    decoder = Decoder().eval()
    with torch.no_grad():
        return decoder, (prompt, *decoder.fill(prompt))


def first_token(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """All between a request and its first token: the prompt into the caches, then one step."""
    return module(inputs[0], *module.fill(inputs[0]))


def accuracy(output: dict[str, torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> float:
    """The share of prompts whose next token is the most likely one."""
    return float((output["logits"].argmax(-1) == inputs[0][:, -1]).float().mean())
