"""Run by the tests in an interpreter with torch: attention of every path, its masks at every length, and which way the
scores went.

`python attention_program.py HARNESS_FOLDER TEAM_FOLDER [CASE...]` prints one JSON object, case -> result. Device "meta"
stands for a device on which FlexAttention is compiled; what is compiled there is written down and not run.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEAM = """
def by_head(heads, seq, batch, device):
    import torch

    widths = torch.arange(1, heads + 1, device=device) * (seq // 16)

    def mask(b, h, q, k):
        return (q >= k) & ((q - k < widths[h]) | (b > 0))

    return mask


def every_third():
    return lambda b, h, q, k: (q >= k) & ((q - k) % 3 == 0)


def drawn(seq):
    import torch

    seen = torch.rand(seq, seq) < 0.25
    return lambda b, h, q, k: (q == k) | seen[q, k]
"""


class Bench:
    """The harness's modules, and work of a kind."""

    def __init__(self, harness: str, team: str) -> None:
        package = types.ModuleType("harness")
        package.__path__ = [harness]
        sys.modules["harness"] = package
        self.team = Path(team)
        (self.team / "masks.py").write_text(TEAM, encoding="utf-8")

    def part(self, name: str) -> Any:
        return importlib.import_module(f"harness.{name}")

    def work(self, kind: str, axes: dict[str, Any], mode: str, options: Any = None, function: str | None = None) -> Any:
        self.part(f"work_{kind}")
        entry = {"path": "masks.py", "function": function} if function else None
        workload = {"options": options or {}, "beside": None, "entry": entry}
        cell = {"id": "own", "workload": "w", "mode": mode, "axes": axes}
        return self.part("work").KINDS[kind](self.part("work").Task(cell, workload, 1, self.team, {}))

    def job(self, made: Any, device: str = "cpu", path: str | None = None, mode: str | None = None) -> Any:
        import torch

        return made.job(made.freeze(), mode or made.task.mode, path, torch.device(device), None)


SIZES = {"window": 24, "block": 32, "document_length": 50, "prefix": 40}


def axes(mask: str = "causal", seq: int = 96, batch: int = 1) -> dict[str, Any]:
    return {"batch": batch, "heads": 2, "seq": seq, "head_dim": 16, "dtype": "float32", "mask": mask}


def watched(bench: Bench, kind: str, mode: str, path: str | None = None) -> dict[str, Any]:
    """What was seen of one step, and of what left the device."""
    job = bench.job(bench.work(kind, axes("sliding_window"), mode, SIZES), path=path)
    seen = bench.part("trace").trace_job(job, "cpu")
    return {**seen, "fallbacks": bench.part("trace").fallbacks(job, "cpu")["operators"]}


class Noted:
    """Stands for torch.compile: what is compiled, how, and what the compiled form is called with."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.compiled: list[Any] = []
        self.options: list[Any] = []
        self.raises = raises

    def __call__(self, function: Any, **told: Any) -> Any:
        import torch

        self.compiled.append([getattr(function, "__name__", type(function).__name__), told])

        def runs(query: Any, key: Any, value: Any, kernel_options: Any = None, **_: Any) -> Any:
            self.options.append(kernel_options)
            if self.raises is not None:
                raise self.raises
            return torch.nn.functional.scaled_dot_product_attention(query, key, value) * 1

        return runs


def on_device(
    bench: Bench, mode: str, device: str = "meta", options: Any = None, raises: Exception | None = None,
    job_mode: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A step of FlexAttention on a device: what was compiled for it, and the path that was seen."""
    import torch

    noted, kept = Noted(raises), torch.compile
    torch.compile = noted
    try:
        made = bench.work("flex_attention", axes(), mode, {**SIZES, **(options or {})})
        job = bench.job(made, device, mode=job_mode)
        told: dict[str, Any] = {"compiled": noted.compiled}
        if noted.compiled:
            told["path"] = bench.part("trace").trace_job(job, device)["path"]
            with job.ambient():
                job.step()
        return {**told, "options": noted.options}
    finally:
        torch.compile = kept


def without_a_choice(bench: Bench) -> dict[str, Any]:
    """A torch whose FlexAttention lets nobody choose a kernel."""
    from torch.nn.attention import flex_attention as offered

    kept = offered.FlexKernelOptions
    del offered.FlexKernelOptions
    try:
        return on_device(bench, "infer", options={"kernel": "flash"})
    finally:
        offered.FlexKernelOptions = kept


def no_backward(bench: Bench) -> dict[str, Any]:
    """Torch's own refusal, raised while FlexAttention is being compiled."""
    job = bench.job(bench.work("flex_attention", axes(), "train"))
    job.module.fuse()
    return {"gradients": sorted(job.gradients())}


def blocks(bench: Bench, function: str, seq: int = 512) -> dict[str, Any]:
    """The block mask of a team's own mask: of how many sequences and heads, and whether it leaves anything out."""
    import torch

    made = bench.work("flex_attention", axes("custom", seq, 2), "infer", None, function)
    job = bench.job(made)
    held, _ = job.module.hold(*job.inputs[:2])
    shape = (2, 2, seq, seq)
    seen = bench.part("masks").dense_mask(made.pattern(shape, "cpu")[0], shape, "cpu").expand(shape)
    kept = held.to_dense().to(torch.bool).repeat_interleave(128, 2).repeat_interleave(128, 3)
    wide = made.job(made.freeze(), "infer", made.reference(), torch.device("cpu"), torch.float64).results(False)
    error = bench.part("numerics").compare_trees(job.results(False)["output"], wide["output"])["max_rel"]
    left_out = int((seen & ~kept[:, :, :seq, :seq]).sum())
    return {"apart": list(held.kv_num_blocks.shape[:2]), "left_out": left_out, "error": error}


def ordered(bench: Bench, on: bool) -> dict[str, Any]:
    """Whether the block mask of kernel flash holds the order that its backward pass needs to be deterministic."""
    import torch

    torch.use_deterministic_algorithms(on)
    try:
        job = bench.job(bench.work("flex_attention", axes(), "infer", {"kernel": "flash"}))
        return {"order": job.module.hold(*job.inputs[:2])[0].dq_write_order is not None}
    finally:
        torch.use_deterministic_algorithms(False)


def siblings(
    bench: Bench, kind: str, cells: list[dict[str, Any]], mode: str, options: Any = None, function: Any = None
) -> Any:
    """The work of the first cell, and the calls of the others."""
    import torch

    entry = {"path": "masks.py", "function": function} if function else None
    workload = {"options": options or {}, "beside": None, "entry": entry}
    rows = {str(i): {"id": str(i), "workload": "w", "mode": mode, "axes": one} for i, one in enumerate(cells)}
    bench.part(f"work_{kind}")
    task = bench.part("work").Task

    def make(name: str) -> Any:
        return bench.part("work").KINDS[kind](task(rows[name], workload, 1, bench.team, {}))

    own = make("0")
    found = bench.part("exports").other_shapes(types.SimpleNamespace(cells=rows), own, make, torch.device("cpu"))
    return own, found


LENGTHS = (256, 384, 640)


def lengths(bench: Bench, kind: str, mask: str, function: str | None = None) -> dict[str, Any]:
    """Every declared length of one compiled cell, by the compiler without a code generator."""
    import torch

    made, others = siblings(bench, kind, [axes(mask, seq) for seq in LENGTHS], "compile", SIZES, function)
    job = bench.job(made)
    graph = bench.part("graph")
    told = graph.compile_job(job, {"compile.backend": "eager"}, lambda: None)
    again = graph.recompiles(job, 1, others)
    reference = made.module(made.reference())
    apart = 0.0
    with torch.no_grad():
        for args, kwargs in others:
            given, wide = job.call_with(args, kwargs), reference(*(one.double() for one in args))
            apart = max(apart, bench.part("numerics").compare_tensors(given, wide)["max_rel"])
    return {"breaks": told["graph_breaks"], **again, "apart": apart}


def trained_lengths(bench: Bench) -> dict[str, Any]:
    """Every declared length of one cell of compiled training, whose inputs take gradients too."""
    made, others = siblings(bench, "attention", [axes("causal", seq) for seq in LENGTHS], "train_compiled", SIZES)
    job, graph = bench.job(made), bench.part("graph")
    told = graph.compile_job(job, {"compile.backend": "eager"}, lambda: None)
    again = graph.recompiles(job, 1, others)
    gradients = all(one.requires_grad for args, _ in others for one in args)
    return {"breaks": told["graph_breaks"], "gradients": gradients, **again}


def one_shape(bench: Bench, kind: str, cells: list[dict[str, Any]]) -> dict[str, Any]:
    made, others = siblings(bench, kind, cells, "compile", {"hidden": 16, "heads": 2, "vocabulary": 50, "layers": 1})
    return bench.part("graph").recompiles(bench.job(made), 1, others)  # type: ignore[no-any-return]


def exported(bench: Bench, kind: str, mask: str, dynamic: bool) -> dict[str, Any]:
    """A program of one length through a file, or of all lengths in this process."""
    made, others = siblings(bench, kind, [axes(mask, seq) for seq in LENGTHS], "export", SIZES)
    job = bench.job(made)
    if dynamic:
        return bench.part("exports").dynamic_export(job, others)  # type: ignore[no-any-return]
    return bench.part("graph").export_job(job, bench.team / "own.pt2")  # type: ignore[no-any-return]


def by_rows(bench: Bench, kind: str, mask: str, options: Any = None) -> dict[str, Any]:
    """The reference from a few rows at a time, against all rows at once: output and gradients."""
    import torch

    masks, numerics = bench.part("masks"), bench.part("numerics")
    made = bench.work(kind, axes(mask, 160, 2), "train", {**SIZES, **(options or {})})
    frozen, found, kept = made.freeze(), [], masks.ROWS_BYTES
    try:
        for size in (kept, 7 * 2 * 2 * 160 * 8):
            masks.ROWS_BYTES = size
            job = made.job(frozen, "train", made.reference(), torch.device("cpu"), torch.float64)
            found.append({**job.results(True), "without gradients": {"output": job.forward()}})
    finally:
        masks.ROWS_BYTES = kept
    return {part: numerics.compare_trees(found[1][part], found[0][part])["max_rel"] for part in found[0]}


def long(bench: Bench) -> dict[str, Any]:
    """The largest tensor of a reference whose scores are 256 MiB, forward and backward; what a masked path holds."""
    import torch

    made = bench.work("flex_attention", axes("sliding_window", 4096), "train", SIZES)
    frozen = {"inputs": made.inputs(), "weights": {}, "cotangents": {"output": torch.randn(made.sizes())}}
    job = made.job(frozen, "train", made.reference(), torch.device("cpu"), torch.float64)
    seen = bench.part("trace").watch(job.gradients, "cpu")
    short = bench.job(bench.work("attention", axes("sliding_window", 160, 3), "infer", SIZES))
    return {"largest": seen["largest"]["bytes"], "held": [list(b.shape) for b in short.module.buffers()]}


def main() -> None:
    bench = Bench(sys.argv[1], sys.argv[2])
    import torch

    torch.set_num_threads(1)
    work = bench.part("work")
    found: dict[str, Any] = {"torch": torch.__version__}

    def case(name: str, do: Callable[..., Any], *given: Any, **more: Any) -> None:
        if len(sys.argv) > 3 and not any(name.startswith(wanted) for wanted in sys.argv[3:]):
            return
        try:
            found[name] = do(bench, *given, **more)
        except work.Unsupported as reason:
            found[name] = {"unsupported": str(reason), "where": reason.where}
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}

    case("watched flex", watched, "flex_attention", "infer")
    case("watched sdpa", watched, "flex_attention", "infer", "sdpa")
    case("watched dense", watched, "flex_attention", "infer", "dense")
    case("watched sdpa train", watched, "attention", "train")
    for mode in ("infer", "train", "compile", "export"):
        case(f"device {mode}", on_device, mode)
    case("device eager", on_device, "compile", job_mode="infer")
    case("device cpu", on_device, "infer", device="cpu")
    case("device flash", on_device, "infer", options={"kernel": "flash"})
    missing = RuntimeError(
        "LoweringException: RuntimeError: BACKEND='FLASH' but flash attention cannot be used: not there"
    )
    case("device without flash", on_device, "infer", options={"kernel": "flash"}, raises=missing)
    case("device fails", on_device, "infer", raises=RuntimeError("an illegal memory access was encountered"))
    case("device flash order", ordered, True)
    case("device flash no order", ordered, False)
    case("device no choice", without_a_choice)
    case("device no backward", no_backward)
    case("blocks by_head", blocks, "by_head")
    case("blocks every_third", blocks, "every_third")
    case("blocks drawn", blocks, "drawn")
    for kind in ("attention", "flex_attention"):
        for mask in ("causal", "sliding_window"):
            case(f"lengths {kind} {mask}", lengths, kind, mask)
    case("trained lengths", trained_lengths)
    case("lengths flex_attention custom", lengths, "flex_attention", "custom", "by_head")
    case("one decode", one_shape, "decode", [{"context": n, "batch": 2, "dtype": "float32"} for n in (16, 32)])
    case("one decode batch", one_shape, "decode", [{"context": 16, "batch": n, "dtype": "float32"} for n in (2, 4)])
    case("one attention", one_shape, "attention", [axes()])
    for kind, mask in (("attention", "causal"), ("attention", "sliding_window"), ("flex_attention", "sliding_window")):
        case(f"export {kind} {mask}", exported, kind, mask, False)
        case(f"export dynamic {kind} {mask}", exported, kind, mask, True)
    case("rows sliding_window", by_rows, "attention", "sliding_window")
    case("rows alibi", by_rows, "flex_attention", "document", {"score": "alibi"})
    case("long", long)
    print("FOUND " + json.dumps(found, default=str))


if __name__ == "__main__":
    main()
