"""RMS norm over rows of a hidden state."""

from __future__ import annotations

from typing import Any

from .work import Work


class RmsNorm(Work):
    """Axes: tokens, hidden, dtype. Input and output: (tokens, hidden)."""

    kind = "rms_norm"
    items_unit = "tokens"
    input_gradients = True

    def inputs(self) -> Any:
        import torch

        return (torch.randn(self.axis("tokens", 512), self.axis("hidden", 256)),)

    def module(self, path: str | None) -> Any:
        import torch

        return torch.nn.RMSNorm(self.axis("hidden", 256))

    def items(self) -> int:
        return int(self.axis("tokens", 512))
