"""Run by the tests in an interpreter with torch: when two outputs are the same, and which input an ONNX program gets.

`python parity_program.py HARNESS_FOLDER FOLDER` prints {case: result} as JSON. onnxruntime is a stand-in here: it runs
the exported program with what it is fed, by name, and takes nothing that numpy has no type for.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import sys
import types
from pathlib import Path
from typing import Any


def main() -> None:
    package = types.ModuleType("harness")
    package.__path__ = [sys.argv[1]]
    sys.modules["harness"] = package
    import torch

    torch.set_num_threads(1)
    graph, exports = importlib.import_module("harness.graph"), importlib.import_module("harness.exports")
    folder = Path(sys.argv[2])
    found: dict[str, Any] = {}

    def apart(dtype: str, epsilons: float, **more: Any) -> bool:
        """Whether outputs are the same that are so many epsilons of the largest value apart."""
        kind = getattr(torch, dtype)
        reference = torch.tensor([1.0, 0.5, -0.25], dtype=torch.float64)
        moved = reference.clone()
        moved[1] += epsilons * torch.finfo(kind).eps
        told = graph.close_enough({"y": moved.to(kind), **more}, {"y": reference.to(kind), **more})
        return bool(told["same"])

    found["float32"] = [apart("float32", 8), apart("float32", 200)]
    found["bfloat16"] = [apart("bfloat16", 2), apart("bfloat16", 8), apart("bfloat16", 30)]
    found["float16"] = [apart("float16", 2), apart("float16", 8)]
    found["float8_e4m3fn"] = [apart("float8_e4m3fn", 0.5), apart("float8_e4m3fn", 2)]
    low = torch.ones(3, dtype=torch.bfloat16)
    found["float32 beside bfloat16"] = [apart("float32", 8, z=low), apart("float32", 2000, z=low)]
    complex_ = torch.ones(3, dtype=torch.complex64)
    found["complex"] = [graph.close_enough({"y": complex_ * (1 + e)}, {"y": complex_})["same"] for e in (1e-6, 1e-3)]
    counts = torch.arange(3)
    found["counts"] = [graph.close_enough({"y": counts + e}, {"y": counts})["same"] for e in (0, 1)]

    class Session:
        def __init__(self, path: str, providers: list[str]) -> None:
            self.program = torch.export.load(path)
            self.names = list(self.program.graph_signature.user_inputs)

        def get_inputs(self) -> list[Any]:
            return [types.SimpleNamespace(name=name) for name in self.names]

        def run(self, outputs: None, fed: dict[str, Any]) -> list[Any]:
            assert sorted(fed) == sorted(self.names)
            leaves = [torch.from_numpy(fed[name]) for name in self.names]
            args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.program.call_spec.in_spec)
            return [t.numpy() for t in torch.utils._pytree.tree_leaves(self.program.module()(*args, **kwargs))]

    runtime = types.ModuleType("onnxruntime")
    runtime.InferenceSession = Session  # type: ignore[attr-defined]
    for name in exports.ONNX_PACKAGES:
        module = runtime if name == "onnxruntime" else types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        sys.modules[name] = module

    def write(program: Any, args: Any, path: str, *, dynamo: bool) -> None:
        torch.export.save(program, path)

    torch.onnx.export = write

    class Model(torch.nn.Module):
        """As a model of transformers is called: what its inputs are called is not in the order of the alphabet."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, input_ids: Any, attention_mask: Any, extra: Any = None) -> dict[str, Any]:
            rows = self.inner(input_ids) - 3 * attention_mask
            return {"logits": rows, "hidden": rows * 2 if extra is None else extra["b"] - extra["a"]}

    def parity(args: Any, kwargs: Any, dtype: Any = torch.float32) -> dict[str, Any]:
        torch.manual_seed(1)
        model = Model().to(dtype).eval()
        job = types.SimpleNamespace(subject=lambda: (model, args, kwargs))
        return dict(exports.onnx_parity(job, folder / "own.onnx"))

    rows, mask = torch.randn(2, 4), torch.ones(2, 4)
    extra = {"b": torch.randn(2, 4), "a": torch.randn(2, 4)}
    named = {"input_ids": rows, "attention_mask": mask}
    half = torch.bfloat16
    found["by name"] = parity((), named)
    found["in another order"] = parity((), {"attention_mask": mask, "input_ids": rows})
    found["by place"] = parity((rows, mask), {})
    found["nested"] = parity((rows, mask), {"extra": extra})
    found["low precision"] = parity((), {name: one.to(half) for name, one in named.items()}, half)
    print("FOUND " + json.dumps(found, default=str))


if __name__ == "__main__":
    main()
