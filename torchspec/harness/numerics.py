"""How far one tree of tensors is from another: absolute, relative, ULP, cosine, PSNR, and places that are not finite.

Computed in float64 on the CPU, from copies. Nothing here decides whether a difference is acceptable. A figure that
cannot be given is what the arithmetic says (an infinite PSNR where all values are equal). Nothing that is not finite is
left out in silence: the same infinity at the same place of both is no difference; any other place that is NaN or
infinite makes every figure but `nonfinite` a NaN.
"""

from __future__ import annotations

import math
from typing import Any

FIGURES = ("max_abs", "max_rel", "ulp", "cosine", "psnr", "nonfinite")
#: Figures of two tensors between which there is no difference.
NO_DIFFERENCE = {"max_abs": 0.0, "max_rel": 0.0, "ulp": 0.0, "cosine": 1.0, "psnr": math.inf}
#: Places that make the figures NaN: not finite on one side, or another infinity there; and NaN on both.
ODD_COUNTS = ("nonfinite", "nan_on_both")


def _steps(values: Any, dtype: Any) -> Any:
    """Floats of `dtype` as integers that count representable values in order, so that a difference is in ULP.

    A value that no 8-bit float of `dtype` reaches is taken as the largest: which bits stand for infinity or NaN there
    differs from one to the next.
    """
    import torch

    size = torch.empty((), dtype=dtype).element_size()
    if size == 1:
        values = values.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max)
        if torch.finfo(dtype).min > 0:  # powers of two without a sign: their bits count up
            return values.to(dtype).contiguous().view(torch.uint8).to(torch.int64)
    width = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[size]
    bits = values.to(dtype).contiguous().view(width).to(torch.int64)
    return torch.where(bits < 0, -(1 << (8 * size - 1)) - bits, bits)


def _ulp(a: Any, b: Any, dtype: Any, difference: Any) -> float:
    """The most steps between two in `dtype`: of a complex one, that of its parts; of integers, the difference."""
    if dtype.is_complex:
        dtype = dtype.to_real()
    return float((_steps(a, dtype) - _steps(b, dtype)).abs().max() if dtype.is_floating_point else difference.max())


def numbers_apart(ours: list[Any], theirs: list[Any]) -> float:
    """The largest relative difference of two lists of losses; NaN where any is not a number or both are infinite.

    Takes "nan", "inf" and "-inf" too, as which frames carry what is not finite.
    """
    pairs = [(float(a), float(b)) for a, b in zip(ours, theirs, strict=True)]
    apart = [abs(a - b) / max(abs(b), 1e-300) for a, b in pairs]
    return math.nan if any(one != one for one in apart) else max(apart, default=0.0)


def _dense(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.to(torch.float64).flatten()


def compare_tensors(value: Any, reference: Any) -> dict[str, float]:
    """Errors of `value` against `reference` (same shape; may differ in dtype), and ODD_COUNTS.

    `max_rel` is the largest difference over the largest reference value; `ulp` counts steps in the dtype of `value`.
    Raises ValueError where they cannot be held against each other: other shapes, or complex on one side only.
    """
    import torch

    if tuple(value.shape) != tuple(reference.shape):
        raise ValueError(f"shapes differ: {tuple(value.shape)} and {tuple(reference.shape)}")
    if value.is_complex() != reference.is_complex():
        raise ValueError(f"one of {value.dtype} and {reference.dtype} is complex and the other is not")
    a, b = _dense(value), _dense(reference)
    finite = torch.isfinite(a) & torch.isfinite(b)
    both = torch.isnan(a) & torch.isnan(b)
    places = {
        "nonfinite": float((~finite & (a != b) & ~both).sum()),
        "nan_on_both": float(both.sum()),
    }
    if any(places.values()):
        return {**dict.fromkeys(FIGURES, math.nan), **places}
    a, b = a[finite], b[finite]
    if a.numel() == 0:
        return {**NO_DIFFERENCE, **places}
    difference = (a - b).abs()
    largest = float(difference.max())
    square = float((difference**2).mean())
    peak = float(b.abs().max())
    norms = float(a.norm() * b.norm())
    return {
        "max_abs": largest,
        "max_rel": largest / peak if peak > 0 else (0.0 if largest == 0 else math.inf),
        "ulp": _ulp(a, b, value.dtype, difference),
        "cosine": float((a * b).sum()) / norms if norms > 0 else (1.0 if square == 0 else math.nan),
        "psnr": math.inf if square == 0 else (-math.inf if peak == 0 else 10 * math.log10(peak * peak / square)),
        **places,
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
    if not _all_finite(truth):  # a float64 that overflowed or is not a number knows no size
        return False
    own = _peak(truth)
    if own <= ZERO * size:
        return True
    if tuple(reference.shape) != tuple(truth.shape) or own > ROUNDING * size or _peak(reference) == 0.0:
        return False
    difference = (_dense(reference) - _dense(truth)).abs()
    return bool((difference >= NO_DIGIT * own).any())


def _all_finite(tensor: Any) -> bool:
    import torch

    return bool(torch.isfinite(_dense(tensor)).all())


def _peak(tensor: Any) -> float:
    import torch

    flat = _dense(tensor)
    flat = flat[torch.isfinite(flat)]
    return float(flat.abs().max()) if flat.numel() else 0.0


def compare_trees(
    values: dict[str, Any], references: dict[str, Any], truth: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The worst of every figure over all tensors, with the name of the tensor that was worst: {"worst": {...}}.

    Of ODD_COUNTS the sum over all tensors; "nan_on_both" is there only where there are such. Raises ValueError where a
    tensor is given by one side only: nothing is left out in silence.

    `truth`: these are gradients of one backward pass, which share a scale, and this is the same pass in float64. One
    that is nothing but rounding (the bias of attention's keys, whose gradient is zero) has no size of its own: its
    `max_rel` is over that scale, it has no ULP, cosine or PSNR, and "by_scale" names it. How small it is does not
    matter: a small gradient has a size of its own.
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
            if key in ODD_COUNTS:
                worst[key] = (known or 0.0) + figure
            elif known is None or figure != figure or (known == known and (figure < known) == smaller_is_worse):
                worst[key], where[key] = figure, name
    for key in OWN_SIZE:  # nothing has a size of its own: nothing differs by more than rounding
        worst.setdefault(key, NO_DIFFERENCE[key])
    if not worst["nan_on_both"]:
        del worst["nan_on_both"]
    return {**worst, "worst": where, **({"by_scale": by_scale} if by_scale else {})}
