"""Which operators one step of a job calls, and the largest tensor that it makes: what path the work really took.

A fused loss without its options makes the whole logits; an operator that a device lacks ends on the CPU. Both show
here, and not in a time. Must not be used while anything is measured: watching slows every operator.
"""

from __future__ import annotations

import warnings
from typing import Any

from .trees import tensors
from .work import Job, Unsupported

MOST_NAMED = 40
#: Operators that bring a value to the host by their nature, and are no fallback.
TO_HOST = ("aten._local_scalar_dense", "aten._to_copy", "aten.item", "aten.copy_", "aten.is_nonzero", "aten.equal")
#: Before the name of an operator that takes functions, such as FlexAttention while no kernel was made of it.
HIGHER_ORDER = "higher_order."


def watch(run: Any, device: str) -> dict[str, Any]:
    """What one call of `run` does: {"operators": {name: calls}, "calls", "distinct", "largest", "on_host", "names",
    "shapes"}.

    `largest` is the largest tensor made, `shapes` the set of shapes of all of them, `names` the set of the names of all
    operators; `on_host` counts operators that took a tensor on `device` and gave one on the CPU. Of what was compiled,
    only what its kernels call is seen; of an operator that takes functions, all that is done inside it.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    counts: dict[str, int] = {}
    on_host: dict[str, int] = {}
    largest: dict[str, Any] = {"bytes": 0}
    shapes: set[tuple[int, ...]] = set()

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        #: Without it torch refuses operators that take functions while somebody watches.
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Without it torch does not run what it has compiled while somebody watches, but the eager form of it."""
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = str(func.name() if callable(getattr(func, "name", None)) else func)
            name = name.replace("::", ".").removesuffix(".default")
            if isinstance(func, torch._ops.HigherOrderOperator):
                name = HIGHER_ORDER + name
                given = self.inside(func)(*args, **(kwargs or {}))
            else:
                given = func(*args, **(kwargs or {}))
            counts[name] = counts.get(name, 0) + 1
            made = [t for t in tensors([given]).values() if t.layout == torch.strided]
            for tensor in made:
                shapes.add(tuple(int(n) for n in tensor.shape))
                size = tensor.numel() * tensor.element_size()
                if size > largest["bytes"]:
                    shape = [int(n) for n in tensor.shape]
                    largest.update(bytes=int(size), shape=shape, dtype=str(tensor.dtype), operator=name)
            if device != "cpu" and name.rsplit(".", 1)[0] not in TO_HOST and name not in TO_HOST:
                taken = tensors([list(args), kwargs or {}]).values()
                if any(t.device.type == device for t in taken) and any(t.device.type == "cpu" for t in made):
                    on_host[name] = on_host.get(name, 0) + 1
            return given

        def inside(self, func: Any) -> Any:
            """The operator with this watch inside it: what it does on any device is written in Python."""
            kernel = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)

            def watched(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return kernel(*args, **kwargs)

            return func if kernel is None else watched

    with Watch():
        run()
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    found = {"operators": dict(ranked[:MOST_NAMED]), "calls": sum(counts.values()), "distinct": len(counts)}
    found["largest"] = largest if largest["bytes"] else None
    return {**found, "on_host": on_host, "names": set(counts), "shapes": shapes}


def trace_job(job: Job, device: str) -> dict[str, Any]:
    """What `watch` sees of one step, and what the job itself says of the path it took.

    Work that runs but cannot be watched has not failed: {"error", "calls" 0} says so.
    """
    try:
        with job.ambient():
            found = watch(job.step, device)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500], "calls": 0, "path": None}
    path = job.path_taken(found)
    return {**{key: value for key, value in found.items() if key not in ("names", "shapes")}, "path": path}


def fallbacks(job: Job, device: str) -> dict[str, Any]:
    """{"operators": {name: calls}, "warnings": [...]}: what ran on the CPU instead of `device` in one step.

    By torch's own warnings (of its fallback kernels) and by where tensors went in and came out.
    """
    import torch

    with warnings.catch_warnings(record=True) as heard, job.ambient():
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            seen = watch(job.step, device)
        except Exception as error:
            raise Unsupported(f"the work cannot be watched: {type(error).__name__}: {error}") from error
        finally:
            torch.set_warn_always(False)
    told = sorted({str(w.message).splitlines()[0][:300] for w in heard if "fall back" in str(w.message)})
    operators = dict(seen["on_host"])
    for text in told:
        name = text.split("'")[1].replace("::", ".") if text.count("'") >= 2 else text
        operators.setdefault(name.removesuffix(".default"), 1)
    return {"operators": operators, "warnings": told}
