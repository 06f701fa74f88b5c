"""Compiling and exporting one job: cold compile time, graph breaks, recompiles, export round trip and reload.

Runs inside a worker that is fresh and has an empty compiler cache of its own. An exception of the operation under test
comes back as a stage and an error, since it is the answer and not an accident.
"""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import Any

from .numerics import compare_trees
from .trees import tensors
from .work import Job, Unsupported

#: What makes outputs not the same whatever the rest of them is.
ODD_PLACES = {"nonfinite": "are NaN or infinite on one side only", "nan_on_both": "are NaN on both sides"}


def compile_arguments(settings: dict[str, str]) -> dict[str, Any]:
    """The spec's `compile.*` settings as arguments of torch.compile."""
    chosen: dict[str, Any] = {}
    truths = {"on": True, "true": True, "off": False, "false": False}
    for name, value in settings.items():
        if name == "compile.mode" and value != "default":
            chosen["mode"] = value.replace("_", "-")
        elif name == "compile.backend":
            chosen["backend"] = value
        elif name in ("compile.dynamic", "compile.fullgraph"):
            chosen[name.split(".", 1)[1]] = truths[value.lower()]
    return chosen


def compiler_counts() -> dict[str, Any]:
    """What Dynamo has counted in this process: graphs, graph breaks and why, recompiles and why."""
    import torch._dynamo.utils as dynamo

    metrics = dynamo.get_compilation_metrics() if hasattr(dynamo, "get_compilation_metrics") else []
    reasons = [getattr(one, "recompile_reason", None) for one in metrics]
    breaks = dynamo.counters["graph_break"]
    return {
        "graphs": int(dynamo.counters["stats"]["unique_graphs"]),
        "graph_breaks": int(sum(breaks.values())),
        "break_reasons": sorted(reason.splitlines()[0][:200] for reason in breaks),
        "recompile_reasons": [str(reason)[:200] for reason in reasons if reason],
    }


def compile_job(job: Job, settings: dict[str, str], synchronize: Any) -> dict[str, Any]:
    """Compiles a job and runs it once: {"seconds": first compiled call, and the compiler's counts}.

    `synchronize` is called before each clock read: what building the job has queued is not the compiler's time.
    """
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    module, _, _ = job.subject()
    job.run_with(torch.compile(module, **compile_arguments(settings)))
    with job.ambient():
        synchronize()
        start = time.perf_counter()
        job.step()
        synchronize()
        seconds = time.perf_counter() - start
    return {"seconds": seconds, **compiler_counts()}


def recompiles(job: Job, calls: int, others: list[Any]) -> dict[str, Any]:
    """Graphs compiled by further calls of a job that was compiled and run once: `calls` of its own shape, then one of
    each other declared shape (`others`: positional arguments and arguments by name), then its own again.

    Raises Unsupported where there is no other shape: then nothing was asked of the compiler.
    """
    if not others:
        raise Unsupported("the workload declares no other shape that the same weights can be called with", "backend")
    before = compiler_counts()["graphs"]
    with job.ambient():
        for _ in range(calls):
            job.step()
        for args, kwargs in others:
            job.call_with(args, kwargs)
        job.step()
    after = compiler_counts()
    found = {"recompiles": after["graphs"] - before, "reasons": after["recompile_reasons"]}
    return {**found, "calls": calls + 2 + len(others), "shapes": 1 + len(others)}


#: Bytes of a floating-point number -> roundings of its precision by which two ways of running one program may differ at
#: the largest value. Reordered sums of float32 and float64 add up to some; in 16 bits sums run in float32, and what is
#: left is where a way rounds between two operators and another does not; one step of 8 bits is an eighth or a quarter.
#: Seen between six modules, 4 to 12 layers deep, and their exported forms: up to 1.7 in 16 bits and 2.7 in float32; and
#: between some of them and their compiled forms: up to 1.0 and 5.2. AOTInductor's packages were not measured.
ROUNDINGS = {8: 32, 4: 32, 2: 4, 1: 1}


def tolerance_of(dtype: Any) -> float:
    """How far apart two outputs of `dtype` may be, as a share of the largest value; 0 for whole numbers and truths."""
    import torch

    if not dtype.is_floating_point and not dtype.is_complex:
        return 0.0
    real = dtype.to_real() if dtype.is_complex else dtype
    return ROUNDINGS[torch.empty((), dtype=real).element_size()] * float(torch.finfo(real).eps)


