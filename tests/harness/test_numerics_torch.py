"""Errors between tensors, digests of trees, and saving whole or not at all, in both real versions of torch."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

NUMERICS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from torchspec.harness.chain import plain
from torchspec.harness.numerics import compare_tensors, compare_trees
t = torch.tensor
nan, inf = float("nan"), float("inf")
one = t([1.0, 2.0, -4.0])
up = torch.nextafter(one, t(10.0))
cases = {
    "same": (one, one),
    "one step": (up, one),
    "one step across zero": (torch.nextafter(t([0.0]), t(1.0)), torch.nextafter(t([0.0]), t(-1.0))),
    "minus zero": (t([-0.0, 1.0]), t([0.0, 1.0])),
    "nan here": (t([nan, 1.0]), t([1.0, 1.0])),
    "nan there": (t([1.0, 1.0]), t([nan, 1.0])),
    "nan on both": (t([nan, 1.0]), t([nan, 1.0])),
    "other infinity": (t([inf, 1.0]), t([-inf, 1.0])),
    "same infinity": (t([inf, 1.0]), t([inf, 1.0])),
    "one infinity here": (t([inf, 1.0]), t([1.0, 1.0])),
    "nan and nan": (t([nan, nan, 1.0]), t([nan, 2.0, 1.0])),
    "nan in a part": (torch.complex(t([nan, 1.0]), t([1.0, 1.0])), torch.complex(t([1.0, 1.0]), t([1.0, 1.0]))),
    "nothing finite": (t([nan]), t([1.0])),
    "nothing but the same infinity": (t([-inf, inf]), t([-inf, inf])),
    "infinity beside a step": (torch.cat([up, t([-inf])]), torch.cat([one, t([-inf])])),
    "zero reference": (t([1.0]), t([0.0])),
    "both zero": (t([0.0]), t([0.0])),
    "halved": (t([2.0, 0.0]), t([4.0, 0.0])),
    "bfloat16": (t([1.0078125], dtype=torch.bfloat16), t([1.0], dtype=torch.float64)),
    "complex": (t([1 + 2j]), t([1 + 2.5j])),
    "complex steps": (torch.complex(up, one), torch.complex(one, one).to(torch.complex128)),
    "complex64 of float64": (torch.complex(up.double(), one.double()), torch.complex(one.double(), one.double())),
    "integers": (t([5, 7]), t([5, 4])),
    "empty": (t([]), t([])),
}
found = {name: compare_tensors(*pair) for name, pair in cases.items()}
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
    bits = torch.arange(256, dtype=torch.uint8).view(dtype)
    every = bits.to(torch.float64)
    every = every[torch.isfinite(every)].unique().to(dtype)  # each value of this dtype once, in order
    found[str(dtype)] = [compare_tensors(every[k : k + 1], every[:1])["ulp"] for k in range(every.numel())]
    beyond = compare_tensors(every[-1:], t([1e6], dtype=torch.float64))
    found["beyond " + str(dtype)] = beyond["ulp"], beyond["max_abs"] > 1e5
for name, pair in {"shapes": (t([1.0]), t([1.0, 2.0])), "parts": (t([1j]), t([1.0]))}.items():
    try:
        compare_tensors(*pair)
    except ValueError as error:
        found[name] = str(error)
found["one odd tensor"] = compare_trees({"a": one, "b": t([nan, 1.0])}, {"a": one, "b": t([1.0, 1.0])})
found["odd on both"] = compare_trees({"a": up, "b": t([nan, 1.0])}, {"a": one, "b": t([nan, 1.0])})
odd = t([nan, 1e-18], dtype=torch.float64)  # float64 itself has a place that is no number, and is tiny elsewhere
found["odd truth"] = compare_trees(
    {"a": one, "b": t([1.0, 2e-9])}, {"a": one, "b": t([1.0, 1e-9])}, {"a": one.double(), "b": odd}
)
found["trees"] = compare_trees({"a": one, "b": t([1.0])}, {"a": one, "b": t([1.5])})
exact = {"a": one.double(), "b": t([1e-18], dtype=torch.float64)}
noise = {"a": one, "b": t([3e-9])}, {"a": one, "b": t([-2e-9])}
found["noise alone"] = compare_trees(*noise)
found["noise"] = compare_trees(*noise, exact)
found["noise against float64"] = compare_trees(noise[0], exact, exact)
found["wrong"] = compare_trees({"a": one, "b": t([2.0])}, noise[1], exact)
for name, size in (("small", 1e-6), ("tiny", 1e-9), ("half", 1e-3)):  # float32's own step at 4 is 5e-7, bfloat16's 0.03
    dtype = torch.bfloat16 if name == "half" else torch.float32
    real = {"a": one.double(), "b": t([size], dtype=torch.float64)}
    right, twice = t([size], dtype=dtype), t([2 * size], dtype=dtype)
    found[name] = compare_trees({"a": one.to(dtype), "b": twice}, {"a": one.to(dtype), "b": right}, real)
real = {"a": one.double(), "b": t([1e-9], dtype=torch.float64)}
found["no digit"] = compare_trees({"a": one, "b": t([3e-9])}, {"a": one, "b": t([-2e-9])}, real)
lost = {"a": one.double(), "b": t([1e-3], dtype=torch.float64)}
found["lost"] = compare_trees({"a": one, "b": t([1e-3])}, {"a": one, "b": t([0.0])}, lost)
large = {"a": one.double(), "b": t([2.0], dtype=torch.float64)}
found["large"] = compare_trees({"a": one, "b": t([2.0])}, {"a": one, "b": t([-1.0])}, large)
found["never used"] = compare_trees({"a": one, "b": t([0.0])}, {"a": one, "b": t([0.0])}, {**exact, "b": t([0.0])})
found["no float64"] = compare_trees(*noise, None)
try:
    compare_trees({"a": one}, {"a": one, "b": one})
except ValueError as error:
    found["missing"] = str(error)
print(json.dumps(plain(found)))
"""

