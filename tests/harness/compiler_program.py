"""Run by the tests in an interpreter with torch: what the compiler and the exporters do, in earnest, once each.

`python compiler_program.py HARNESS_FOLDER TEAM_FOLDER CASE...` prints {case: result} as JSON. A case is a name of
`CASES`, `flex MASK`, or `family FUNCTION` of a `models.py` in the team's folder. `OWN` is its code.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

OWN = """
import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(16, 16)

    def forward(self, rows):
        return torch.nn.functional.gelu(self.inner(rows)).sum(-1)


def build(rows=3):
    return Scale(), (torch.randn(rows, 16),)


def fit(rows=3):
    return Scale(), (torch.randn(rows, 16),), lambda output, inputs: output.square().mean()


def by_head():
    return lambda b, h, q, k: (q >= k) & ((q - k < 30 * (h + 1)) | (b > 0))
"""


class Bench:
    """The harness's modules, and a work of a kind."""

    def __init__(self, harness: str, team: str) -> None:
        package = types.ModuleType("harness")
        package.__path__ = [harness]
        sys.modules["harness"] = package
        self.team = Path(team)

    def part(self, name: str) -> Any:
        return importlib.import_module(f"harness.{name}")

    def work(
        self, kind: str, axes: dict[str, Any], mode: str, options: Any = None, function: str | None = None,
        file: str = "own.py",
    ) -> Any:  # fmt: skip
        self.part(f"work_{kind}")
        entry = {"path": file, "function": function} if function else None
        workload = {"options": options or {}, "beside": None, "entry": entry}
        cell = {"id": "c", "workload": "w", "mode": mode, "axes": axes}
        return self.part("work").KINDS[kind](self.part("work").Task(cell, workload, 1, self.team, {}))

    def job(self, mode: str) -> Any:
        import torch

        made = self.work("python", {}, mode, function="build")
        return made.job(made.freeze(), mode, None, torch.device("cpu"), None)


def flex(bench: Bench, mask: str) -> dict[str, Any]:
    """A compiled forward pass of FlexAttention against attention spelled out in float64."""
    import torch

    axes = {"batch": 2, "heads": 2, "seq": 300, "head_dim": 16, "dtype": "float32", "mask": mask}
    sizes = {"window": 48, "block": 32, "document_length": 50, "prefix": 40}
    function = "by_head" if mask == "custom" else None
    made = bench.work("flex_attention", axes, "compile", sizes, function)
    frozen, cpu = made.freeze(), torch.device("cpu")
    wide = made.job(frozen, "infer", made.reference(), cpu, torch.float64).results(False)["output"]
    job = made.job(frozen, "compile", None, cpu, None)
    told = bench.part("graph").compile_job(job, {}, lambda: None)
    error = bench.part("numerics").compare_trees(job.results(False)["output"], wide)["max_rel"]
    return {"error": error, "breaks": told["graph_breaks"], "graphs": told["graphs"], "seconds": told["seconds"]}


def fused(bench: Bench) -> dict[str, Any]:
    """FlexAttention compiled by itself, as on a device: its error, and the way that the evidence names."""
    import torch

    axes = {"batch": 2, "heads": 2, "seq": 300, "head_dim": 16, "dtype": "float32", "mask": "custom"}
    made = bench.work("flex_attention", axes, "infer", None, "by_head")
    frozen, cpu = made.freeze(), torch.device("cpu")
    wide = made.job(frozen, "infer", made.reference(), cpu, torch.float64).results(False)["output"]
    job = made.job(frozen, "infer", None, cpu, None)
    job.module.fuse()
    error = bench.part("numerics").compare_trees(job.results(False)["output"], wide)["max_rel"]
    return {"error": error, "path": bench.part("trace").trace_job(job, "cpu")["path"]}


def compiled(bench: Bench) -> dict[str, Any]:
    """Compile time, and recompiles over three shapes: the second makes a dimension dynamic, the third needs none."""
    import torch

    job = bench.job("compile")
    told = bench.part("graph").compile_job(job, {}, lambda: None)
    others = [((torch.randn(rows, 16),), {}) for rows in (5, 9)]
    again = bench.part("graph").recompiles(job, 2, others)
    return {"seconds": told["seconds"], "graphs": told["graphs"], "breaks": told["graph_breaks"], **again}


