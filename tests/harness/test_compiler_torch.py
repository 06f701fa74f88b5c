"""The compiler, the exporters and models of transformers, in earnest: each gate of theirs is seen to finish once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
Ask = Callable[..., dict[str, Any]]

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def ask(candidate_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Runs cases in a process of their own, which share one compiler cache; what they gave."""
    team, cache = tmp_path_factory.mktemp("team"), tmp_path_factory.mktemp("inductor")
    (team / "models.py").write_text((ROOT / "specs" / "families" / "models.py").read_text())

    def asked(*cases: str) -> dict[str, Any]:
        program = [str(ROOT / "tests" / "harness" / "compiler_program.py"), str(ROOT / "torchspec" / "harness")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        given = subprocess.run(
            [str(candidate_python), *program, str(team), *cases],
            env=environment, capture_output=True, text=True, timeout=540, check=False,
        )  # fmt: skip
        lines = [line for line in given.stdout.splitlines() if line.startswith("FOUND ")]
        assert lines, given.stderr[-2000:]
        return json.loads(lines[-1].removeprefix("FOUND "))  # type: ignore[no-any-return]

    return asked


@pytest.fixture(scope="module")
def cold(ask: Ask) -> dict[str, Any]:
    return ask("fallback", "compiled", "trained", "package", "onnx", "flex custom", "fused")


def test_recompiles_over_shapes_and_a_cache_that_is_warm(ask: Ask, cold: dict[str, Any]) -> None:
    told = cold["compiled"]
    assert (told["graphs"], told["breaks"]) == (1, 0), told
    assert (told["recompiles"], told["shapes"]) == (1, 3), "the second shape makes the dimension dynamic for all"
    again = ask("compiled")["compiled"]
    assert again["seconds"] < told["seconds"] / 2, (again["seconds"], told["seconds"])


def test_a_training_step_is_compiled_with_its_backward_pass(cold: dict[str, Any]) -> None:
    told = cold["trained"]
    assert set(told.get("apart", {})) == {"output", "gradient"}, told
    assert max(told["apart"].values()) < 1e-5, told
    assert not [name for name in told["operators"] if "gelu" in name], "the compiler made one kernel of it"
    plain, compiled = told["losses"]["train"], told["losses"]["train_compiled"]
    assert compiled == pytest.approx(plain, rel=1e-5)
    assert compiled[-1] < compiled[0]
    assert (told["recompiles"], told["shapes"], told["breaks"]) == (1, 2, 0)


def test_an_aot_package_is_made_loaded_and_run(cold: dict[str, Any]) -> None:
    assert cold["package"].get("holds") is True, cold["package"]
    assert cold["package"]["bytes"] > 1000


def test_onnx_parity_or_the_packages_that_it_lacks(cold: dict[str, Any]) -> None:
    told = cold["onnx"]
    assert told.get("holds") is True or "onnx" in told["unsupported"], told


def test_flex_attention_compiled_on_the_cpu(cold: dict[str, Any]) -> None:
    told = cold["flex custom"]
    assert told.get("error", 1.0) < 1e-5, told
    assert told["breaks"] == 0


def test_flex_attention_compiled_by_itself_is_seen_to_be_fused(cold: dict[str, Any]) -> None:
    told = cold["fused"]
    assert told.get("error", 1.0) < 1e-5, told
    assert told["path"].startswith("fused"), told


def test_an_operator_that_leaves_the_device_is_seen(cold: dict[str, Any]) -> None:
    assert list(cold["fallback"]["on_host"].values()) == [1], cold["fallback"]
    assert cold["fallback"]["quiet"] == {}


@pytest.mark.parametrize("function", ["encoder", "decoder"])
def test_a_model_of_transformers_works_unchanged(ask: Ask, function: str) -> None:
    told = ask(f"family {function}")[f"family {function}"]
    if "unsupported" in told:
        pytest.skip(f"{told['unsupported']}: `pip install transformers` beside the candidate's torch runs this test")
    assert told.get("infer output", 1.0) < 1e-5, told
    assert told["train gradient"] < 1e-3
    assert told["names"] == ["logits", "loss"]
    assert told["losses"][-1] < told["losses"][0]
    assert told["exported"]["holds"] is True, told["exported"]
