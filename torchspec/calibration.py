"""Calibrations in the user's cache: how noisy pairs of equal workers are on this machine, a file for each cell and each
machine, environment and shape of pairs that it was measured with.

A file holds the spread for each timed metric, when it was measured, and what it holds for (digests of machine and
environment, the shape of pairs). What is too old is refused here; what is foreign is refused by the harness, which
alone knows where it runs. Must not measure, and must not judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from torchspec.core.canon import digest
from torchspec.core.diagnostics import Diagnostic, Severity
from torchspec.core.files import pretty, strict_json, write_whole

#: A machine's noise is not what it was a fortnight ago: other neighbours, another kernel, another clock.
OLD = timedelta(days=14)
VERSION = 1


@dataclass(frozen=True, slots=True)
class Calibration:
    """One cell's: metric -> (standard deviation of log ratios between equal pairs, how many pairs)."""

    cell: str
    at: str
    identity: Mapping[str, Any]
    metrics: Mapping[str, tuple[float, int]]
    ledger: str  # digest of the ledger that it rests on

    def told(self) -> dict[str, Any]:
        """As the harness is told."""
        return {
            "at": self.at,
            "identity": dict(self.identity),
            "metrics": {m: list(v) for m, v in self.metrics.items()},
        }

    def age(self, now: datetime) -> timedelta:
        return now - datetime.fromisoformat(self.at)


def folder(cache: Path) -> Path:
    return cache / "calibration"


def place(cache: Path, cell: str, identity: Mapping[str, Any]) -> Path:
    """Where a cell's calibration with this identity lies: one of another environment or machine is left beside it."""
    return folder(cache) / f"{cell}-{digest(dict(identity))[:16]}.json"


def write(cache: Path, held: Calibration) -> None:
    """One file; a newer calibration with the same identity takes the place of the older one. Raises OSError."""
    body = {"version": VERSION, "cell": held.cell, "ledger": held.ledger, **held.told()}
    write_whole(place(cache, held.cell, held.identity), pretty(body))


def read(cache: Path, cell: str) -> tuple[list[Calibration], list[Diagnostic]]:
    """What the cache holds for a cell, newest first, and what of it cannot be read and why (TS733)."""
    found: list[Calibration] = []
    said: list[Diagnostic] = []
    for path in sorted(folder(cache).glob(f"{cell}-*.json")):
        held = _read(path, cell)
        if isinstance(held, Diagnostic):
            said.append(held)
        else:
            found.append(held)
    return sorted(found, key=lambda one: datetime.fromisoformat(one.at), reverse=True), said


def _read(path: Path, cell: str) -> Calibration | Diagnostic:
    try:
        held = strict_json(path.read_bytes())
    except (OSError, ValueError) as error:
        return _damaged(path, str(error))
    try:
        metrics = {str(m): (float(s0), int(n0)) for m, (s0, n0) in held["metrics"].items()}
        good = held["version"] == VERSION and held["cell"] == cell and isinstance(held["identity"], dict)
        found = Calibration(cell, held["at"], held["identity"], metrics, str(held["ledger"]))
        good = good and found.age(datetime.now(UTC)) is not None and all(s > 0 and n > 1 for s, n in metrics.values())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return _damaged(path, f"{type(error).__name__}: {error}")
    return found if good else _damaged(path, "it is not what `torchspec calibrate` writes")


def _damaged(path: Path, why: str) -> Diagnostic:
    hint = "`torchspec calibrate` measures again; nothing of the file is used until then"
    return Diagnostic("TS733", f"`{path}` is no calibration: {why}", hint=hint, severity=Severity.WARNING)


def usable(cache: Path, cells: Iterable[str], now: datetime) -> tuple[dict[str, list[Calibration]], list[Diagnostic]]:
    """The calibrations of these cells that are not too old, newest first, and what is said of cells whose every
    calibration is."""
    found: dict[str, list[Calibration]] = {}
    said: list[Diagnostic] = []
    old: list[Calibration] = []
    for cell in cells:
        every, damaged = read(cache, cell)
        said += damaged
        young = [one for one in every if -timedelta(hours=1) <= one.age(now) <= OLD]
        if young:
            found[cell] = young
        elif every:
            old.append(every[0])
    if old:
        first = min(old, key=lambda one: one.at)
        message = (
            f"the calibration of {len(old)} cell{'s' if len(old) > 1 else ''} is not used: it is of {first.at[:10]}, "
            f"and counts for {OLD.days} days"
        )
        hint = "`torchspec calibrate` measures this machine's noise again; without it the run's own controls serve"
        said.append(Diagnostic("TS732", message, hint=hint, severity=Severity.WARNING))
    return found, said


def refused(event: Mapping[str, Any]) -> list[Diagnostic]:
    """What is said of calibrations that the harness refused: they were measured elsewhere or otherwise."""
    reasons: dict[str, list[str]] = {}
    for cell, why in (event.get("refused") or {}).items():
        reasons.setdefault(str(why), []).append(str(cell))
    hint = "`torchspec calibrate` measures this machine's noise as it is now; without it the run's own controls serve"
    return [
        Diagnostic(
            "TS731",
            f"the calibration of {len(cells)} cell{'s' if len(cells) > 1 else ''} is not used: {why}",
            hint=hint,
            severity=Severity.WARNING,
        )
        for why, cells in reasons.items()
    ]
