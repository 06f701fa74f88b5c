"""Attention in both real torch versions: the path that the evidence names, masks at every length, long references."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module", params=["baseline_python", "candidate_python"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = [str(ROOT / "tests" / "harness" / "attention_program.py"), str(ROOT / "torchspec" / "harness")]
    command = [str(request.getfixturevalue(request.param)), *program, str(tmp_path_factory.mktemp("team"))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    given = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=540, check=False)
    lines = [line for line in given.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, given.stderr[-2000:]
    return json.loads(lines[-1].removeprefix("FOUND "))  # type: ignore[no-any-return]


def test_a_step_of_flex_attention_can_be_watched_with_all_that_it_does_inside(found: dict[str, Any]) -> None:
    told = found["watched flex"]
    assert told.get("path") == "unfused: all scores (1 x 2 x 96 x 96) were made", told
    assert told["operators"]["higher_order.flex_attention"] == 1
    assert told["largest"]["shape"][-2:] == [96, 96], "the scores are inside the operator"
    assert told["fallbacks"] == {}


def test_the_evidence_names_the_operator_of_attention_that_ran(found: dict[str, Any]) -> None:
    fast = "aten._scaled_dot_product_flash_attention_for_cpu"
    assert found["watched sdpa"]["path"] == f"torch's {fast}"
    assert found["watched sdpa train"]["path"] == f"torch's {fast}, {fast}_backward"
    assert found["watched dense"]["path"] == "unfused: all scores (1 x 2 x 96 x 96) were made"


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_flex_attention_is_compiled_on_a_device(found: dict[str, Any], mode: str) -> None:
    told = found[f"device {mode}"]
    assert told.get("compiled") == [["flex_attention", {"fullgraph": True}]], told
    assert told["path"].startswith("fused")


def test_flex_attention_is_not_compiled_by_itself_where_all_of_the_work_is_or_on_a_cpu(found: dict[str, Any]) -> None:
    for case in ("device compile", "device export", "device eager", "device cpu"):
        assert found[case] == {"compiled": [], "options": []}, case


def test_the_kernel_that_was_asked_for_is_the_one_that_is_compiled(found: dict[str, Any]) -> None:
    assert found["device flash"].get("options") == [{"BACKEND": "FLASH"}] * 2, found["device flash"]
    assert found["device infer"]["options"] == [None] * 2


def test_flash_is_given_what_a_deterministic_backward_pass_needs(found: dict[str, Any]) -> None:
    assert found["device flash order"] == {"order": True}, found["device flash order"]
    assert found["device flash no order"] == {"order": False}


def test_what_torch_has_no_kernel_for_is_unsupported_with_its_words(found: dict[str, Any]) -> None:
    assert "flash attention cannot be used: not there" in found["device without flash"]["unsupported"]
    assert "lets nobody choose a kernel" in found["device no choice"]["unsupported"]
    assert "does not support backward on CPU" in found["device no backward"]["unsupported"]
    assert found["device fails"]["failed"] == "RuntimeError: an illegal memory access was encountered"


def test_a_teams_mask_has_blocks_for_each_sequence_and_head_that_it_tells_apart(found: dict[str, Any]) -> None:
    told = found["blocks by_head"]
    assert (told.get("apart"), told.get("left_out")) == ([2, 2], 0), told
    assert told["error"] < 1e-5
    for case in ("blocks every_third", "blocks drawn"):
        alike = found[case]
        assert (alike.get("apart"), alike.get("left_out")) == ([1, 1], 0), alike
        assert alike["error"] < 1e-5, (case, alike)


def test_every_declared_length_of_masked_attention_is_called(found: dict[str, Any]) -> None:
    cases = [name for name in found if name.startswith("lengths ")]
    assert len(cases) == 5
    for name in cases:
        told = found[name]
        assert told.get("shapes") == 3, (name, told)
        assert told["apart"] < 1e-5, (name, told)
        assert told["breaks"] == 0, (name, told)


def test_a_mask_is_no_reason_to_compile_each_length_by_itself(found: dict[str, Any]) -> None:
    plain, masked = found["lengths attention causal"], found["lengths attention sliding_window"]
    assert (plain["recompiles"], masked["recompiles"]) == (1, 1), "the second length makes it dynamic for all"


def test_inputs_that_take_gradients_are_no_reason_to_compile_each_length_by_itself(found: dict[str, Any]) -> None:
    told = found["trained lengths"]
    assert told.get("gradients") is True, "every length is called as it is trained"
    assert (told.get("recompiles"), told.get("shapes"), told.get("breaks")) == (1, 3, 0), told


@pytest.mark.parametrize("case", ["one decode", "one decode batch", "one attention"])
def test_recompiles_over_one_shape_are_no_figure(found: dict[str, Any], case: str) -> None:
    assert "no other shape" in found[case].get("unsupported", ""), found[case]


def test_masked_attention_leaves_python_at_one_length_and_at_all(found: dict[str, Any]) -> None:
    for mask in ("causal", "sliding_window"):
        assert found[f"export attention {mask}"].get("holds") is True, found[f"export attention {mask}"]
        told = found[f"export dynamic attention {mask}"]
        assert (told.get("holds"), told.get("shapes")) == (True, 3), told


def test_a_long_reference_gives_the_same_figures_within_bounded_memory(found: dict[str, Any]) -> None:
    for case in ("rows sliding_window", "rows alibi"):
        assert sorted(found[case]) == ["gradient", "output", "without gradients"], found[case]
        assert max(found[case].values()) < 1e-14, found[case]
    assert found["long"].get("largest", 1 << 40) <= 1 << 26, found["long"]
    assert found["long"]["held"] == [[1, 1, 160, 160]], "one mask for all sequences and heads"
