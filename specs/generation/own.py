"""The team's own parts: its attention pattern, and a norm that takes a faster path unless its switch is off."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

ROWS, WIDTH, EPSILON = 64, 256, 1e-6


def pattern() -> Callable[[Any, Any, Any, Any], Any]:
    """A query sees the position of every third key before it, and its own."""
    return lambda batch, head, query, key: (query >= key) & ((query - key) % 3 == 0)


class FastNorm(torch.nn.Module):
    """RMS norm over the last dimension: (rows, width) in, (rows, width) out. `FAST_NORM=0` throws the switch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))
        self.fast = os.environ.get("FAST_NORM", "1") != "0"

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if not self.fast:
            return torch.nn.functional.rms_norm(rows, (WIDTH,), self.weight, EPSILON)
        return rows * (rows.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * self.weight


def fast_norm() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module and one batch of rows."""
    return FastNorm(), (torch.randn(ROWS, WIDTH),)


def standard() -> torch.nn.Module:
    """What stands beside it: torch's own norm, with the same name of the weight."""
    return torch.nn.RMSNorm(WIDTH, EPSILON)