def close_enough(values: dict[str, Any], references: dict[str, Any]) -> dict[str, Any]:
    """{"same": bool, "max_rel", "max_abs", "tolerance"}: each tensor within `tolerance_of` its own precision; figures
    and tolerance are of the precision that is farthest beyond its own, or nearest to it.

    Never the same where a place is NaN, or infinite on one side: "why" says how many are.

    Two ways of running one program may order sums differently; more than that is another program.
    """
    if not references:
        return {"same": False, "max_rel": 0.0, "max_abs": 0.0, "tolerance": 0.0, "why": "there is no tensor in it"}
    whole = compare_trees(values, references)
    odd = [f"{whole[key]:.0f} places {what}" for key, what in ODD_PLACES.items() if whole.get(key)]
    kinds: dict[float, list[str]] = {}
    for name, reference in references.items():
        kinds.setdefault(tolerance_of(reference.dtype), []).append(name)
    shares: list[tuple[float, float, dict[str, Any]]] = []
    for tolerance, names in kinds.items():
        both = [{name: tree[name] for name in names} for tree in (values, references)]
        found = compare_trees(*both) if len(kinds) > 1 else whole
        apart = float(found["max_rel"])
        over = apart / tolerance if tolerance > 0 else (0.0 if apart == 0 else math.inf)
        shares.append((math.inf if over != over else over, tolerance, found))
    over, tolerance, worst = max(shares, key=lambda one: one[0])
    return {
        "same": not odd and over <= 1.0,
        "max_rel": worst["max_rel"],
        "max_abs": worst["max_abs"],
        "tolerance": tolerance,
        **({"why": " and ".join(odd)} if odd else {}),
    }


def told_apart(what: str, found: dict[str, Any]) -> str:
    """`what` as the error, or what `close_enough` says of places that are NaN or infinite."""
    return f"the output cannot be compared: {found['why']}" if "why" in found else what


def export_job(job: Job, path: Path) -> dict[str, Any]:
    """Exports, saves, loads and runs a job in this process: {"holds", "stage", "error", "seconds", and how close}."""
    import torch

    module, args, kwargs = job.subject()
    expected = {name: t.cpu().clone() for name, t in tensors(job.forward()).items()}  # and the device is done with them
    stage, start = "export", time.perf_counter()
    try:
        with torch.no_grad():
            program = torch.export.export(module, args, kwargs)
            stage = "save"
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.export.save(program, str(path))
            stage = "load"
            loaded = torch.export.load(str(path))
            stage = "run"
            given = tensors(loaded.module()(*args, **kwargs))
            stage = "compare"
            found = close_enough(given, expected)
    except Exception as error:
        return {"holds": False, "stage": stage, "error": f"{type(error).__name__}: {error}"[:2000]}
    seconds = time.perf_counter() - start
    why = None if found["same"] else told_apart("the reloaded program gives another output", found)
    return {"holds": found["same"], "stage": stage, "error": why, "seconds": seconds, **found}


class LoggedErrors(logging.Handler):
    """Errors that torch logs while it goes on to raise another one, which says less. Used as a context."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.causes: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        while error is not None and error.__cause__ is not None:
            error = error.__cause__
        if error is not None:
            self.causes.append(error)

    def __enter__(self) -> LoggedErrors:
        logging.getLogger("torch.export").addHandler(self)
        return self

    def __exit__(self, *ending: object) -> None:
        logging.getLogger("torch.export").removeHandler(self)

    def told(self, error: BaseException) -> str:
        """`error`, led by the first sentence of its cause where one was logged."""
        own = f"{type(error).__name__}: {error}"
        if not self.causes or self.causes[0] is error:
            return own[:2000]
        cause = self.causes[0]
        first = str(cause).split(". ", 1)[0].split("\n", 1)[0]
        return f"{type(cause).__name__}: {first[:300]} ({own})"[:2000]


def reload_job(job: Job, path: Path) -> dict[str, Any]:
    """Loads an exported file, runs it on the job's inputs and compares with the job's own output."""
    import torch

    _, args, kwargs = job.subject()
    stage, start = "load", time.perf_counter()
    logged = LoggedErrors()
    try:
        with logged:
            loaded = torch.export.load(str(path))
        stage = "run"
        with torch.no_grad():
            given = tensors(loaded.module()(*args, **kwargs))
        stage = "compare"
        found = close_enough(given, tensors(job.forward()))
    except Exception as error:
        return {"holds": False, "stage": stage, "error": logged.told(error)}
    seconds = time.perf_counter() - start
    why = None if found["same"] else told_apart("the loaded program gives another output", found)
    return {"holds": found["same"], "stage": stage, "error": why, "seconds": seconds, **found}


def export_runner(job: Job) -> None:
    """From now on the job's steps run the exported program (mode export)."""
    import torch

    module, args, kwargs = job.subject()
    with torch.no_grad():
        job.run_with(torch.export.export(module, args, kwargs).module())
