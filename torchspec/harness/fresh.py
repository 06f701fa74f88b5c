"""One cell in fresh processes of each side: errors, memory, determinism, first call, compile and export.

A process is asked for everything its cell needs and its figures are written together, so that an interrupted one is
simply done again. Timing in pairs is `pairs.py`'s.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .again import MORE_PROCESSES, look_again
from .environ import usable_cores
from .forced import forced, write_same_bits
from .frozen_cell import CellOver, FrozenCell, Records
from .looks import crossings, export_gates, exported_file, looks
from .needs import FRESH_PROCESSES, MEMORY_STEPS, SAME_BITS
from .planted_memory import PlantedMemory
from .run import at_once
from .supervise import Unable, Worker, WorkerFailed
from .twice import asked_twice

__all__ = ["MEMORY_STEPS", "CellOver", "FreshCell", "Records"]

RECOMPILE_CALLS = 3


class FreshCell(FrozenCell):
    """Runs one cell's fresh processes and writes what they give."""

    def all(self) -> None:
        """Everything but timing. Raises CellOver where the cell cannot go on."""
        self.freeze()
        begin = time.monotonic()
        for repeat in range(self.needs.processes):
            self._both_sides(repeat, self.needs.processes)
            self.estimate.done(1.0)
        each_s = (time.monotonic() - begin) / self.needs.processes
        if self._look_again(each_s):
            for repeat in range(self.needs.processes, MORE_PROCESSES):
                self._both_sides(repeat, MORE_PROCESSES)
        PlantedMemory(self).take()
        self._determinism()
        forced(self)
        for metric in sorted(self.needs.unknown):
            unmeasured = Unable(f"this harness does not measure {metric}", "backend")
            self.run.unsupported(self.cell, self.run.candidate, metric, unmeasured)

    def _both_sides(self, repeat: int, of: int) -> None:
        failed: dict[str, WorkerFailed] = {}
        self.run.progress.event("doing", what=f"fresh process {repeat + 1} of {of}", side=None)
        alone = self.needs.times_starting or (self.run.shared_meter and bool(self.needs.memory))
        self.each_side(lambda side: self._turn(side, repeat, failed), alone=alone)
        if failed:
            raise self._over(failed)

    def each_side(self, turn: Callable[[str], None], alone: bool = False) -> None:
        """Both sides' turns: side by side where no time is measured (memory, figures and digests do not mind) and there
        are cores for both, otherwise the baseline's first."""
        if alone or len(usable_cores()) < 2 * self.run.embedded.threads:
            for side in self.run.sides:
                turn(side)
            return
        problems = at_once([partial(turn, side) for side in self.run.sides])
        for problem in sorted(problems, key=lambda one: isinstance(one, CellOver)):
            raise problem

    def _look_again(self, each_s: float) -> bool:
        """Whether more processes are taken: some gate is undecided, and they fit into the time of a cell."""
        run, more = self.run, MORE_PROCESSES - self.needs.processes
        if self.needs.processes < FRESH_PROCESSES or self.needs.mode not in ("infer", "train") or run.out_of_time():
            return False
        base, new = (run.past.values.get((self.cell, side), {}) for side in run.sides)
        if any(len(found) > FRESH_PROCESSES for held in (base, new) for found in held.values()):
            return True  # an earlier run began it
        fits = each_s * more <= float(run.embedded.budget["cell_s"])
        return fits and look_again(run.embedded.gates(self.cell), base, new)

    def _turn(self, side: str, repeat: int, failed: dict[str, WorkerFailed]) -> None:
        try:
            if not self._given(side, repeat):
                failure = self._tried_twice(side, repeat)
                if failure is not None:
                    failed[side] = failure
        finally:
            if side == "baseline":
                self.baseline_done.set()

    def _over(self, failed: dict[str, WorkerFailed]) -> CellOver:
        if "baseline" in failed:
            return CellOver("error", f"the baseline failed: {failed['baseline'].error}")
        failure = failed[self.run.candidate]
        return CellOver("failed", f"the candidate {failure.how} twice while doing {failure.doing}: {failure.error}")

    def _given(self, side: str, repeat: int) -> bool:
        """Whether an earlier run already has this process's figures."""
        marks = {"cell": self.cell, "side": side, "metric": "process", "against": None, "repeat": repeat}
        output = self.run.output_file(self.cell, side)
        given = self.run.past.has("sample", **marks) and (repeat > 0 or self.needs.mode == "export" or output.is_file())
        if given:
            self.ran.add(side)
        return given

    def _tried_twice(self, side: str, repeat: int) -> WorkerFailed | None:
        """Runs one process, once more where it failed; the second failure."""
        while True:
            try:
                self.run.write_all(self._process(side, repeat))
                self.ran.add(side)
                return None
            except Unable as reason:
                self.run.unsupported(self.cell, side, None, reason)
                raise CellOver("not_run", f"{side}: {reason}") from reason
            except WorkerFailed as failure:
                if self.run.side_failed(self.cell, failure, side, self._other_ran(side)) >= 2:
                    return failure

    def _other_ran(self, side: str) -> bool:
        """Whether the other side has run this cell so far; the candidate waits until the baseline's turn is over."""
        if side == self.run.candidate:
            self.baseline_done.wait()
        return any(one in self.ran for one in self.run.sides if one != side)

    # One process.

    def _process(self, side: str, repeat: int) -> Records:
        worker = self.run.start(side, f"fresh{repeat}")
        try:
            return self._asked(worker, side, repeat)
        finally:
            worker.close()

    def _asked(self, worker: Worker, side: str, repeat: int) -> Records:
        run, needs, cell, limit = self.run, self.needs, self.cell, self.run.timeout_s
        records: Records = []

        def sample(metric: str, value: Any, unit: str, meter: str, **detail: Any) -> None:
            records.append(("sample", self._sample(side, metric, value, unit, repeat, meter, None, detail)))

        hello = worker.ask("hello", run.start_timeout_s)
        opened = worker.ask("open", limit, name="own", cell=cell, frozen=str(run.frozen_file(cell)))
        self._seen(side, opened)
        if needs.wants("import.time"):
            sample("import.time", hello["import_s"], "s", "perf_counter around import torch")
        if opened["compiles"]:
            compiled = worker.ask("compile", limit, name="own")
            self._compiled(worker, compiled, sample)
            if repeat == 0:  # what is compiled here need not be compiled again for timing
                shutil.copytree(worker.cache, run.timing_cache(side), dirs_exist_ok=True)
        elif needs.wants("latency.first_call") and not needs.memory:
            sample("latency.first_call", worker.ask("first", limit, name="own")["seconds"], "s", "perf_counter")
        if needs.memory:
            if needs.wants("latency.first_call") and not opened["compiles"]:
                records += self._first_call_elsewhere(side, repeat)
            answer = worker.ask("memory", limit, name="own", steps=MEMORY_STEPS, wanted=needs.memory)
            peaks, notes = answer["peaks"], answer["notes"]
            for metric in needs.memory:
                if metric in peaks:
                    unit = "1" if metric == "memory.fragmentation" else "bytes"
                    sample(
                        metric, peaks[metric][0], unit, peaks[metric][1], steps=MEMORY_STEPS, **notes.get(metric, {})
                    )
                else:
                    why = f"this device gives no {metric}"
                    self.run.unsupported(cell, side, metric, Unable(why, "backend"))
        if repeat == 0 and needs.mode == "export":
            exported, found = self._export(worker, side)
            records += found
            if not exported:
                reason = Unable("there is no exported program to compare", "version")
                self._unsupported_errors(side, "export", reason)
                sample("process", 1, "1", "count", digests={})
                return records
            worker.ask("exported", limit, name="own")
        path = run.output_file(cell, side)
        digests = worker.ask("outputs", limit, name="own", path=str(path), gradients=needs.train)
        if repeat == 0 and needs.wants("loss.final"):
            records += self._losses(worker, side)
        if needs.repeats:
            again = worker.ask("repeats", limit, name="own", count=needs.repeats_each, gradients=needs.train)["digests"]
            sample("process.digests", 0, "1", "sha256", digests={k: [digests[k], *v] for k, v in again.items()})
        if repeat == 0 and needs.errors:  # last, since the candidate waits here for the baseline's output
            records += self._errors(worker, side, path)
        records += looks(self, worker, side, repeat)
        sample("process", 1, "1", "count", digests=digests)
        return records

    def _first_call_elsewhere(self, side: str, repeat: int) -> Records:
        """The first call in a process of its own, where the cell's own process measures memory from its first step."""
        worker = self.run.start(side, f"first{repeat}")
        try:
            worker.ask("hello", self.run.start_timeout_s)
            frozen = str(self.run.frozen_file(self.cell))
            worker.ask("open", self.run.timeout_s, name="own", cell=self.cell, frozen=frozen)
            seconds = worker.ask("first", self.run.timeout_s, name="own")["seconds"]
        finally:
            worker.close()
        return [("sample", self._sample(side, "latency.first_call", seconds, "s", repeat, "perf_counter", None, {}))]

    def _compiled(self, worker: Worker, compiled: dict[str, Any], sample: Any) -> None:
        wants = self.needs.wants
        if wants("compile.time") or wants("latency.first_call"):
            sample("compile.time", compiled["seconds"], "s", "first compiled call, empty cache")
        if wants("latency.first_call"):
            sample("latency.first_call", compiled["seconds"], "s", "first compiled call, empty cache")
        if wants("compile.graph_breaks"):
            sample(
                "compile.graph_breaks", compiled["graph_breaks"], "count", "dynamo counters",
                reasons=compiled["break_reasons"], graphs=compiled["graphs"],
            )  # fmt: skip
        if wants("compile.recompiles"):
            self._recompiles(worker, sample)
        if wants("compile.time_warm"):
            sample("compile.time_warm", self._warm_compile(worker), "s", "first compiled call, warm cache")

    def _recompiles(self, worker: Worker, sample: Any) -> None:
        try:
            again = worker.ask("recompiles", self.run.timeout_s, name="own", calls=RECOMPILE_CALLS)
        except Unable as reason:
            self.run.unsupported(self.cell, worker.side, "compile.recompiles", reason)
            return
        detail = {name: again[name] for name in ("reasons", "calls", "shapes")}
        sample("compile.recompiles", again["recompiles"], "count", "dynamo counters", **detail)

    def _warm_compile(self, worker: Worker) -> float:
        """Compiles once more in a fresh process that finds the first one's cache."""
        warm = self.run.start(worker.side, "warm", cache=worker.cache)
        try:
            warm.ask("hello", self.run.start_timeout_s)
            frozen = str(self.run.frozen_file(self.cell))
            warm.ask("open", self.run.timeout_s, name="own", cell=self.cell, frozen=frozen)
            return float(warm.ask("compile", self.run.timeout_s, name="own")["seconds"])
        finally:
            warm.close()

    def _export(self, worker: Worker, side: str) -> tuple[bool, Records]:
        """Export round trip here, and reload in a process that knows nothing of it; whether there is a program."""
        run, limit = self.run, self.run.timeout_s
        path = run.output_file(self.cell, side, "exported").with_suffix(".pt2")
        records = []
        trip = worker.ask("export", limit, name="own", path=str(path))
        if self.needs.wants("export.roundtrip"):
            records.append(self._fact(side, "export.roundtrip", trip))
        if self.needs.wants("export.reload"):
            if trip["stage"] in ("export", "save"):
                found = {"holds": False, "stage": trip["stage"], "error": trip["error"]}
                records.append(self._fact(side, "export.reload", found))
            else:
                records += self.reloaded("export.reload", side, side, path)
        records += crossings(self, side, path, trip)
        records += export_gates(self, worker, side, path)
        return trip["stage"] != "export", records

    def reloaded(self, metric: str, side: str, reader: str, path: Path) -> Records:
        """The fact of `side` that `reader` loads and runs an exported file; nothing where that is unsupported."""
        own = exported_file(self.run, self.cell, "baseline")
        alone = partial(self._reload, "baseline", own) if reader == "baseline" and own.is_file() else None
        try:
            found = asked_twice(
                self.run, self.cell, side, partial(self._reload, reader, path), reads=("reload",), alone=alone,
                other_ran=bool(self.ran),
            )  # fmt: skip
        except Unable as reason:
            self.run.unsupported(self.cell, side, metric, reason)
            return []
        if found.get("stage") == "reload":
            found["stage"] = "load"
        return [self._fact(side, metric, found)]

    def _reload(self, side: str, path: Path) -> dict[str, Any]:
        """Loads and runs an exported file in a fresh process of `side`. Raises WorkerFailed."""
        worker = self.run.start(side, "reload")
        try:
            worker.ask("hello", self.run.start_timeout_s)
            frozen = str(self.run.frozen_file(self.cell))
            worker.ask("open", self.run.timeout_s, name="own", cell=self.cell, frozen=frozen)
            return worker.ask("reload", self.run.timeout_s, name="own", path=str(path))
        finally:
            worker.close()

    def _determinism(self) -> None:
        """Facts over all fresh processes and repeats of each side."""
        write_same_bits(self, "process.digests", {p: m for m, p in SAME_BITS.items() if self.needs.wants(m)})
