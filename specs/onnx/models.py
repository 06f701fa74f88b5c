"""What onnxruntime serves: an encoder layer, a small picture net, and a scorer of pairs whose inputs have names."""

from __future__ import annotations

import torch


def encoder(width: int, length: int) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
    return layer.eval(), (torch.randn(2, length, width),)


def picture(size: int) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 10),
    )
    return net.eval(), (torch.randn(1, 3, size, size),)


class Scorer(torch.nn.Module):
    """How well a query fits a document: two inputs of one shape, which must not be mixed up."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = torch.nn.Linear(width, width)
        self.document = torch.nn.Linear(width, width)

    def forward(self, query: torch.Tensor, document: torch.Tensor) -> dict[str, torch.Tensor]:
        asked, told = self.query(query), self.document(document)
        return {"score": (asked * told).sum(-1), "document": told}


def scorer(width: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    return Scorer(width).eval(), {"query": torch.randn(4, width), "document": torch.randn(4, width)}
