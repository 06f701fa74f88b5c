"""How noisy is this machine for the cells of a plan? Pairs of the baseline against itself, with nothing planted.

Measures what the controls of a run measure, more often, so that later runs can rest on it. Must not compare versions.
"""

from __future__ import annotations

from typing import Any

from .chain import canonical, sha256_hex
from .controls import cells_of
from .embedded import Embedded
from .fresh import CellOver, FreshCell
from .needs import Needs
from .pairs import Pairs
from .progress import Estimate
from .run import Run
from .sides import Timed, pair_weight, planted_change

MACHINE = ("node", "os", "architecture", "cpu", "cores", "memory_bytes")
ENVIRONMENT = ("python", "torch", "packages", "threads", "settings", "malloc", "glibc")
SHAPE = ("builds", "rounds", "block_ms", "tuned_malloc")
#: Variables that say where things are, not how the work is done.
PLACES = ("PATH", "LANG", "LC_ALL", "TZ", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
DIFFERS = {
    "machine": "it was measured on another machine",
    "environment": "it was measured with other packages, settings or threads",
    "shape": "it was measured with another shape of pairs (`measure` in the spec)",
}


def identity(embedded: Embedded, host: dict[str, Any], environment: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a spread between equal pairs to be of use: digests of machine and environment."""
    held = {name: environment[name] for name in ENVIRONMENT}
    held["env"] = {name: value for name, value in environment["env"].items() if name not in PLACES}
    return {
        "machine": sha256_hex(canonical({name: host[name] for name in MACHINE})),
        "environment": sha256_hex(canonical(held)),
        "shape": {name: embedded.budget[name] for name in SHAPE},
    }


def fit_here(given: dict[str, Any], here: dict[str, Any], cells: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Of the calibrations that the tool found, newest first by cell: the newest of this machine and setting, and for a
    cell that has none such, why not (what the one that comes nearest differs in)."""
    used: dict[str, Any] = {}
    refused: dict[str, str] = {}
    parts = list(DIFFERS)
    for cell, every in given.items():
        if cell not in cells:
            continue
        nearest = -1
        for held in every:
            differs = next((n for n, part in enumerate(parts) if held["identity"].get(part) != here[part]), None)
            if differs is None:
                used[cell] = held
                refused.pop(cell, None)
                break
            if differs > nearest:
                nearest = differs
                refused[cell] = DIFFERS[parts[differs]]
    return used, refused


class Calibration(Pairs):
    """Equal pairs of many cells, sharing workers."""

    wanted = 0

    def go(self, pairs: int) -> dict[str, str | None]:
        """Takes so many pairs of each cell, fewer where the run's time ends: {cell: why there are none, or None}."""
        self.wanted = pairs
        for number in range(pairs):
            active = [one for one in self.timed if one.over is None and self._taken(one) < pairs]
            if not active or self.run.out_of_time():
                break
            what = f"equal pair {number + 1} of {pairs}, {cells_of(len(active))}"
            self.run.progress.event("doing", what=what, side="baseline")
            self.control_pair(active)
        self.spares.end()
        none = "the time for the whole run was spent before two pairs were measured"
        return {one.cell: one.over or (none if self._taken(one) < 2 else None) for one in self.timed}

    def _taken(self, one: Timed) -> int:
        return len(self.run.past.pairs(one.cell, one.against, "same"))

    def _after_control(self, active: list[Timed]) -> tuple[str, str] | None:
        return ("baseline", "baseline") if any(self._taken(one) + 1 < self.wanted for one in active) else None

    def _plants(self, one: Timed) -> list[tuple[dict[str, Any], float]]:
        return []


def take_calibration(run: Run, given: dict[str, Any], cells: list[str], host: dict[str, Any]) -> None:
    """Puts into the ledger what is used of the calibrations that the tool found, so that the judge sees the same."""
    if not given:
        return
    here = identity(run.embedded, host, run.environments["baseline"])
    used, refused = fit_here(given, here, cells)
    for cell, held in used.items():
        for metric, (s0, n0) in held["metrics"].items():
            run.calibration[cell, metric] = (float(s0), int(n0))
    text = f"the noise of {cells_of(len(used))} was measured before" + (f"; {len(refused)} refused" if refused else "")
    told = {"cells": {c: held["metrics"] for c, held in used.items()}, "times": {c: h["at"] for c, h in used.items()}}
    run.write("note", {"by": "harness", "what": "calibration", "text": text, **told, "refused": refused, **here})
    run.progress.event("calibration", used=len(used), refused=refused)


def calibrate(run: Run, cells: list[str], pairs: int, host: dict[str, Any]) -> None:
    """Freezes the work of each timed cell and takes its equal pairs; every cell gets an ending."""
    here = identity(run.embedded, host, run.environments["baseline"])
    run.write("note", {"by": "harness", "what": "calibrated", "text": "equal pairs, for later runs", **here})
    needed = {cell: Needs(run.embedded, cell, run.candidate).comparisons for cell in cells}
    timed = [c for found in needed.values() for c in found if c.against == "baseline" and limited(c.gates)]
    estimate = Estimate(run.progress, pair_weight(len(timed)) * pairs)
    ready = []
    for comparison in timed:
        try:
            FreshCell(run, comparison.cell, estimate).freeze()
            ready.append(comparison)
        except CellOver as over:
            run.cell_done(comparison.cell, over.status, over.reason)
    for cell, problem in Calibration(run, ready, estimate).go(pairs).items():
        run.cell_done(cell, "measured" if problem is None else "error", problem)


def limited(gates: list[dict[str, Any]]) -> bool:
    """Whether any of these gates is held against a relative limit, which is what a spread between equals serves."""
    return any(planted_change(gate) is not None for gate in gates)