TREES = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from torchspec.harness.trees import convert, leaves, load_tree, save_tree, tree_digest
torch.manual_seed(0)
tree = {"b": [torch.arange(6).reshape(2, 3).t(), None, 1.5], "a": (torch.ones(2, dtype=torch.bfloat16), "x", True),
        "empty": torch.zeros(0, 4), "scalar": torch.tensor(3.0), "bool": torch.tensor([True, False])}
path = Path(sys.argv[2])
if len(sys.argv) > 3:
    save_tree(tree, path)
again = load_tree(path)
swapped = {**tree, "scalar": torch.tensor(-3.0)}
cast = {**tree, "scalar": torch.tensor(3.0, dtype=torch.float64)}
shaped = {**tree, "scalar": torch.tensor([3.0])}
print(json.dumps({
    "digest": tree_digest(tree), "again": tree_digest(again),
    "others": [tree_digest(x) for x in (swapped, cast, shaped)],
    "names": [name for name, _ in leaves(tree)],
    "half": str(convert(tree, dtype=torch.float16)["scalar"].dtype),
    "whole": str(convert(tree, dtype=torch.float16)["b"][0].dtype),
    "copied": convert(tree)["scalar"].data_ptr() != tree["scalar"].data_ptr(),
    "files": sorted(p.name for p in path.parent.iterdir()),
}))
"""


def run(python: Path, code: str, *arguments: str) -> Any:
    done = subprocess.run([str(python), "-c", code, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["baseline_python", "candidate_python"])
def python(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def test_errors_between_tensors(python: Path, repository: Path) -> None:
    found = run(python, NUMERICS, str(repository))
    zero = {"max_abs": 0.0, "max_rel": 0.0, "ulp": 0.0, "psnr": "inf", "nonfinite": 0.0}
    for name in ("same", "minus zero", "same infinity", "nothing but the same infinity", "both zero", "empty"):
        assert {key: found[name][key] for key in zero} == zero, name
    assert found["one step"]["ulp"] == 1.0
    assert found["one step"]["max_abs"] == pytest.approx(2**-22)
    assert found["one step across zero"]["ulp"] == 2.0
    figures = ("max_abs", "max_rel", "ulp", "cosine", "psnr")
    one_side = ("nan here", "nan there", "other infinity", "one infinity here", "nan in a part", "nothing finite")
    for name in one_side:
        assert (found[name]["nonfinite"], found[name]["nan_on_both"]) == (1.0, 0.0), name
    for name in (*one_side, "nan on both", "nan and nan", "one odd tensor", "odd on both"):
        assert {found[name][key] for key in figures} == {"nan"}, f"{name}: NaN never passes"
    assert (found["nan on both"]["nonfinite"], found["nan on both"]["nan_on_both"]) == (0.0, 1.0)
    assert (found["nan and nan"]["nonfinite"], found["nan and nan"]["nan_on_both"]) == (1.0, 1.0)
    assert found["infinity beside a step"]["ulp"] == 1.0, "the same infinity is no difference, and hides none"
    assert (found["one odd tensor"]["nonfinite"], found["one odd tensor"]["worst"]["max_abs"]) == (1.0, "b")
    assert "nan_on_both" not in found["one odd tensor"]
    assert (found["odd on both"]["nonfinite"], found["odd on both"]["nan_on_both"]) == (0.0, 1.0)
    assert "by_scale" not in found["odd truth"], "a float64 that is no number itself excuses nothing"
    assert found["zero reference"]["max_rel"] == "inf"
    assert found["zero reference"]["psnr"] == "-inf"
    halved = found["halved"]
    assert (halved["max_abs"], halved["max_rel"], halved["cosine"]) == (2.0, 0.5, pytest.approx(1.0))
    assert halved["psnr"] == pytest.approx(10 * math.log10(16 / 2))
    assert found["bfloat16"]["ulp"] == 1.0
    assert found["complex"]["max_abs"] == 0.5
    assert found["complex steps"]["ulp"] == 1.0, "of the parts, in the dtype of a part"
    assert found["complex64 of float64"]["ulp"] == 2.0**29
    for name, values in (("e4m3fn", 253), ("e5m2", 247), ("e4m3fnuz", 255), ("e5m2fnuz", 255)):
        assert found[f"torch.float8_{name}"] == [float(k) for k in range(values)], name
        assert found[f"beyond torch.float8_{name}"] == [0.0, True], "rounded, it is the largest"
    assert "complex and the other is not" in found["parts"]
    assert (found["integers"]["max_abs"], found["integers"]["ulp"]) == (3.0, 3.0)
    assert "shapes differ" in found["shapes"]
    assert found["trees"]["max_abs"] == 0.5
    assert found["trees"]["worst"]["max_abs"] == "b"
    assert "b is given by one side only" in found["missing"]
    assert found["noise alone"]["max_rel"] == found["no float64"]["max_rel"] == pytest.approx(2.5)
    assert found["noise"]["max_rel"] == pytest.approx(5e-9 / 4)
    assert found["noise against float64"]["max_rel"] == pytest.approx(3e-9 / 4)
    assert found["wrong"]["max_rel"] == pytest.approx(0.5), "what has no size of its own is not passed over"
    assert found["no digit"]["max_rel"] == pytest.approx(5e-9 / 4), "the baseline has no digit of it right"
    assert found["lost"]["max_rel"] == "inf", "a reference that lost a gradient hides nothing"
    assert found["large"]["max_rel"] == pytest.approx(3.0), "nor does one that has a large gradient wrong"
    assert {n for n in found if isinstance(found[n], dict) and "by_scale" in found[n]} == {
        "noise", "noise against float64", "wrong", "no digit", "never used",
    }  # fmt: skip
    assert found["noise"]["by_scale"] == ["b"], "it is told, never passed over"
    assert (found["noise"]["cosine"], found["noise"]["ulp"], found["noise"]["psnr"]) == (pytest.approx(1.0), 0.0, "inf")
    assert found["wrong"]["ulp"] > 1e6, "what is no rounding any more keeps its figures"
    assert found["noise alone"]["cosine"] == pytest.approx(-1.0)
    for name in ("small", "tiny", "half"):
        assert found[name]["max_rel"] == pytest.approx(1.0), f"{name}: what is small has a size of its own"
        assert found[name]["worst"]["max_rel"] == "b"


def test_trees_are_digested_and_saved_whole(python: Path, repository: Path, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "tree.pt"
    found = run(python, TREES, str(repository), str(path), "save")
    assert found["digest"] == found["again"]
    assert len({found["digest"], *found["others"]}) == 4
    assert found["names"] == ["a.0", "a.1", "a.2", "b.0", "b.1", "b.2", "bool", "empty", "scalar"]
    assert (found["half"], found["whole"], found["copied"]) == ("torch.float16", "torch.int64", True)
    assert found["files"] == ["tree.pt"]


def test_one_version_reads_what_the_other_froze(
    baseline_python: Path, candidate_python: Path, repository: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tree.pt"
    first = run(baseline_python, TREES, str(repository), str(path), "save")
    second = run(candidate_python, TREES, str(repository), str(path))
    assert second["again"] == first["digest"] == second["digest"]


SPREAD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh
from torchspec.harness.trees import tree_digest
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
spread = distribute_tensor(torch.ones(3), init_device_mesh("cpu", (1,)), [Replicate()])
try:
    said = tree_digest({"a": spread})
except ValueError as error:
    said = str(error)
print(json.dumps([said, tree_digest({"a": spread.full_tensor()}) == tree_digest({"a": torch.ones(3)})]))
"""


@pytest.mark.torch
def test_a_tensor_that_lies_on_ranks_is_refused_and_not_read_from_nowhere(python: Path, repository: Path) -> None:
    """Its address is that of nothing: reading there ends the process."""
    said, gathered = run(python, SPREAD, str(repository))
    assert said == "a DTensor holds no bytes of its own; gather it before it is digested"
    assert gathered
