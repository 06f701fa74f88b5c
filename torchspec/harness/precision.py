"""Mixed precision as a workload's option `autocast` asks for it. Must not change what both sides share."""

from __future__ import annotations

import contextlib
from typing import Any

from .trees import tensors


def autocast(options: dict[str, Any], device_type: str) -> contextlib.AbstractContextManager[Any]:
    """A context in which eligible operators run in the option's dtype (bfloat16, float16); none without the option.

    float64 tensors are left alone by torch, so that a reference in float64 stays one.
    """
    import torch

    chosen = options.get("autocast")
    if not chosen:
        return contextlib.nullcontext()
    mixed: contextlib.AbstractContextManager[Any] = torch.autocast(device_type, getattr(torch, str(chosen)))
    return mixed


def mixed(module: Any, options: dict[str, Any]) -> Any:
    """The module itself, within autocast where the workload asks for it; names of weights stay as they were."""
    if options.get("autocast"):
        inner = module.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            place = next(iter(tensors([list(args), kwargs]).values()))
            with autocast(options, place.device.type):
                return inner(*args, **kwargs)

        module.forward = forward
    return module
