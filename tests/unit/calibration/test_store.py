"""Calibrations in the cache: written, read, aged, refused; what the harness takes of them and what it puts down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from torchspec import calibration
from torchspec.calibration import Calibration

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HERE = {"machine": "m" * 64, "environment": "e" * 64, "shape": {"builds": 4}}


def made(at: datetime = NOW, cell: str = "c", **identity: str) -> Calibration:
    where = HERE | identity
    return Calibration(cell, at.isoformat(timespec="microseconds"), where, {"latency.p50": (0.004, 10)}, "0" * 64)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    calibration.write(tmp_path, made())
    assert calibration.read(tmp_path, "c") == ([made()], [])
    assert calibration.read(tmp_path, "d") == ([], [])
    newer = made(NOW + timedelta(days=1))
    calibration.write(tmp_path, newer)
    assert calibration.read(tmp_path, "c") == ([newer], [])


@pytest.mark.parametrize("part", ["machine", "environment"])
def test_one_of_another_machine_or_environment_lies_beside_it(tmp_path: Path, part: str) -> None:
    theirs = made(NOW + timedelta(hours=1), **{part: "o" * 64})
    calibration.write(tmp_path, made())
    calibration.write(tmp_path, theirs)
    assert calibration.read(tmp_path, "c") == ([theirs, made()], [])
    found, said = calibration.usable(tmp_path, ["c"], NOW + timedelta(days=14, minutes=1))
    assert (found, said) == ({"c": [theirs]}, [])  # the other one is too old, and the cell is served


@pytest.mark.parametrize(
    ("age", "used"),
    [
        (timedelta(), True),
        (timedelta(days=14), True),
        (timedelta(days=14, seconds=1), False),
        (timedelta(days=-1), False),  # of the future: one of the clocks is wrong
    ],
)
def test_an_old_one_is_refused_with_its_date_and_a_way_out(tmp_path: Path, age: timedelta, used: bool) -> None:
    calibration.write(tmp_path, made(NOW - age))
    found, said = calibration.usable(tmp_path, ["c", "unknown"], NOW)
    assert bool(found) is used
    assert [d.code for d in said] == ([] if used else ["TS732"])
    for one in said:
        assert (NOW - age).date().isoformat() in one.message
        assert "torchspec calibrate" in (one.hint or "")
        assert not one.is_error  # the run goes on without it


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 2, "cell": "c", "at": "2026-11-30T12:00:00+00:00", "identity": {}, "metrics": {}, "ledger": ""}',
        '{"version": 1, "cell": "d", "at": "2026-11-30T12:00:00+00:00", "identity": {}, "metrics": {}, "ledger": ""}',
        '{"version": 1, "cell": "c", "at": "yesterday", "identity": {}, "metrics": {}, "ledger": ""}',
        '{"version": 1, "cell": "c", "at": "2026-11-30T12:00:00", "identity": {}, "metrics": {}, "ledger": ""}',
        '{"version": 1, "cell": "c", "at": "2026-11-30T12:00:00+00:00", "identity": [], "metrics": {}, "ledger": ""}',
        '{"version": 1, "cell": "c", "at": "2026-11-30T12:00:00+00:00", "identity": {}, "metrics": {"m": [-1, 9]},'
        ' "ledger": ""}',
        '{"version": 1, "cell": "c", "at": "2026-11-30T12:00:00+00:00", "identity": {}, "metrics": {"m": [1]},'
        ' "ledger": ""}',
    ],
)
def test_a_damaged_file_is_named_and_not_used(tmp_path: Path, text: str) -> None:
    path = calibration.place(tmp_path, "c", HERE)
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    found, (said,) = calibration.usable(tmp_path, ["c"], NOW)
    assert not found
    assert said.code == "TS733"
    assert str(path) in said.message


def test_what_the_harness_refused_is_said_once_for_each_reason() -> None:
    event: dict[str, Any] = {"used": 1, "refused": {"a": "elsewhere", "b": "elsewhere", "c": "other threads"}}
    said = calibration.refused(event)
    assert [(d.code, d.message) for d in said] == [
        ("TS731", "the calibration of 2 cells is not used: elsewhere"),
        ("TS731", "the calibration of 1 cell is not used: other threads"),
    ]
    assert calibration.refused({"used": 3, "refused": {}}) == []
