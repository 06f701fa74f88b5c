"""Run by the tests in an interpreter with torch: builds each kind of work as a worker does, and prints what it gives.

`python kinds_program.py HARNESS_FOLDER TEAM_FOLDER` prints one JSON object, case -> result. Errors are against the
work's own float64 reference; a case that torch cannot do prints {"unsupported": why}.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    package = types.ModuleType("harness")
    package.__path__ = [sys.argv[1]]
    sys.modules["harness"] = package
    import torch

    torch.set_num_threads(1)
    work_module, numerics = importlib.import_module("harness.work"), importlib.import_module("harness.numerics")
    trace, exports = importlib.import_module("harness.trace"), importlib.import_module("harness.exports")
    trees, cpu, team = importlib.import_module("harness.trees"), torch.device("cpu"), Path(sys.argv[2])
    found: dict[str, Any] = {"torch": torch.__version__}

    def work(kind: str, axes: dict[str, Any], mode: str = "infer", options: Any = None, **more: Any) -> Any:
        importlib.import_module(f"harness.work_{kind}")
        workload = {"options": options or {}, "beside": more.get("beside"), "entry": None}
        if "function" in more:
            workload["entry"] = {"path": more.get("file", "team_code.py"), "function": more["function"]}
        cell = {"id": "c", "workload": "w", "mode": mode, "axes": axes}
        task = work_module.Task(cell, workload, 1, team, {})
        task.metrics = set(more.get("metrics", ()))
        return work_module.KINDS[kind](task)

    def case(name: str, do: Callable[[], dict[str, Any]]) -> None:
        try:
            found[name] = do()
        except work_module.Unsupported as reason:
            found[name] = {"unsupported": str(reason), "where": reason.where}
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}

    def elsewhere(job: Any) -> list[str]:
        """Names of the tensors that a job holds and that are not on the device "meta"."""
        found: list[str] = []
        seen: set[int] = set()

        def walk(name: str, value: Any) -> None:
            if id(value) in seen:
                return
            seen.add(id(value))
            parts: Any = ()
            if isinstance(value, torch.Tensor):
                found.extend([name] if value.device.type != "meta" else [])
            elif isinstance(value, torch.nn.Module):
                parts = [*value.named_parameters(), *value.named_buffers(), *vars(value).items()]
            elif isinstance(value, dict):
                parts = value.items()
            elif isinstance(value, (list, tuple)):
                parts = enumerate(value)
            elif isinstance(value, functools.partial):
                parts = [*enumerate(value.args), *value.keywords.items()]
            elif type(value).__name__ == "BlockMask":
                parts = vars(value).items()
            for key, part in parts:
                walk(f"{name}.{key}", part)

        for key, value in vars(job).items():
            walk(key, value)
        return found

    def errors(made: Any, path: str | None = None, traced: bool = False) -> dict[str, Any]:
        frozen = made.freeze()
        train = made.task.mode == "train"
        job = made.job(frozen, made.task.mode, path, cpu, None)
        told: dict[str, Any] = {"items": job.items, "unit": job.items_unit}
        told["held"] = len(elsewhere(job))
        try:
            told["elsewhere"] = elsewhere(made.job(frozen, made.task.mode, path, torch.device("meta"), None))
        except Exception as error:
            told["elsewhere"] = [f"not built: {type(error).__name__}: {error}"]
        wide = made.job(frozen, "train" if train else "infer", made.reference(), cpu, torch.float64).results(train)
        for part, tree in job.results(train).items():
            told[part] = numerics.compare_trees(tree, wide[part])["max_rel"]
        if traced:
            seen = trace.trace_job(job, "cpu")
            told.update(path=seen["path"], operators=seen["operators"])
        return told

    def logits(made: Any) -> dict[str, Any]:
        frozen = made.freeze()
        output = made.job(frozen, "train", None, cpu, None).results(True)["output"]
        wide = made.job(frozen, "train", made.reference(), cpu, torch.float64).results(True)["output"]
        apart = numerics.compare_tensors(output["logits"], wide["logits"])["max_rel"]
        return {"rows": list(output["logits"].shape), "apart": apart, "dtype": str(output["logits"].dtype)}

    single = {"dtype": "float32"}
    shape = {"batch": 1, "heads": 2, "seq": 64, "head_dim": 16, **single}
    sizes = {"window": 8, "block": 16, "document_length": 20, "prefix": 10}
    for mask in ("none", "causal", "sliding_window", "block_sparse", "document", "prefix"):
        axes = {**shape, "mask": mask}
        case(f"attention {mask}", lambda axes=axes: errors(work("attention", axes, "train", sizes)))
        case(f"flex {mask}", lambda axes=axes: errors(work("flex_attention", axes, "infer", sizes)))
        case(f"flex beside {mask}", lambda axes=axes: errors(work("flex_attention", axes, "infer", sizes), "sdpa"))
    causal = {**shape, "mask": "causal"}
    for score in ("relative_bias", "alibi", "soft_cap"):
        case(f"flex {score}", lambda score=score: errors(work("flex_attention", causal, "infer", {"score": score})))
    case("flex own score", lambda: errors(work("flex_attention", causal, options={"score": "custom"}, function="lean")))
    both = {**shape, "mask": "custom"}
    case("flex own both", lambda: errors(work("flex_attention", both, options={"score": "custom"}, function="both")))
    case("flex beside own", lambda: errors(work("flex_attention", causal, function="spelled"), "spelled"))
    mixed = {"autocast": "bfloat16"}
    for kind in ("attention", "flex_attention"):
        case(f"{kind} mixed", lambda kind=kind: errors(work(kind, causal, options=mixed)))
    case("flex train", lambda: errors(work("flex_attention", causal, "train")))
    own = {**shape, "mask": "custom"}
    case("flex custom", lambda: errors(work("flex_attention", own, function="every_third")))
    case("sdpa with a score", lambda: errors(work("flex_attention", causal, options={"score": "alibi"}), "sdpa"))

    loss = {"tokens": 64, "hidden": 32, "vocabulary": 500, **single}
    for form in ("functional", "module"):
        for options in ("default", "none"):
            words = {"form": form, "options": options}
            case(
                f"loss {form} {options}",
                lambda words=words: errors(work("linear_cross_entropy", loss, "train", words), traced=True),
            )
    for name, words in (("chunks", {"batch_chunk_size": 16}), ("policy", {"acc_policy": "accurate"})):
        case(
            f"loss {name}",
            lambda words=words: errors(work("linear_cross_entropy", loss, "train", words), traced=True),
        )

    def given() -> dict[str, Any]:
        words = {"batch_chunk_size": 16, "acc_policy": "accurate"}
        made = work("linear_cross_entropy", loss, "train", words)._options()
        return {name: getattr(made, name) for name in (*words, "chunking_method")}

    case("loss given", given)
    unfused = work("linear_cross_entropy", loss, "train", {"form": "module"})
    case("loss logits", lambda: logits(work("linear_cross_entropy", loss, "train")))
    case("loss mixed logits", lambda: logits(work("linear_cross_entropy", loss, "train", mixed)))
    case("loss beside", lambda: errors(unfused, "unfused", traced=True))

    def converges() -> dict[str, Any]:
        made = work("linear_cross_entropy", loss, "train", {"form": "module"})
        return {"losses": made.job(made.freeze(), "train", None, cpu, None).losses(5)}

    case("loss steps", converges)

    def operator(name: str, mode: str = "infer", dtype: str = "float32", **arguments: str) -> Any:
        return work("operator", {"operator": name, "dtype": dtype, **arguments}, mode)

    softmax = {"input": "1x128256", "dim": "-1", **single}
    case("softmax", lambda: errors(work("operator", {"operator": "softmax", **softmax})))
    pad = {"input": "1x4x4x8x8", "pad": "1 1 1 1 2 0"}
    case("pad", lambda: errors(operator("nn.functional.pad", "train", **pad), traced=True))
    case("linear", lambda: errors(operator("nn.functional.linear", input="1x256", weight="512x256")))
    case("quantile", lambda: errors(operator("quantile", input="40000 float32", q="values 0.5 0.99")))
    solve = {"A": "8x8", "B": "8x2"}
    case("complex solve", lambda: errors(operator("linalg.solve", "train", "complex64", **solve)))
    experts = {"mat_a": "32x64", "mat_b": "3x64x32 transposed", "offs": "values 8 16 32 int32"}
    case("experts", lambda: errors(operator("nn.functional.grouped_mm", "infer", "bfloat16", **experts)))
    case("cat", lambda: errors(operator("cat", "train", tensors="2x3, 4x3", dim="0")))
    case("list of one", lambda: errors(operator("cat", tensors="2x3,")))
    case("no such", lambda: errors(operator("softmaxx", input="1x8", dim="-1")))
    case("no such word", lambda: errors(operator("softmax", input="1x8 sideways", dim="-1")))
    case("not evaluated", lambda: errors(operator("softmax", input="1x8", dim="__import__('os').getpid()")))

    def scaled() -> dict[str, Any]:
        recipe = "nn.functional.ScalingType.TensorWise"
        told = {"mat_a": "16x64 float8_e4m3fn", "mat_b": "64x32 float8_e4m3fn transposed", "output_dtype": "bfloat16"}
        scales = {"scale_a": "values 0.5 float32", "scale_b": "values 0.5 float32"}
        recipes = {"scale_recipe_a": recipe, "scale_recipe_b": recipe}
        made = operator("nn.functional.scaled_mm", **told, **scales, **recipes)
        frozen = made.freeze()
        output = made.job(frozen, "infer", None, cpu, None).forward()
        a, b = (frozen["inputs"][name].to(torch.float64) for name in ("mat_a", "mat_b"))
        return {"output": numerics.compare_tensors(output, a @ b * 0.25)["max_rel"], "stored": str(a.shape)}

    case("scaled_mm", scaled)

    def cached(context: int) -> dict[str, Any]:
        made = work("decode", {"context": context, "batch": 2}, options={"hidden": 32, "vocabulary": 100})
        frozen = made.freeze()
        one, all_ = (made.job(frozen, "infer", path, cpu, None) for path in (None, "prefill"))
        first = one.first_token()["logits"]
        apart = float((one.forward()["logits"] - all_.forward()["logits"]).abs().max())
        there = [made.job(frozen, "infer", path, torch.device("meta"), None) for path in (None, "prefill")]
        placed = {"held": len(elsewhere(one)), "elsewhere": [name for job in there for name in elsewhere(job)]}
        return {**placed, "apart": apart, "first": list(first.shape), "items": one.items, "unit": one.items_unit}

    for context in (32, 64):
        case(f"decode {context}", lambda context=context: cached(context))
    for frames in (1, 3):
        axes = {"size": 16, "frames": frames, "blocks": 2, **single}
        case(f"autoencoder {frames}", lambda axes=axes: errors(work("autoencoder", axes), traced=True))

    rows = {"width": 16, **single}

    def right(kind: str, axes: dict[str, Any], **more: Any) -> dict[str, Any]:
        made = work(kind, axes, **more)
        found: dict[str, Any] = made.job(made.freeze(), "infer", None, cpu, None).accuracy()
        return found

    case("team accuracy", lambda: right("python", rows, function="build"))
    case("no accuracy", lambda: right("attention", causal))
    counts = {"counts": {"value": 3, "unit": "rows"}}
    case("team", lambda: errors(work("python", rows, "train", counts, function="build")))
    case("team beside", lambda: errors(work("python", rows, function="build"), "old"))
    case("team mixed", lambda: errors(work("python", rows, options={"autocast": "bfloat16"}, function="build")))
    digest = sys.argv[3]
    data = {"file": "slice.jsonl", "rows": [0, 3], "digest": f"sha256:{digest}"}
    case("team data", lambda: errors(work("python", {}, options={"data": data}, function="lines")))
    other = {**data, "digest": "sha256:00000000"}
    case("team other data", lambda: errors(work("python", {}, options={"data": other}, function="lines")))

    def stepped() -> dict[str, Any]:
        made = work("python", {"width": 4}, "train", counts, function="stepper")
        job = made.job(made.freeze(), "train", None, cpu, None)
        return {"losses": job.losses(4), "items": job.items, "unit": job.items_unit}

    case("team step", stepped)

    def uncounted() -> dict[str, Any]:
        made = work("python", {"width": 4}, "train", function="stepper")
        return {"items": made.job(made.freeze(), "train", None, cpu, None).items}

    case("team step without counts", uncounted)
    case("team other size", lambda: errors(work("python", {**rows, "lenght": 9}, function="build")))
    unread = {"data": {"file": "slice.jsonl", "rows": None, "digest": None}}
    case("team unread data", lambda: errors(work("python", rows, options=unread, function="build")))
    case("team no size", lambda: errors(work("python", single, function="build")))
    case("team beside less", lambda: errors(work("python", {**rows, "rows": 5}, function="build"), "old"))
    half = {"width": 4, "dtype": "bfloat16"}
    case("team step of a dtype", lambda: errors(work("python", half, "train", counts, function="stepper")))

    def stands_in(kind: str, axes: dict[str, Any], mode: str = "infer", **more: Any) -> dict[str, Any]:
        made = work(kind, axes, mode, **more)
        job = made.job(made.freeze(), mode, None, cpu, None)
        told = {"items": job.items, "unit": job.items_unit, "names": sorted(job.results(False)["output"])}
        if kind == "decode":
            told["first"] = list(job.first_token().shape)
        return told

    tokens = {"context": 16, "batch": 2, **single}
    case("team tokens", lambda: stands_in("decode", tokens, function="decoder"))
    case("team counts", lambda: stands_in("decode", tokens, options=counts, function="decoder"))
    case("team images", lambda: stands_in("autoencoder", {"batch": 3, "size": 8, **single}, function="images"))
    trained = {"width": 8, "rows": 5, **single}
    case("team rows", lambda: stands_in("checkpoint", trained, "train", function="build"))
    case("team without first token", lambda: stands_in("decode", tokens, function="decoder", file="other.py"))

    def steps(kind: str, axes: dict[str, Any], **more: Any) -> dict[str, Any]:
        """What two steps of training take and do, and whether the weights are the frozen ones behind them."""
        made = work(kind, axes, "train", **more)
        job = made.job(made.freeze(), "train", None, cpu, None)
        before = trees.tree_digest(job.weights())
        start = time.perf_counter()
        job.step()
        job.step()
        seconds = (time.perf_counter() - start) / 2
        names = trace.trace_job(job, "cpu")["operators"]
        moved = [name for name in names if "addcdiv" in name]
        return {"seconds": seconds, "optimizer": bool(moved), "kept": before == trees.tree_digest(job.weights())}

    asked = {"metrics": ("step.time",)}
    case("step of a sleeping optimizer", lambda: steps("python", rows, function="sleeps"))
    case("step without an optimizer", lambda: steps("python", rows, function="lossy"))
    case("step that is asked for", lambda: steps("python", rows, function="lossy", **asked))
    case("step of the loss", lambda: steps("linear_cross_entropy", loss))
    case("step of the loss asked for", lambda: steps("linear_cross_entropy", loss, **asked))
    case("step of an operator asked for", lambda: steps("operator", {"operator": "softmax", **softmax}, **asked))
    case("step of a checkpoint", lambda: steps("checkpoint", {"hidden": 16, **single}))
    case("step of the team's checkpoint", lambda: steps("checkpoint", trained, function="lossy"))
    case("kernel", lambda: errors(work("triton", rows, function="build", beside="old")))

    def dynamic(sizes: tuple[int, ...]) -> dict[str, Any]:
        made = work("python", {**rows, "rows": 3}, "export", function="build")
        job = made.job(made.freeze(), "export", None, cpu, None)
        return exports.dynamic_export(job, [((torch.randn(n, 16),), {}) for n in sizes])

    case("dynamic export", lambda: dynamic((5, 9)))
    case("dynamic export of one shape", lambda: dynamic(()))

    def onnx() -> dict[str, Any]:
        made = work("python", rows, "export", function="build")
        return exports.onnx_parity(made.job(made.freeze(), "export", None, cpu, None), team / "out.onnx")

    case("onnx", onnx)

    def state() -> dict[str, Any]:
        made = work("checkpoint", {"hidden": 16, **single}, "train")
        frozen = made.freeze()
        saved = made.job(frozen, "train", None, cpu, None).checkpoint()
        trees.save_tree(saved, team / "state.pt")
        held = trees.load_tree(team / "state.pt")
        reader = made.job(frozen, "train", None, cpu, None)
        reader.restore(held)
        told = {
            "files": sorted(held["files"]),
            "same": trees.tree_digest(reader.weights()) == trees.tree_digest(saved["module"]),
        }
        damaged = {**held, "files": {k: v.flip(0) if k.endswith(".distcp") else v for k, v in held["files"].items()}}
        try:
            reader.restore(damaged)
        except Exception as error:
            told["damaged"] = type(error).__name__
        other = {**held, "optimizer": {**held["optimizer"], "state": {0: {"step": torch.tensor(7.0)}}}}
        try:
            reader.restore(other)
        except ValueError as error:
            told["other"] = str(error)
        return told

    case("checkpoint", state)

    def watched() -> dict[str, Any]:
        made = work("python", rows, "compile", function="breaks")
        return exports.break_places(made.job(made.freeze(), "compile", None, cpu, None), team)

    case("breaks", watched)
    print("FOUND " + json.dumps(found))


if __name__ == "__main__":
    main()
