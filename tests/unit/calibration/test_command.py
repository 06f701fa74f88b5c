"""`torchspec calibrate` and `torchspec bench` as a user calls them, without measuring."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from torchspec import calibration, pipeline, pipeline_calibrate
from torchspec.cli.exits import Exit
from torchspec.cli.main import main

SPEC = Path(__file__).resolve().parents[3] / "specs" / "quickstart.tspec"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pipeline.Compiled:
    monkeypatch.setenv("TORCHSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    made = pipeline.compile_spec(SPEC, tmp_path / "out", {}).compiled
    assert made is not None
    return made


def test_what_is_known_is_shown_with_its_age(compiled: pipeline.Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = pipeline_calibrate.timed(compiled.plan, "cpu")
    cache = compiled.folder.parents[1] / "cache"
    for cell, days in ((first, 2), (second, 20)):
        at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
        calibration.write(cache, calibration.Calibration(cell, at, {}, {"latency.p50": (0.0123, 10)}, "0" * 64))
    assert main(["calibrate", "--show"]) == Exit.ADOPT
    shown = capsys.readouterr()
    labels = {c.id: c.label for c in compiled.plan.cells}
    assert f"{labels[first]}: latency.p50 1.23 % in 10 pairs; measured " in shown.out
    assert "2 days ago" in shown.out
    assert f"{labels[second]}: none" in shown.out
    assert "TS732" in shown.err
    capsys.readouterr()
    assert main(["calibrate", "--show", "--only", compiled.plan.workloads[0].name]) == Exit.ADOPT
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_wrong_call_is_told(compiled: pipeline.Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--pairs", "3"]) == Exit.SPEC
    assert "--pairs takes 4 or more" in capsys.readouterr().err
    assert main(["calibrate", "nosuch"]) == Exit.MACHINE
    assert "TS801" in capsys.readouterr().err
    assert main(["calibrate", "--only", "nosuch"]) == Exit.SPEC
    assert "TS691" in capsys.readouterr().err


def test_a_benchmark_needs_an_interpreter_with_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "quality", "--python", str(tmp_path / "nosuch")]) == Exit.MACHINE
    assert "TS601" in capsys.readouterr().err
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n', encoding="utf-8")
    without.chmod(0o755)
    assert main(["bench", "overhead", "--python", str(without)]) == Exit.MACHINE
    assert "TS603" in capsys.readouterr().err
