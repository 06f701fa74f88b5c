"""Token-by-token generation: one new token over a cache of keys and values, or (beside) all of the context at once.

One step takes the last token of the prompt, with all before it in the cache, and gives the next token's logits. The
step writes the same place of the cache each time, so that every repeat is the same work. Prefill gives the same logits
without a cache. Must not sample: what is compared are logits. The team's own code may stand in for it: its step, its
shapes, and its `first_token(module, inputs)`.
"""

from __future__ import annotations

from typing import Any

from .work import Job, ModuleJob, Unsupported, Work
from .work_python import TeamCode


class Decode(Work):
    """Axes: context, batch, dtype. Options: layers 2, hidden 256, heads 4, vocabulary 32000. Output: {"logits"}."""

    kind = "decode"
    items_unit = "tokens"

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.team = TeamCode(task, self) if task.entry is not None else None

    def _size(self, name: str, usual: int) -> int:
        return int(self.axis(name, usual))

    def inputs(self) -> Any:
        import torch

        if self.team is not None:
            return self.team.inputs()
        shape = self._size("batch", 1), self._size("context", 512) + 1
        return {"tokens": torch.randint(0, self._size("vocabulary", 32000), shape)}

    def items(self) -> int:
        return self._size("batch", 1)

    def module(self, path: str | None) -> Any:
        if self.team is not None:
            return self.team.module(path)
        if path not in (None, "prefill"):
            raise Unsupported(f"decode has no path {path}", "backend")
        context, batch = self._size("context", 512), self._size("batch", 1)
        return decoder(
            self._size("layers", 2), self._size("hidden", 256), self._size("heads", 4),
            self._size("vocabulary", 32000), context, batch, path == "prefill",
        )  # fmt: skip

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        if self.team is not None:
            return TeamDecodeJob(self.team, frozen, mode, path, device, dtype)
        return DecodeJob(self, frozen, mode, path, device, dtype)


def decoder(layers: int, hidden: int, heads: int, vocabulary: int, context: int, batch: int, whole: bool) -> Any:
    """A small pre-norm decoder with rotary-free attention and a cache; `whole`: forward takes the context at once."""
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
            self.qkv = torch.nn.Linear(hidden, 3 * hidden, bias=False)
            self.out = torch.nn.Linear(hidden, hidden, bias=False)
            self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)
            shape = (batch, heads, context + 1, hidden // heads)
            self.register_buffer("keys", torch.zeros(shape), persistent=False)
            self.register_buffer("values", torch.zeros(shape), persistent=False)

        def forward(self, rows: Any, start: int) -> Any:
            split = self.qkv(self.before(rows)).view(batch, -1, 3, heads, hidden // heads).permute(2, 0, 3, 1, 4)
            query, key, value = split.unbind(0)
            if start == 0:
                seen = attend(query, key, value, is_causal=True)
            if start > 0 or not whole:
                self.keys[:, :, start : start + key.shape[2]] = key
                self.values[:, :, start : start + key.shape[2]] = value
            if start > 0:
                seen = attend(query, self.keys, self.values)
            rows = rows + self.out(seen.transpose(1, 2).reshape(batch, -1, hidden))
            return rows + self.down(torch.nn.functional.silu(self.up(self.after(rows))))

    class Decoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(vocabulary, hidden)
            self.places = torch.nn.Embedding(context + 1, hidden)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(layers))
            self.head = torch.nn.Linear(hidden, vocabulary, bias=False)

        def run(self, tokens: Any, start: int) -> Any:
            places = torch.arange(start, start + tokens.shape[1], device=tokens.device)
            rows = self.embed(tokens) + self.places(places)
            for block in self.blocks:
                rows = block(rows, start)
            return self.head(rows[:, -1])

        def forward(self, tokens: Any) -> dict[str, Any]:
            if whole:
                return {"logits": self.run(tokens, 0)}
            return {"logits": self.run(tokens[:, -1:], context)}

        def prefill(self, tokens: Any) -> None:
            self.run(tokens[:, :-1], 0)

    return Decoder()


class DecodeJob(ModuleJob):
    """Fills the cache when it is built, so that a step is one token over a full cache."""

    def __init__(self, work: Work, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any):
        import torch

        super().__init__(work, frozen, mode, path, device, dtype)
        self.cached = path is None
        if self.cached:
            with torch.no_grad():
                self.module.prefill(self.inputs["tokens"])

    def first_token(self) -> Any:
        """All that lies between a request and its first token: the whole context into the cache, then one step."""
        import torch

        with torch.no_grad():
            if self.cached:
                self.module.prefill(self.inputs["tokens"])
            return self._call()

    def path_taken(self, seen: dict[str, Any]) -> str:
        return "one token over the cache" if self.cached else "the whole context at once"


class TeamDecodeJob(ModuleJob):
    """A step of the team's own decoder. What it returns are logits, where it returns one tensor and no names."""

    def results(self, gradients: bool) -> dict[str, dict[str, Any]]:
        found = super().results(gradients)
        if list(found["output"]) == ["output"]:
            found["output"] = {"logits": found["output"]["output"]}
        return found

    def first_token(self) -> Any:
        import torch

        with torch.no_grad():
            return self.work.first_token(self.runner, self.inputs)
