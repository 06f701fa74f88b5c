"""Backends: where torch runs."""

from __future__ import annotations

from torchspec.catalog.rows import Backend

BACKENDS: tuple[Backend, ...] = (
    Backend("cpu", "the host's processor", "cpu", "any machine"),
    Backend("cuda", "NVIDIA GPUs", "cuda", "an NVIDIA GPU with its driver"),
    Backend("rocm", "AMD GPUs; torch calls the device cuda, torchspec does not", "cuda", "an AMD GPU with ROCm"),
    Backend("mps", "Apple GPUs through Metal", "mps", "a Mac with Apple silicon"),
    Backend(
        "distributed",
        "several processes over one of the others",
        "",
        "as many devices as ranks",
        over=("cpu", "cuda", "rocm"),
        launchers=("torchrun",),
    ),
)
