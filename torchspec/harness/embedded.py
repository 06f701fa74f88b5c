"""What the emitted file carries: the plan as this backend needs it, the team's files, and where they came from.

The plan is JSON data, never code. Must not interpret gates beyond asking what they need.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .chain import sha256_hex

TIMED = ("latency.p50", "latency.p95", "latency.p99", "throughput", "step.time",
         "comm.latency_p50", "comm.latency_p95", "comm.bus_bandwidth", "comm.algorithm_bandwidth")  # fmt: skip


class Embedded:
    """`plan` is a JSON object with backend, cells, workloads, gates, sides, frozen, budget, rollback, claims, lanes;
    `files` the team's files {path: text}; `digest` that of the whole plan; `source` the harness file itself."""

    def __init__(self, plan: dict[str, Any], files: dict[str, str], digest: str, source: Path) -> None:
        self.plan, self.files, self.digest, self.source = plan, files, digest, source
        self.backend: str = plan["backend"]["name"]
        self.cells: dict[str, dict[str, Any]] = {cell["id"]: cell for cell in plan["cells"]}
        self.workloads: dict[str, dict[str, Any]] = {row["name"]: row for row in plan["workloads"]}
        self._gates: dict[str, list[dict[str, Any]]] = {name: [] for name in self.cells}
        for gate in plan["gates"]:
            for name in gate["cells"]:
                self._gates[name].append(gate)
        self.budget: dict[str, Any] = plan["budget"]
        self.frozen: dict[str, Any] = plan["frozen"]

    @property
    def threads(self) -> int:
        return int(self.plan["backend"].get("threads") or 1)

    def side(self, name: str) -> dict[str, Any]:
        """The plan's side `name`. Raises KeyError with the known ids."""
        sides: dict[str, dict[str, Any]] = {
            side["id"]: side for side in (self.plan["baseline"], *self.plan["candidates"])
        }
        if name not in sides:
            raise KeyError(f"the plan has no side {name}; it has {', '.join(sides)}")
        return sides[name]

    def kind(self, cell: str) -> str:
        """The kind of a cell's workload."""
        return str(self.workloads[self.cells[cell]["workload"]]["kind"])

    def gates(self, cell: str) -> list[dict[str, Any]]:
        """The gates that judge a cell, and one reporting gate for each metric that only a claim asks of it."""
        found = list(self._gates[cell])
        known = {gate["metric"] for gate in found}
        for claim in self.plan["claims"]:
            if claim["workload"] == self.cells[cell]["workload"]:
                for metric in claim["metrics"]:
                    if metric not in known:
                        known.add(metric)
                        limit = {"form": "report", "op": None, "value": None}
                        found.append({"metric": metric, "limit": limit, "against": None, "sees": None, "repeats": None})
        return found

    def team_files(self, folder: Path) -> dict[str, str]:
        """Writes the team's files below `folder` (a half-written one is never taken for whole): {path: digest}."""
        digests: dict[str, str] = {}
        for name, text in sorted(self.files.items()):
            data = text.encode()
            digests[name] = sha256_hex(data)
            place = folder / name
            if not place.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"the team's file {name} would lie outside of the evidence folder")
            if place.is_file() and place.read_bytes() == data:
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
            partial.write_bytes(data)
            os.replace(partial, place)
        return digests

    def data_slices(self, folder: Path, beside: str | None) -> None:
        """Links from below `folder` to the data slices that the workloads name, where they are: below `beside` (the
        folder of the spec), or beside the harness file. The data stays there; it never enters a folder of evidence."""
        for row in self.workloads.values():
            told = row["options"].get("data")
            name = str(told["file"]) if isinstance(told, dict) else ""
            place = Path(os.path.normpath(folder / name))
            if not name or folder not in place.parents or (place.exists() and not place.is_symlink()):
                continue
            for start in (*([Path(beside)] if beside else []), self.source.parent):
                if (start / name).is_file():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.unlink(missing_ok=True)
                    place.symlink_to((start / name).resolve())
                    break
