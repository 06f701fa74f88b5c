"""How far one tree of tensors is from another: absolute, relative, ULP, cosine, PSNR, and places that are not finite.

Computed in float64 on the CPU, from copies. Nothing here decides whether a difference is acceptable. A figure that
cannot be given (all values equal, no finite pair) is what the arithmetic says: an infinite PSNR, a NaN.
"""

from __future__ import annotations

import math
from typing import Any

FIGURES = ("max_abs", "max_rel", "ulp", "cosine", "psnr", "nonfinite")


def _steps(values: Any, dtype: Any) -> Any:
    """Floats of `dtype` as integers that count representable values in order, so that a difference is in ULP."""
    import torch

    width = {8: torch.int64, 4: torch.int32, 2: torch.int16}[torch.empty((), dtype=dtype).element_size()]
    bits = values.to(dtype).contiguous().view(width).to(torch.int64)
    lowest = -(1 << (8 * torch.empty((), dtype=width).element_size() - 1))
    return torch.where(bits < 0, lowest - bits, bits)


def _dense(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.to(torch.float64).flatten()


def compare_tensors(value: Any, reference: Any) -> dict[str, float]:
    """Errors of `value` against `reference` (same shape; may differ in dtype).

    `max_rel` is the largest difference over the largest reference value; `ulp` counts steps in the dtype of `value`.
    """
    import torch

    if tuple(value.shape) != tuple(reference.shape):
        raise ValueError(f"shapes differ: {tuple(value.shape)} and {tuple(reference.shape)}")
    a, b = _dense(value), _dense(reference)
    if a.numel() == 0:
        return {"max_abs": 0.0, "max_rel": 0.0, "ulp": 0.0, "cosine": 1.0, "psnr": math.inf, "nonfinite": 0.0}
    finite = torch.isfinite(a) & torch.isfinite(b)
    same_infinity = (a == b) & ~finite
    both_nan = torch.isnan(a) & torch.isnan(b)
    nonfinite = float((~finite & ~same_infinity & ~both_nan).sum())
    a, b = a[finite], b[finite]
    if a.numel() == 0:
        return {**dict.fromkeys(FIGURES, math.nan), "nonfinite": nonfinite}
    difference = (a - b).abs()
    largest = float(difference.max())
    square = float((difference**2).mean())
    peak = float(b.abs().max())
    norms = float(a.norm() * b.norm())
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    places = (_steps(a, value.dtype) - _steps(b, value.dtype)).abs() if value.dtype in floats else difference
    return {
        "max_abs": largest,
        "max_rel": largest / peak if peak > 0 else (0.0 if largest == 0 else math.inf),
        "ulp": float(places.max()),
        "cosine": float((a * b).sum()) / norms if norms > 0 else (1.0 if square == 0 else math.nan),
        "psnr": math.inf if square == 0 else (-math.inf if peak == 0 else 10 * math.log10(peak * peak / square)),
        "nonfinite": nonfinite,
    }


#: A gradient that float64 finds no larger than this share of its pass's largest is zero, and was lost in the sums.
ZERO = 2.0**-40
#: A gradient without a size of its own that differs by more than this share of its pass's largest is no rounding.
ROUNDING = 2.0**-8
#: Figures that are over a tensor's own size; what has none has none of them.
OWN_SIZE = ("ulp", "cosine", "psnr")
#: Where a reference is as far from float64 as this share of the gradient itself, no digit of it is right.
NO_DIGIT = 0.5


def _nothing_but_rounding(reference: Any, truth: Any, size: float) -> bool:
    """Whether a gradient has no size of its own: it is zero in float64, or the reference has no digit of it right.

    The second only where it is small beside its pass and the reference has something there: a path that loses a
    gradient altogether, or has a large one wrong, is wrong and not rounded."""
    own = _peak(truth)
    if own <= ZERO * size:
        return True
    if tuple(reference.shape) != tuple(truth.shape) or own > ROUNDING * size or _peak(reference) == 0.0:
        return False
    difference = (_dense(reference) - _dense(truth)).abs()
    return bool((difference >= NO_DIGIT * own).any())


def _peak(tensor: Any) -> float:
    import torch

    flat = _dense(tensor)
    flat = flat[torch.isfinite(flat)]
    return float(flat.abs().max()) if flat.numel() else 0.0


def compare_trees(
    values: dict[str, Any], references: dict[str, Any], truth: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The worst of every figure over all tensors, with the name of the tensor that was worst: {"worst": {...}}.

    A tensor that one side lacks counts as non-finite everywhere: nothing is left out in silence. `truth`: these are
    gradients of one backward pass, which share a scale, and this is the same pass in float64. One that is nothing but
    rounding (the bias of attention's keys, whose gradient is zero) has no size of its own: its `max_rel` is over that
    scale, it has no ULP, cosine or PSNR, and "by_scale" names it. How small it is does not matter: a small gradient has
    a size of its own.
    """
    names = sorted({*values, *references})
    if not names:
        raise ValueError("there is nothing to compare")
    size = max((_peak(tensor) for tensor in references.values()), default=0.0) if truth else 0.0
    worst: dict[str, float] = {}
    where: dict[str, str] = {}
    by_scale: list[str] = []
    for name in names:
        if name not in values or name not in references:
            raise ValueError(f"{name} is given by one side only")
        found = compare_tensors(values[name], references[name])
        if truth and size > 0 and name in truth and _nothing_but_rounding(references[name], truth[name], size):
            found["max_rel"] = found["max_abs"] / size
            by_scale.append(name)
            if found["max_rel"] <= ROUNDING:
                found = {key: figure for key, figure in found.items() if key not in OWN_SIZE}
        for key, figure in found.items():
            smaller_is_worse = key in ("cosine", "psnr")
            known = worst.get(key)
            if key == "nonfinite":
                worst[key] = (known or 0.0) + figure
            elif known is None or figure != figure or (known == known and (figure < known) == smaller_is_worse):
                worst[key], where[key] = figure, name
    for key in OWN_SIZE:  # nothing has a size of its own: nothing differs by more than rounding
        worst.setdefault(key, {"ulp": 0.0, "cosine": 1.0, "psnr": math.inf}[key])
    return {**worst, "worst": where, **({"by_scale": by_scale} if by_scale else {})}
