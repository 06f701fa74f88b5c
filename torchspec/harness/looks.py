"""What a fresh process is asked beyond the usual: further export gates, where graphs break, and the path taken.

Comes after everything that is measured in the same process.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

from .modes import COMPILED
from .restored import restored_problem
from .run import Run
from .supervise import Unable, Worker
from .twice import asked_twice

#: Requests whose first token is timed in each fresh process: the fewest that have a 95th percentile below the largest.
FIRST_TOKENS = 20
#: metric -> what a worker is asked, and the ending of the file that it writes.
EXPORT_GATES = {
    "export.dynamic": ("dynamic_export", None),
    "export.aot_package": ("aot_package", ".aot.pt2"),
    "export.onnx": ("onnx_parity", ".onnx"),
}


def exported_file(run: Run, cell: str, side: str) -> Path:
    """Where the program lies that a side exported from a cell."""
    return run.output_file(cell, side, "exported").with_suffix(".pt2")


def crossings(cell: Any, side: str, path: Path, trip: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Facts of programs that one side exported and the other loads and runs, as the gates ask.

    Taken with the candidate, which exported to `path` and came as far as `trip` says."""
    run, records = cell.run, []
    if side != run.candidate:
        return []
    if cell.needs.wants("export.candidate_to_baseline"):
        if trip["stage"] in ("export", "save"):
            found = {"holds": False, "stage": trip["stage"], "error": trip["error"]}
            records.append(cell._fact(side, "export.candidate_to_baseline", found))
        else:
            records += cell.reloaded("export.candidate_to_baseline", side, "baseline", path)
    if cell.needs.wants("export.baseline_to_candidate"):
        cell.baseline_done.wait()
        older = exported_file(run, cell.cell, "baseline")
        if older.is_file():
            records += cell.reloaded("export.baseline_to_candidate", side, side, older)
        else:
            reason = Unable("the baseline exported no program that could be loaded", "version")
            run.unsupported(cell.cell, side, "export.baseline_to_candidate", reason)
    return records


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


def ask_first_tokens(cell: Any, worker: Worker) -> list[float]:
    """Seconds to the first token, several times in this process."""
    found = worker.ask("first_tokens", cell.run.timeout_s, name="own", count=FIRST_TOKENS)
    return [float(value) for value in found["seconds"]]


def looks(cell: Any, worker: Worker, side: str, repeat: int) -> list[tuple[str, dict[str, Any]]]:
    """Samples of what was seen of one step: operators on the host, where graphs break, operators and path."""
    records: list[tuple[str, dict[str, Any]]] = []

    def ask(what: str) -> dict[str, Any]:
        found = worker.ask(what, cell.run.timeout_s, name="own")
        return {key: value for key, value in found.items() if key != "ok"}

    def sample(metric: str, value: Any, meter: str, detail: dict[str, Any]) -> None:
        records.append(("sample", cell._sample(side, metric, value, "count", repeat, meter, None, detail)))

    quantiles = {"latency.first_token_p50": 0.5, "latency.first_token_p95": 0.95}
    if any(cell.needs.wants(metric) for metric in quantiles):
        wanted = [metric for metric in quantiles if cell.needs.wants(metric)]
        try:
            seconds = sorted(ask_first_tokens(cell, worker))
        except Unable as reason:
            for metric in wanted:
                cell.run.unsupported(cell.cell, side, metric, reason)
            wanted = []
        for metric, share in quantiles.items():
            if metric in wanted:
                value = seconds[max(0, math.ceil(share * len(seconds)) - 1)]
                meter = f"perf_counter, nearest rank of {len(seconds)}"
                body = cell._sample(side, metric, value, "s", repeat, meter, None, {"seconds": seconds})
                records.append(("sample", body))
    if repeat == 0 and cell.needs.wants("task.accuracy"):
        try:
            found = ask("accuracy")
            body = cell._sample(side, "task.accuracy", found["value"], "1", repeat, found["by"], None, {})
            records.append(("sample", body))
        except Unable as reason:
            cell.run.unsupported(cell.cell, side, "task.accuracy", reason)
    if cell.needs.wants("fallback.operators"):
        try:
            found = ask("fallbacks")
            sample("fallback.operators", sum(found["operators"].values()), "dispatch and warnings", found)
        except Unable as reason:
            cell.run.unsupported(cell.cell, side, "fallback.operators", reason)
    if repeat == 0 and cell.needs.mode in COMPILED and cell.needs.wants("compile.graph_breaks"):
        found = ask("break_places")
        sample("compile.graph_breaks.places", len(found["places"]), "dynamo explain", found)
    if repeat == 0 and side == cell.run.candidate:
        records += checkpoints(cell)
    if repeat == 0 and cell.needs.mode in ("infer", "train"):
        found = ask("trace")
        sample("path", found["calls"], "dispatch of one step", found)
    return records


def checkpoints(cell: Any) -> list[tuple[str, dict[str, Any]]]:
    """Facts of state written by one side and read by the other, each in a fresh process, both ways as the gates ask."""
    run = cell.run
    ways = {
        "checkpoint.candidate_to_baseline": (run.candidate, "baseline"),
        "checkpoint.baseline_to_candidate": ("baseline", run.candidate),
    }
    records = []
    for metric, (writer, reader) in ways.items():
        if not cell.needs.wants(metric):
            continue

        def cross(writer: str = writer, reader: str = reader) -> dict[str, Any]:
            path = run.output_file(cell.cell, writer, "state")
            saved = _state(cell, writer, "checkpoint", path)
            told = {"stage": "load", "parts": saved["parts"], "bytes": path.stat().st_size}
            loaded = _state(cell, reader, "restore", path)
            error = restored_problem(loaded, saved["parts"])
            return {"holds": error is None, "error": error, **told}

        try:
            found = asked_twice(
                run, cell.cell, run.candidate, cross, reads=("restore",), writes=("checkpoint",),
                alone=partial(cross, "baseline", "baseline"), other_ran=bool(cell.ran),
            )  # fmt: skip
        except Unable as reason:
            run.unsupported(cell.cell, run.candidate, metric, reason)
            continue
        found["stage"] = {"restore": "load", "checkpoint": "save"}.get(found["stage"], found["stage"])
        records.append(cell._fact(run.candidate, metric, found))
    return records


def _state(cell: Any, side: str, do: str, path: Path) -> dict[str, Any]:
    """Saves (`checkpoint`) or loads and goes on (`restore`) in a fresh process of `side`."""
    worker = cell.run.start(side, do)
    try:
        worker.ask("hello", cell.run.start_timeout_s)
        frozen = str(cell.run.frozen_file(cell.cell))
        worker.ask("open", cell.run.timeout_s, name="own", cell=cell.cell, frozen=frozen)
        answer: dict[str, Any] = worker.ask(do, cell.run.timeout_s, name="own", path=str(path))
        return answer
    finally:
        worker.close()
