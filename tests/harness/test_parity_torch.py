"""When a compiled, exported or reloaded program gives the same output, in each precision; and ONNX inputs by name."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.torch]


@pytest.fixture(scope="module", params=["baseline_python", "candidate_python"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = request.getfixturevalue(request.param)
    program = [str(ROOT / "tests" / "harness" / "parity_program.py"), str(ROOT / "torchspec" / "harness")]
    given = subprocess.run(
        [str(python), *program, str(tmp_path_factory.mktemp("parity"))],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    lines = [line for line in given.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, given.stderr[-2000:]
    return json.loads(lines[-1].removeprefix("FOUND "))  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn"])
def test_the_same_is_a_few_roundings_of_the_precision(found: dict[str, Any], dtype: str) -> None:
    near, *far = found[dtype]
    assert near
    assert not any(far)


def test_each_tensor_is_held_against_its_own_precision(found: dict[str, Any]) -> None:
    assert found["float32 beside bfloat16"] == [True, False]
    assert found["complex"] == [True, False]
    assert found["counts"] == [True, False]


@pytest.mark.parametrize("call", ["by name", "in another order", "by place", "nested"])
def test_an_onnx_program_gets_each_input_under_its_own_name(found: dict[str, Any], call: str) -> None:
    assert found[call]["holds"] is True, found[call]


def test_what_numpy_has_no_type_for_is_compared_in_float32_and_says_so(found: dict[str, Any]) -> None:
    assert found["low precision"]["holds"] is True, found["low precision"]
    assert found["low precision"]["computed_in"] == "float32"
    assert "computed_in" not in found["by name"]