def trained(bench: Bench) -> dict[str, Any]:
    """A compiled training step: output and gradients against float64, the losses of compiled and plain steps."""
    import torch

    cpu, jobs = torch.device("cpu"), {}
    made = bench.work("python", {}, "train_compiled", function="fit")
    frozen = made.freeze()
    wide = made.job(frozen, "train", made.reference(), cpu, torch.float64).results(True)
    jobs = {mode: made.job(frozen, mode, None, cpu, None) for mode in ("train", "train_compiled")}
    told = bench.part("graph").compile_job(jobs["train_compiled"], {}, lambda: None)
    found = jobs["train_compiled"].results(True)
    compare = bench.part("numerics").compare_trees
    apart = {part: compare(tree, wide[part], wide[part])["max_rel"] for part, tree in found.items()}
    ran = bench.part("trace").watch(jobs["train_compiled"].step, "cpu")["operators"]
    losses = {mode: job.losses(4) for mode, job in jobs.items()}
    again = bench.part("graph").recompiles(jobs["train_compiled"], 1, [((torch.randn(5, 16),), {})])
    return {"breaks": told["graph_breaks"], "apart": apart, "operators": sorted(ran), "losses": losses, **again}


def package(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.part("exports").aot_package(bench.job("export"), bench.team / "own.aot.pt2")
    return {**found, "bytes": (bench.team / "own.aot.pt2").stat().st_size}


def onnx(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.part("exports").onnx_parity(bench.job("export"), bench.team / "own.onnx")
    return found


def fallback(bench: Bench) -> dict[str, Any]:
    """An operator that takes a tensor of a device and gives one on the CPU; `meta` stands for the device."""
    import torch

    held = torch.ones(4, device="meta")

    def step() -> Any:
        return torch.add(torch.empty_like(held, device="cpu"), 1)

    found = bench.part("trace").watch(step, "meta")
    quiet = bench.part("trace").watch(lambda: held + 1, "meta")
    return {"on_host": found["on_host"], "quiet": quiet["on_host"]}


def family(bench: Bench, function: str) -> dict[str, Any]:
    """A model of the package transformers, unchanged: its errors and gradients, its loss, its export."""
    if importlib.util.find_spec("transformers") is None:
        raise bench.part("work").Unsupported("this environment has no transformers")
    import torch

    axes, cpu, told = {"batch": 2, "length": 16, "dtype": "float32"}, torch.device("cpu"), {}
    for mode in ("infer", "train", "export"):
        made = bench.work("python", axes, mode, function=function, file="models.py")
        frozen, train = made.freeze(), mode == "train"
        job = made.job(frozen, mode, None, cpu, None)
        if mode == "export":
            told["exported"] = bench.part("graph").export_job(job, bench.team / f"{function}.pt2")
            continue
        wide = made.job(frozen, mode, made.reference(), cpu, torch.float64).results(train)
        for part, tree in job.results(train).items():
            apart = bench.part("numerics").compare_trees(tree, wide[part], wide[part] if part == "gradient" else None)
            told[f"{mode} {part}"] = apart["max_rel"]
        told["names"] = sorted(job.results(False)["output"])
        if train:
            told["losses"] = job.losses(3)
            bench.part("trees").save_tree(job.checkpoint(), bench.team / "state.pt")
            job.restore(bench.part("trees").load_tree(bench.team / "state.pt"))
    return told


CASES: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "compiled": compiled, "trained": trained, "package": package, "onnx": onnx, "fallback": fallback, "fused": fused,
}  # fmt: skip


def main() -> None:
    bench = Bench(sys.argv[1], sys.argv[2])
    (bench.team / "own.py").write_text(OWN, encoding="utf-8")
    import torch

    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in sys.argv[3:]:
        try:
            word, *rest = name.split()
            found[name] = {"flex": flex, "family": family}[word](bench, rest[0]) if rest else CASES[name](bench)
        except bench.part("work").Unsupported as reason:
            found[name] = {"unsupported": str(reason)}
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    print("FOUND " + json.dumps(found, default=str))


if __name__ == "__main__":
    main()
