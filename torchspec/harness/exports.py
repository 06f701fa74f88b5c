"""More ways for work to leave Python: export with dynamic shapes, an AOTInductor package, ONNX; and the other shapes.

The shapes that a workload declares are its cells: those that differ in whole numbers only and hold the same weights.
Runs inside a worker. An exception of the operation under test comes back as a stage and an error.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .embedded import Embedded
from .graph import close_enough, told_apart
from .trees import convert, tensors
from .work import Job, Unsupported, Work

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
#: (positional arguments, arguments by name) of one call.
Call = tuple[tuple[Any, ...], dict[str, Any]]


def as_call(inputs: Any) -> Call:
    """Inputs (a tensor, a tuple or a dict) as arguments."""
    if isinstance(inputs, dict):
        return (), inputs
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def other_shapes(embedded: Embedded, work: Work, make: Callable[[str], Work], device: Any) -> list[Call]:
    """Inputs of the workload's other shapes in this mode, in the order of the plan, for the same weights."""
    import torch

    cell, seed = work.task.cell, work.task.seed
    own = _weight_shapes(work, seed)
    found: list[Call] = []
    for other in embedded.cells.values():
        if other["id"] == cell["id"] or (other["workload"], other["mode"]) != (cell["workload"], cell["mode"]):
            continue
        pairs = [(value, other["axes"].get(name)) for name, value in cell["axes"].items()]
        if any(a != b and not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs):
            continue
        sibling = make(other["id"])
        if _weight_shapes(sibling, seed) != own:
            continue
        torch.manual_seed(seed)
        found.append(as_call(convert(sibling.inputs(), device, sibling.dtype())))
    return found


