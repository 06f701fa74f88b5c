"""Trees of tensors: walking, casting, digests, and saving that never leaves half a file.

A tree is a tensor, a plain value (None, bool, int, float, str), or a list, tuple or dict of trees. Must not know of
workloads or devices.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def leaves(tree: Any, name: str = "") -> list[tuple[str, Any]]:
    """(path, leaf) of every leaf in a fixed order: dicts by key, sequences by place. "1.mask" is `tree[1]["mask"]`."""
    if isinstance(tree, dict):
        parts = [(str(key), tree[key]) for key in sorted(tree, key=str)]
    elif isinstance(tree, (list, tuple)):
        parts = [(str(place), part) for place, part in enumerate(tree)]
    else:
        return [(name, tree)]
    return [leaf for key, part in parts for leaf in leaves(part, f"{name}.{key}" if name else key)]


def map_leaves(change: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with `change` applied to every leaf. Named tuples keep their type."""
    if isinstance(tree, dict):
        return {key: map_leaves(change, part) for key, part in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(change, part) for part in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(change, part) for part in tree)
    return change(tree)


def tensors(tree: Any) -> dict[str, Any]:
    """The tensors of a tree (or of an object with a `to_tuple`, or a dataclass of tensors) by their path."""
    import torch

    if isinstance(tree, dict):
        tree = dict(tree)  # an output that is both a mapping and a tuple goes by its names, such as "logits"
    elif hasattr(tree, "to_tuple"):
        tree = tree.to_tuple()
    found = {name or "output": leaf for name, leaf in leaves(tree) if isinstance(leaf, torch.Tensor)}
    if not found and hasattr(tree, "__dict__"):
        return tensors(dict(vars(tree)))
    return found


def convert(tree: Any, device: Any = None, dtype: Any = None) -> Any:
    """A copy of the tree on `device`, with its floating-point tensors in `dtype` (None keeps each one's own)."""
    import torch

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        wanted = leaf.dtype
        if dtype is not None and leaf.is_floating_point():
            wanted = dtype
        elif dtype is not None and leaf.is_complex() and dtype.is_floating_point:
            wanted = dtype.to_complex() if dtype != torch.bfloat16 else leaf.dtype
        return leaf.detach().to(device=device or leaf.device, dtype=wanted, copy=True)

    return map_leaves(change, tree)


def _tensor_bytes(tensor: Any) -> Any:
    """The bytes of a tensor, without numpy and without a copy where it is already dense and on the CPU."""
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    size = dense.numel() * dense.element_size()
    if size == 0:
        return b""
    if dense.data_ptr() == 0:
        raise ValueError(f"a {type(tensor).__name__} holds no bytes of its own; gather it before it is digested")
    held = (ctypes.c_char * size).from_address(dense.data_ptr())
    return memoryview(held).tobytes()


def tree_digest(tree: Any) -> str:
    """SHA-256 over names, types, shapes and bytes of every leaf: equal digests mean bit-identical trees."""
    import torch

    running = hashlib.sha256()
    for name, leaf in leaves(tree):
        if isinstance(leaf, torch.Tensor):
            running.update(f"{name}|{leaf.dtype}|{tuple(leaf.shape)}|".encode())
            running.update(_tensor_bytes(leaf))
        else:
            running.update(f"{name}|{type(leaf).__name__}|{leaf!r}|".encode())
    return running.hexdigest()


def save_tree(tree: Any, path: Path) -> None:
    """Writes a tree whole or not at all: beside its place, fsync, rename, fsync of the folder."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with open(partial, "wb") as stream:
        torch.save(tree, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_tree(path: Path) -> Any:
    """Reads a tree that `save_tree` wrote, onto the CPU. Tensors and plain values only: no code can be in it."""
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)
