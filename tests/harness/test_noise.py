"""Clocks, heat and slowdowns of a device during a pair (a mock of nvidia-smi: this machine has no GPU)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mock_workers import BUDGET, WORK, Bench, MockWorker

from torchspec import ledger as tool_ledger
from torchspec.harness.device_cuda import Cuda
from torchspec.harness.device_rocm import Rocm
from torchspec.harness.noise import Clocks, Noise, clocks_told, noise_between, noise_now
from torchspec.model.plan import Plan

MOCK_NVIDIA_SMI = """#!/bin/sh
echo "$$ $@" >> "{log}"
while :; do echo "{line}"; sleep 0.05; done
"""


def mock_nvidia_smi(folder: Path, line: str) -> str:
    """The path of a script that takes what nvidia-smi would be given, and tells `line` again and again."""
    path = folder / "mock_nvidia_smi"
    path.write_text(MOCK_NVIDIA_SMI.format(log=folder / "mock_log", line=line), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").exists()


def test_samples_are_summed_up() -> None:
    text = "1980, 61, 0x0000000000000004\n1200, 84, 0x0000000000000024\n1980, 70, 0x0000000000000000\n19"
    assert clocks_told(text) == {
        "samples": 3,
        "mhz": 1980.0,
        "lowest_mhz": 1200.0,
        "celsius": 84.0,
        "reasons": ["power cap", "software thermal"],
        "throttled": True,
    }


@pytest.mark.parametrize(
    ("bits", "throttled"),
    [("0x1", False), ("0x4", False), ("0x8", True), ("0x20", True), ("0x40", True), ("0x80", True), ("[N/A]", None)],
)
def test_heat_and_a_failing_supply_are_a_slowdown_and_a_power_cap_is_none(bits: str, throttled: bool | None) -> None:
    told = clocks_told(f"[N/A], 50, {bits}\n")
    assert told is not None
    assert (told["throttled"], told["mhz"], told["celsius"]) == (throttled, None, 50.0)


@pytest.mark.parametrize("text", ["", "No devices were found\n", "1980, 61, 0x0", "NVIDIA-SMI has failed, because\n"])
def test_what_tells_nothing_is_nothing(text: str) -> None:
    assert clocks_told(text) is None
    assert noise_between(noise_now(), noise_now())["device"] is None


@pytest.mark.parametrize(
    ("visible", "ranks", "asked"),
    [
        (None, False, ["-i", "0"]),
        ("", False, ["-i", "0"]),
        ("3,1", False, ["-i", "3"]),
        ("GPU-5d", False, ["-i", "GPU-5d"]),
        ("3, 1", True, ["-i", "3,1"]),
        (None, True, ["--query-gpu=clocks.sm,temperature.gpu,clocks_throttle_reasons.active"]),
    ],
)
def test_the_devices_that_workers_take_are_sampled_and_no_process_stays(
    tmp_path: Path, visible: str | None, ranks: bool, asked: list[str]
) -> None:
    noise = Noise(Clocks(mock_nvidia_smi(tmp_path, "1500, 66, 0x0000000000000040"), visible, ranks))
    time.sleep(0.4)
    noise.stop()
    body = noise.told(None)
    assert body["throttled"] is True
    assert body["device"]["lowest_mhz"] == 1500.0
    assert body["device"]["samples"] >= 2
    pid, given = (tmp_path / "mock_log").read_text(encoding="utf-8").split(maxsplit=1)
    assert not alive(int(pid))
    assert given.split()[: len(asked)] == asked


def test_a_program_that_cannot_start_leaves_the_device_untold(tmp_path: Path) -> None:
    noise = Noise(Clocks(str(tmp_path / "nothing"), None))
    noise.stop()
    assert noise.told(None)["device"] is None


@pytest.mark.parametrize("fails", [False, True])
def test_a_pair_is_sampled_from_its_begin_to_its_end(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    log = tmp_path / "mock_log"

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "block":
            end = time.monotonic() + 10
            while not log.exists() and time.monotonic() < end:  # mock pairs are over before a program has started
                time.sleep(0.01)
            if fails:
                raise KeyboardInterrupt

    made = Bench(make_plan(WORK, ["latency.p50"], budget=BUDGET), tmp_path, fault, monkeypatch)
    made.run.clocks = Clocks(mock_nvidia_smi(tmp_path, "1980, 61, 0x0000000000000000"), None)
    if fails:
        with pytest.raises(KeyboardInterrupt):
            made.go()
    else:
        made.go()
        noise = [r.body for r in tool_ledger.read(made.path) if r.kind == "noise"]
        assert noise
        assert all(body["device"] is None or body["throttled"] is False for body in noise)
    started = log.read_text(encoding="utf-8").splitlines()
    assert started
    assert not any(alive(int(line.split()[0])) for line in started)


def test_only_nvidia_devices_have_a_program_that_tells() -> None:
    assert (Cuda.clocks_program, Rocm.clocks_program) == ("nvidia-smi", None)
