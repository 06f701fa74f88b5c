"""The retrieval team's whitening of embeddings: rows times the inverse square root of their covariance."""

from __future__ import annotations

import torch

ROWS, WIDTH = 64, 16


def square_root(matrix: torch.Tensor) -> torch.Tensor:
    """The square root of a symmetric positive definite matrix, by torch's own function where this torch has one."""
    own = getattr(torch.linalg, "matrix_sqrth", None)
    if own is not None:
        return own(matrix)
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp_min(0.0).sqrt()) @ vectors.mT


class Whitening(torch.nn.Module):
    """(rows, width) in, (rows, width) out."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        covariance = rows.mT @ rows / rows.shape[0] + torch.eye(WIDTH, dtype=rows.dtype)
        return torch.linalg.solve(square_root(covariance), rows.mT).mT * self.scale


class Projection(torch.nn.Module):
    """The tower before it: (rows, width) in, (rows, width) out."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.out(torch.nn.functional.gelu(self.into(rows)))


def whitening() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The last stage of the retrieval service."""
    return Whitening().eval(), (torch.randn(ROWS, WIDTH),)


def projection() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The stage before it, which is also trained."""
    return Projection(), (torch.randn(ROWS, WIDTH),)
