"""What of two sides' devices must agree, and of one side's device with the spec: before anything is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mock_workers import Bench, never

from torchspec import ledger as tool_ledger
from torchspec.harness import alike, environ
from torchspec.harness.alike import device_differences, other_hardware
from torchspec.harness.device_mps import apple_name
from torchspec.harness.driver import Broken, Driver
from torchspec.harness.progress import Progress
from torchspec.judge import controls
from torchspec.model.plan import Plan

SWITCHES = {"float32_matmul_precision": "high", "matmul_tf32": True, "cudnn_benchmark": None}
DEVICE = {"name": "NVIDIA H200", "memory_bytes": 150, "cudnn": 91000, "precision": SWITCHES}
OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"precision": {**SWITCHES, "matmul_tf32": False}}, "precision matmul_tf32"),
    ({"precision": {**SWITCHES, "float32_matmul_precision": "highest"}}, "precision float32_matmul_precision"),
    ({"name": "NVIDIA H100 80GB HBM3"}, "device name"),
    ({"memory_bytes": 80}, "device memory_bytes"),
]
SAME: list[dict[str, Any]] = [
    {},
    {"cudnn": 92000},  # torch's own, which the upgrade is about
    {"precision": {**SWITCHES, "cudnn_benchmark": False}},  # a switch that one version lacks
    {"precision": {**SWITCHES, "new_switch": True}},
]


@pytest.mark.parametrize(("change", "what"), OTHERS)
def test_what_must_agree_between_the_sides(change: dict[str, Any], what: str) -> None:
    ((found, one, two, reason),) = device_differences(DEVICE, {**DEVICE, **change})
    assert found == what
    assert one != two
    assert str(one) in reason
    assert str(two) in reason
    if what.startswith("precision"):
        assert "`setting" in reason, "the way out is said"


@pytest.mark.parametrize("change", SAME)
def test_what_may_differ(change: dict[str, Any]) -> None:
    assert device_differences(DEVICE, {**DEVICE, **change}) == []
    assert device_differences({"cuda": None}, DEVICE) == [], "a device that is missing is unsupported, and not another"


@pytest.mark.parametrize(("named", "device", "there"), [
    (["H200"], {"name": "NVIDIA H200"}, True),
    (["h200"], {"name": "NVIDIA H200"}, True),
    (["H100"], {"name": "NVIDIA H100 80GB HBM3"}, True),
    (["A100", "H100"], {"name": "NVIDIA A100-SXM4-80GB"}, True),
    (["M4 Max"], {"name": "Apple M4 Max"}, True),
    (["Intel Xeon Platinum 8370C"], {"name": "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz"}, True),
    (["Core i7-9750H"], {"name": "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz"}, True),
    (["gfx942"], {"name": "AMD Radeon Graphics", "architecture": "gfx942"}, True),
    ([], {"name": "anything"}, True),
    (["H20"], {"name": "NVIDIA H200"}, False),
    (["M4 Max"], {"name": "Apple M4"}, False),
    (["H200"], {"name": "NVIDIA A100-SXM4-80GB"}, False),
    (["H200"], {"name": ""}, False),
    (["H200"], {}, False),
])  # fmt: skip
def test_the_hardware_that_the_spec_names_is_held_against_the_probe(
    named: list[str], device: dict[str, Any], there: bool
) -> None:
    found = other_hardware(named, device)
    assert (found is None) == there
    if found is not None:
        assert all(name in found for name in named)


def environment(version: str, **changes: Any) -> dict[str, Any]:
    return {
        "python": "3.12.3", "implementation": "CPython", "executable": "e", "torch": {"version": version},
        "packages": {"torch": version}, "torch_pins": [], "env": {}, "threads": {"torch": 1}, "settings": {},
        "digests": {}, "glibc": "glibc 2.39", "malloc": {}, "device": {**DEVICE, **changes},
    }  # fmt: skip


@pytest.mark.parametrize(("changes", "hardware", "said"), [
    ({"precision": {**SWITCHES, "matmul_tf32": False}}, (), "matmul_tf32 is True in the baseline and False in"),
    ({"name": "NVIDIA H100"}, (), "name is NVIDIA H200 in the baseline and NVIDIA H100 in the candidate"),
    ({}, ("H100",), "the plan names H100"),
    ({}, ("H200",), None),
])  # fmt: skip
def test_the_driver_measures_nothing_under_a_broken_control(
    changes: dict[str, Any], hardware: tuple[str, ...], said: str | None, make_plan: Callable[..., Plan],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    plan = make_plan([("one", "attention", "infer", {"seq": 16})], ["error.max_abs"])
    plan = dataclasses.replace(plan, backends=(dataclasses.replace(plan.backends[0], hardware=hardware),))
    held = Bench(plan, tmp_path, never, monkeypatch).embedded
    held.source.write_text("# a harness\n", encoding="utf-8")
    folder = tmp_path / "evidence"
    driver = Driver(
        held, {"baseline": "a", "candidate": "b"}, "candidate", folder, [], None, None, {}, Progress("json")
    )
    sides = [held.side(name)["torch"] or "2.13.0" for name in ("baseline", "candidate")]
    held.frozen["python"] = None
    driver.run.environments = {"baseline": environment(sides[0]), "candidate": environment(sides[1], **changes)}
    if said is None:
        driver._hold_controls(list(held.cells), {})
        return
    with pytest.raises(Broken, match=said):
        driver._hold_controls(list(held.cells), {})
    records = list(tool_ledger.read(folder / "ledger.jsonl"))
    assert [r.kind for r in records if r.kind.startswith("control")] == ["control.broken"] * (2 if hardware else 1)
    (done,) = [r.body for r in records if r.kind == "cell.done"]
    assert done["status"] == "error"


def test_a_mac_tells_its_chip_and_not_its_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environ, "PROCESSORS", Path("/nowhere"))
    monkeypatch.setattr(environ.platform, "processor", lambda: "arm")
    monkeypatch.setattr(environ, "system_text", {"machdep.cpu.brand_string": "Apple M4 Max"}.get)
    assert environ.cpu_model() == "Apple M4 Max"
    monkeypatch.setattr(environ, "system_text", lambda name: None)
    assert environ.cpu_model() == "arm"


def test_a_chip_has_one_name_whichever_torch_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> str:
        raise RuntimeError("no Metal here")

    monkeypatch.setattr("torchspec.harness.device_mps.cpu_model", lambda: "Apple M2")
    assert {apple_name(ask) for ask in (lambda: "Apple M2 (Metal)", None, fails)} == {"Apple M2"}
    monkeypatch.setattr("torchspec.harness.device_mps.cpu_model", lambda: "Intel(R) Core(TM) i7-9750H")
    assert apple_name(lambda: "AMD Radeon Pro 5300M") == "AMD Radeon Pro 5300M"
    assert {apple_name(ask) for ask in (lambda: "", None, fails)} == {"Intel(R) Core(TM) i7-9750H"}


@pytest.mark.parametrize("text", ["Intel(R) Core(TM) i7-9750H", "Apple M4 Max", "NVIDIA A100-SXM4-80GB", "gfx942", ""])
def test_the_judge_reads_devices_as_the_harness_does(text: str) -> None:
    """The harness is an island, so that the rule stands twice; here the two are held together."""
    assert controls.MACHINES_OWN == alike.MACHINES_OWN
    assert controls._words(text) == alike.words_in(text)
