"""What a fresh process is asked beyond the usual: further export gates, where graphs break, and the path taken.

Must not time anything, and comes after everything that is measured in the same process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .supervise import Unable, Worker

#: metric -> what a worker is asked, and the ending of the file that it writes.
EXPORT_GATES = {
    "export.dynamic": ("dynamic_export", None),
    "export.aot_package": ("aot_package", ".aot.pt2"),
    "export.onnx": ("onnx_parity", ".onnx"),
}


def export_gates(cell: Any, worker: Worker, side: str, path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Facts of the further export gates that `cell` (a FreshCell) wants; `path` is that of its exported program."""
    records = []
    for metric, (ask, ending) in EXPORT_GATES.items():
        if not cell.needs.wants(metric):
            continue
        file = {"path": str(path.with_suffix(ending))} if ending else {}
        try:
            found = worker.ask(ask, cell.run.timeout_s, name="own", **file)
        except Unable as reason:
            cell.run.unsupported(cell.cell, side, metric, reason)
            continue
        records.append(cell._fact(side, metric, found))
    return records


def looks(cell: Any, worker: Worker, side: str, repeat: int) -> list[tuple[str, dict[str, Any]]]:
    """Samples of what was seen of one step: operators on the host, where graphs break, operators and path."""
    records: list[tuple[str, dict[str, Any]]] = []

    def ask(what: str) -> dict[str, Any]:
        found = worker.ask(what, cell.run.timeout_s, name="own")
        return {key: value for key, value in found.items() if key != "ok"}

    def sample(metric: str, value: Any, meter: str, detail: dict[str, Any]) -> None:
        records.append(("sample", cell._sample(side, metric, value, "count", repeat, meter, None, detail)))

    if cell.needs.wants("fallback.operators"):
        found = ask("fallbacks")
        sample("fallback.operators", sum(found["operators"].values()), "dispatch and warnings", found)
    if repeat == 0 and cell.needs.mode == "compile" and cell.needs.wants("compile.graph_breaks"):
        found = ask("break_places")
        sample("compile.graph_breaks.places", len(found["places"]), "dynamo explain", found)
    if repeat == 0 and cell.needs.mode in ("infer", "train"):
        found = ask("trace")
        sample("path", found["calls"], "dispatch of one step", found)
    return records
