"""The control of memory gates: the baseline once more in a fresh process, holding so many bytes more while it works.

It shows whether a meter sees memory that is known to be there. Must not judge: that the figure is beyond the gate's
limit is the judge's to say.
"""

from __future__ import annotations

import math
from typing import Any

from .frozen_cell import FrozenCell
from .needs import MEMORY_STEPS
from .sequential import median
from .sides import USUAL_SEES
from .supervise import Unable, Worker, WorkerFailed

PLANTABLE = ("memory.driver_peak", "memory.reserved_peak", "memory.allocated_peak")
#: Planted at least: pages and an allocator's blocks are not told apart below.
LEAST_BYTES = 1 << 20
#: Processes that are asked, as many as for the plain figures, where the first does not show what was planted.
PROCESSES = 3


def planted_bytes(gate: dict[str, Any], plain: float) -> int | None:
    """What a memory gate's control plants, given the baseline's own peak in bytes: `sees`, or twice the limit. None for
    a gate without such a control."""
    form, value, sees = gate["limit"]["form"], gate["limit"]["value"], gate.get("sees")
    if gate["metric"] not in PLANTABLE or gate.get("against") not in (None, "baseline") or value is None:
        return None
    if form == "growth":
        share = float(sees) if sees is not None else value + max(value, USUAL_SEES)
        wanted = share * plain
    elif form == "increase":
        wanted = float(sees) if sees is not None else 2.0 * value
    else:
        return None
    return max(LEAST_BYTES, math.ceil(wanted))


def shows(gate: dict[str, Any], plain: float, value: float) -> bool:
    """Whether a figure is beyond the gate's limit from the baseline's own. The judge says the same of the median."""
    bound = float(gate["limit"]["value"])
    return value > (plain * (1.0 + bound) if gate["limit"]["form"] == "growth" else plain + bound)


class PlantedMemory:
    """Takes the control of each memory metric of one cell, all in one fresh process; in two more where the first does
    not show it: a meter that is now and then lower by a block is not blind."""

    processes = PROCESSES

    def __init__(self, cell: FrozenCell) -> None:
        self.cell, self.run = cell, cell.run

    def take(self) -> None:
        """Measures and records what is wanted and not there yet."""
        wanted = {metric: count for metric, count in self._wanted().items() if not self._taken(metric)}
        if not wanted:
            return
        error: str | None = None
        found: dict[str, list[tuple[float, str]]] = {metric: [] for metric in wanted}
        left = wanted
        for _ in range(self.processes):
            if self.run.out_of_time():
                error = "the time for the whole run was spent before it"
                break
            try:
                for metric, one in self._measured(left).items():
                    found[metric].append(one)
            except (WorkerFailed, Unable) as failure:
                error = str(failure)
                break
            left = {metric: count for metric, count in left.items() if self._unseen(metric, found[metric])}
            if not left:
                break
        records: list[tuple[str, dict[str, Any]]] = []
        for metric, count in wanted.items():
            why = error or f"this device gives no {metric}"
            body = {"cell": self.cell.cell, "candidate": self.run.candidate, "metric": metric, "what": "planted"}
            planted: dict[str, Any] = {"planted": None, "timing": [], "bytes": count}
            for value, meter in found[metric]:
                records.append(("control", {**body, **planted, "value": value, "meter": meter, "error": None}))
            if not found[metric]:
                records.append(("control", {**body, **planted, "value": None, "meter": None, "error": why}))
        self.run.write_all(records)

    def _unseen(self, metric: str, taken: list[tuple[float, str]]) -> bool:
        """Whether the first figure is there and not beyond the limit of each gate that has this control."""
        plain = median(self.run.past.values[self.cell.cell, "baseline"][metric])
        gates = [gate for gate in self.run.embedded.gates(self.cell.cell) if gate["metric"] == metric]
        gates = [gate for gate in gates if planted_bytes(gate, plain) is not None]
        return bool(taken) and not all(shows(gate, plain, taken[0][0]) for gate in gates)

    def _taken(self, metric: str) -> bool:
        return (self.cell.cell, metric, "planted", None) in self.run.past.controls

    def _wanted(self) -> dict[str, int]:
        """{metric: bytes to plant}: as many as the gate needs that needs the most. Nothing where the baseline has no
        figure."""
        own = self.run.past.values.get((self.cell.cell, "baseline"), {})
        wanted: dict[str, int] = {}
        for gate in self.run.embedded.gates(self.cell.cell):
            if own.get(gate["metric"]):
                count = planted_bytes(gate, median(own[gate["metric"]]))
                if count is not None:
                    wanted[gate["metric"]] = max(count, wanted.get(gate["metric"], 0))
        return dict(sorted(wanted.items(), key=lambda item: PLANTABLE.index(item[0])))

    def _measured(self, wanted: dict[str, int]) -> dict[str, tuple[float, str]]:
        """The meter of the process comes first: a later one finds memory that the steps before have left."""
        run = self.run
        run.progress.event("doing", what="control of memory", side="baseline")
        known = run.timing_cache("baseline")  # what is compiled here was compiled before
        worker = run.start("baseline", "planted-memory", cache=known if known.is_dir() else None)
        try:
            worker.ask("hello", run.start_timeout_s)
            return self._peaks(worker, wanted)
        finally:
            worker.close()

    def _peaks(self, worker: Worker, wanted: dict[str, int]) -> dict[str, tuple[float, str]]:
        """{metric: (bytes, meter)} of the work, built anew in this worker, with so many bytes more."""
        limit = self.run.timeout_s
        found: dict[str, tuple[float, str]] = {}
        frozen = str(self.run.frozen_file(self.cell.cell))
        opened = worker.ask("open", limit, name="own", cell=self.cell.cell, frozen=frozen)
        if opened["compiles"]:
            worker.ask("compile", limit, name="own")
        for metric, count in wanted.items():
            asked = {"name": "own", "steps": MEMORY_STEPS, "wanted": [metric], "planted": count}
            peaks = worker.ask("memory", limit, **asked)["peaks"]
            if metric in peaks:
                found[metric] = (float(peaks[metric][0]), str(peaks[metric][1]))
        return found
