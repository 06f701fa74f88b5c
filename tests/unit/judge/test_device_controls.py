"""Devices and switches that differ between the sides, or from what the plan names, break the control."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import Book, gate, plan_of

from torchspec.judge.controls import _other_hardware

PEAK = gate("memory.driver_peak", "growth", "<=", 0.1)
SWITCHES = {"matmul_tf32": True, "cudnn_benchmark": None}
DEVICE = {"name": "NVIDIA H200", "precision": SWITCHES}


def judged(changes: dict[str, Any], hardware: tuple[str, ...] = (), **more: Any) -> Book:
    plan = plan_of([PEAK])
    made = Book(replace(plan, backends=tuple(replace(b, hardware=hardware) for b in plan.backends)))
    made.environment("baseline", device=DEVICE)
    made.environment("candidate", device={**DEVICE, **changes}, **more)
    for repeat in range(3):
        for side in ("baseline", "candidate"):
            made.sample(side, "memory.driver_peak", 1e8, repeat=repeat)
    made.memory_seen("memory.driver_peak")
    made.done()
    return made


@pytest.mark.parametrize(("changes", "what"), [
    ({"precision": {**SWITCHES, "matmul_tf32": False}}, "precision matmul_tf32"),
    ({"name": "NVIDIA H100"}, "device name"),
])  # fmt: skip
def test_another_switch_or_device_on_one_side_breaks_the_control(changes: dict[str, Any], what: str) -> None:
    made = judged(changes)
    assert (made.only().outcome, made.only().rule) == ("error", "broken control")
    assert [one["what"] for one in made.judged().broken_controls] == [what]


@pytest.mark.parametrize("changes", [
    {}, {"cudnn": 92000}, {"precision": {**SWITCHES, "cudnn_benchmark": True}}, {"precision": {}},
])  # fmt: skip
def test_what_is_torchs_own_or_lacking_on_one_side_breaks_nothing(changes: dict[str, Any]) -> None:
    assert judged(changes, ("H200",)).only().outcome == "pass"


def test_other_hardware_than_the_plan_names_breaks_the_control() -> None:
    made = judged({}, ("H100", "A100"))
    assert made.only().rule == "broken control"
    assert {one["what"] for one in made.judged().broken_controls} == {"hardware of baseline", "hardware of candidate"}
    assert "H100 or A100" in made.judged().broken_controls[0]["reason"]


def test_a_processors_marks_do_not_part_the_words_of_its_name() -> None:
    device = {"name": "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz"}
    assert _other_hardware(["Intel Xeon Platinum 8370C"], device) == (None, None)
    assert _other_hardware(["Xeon Gold"], device)[1] is not None


def test_another_libc_or_interpreter_breaks_the_control() -> None:
    assert judged({}, glibc="glibc 2.17").only().rule == "broken control"
    assert judged({}, implementation="PyPy").only().rule == "broken control"
