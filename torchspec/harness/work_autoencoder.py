"""Encode and decode images (or short videos) with many small padding calls: each convolution pads for itself.

The padding is asked for explicitly, as video autoencoders do (causal in time), so that a backend's constant padding is
what is measured and compared. Output: the reconstruction, for PSNR against the reference on the CPU.
"""

from __future__ import annotations

from typing import Any

from .work import Job, ModuleJob, Unsupported, Work
from .work_python import TeamCode


class Autoencoder(Work):
    """Axes: batch, size, frames, channels, blocks, dtype. Input and output: (batch, 3, [frames,] size, size)."""

    kind = "autoencoder"
    items_unit = "images"

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.team = TeamCode(task, self) if task.entry is not None else None

    def _size(self, name: str, usual: int) -> int:
        return int(self.axis(name, usual))

    def inputs(self) -> Any:
        import torch

        if self.team is not None:
            return self.team.inputs()
        size, frames = self._size("size", 64), self._size("frames", 1)
        shape = [self._size("batch", 1), 3, *([frames] if frames > 1 else []), size, size]
        return (torch.rand(shape),)

    def items(self) -> int:
        return self._size("batch", 1)

    def module(self, path: str | None) -> Any:
        if self.team is not None:
            return self.team.module(path)
        if path is not None:
            raise Unsupported(f"autoencoder has no path {path}", "backend")
        return autoencoder(self._size("channels", 16), self._size("blocks", 4), self._size("frames", 1) > 1)

    def job(self, frozen: dict[str, Any], mode: str, path: str | None, device: Any, dtype: Any) -> Job:
        if self.team is not None:
            return AutoencoderJob(self.team, frozen, mode, path, device, dtype)
        return AutoencoderJob(self, frozen, mode, path, device, dtype)


def autoencoder(channels: int, blocks: int, video: bool) -> Any:
    """Two halvings, `blocks` residual blocks on each side, two doublings; every convolution pads with zeros first."""
    import torch

    functional = torch.nn.functional
    convolution = torch.nn.Conv3d if video else torch.nn.Conv2d

    class Padded(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, taken: int, given: int, stride: int = 1) -> None:
            super().__init__()
            self.inner = convolution(taken, given, 3, stride=(1, stride, stride) if video else stride)

        def forward(self, image: Any) -> Any:
            return self.inner(functional.pad(image, (1, 1, 1, 1, 2, 0) if video else (1, 1, 1, 1)))

    class Residual(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Padded(channels, channels), Padded(channels, channels)

        def forward(self, image: Any) -> Any:
            return image + self.two(functional.silu(self.one(functional.silu(image))))

    class Roundtrip(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = Padded(3, channels), Padded(channels, 3)
            self.down = torch.nn.ModuleList(Padded(channels, channels, 2) for _ in range(2))
            self.up = torch.nn.ModuleList(Padded(channels, channels) for _ in range(2))
            self.encode = torch.nn.Sequential(*(Residual() for _ in range(blocks)))
            self.decode = torch.nn.Sequential(*(Residual() for _ in range(blocks)))

        def forward(self, image: Any) -> Any:
            held = self.into(image)
            for one in self.down:
                held = one(held)
            held = self.decode(self.encode(held))
            for one in self.up:
                held = one(functional.interpolate(held, scale_factor=(1, 2, 2) if video else 2, mode="nearest"))
            return torch.sigmoid(self.out(held))

    return Roundtrip()


class AutoencoderJob(ModuleJob):
    """Says how many padding calls a step makes."""

    def path_taken(self, seen: dict[str, Any]) -> str:
        calls = sum(n for name, n in seen["operators"].items() if "pad" in name)
        return f"{calls} padding calls in one step"
