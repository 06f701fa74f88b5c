"""The off switch of a lane, with mock workers: what it must change, and what must stay."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness.supervise import Unable
from torchspec.harness.switches import throw

FUSED = {"output": "fused", "gradient": "g"}
STANDARD = {"output": "standard", "gradient": "g"}
CLOSE = {"same": True, "max_rel": 1e-7, "tolerance": 4e-6, "bit_identical": False}


class Side:
    """A worker that takes the fused way unless `SWITCH` is off."""

    def __init__(self, case: dict[str, Any], env: dict[str, str]) -> None:
        self.case, self.off = case, env.get("SWITCH") == "0"
        self.asked: list[str] = []

    def ask(self, do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
        self.asked.append(do)
        case = self.case
        if do == "open" and given["variant"] == "beside" and case.get("no_beside"):
            raise Unable("no such path here", "backend")
        if do == "outputs":
            if case.get("no_outputs"):
                raise Unable("this kind of work has no outputs to compare", "backend")
            return dict(case["off"] if self.off else case["on"])
        if do == "repeats":
            bits = case.get("again", {"output": case["off" if self.off else "on"]["output"]})
            return {"digests": {part: [one] * given["count"] for part, one in bits.items()}}
        if do == "trace":
            return dict(case["off_trace"] if self.off else case["on_trace"])
        if do == "same":
            assert case["held"](given)
            return dict(case.get("same", CLOSE))
        return {}

    def close(self) -> None: ...


def thrown(variable: str, beside: str | None = "standard", over: str | None = None, **changes: Any) -> dict[str, Any]:
    case: dict[str, Any] = {
        "on": FUSED, "off": STANDARD, "held": lambda given: True,
        "on_trace": {"operators": {"aten.mul": 2}, "path": None},
        "off_trace": {"operators": {"aten.rms_norm": 1}, "path": None}, **changes,
    }  # fmt: skip
    run = SimpleNamespace(
        candidate="candidate", timeout_s=1.0, start_timeout_s=1.0,
        embedded=SimpleNamespace(
            cells={"c": {"mode": "train", "workload": "w"}}, workloads={"w": {"beside": beside}},
            plan={"backend": {"over": over}},
        ),
        start=lambda side, purpose, extra=None: Side(case, extra or {}),
        frozen_file=lambda cell: Path("frozen.pt"), output_file=lambda cell, side, name="own": Path(f"{name}.pt"),
    )  # fmt: skip
    return throw(run, "c", {variable: "0"}, lambda worker: None)  # type: ignore[arg-type]


def test_a_switch_that_takes_another_way_holds() -> None:
    found = thrown("SWITCH")
    assert found["problem"] is None
    assert found["changed"] == ["bits of output", "operators"]
    assert found["env"] == ["SWITCH"]
    assert found["against"] == "what stands beside it"


def test_a_misspelt_switch_does_not_hold_and_the_reason_has_a_way_out() -> None:
    found = thrown("SWICH")
    assert found["changed"] == []
    assert "SWICH=0" in found["problem"]
    assert "changed nothing that can be seen" in found["problem"]
    assert "custom_op" in found["problem"]


@pytest.mark.parametrize("changes", [
    {"off": FUSED},  # the same bits: seen by its operators
    {"off_trace": {"operators": {"aten.mul": 2}, "path": None}},  # the same operators: seen by its bits
    {"on_trace": {"error": "RuntimeError: cannot be watched", "calls": 0}},
])  # fmt: skip
def test_bits_or_operators_are_enough(changes: dict[str, Any]) -> None:
    assert thrown("SWITCH")["problem"] is None
    found = thrown("SWITCH", **changes)
    assert found["problem"] is None
    assert len(found["changed"]) == 1


def test_bits_that_vary_without_the_switch_show_nothing() -> None:
    same = {"operators": {"aten.mul": 2}, "path": None}
    found = thrown("SWITCH", again={"output": "by chance"}, off_trace=same)
    assert "changed nothing" in found["problem"]


def test_with_the_switch_the_output_must_be_that_of_what_stands_beside() -> None:
    far = {"same": False, "max_rel": 0.3, "tolerance": 4e-6, "bit_identical": False}
    found = thrown("SWITCH", same=far, held=lambda given: given["references"] == "switch-beside.pt")
    assert "with SWITCH=0 the output differs from that of what stands beside it by 0.3" in found["problem"]


@pytest.mark.parametrize(("beside", "more"), [(None, {}), ("standard", {"no_beside": True})])
def test_or_that_of_the_work_without_it_where_nothing_stands_beside(beside: str | None, more: dict[str, Any]) -> None:
    found = thrown("SWITCH", beside, held=lambda given: given["references"] == "switch-plain.pt", **more)
    assert (found["problem"], found["against"]) == (None, "the work without it")


def test_work_without_outputs_is_told_by_its_operators_and_ranks_by_their_bits() -> None:
    assert thrown("SWITCH", no_outputs=True)["changed"] == ["operators"]
    assert thrown("SWITCH", over="cpu")["changed"] == ["bits of output"]
    assert "changed nothing" in thrown("SWITCH", no_outputs=True, over="cpu")["problem"]