def _weight_shapes(work: Work, seed: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all that a module holds, saved or not: a cache of keys for one batch takes no other."""
    import torch

    torch.manual_seed(seed)
    module = work.module(None)
    return {name: tuple(value.shape) for name, value in (*module.state_dict().items(), *module.named_buffers())}


def _attempt(stages: Callable[[list[str]], dict[str, Any]]) -> dict[str, Any]:
    """Runs `stages`, which notes in its list where it stands: {"holds", "stage", "error", "seconds", ...}."""
    at, start = ["export"], time.perf_counter()
    try:
        found = stages(at)
    except Unsupported:
        raise
    except Exception as error:
        return {"holds": False, "stage": at[-1], "error": f"{type(error).__name__}: {error}"[:2000]}
    why = None if found["same"] else told_apart("it gives another output than the work itself", found)
    return {"holds": found["same"], "stage": at[-1], "error": why, "seconds": time.perf_counter() - start, **found}


def _worst(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The first that is not the same, else the one farthest off."""
    return max(found, key=lambda one: (not one["same"], one["max_rel"] if one["max_rel"] == one["max_rel"] else 1e308))


def dynamic_shapes(own: Call, others: list[Call]) -> tuple[dict[str, dict[int, Any]], dict[str, Any]]:
    """({path: {dimension: sizes}} of what varies, and how many) over the calls."""
    shapes = [{k: tuple(t.shape) for k, t in tensors([list(a), k_]).items()} for a, k_ in (own, *others)]
    varies: dict[str, dict[int, Any]] = {}
    for name, shape in shapes[0].items():
        for dim in range(len(shape)):
            sizes = sorted({one[name][dim] for one in shapes if name in one and len(one[name]) == len(shape)})
            if len(sizes) > 1:
                varies.setdefault(name, {})[dim] = sizes
    return varies, {"shapes": len(shapes), "dimensions": sum(len(v) for v in varies.values())}


def dynamic_export(job: Job, others: list[Call]) -> dict[str, Any]:
    """Exports with every dimension dynamic that varies over the declared shapes, and runs each of them.

    Raises Unsupported where the workload declares one shape only.
    """
    import torch

    module, args, kwargs = job.subject()
    varies, told = dynamic_shapes((args, kwargs), others)
    if not varies:
        raise Unsupported("the workload declares one shape only, so that no dimension is dynamic", "backend")

    def spec(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spec(f"{name}.{key}", part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(spec(f"{name}.{place}", part) for place, part in enumerate(value))
        return dict.fromkeys(varies.get(name, {}), torch.export.Dim.AUTO) or None

    def stages(at: list[str]) -> dict[str, Any]:
        shapes: Any = spec("0", list(args)) if not kwargs else spec("1", kwargs)
        with torch.no_grad():
            program = torch.export.export(module, args, kwargs, dynamic_shapes=tuple(shapes) if not kwargs else shapes)
            runner = program.module()
            at.append("run")
            found = [
                close_enough(tensors(runner(*a, **k)), tensors(module(*a, **k))) for a, k in ((args, kwargs), *others)
            ]
        at.append("compare")
        return _worst(found)

    return {**_attempt(stages), **told}


def aot_package(job: Job, path: Path) -> dict[str, Any]:
    """Compiles ahead of time into a package (.pt2), loads it and runs it."""
    import torch

    pack = getattr(torch._inductor, "aoti_compile_and_package", None)
    load = getattr(torch._inductor, "aoti_load_package", None)
    if pack is None or load is None:
        raise Unsupported(f"torch {torch.__version__} makes no AOTInductor packages")
    module, args, kwargs = job.subject()

    def stages(at: list[str]) -> dict[str, Any]:
        with torch.no_grad():
            program = torch.export.export(module, args, kwargs)
            at.append("package")
            path.parent.mkdir(parents=True, exist_ok=True)
            pack(program, package_path=str(path))
            at.append("load")
            loaded = load(str(path))
            at.append("run")
            given = tensors(loaded(*args, **kwargs))
            at.append("compare")
            return {**close_enough(given, tensors(module(*args, **kwargs))), "bytes": path.stat().st_size}

    return _attempt(stages)


def onnx_parity(job: Job, path: Path) -> dict[str, Any]:
    """Exports to ONNX and runs it with onnxruntime. Raises Unsupported where the optional packages are missing."""
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise Unsupported(f"this environment lacks {', '.join(missing)}, which ONNX parity takes", "machine")
    import torch

    if "dynamo" not in inspect.signature(torch.onnx.export).parameters:
        raise Unsupported(f"torch {torch.__version__} exports no program of torch.export to ONNX")
    work = getattr(job, "work", None)
    if work is not None and work.task.options.get("autocast"):
        raise Unsupported("under autocast weights and operators differ in precision, and ONNX has one", "backend")
    module, args, kwargs, told = _for_numpy(*job.subject())

    def stages(at: list[str]) -> dict[str, Any]:
        runtime = importlib.import_module("onnxruntime")
        with torch.no_grad():
            program = torch.export.export(module, args, kwargs)
            torch.onnx.export(program, (), str(path), dynamo=True)
            at.append("load")
            session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            at.append("run")
            fed = _by_name(program, args, kwargs)
            names = [one.name for one in session.get_inputs()]
            if not set(names) <= set(fed):
                raise ValueError(
                    f"the ONNX program asks for {', '.join(names)}, and the exported one has {', '.join(fed)}"
                )
            given = session.run(None, {name: fed[name].cpu().numpy() for name in names})
            at.append("compare")
            expected = [leaf for leaf in tree_leaves(module(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        made = {str(i): torch.from_numpy(value) for i, value in enumerate(given)}
        return close_enough(made, {str(i): value.cpu() for i, value in enumerate(expected)})

    return {**_attempt(stages), **told}


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in the order in which torch.export takes and gives them: of a dict as it stands, not by its keys."""
    from torch.utils import _pytree

    found: list[Any] = _pytree.tree_flatten(tree)[0]
    return found


def _by_name(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The tensors of a call under the names that the exported program has for its inputs."""
    import torch

    named = zip(program.graph_signature.user_inputs, tree_leaves((args, kwargs)), strict=True)
    return {str(name): leaf for name, leaf in named if isinstance(leaf, torch.Tensor)}


def _for_numpy(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Module and inputs in a precision that numpy, through which onnxruntime is fed, has a type for; what to tell.

    numpy has no bfloat16 and no 8-bit floats, so that a program in one of these is exported and compared in float32.
    """
    import torch

    held = [*module.parameters(), *module.buffers(), *tensors([list(args), kwargs]).values()]
    known = (torch.float16, torch.float32, torch.float64)
    if all(one.dtype in known for one in held if one.is_floating_point()):
        return module, args, kwargs, {}
    wide = copy.deepcopy(module).to(torch.float32)
    return wide, convert(args, dtype=torch.float32), convert(kwargs, dtype=torch.float32), {"computed_in": "float32"}


def break_places(job: Job, team: Path) -> dict[str, Any]:
    """Where the compiler breaks the graph of one call: {"places": [{"reason", "file", "line", "code"}]}.

    Starts the compiler anew, so nothing that was compiled before may be measured after it.
    """
    import torch

    module, args, kwargs = job.subject()
    torch._dynamo.reset()
    try:
        with job.ambient():
            told = torch._dynamo.explain(module)(*args, **kwargs)
    except Exception as error:  # the figure itself was counted before; only its places are missing
        return {"places": [], "error": f"{type(error).__name__}: {error}"[:500]}
    finally:
        torch._dynamo.reset()
    places = []
    for one in told.break_reasons:
        frame = one.user_stack[-1] if one.user_stack else None
        reason = str(one.reason).strip().splitlines()[0][:200]
        place = {"file": _short(frame.filename, team), "line": frame.lineno, "code": frame.line} if frame else {}
        places.append({"reason": reason, **place})
    return {"places": places}


def _short(file: str, team: Path) -> str:
    """A file's name without this machine's folders."""
    path = Path(file)
    if path.is_relative_to(team):
        return str(path.relative_to(team))
    parts = path.parts
    return "/".join(parts[parts.index("site-packages") + 1 :]) if "site-packages" in parts else path.name
