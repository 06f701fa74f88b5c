"""The rehearsal of going back: the baseline started anew, reading what the candidate wrote, doing its own work again.

Each step is timed and recorded. The smoke cell of a workload is one that steps by itself; where it has none, a compiled
one, and then an exported one, run as it was measured; of several the first with the most ranks. A checkpoint is read by
the baseline for each workload that has weights, of a training cell where there is one; an exported program for each
that has a cell in the mode export. The judge wants the same steps. Where the old environment was rebuilt from its lock
for this (that is done and timed by whoever started the run), its steps come first, and the rest runs on what was made.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .graph import told_apart
from .modes import BACKWARD, COMPILED
from .restored import all_finite, restored_problem
from .run import Run
from .supervise import Unable, Worker, WorkerFailed
from .switches import throw

#: Modes whose work steps by itself, and whose work has an exported program.
STEPS, EXPORTS = ("infer", "train"), ("export",)
#: In which of its modes a workload saves its state: where it has an optimizer, before others.
STATES = (("train",), ("train_compiled",), ("infer",), ("compile",), EXPORTS)
#: The digest of no weights at all: there is nothing that a checkpoint could hold.
NO_WEIGHTS = hashlib.sha256().hexdigest()
#: Steps of ranks before their checkpoint, and behind it.
STEPS_BEFORE, STEPS_BEHIND = 2, 2


class StepFailed(Exception):
    """A step ran and did not hold."""


class Rehearsal:
    """Runs the steps that the plan asks for and the ledger does not have."""

    def __init__(self, run: Run, rebuilt: Mapping[str, Any] | None = None) -> None:
        self.run = run
        self.rebuilt = rebuilt or {}
        self.plan: dict[str, Any] = run.embedded.plan["rollback"] or {}
        self.workers: dict[str, Worker] = {}
        self.hello: dict[str, dict[str, Any]] = {}

    def cells_of(self, *preferred: tuple[str, ...]) -> list[str]:
        """One measured cell of each workload: in the first group of modes that it has any of, that of most ranks."""
        chosen: dict[str, str] = {}
        known = self.run.embedded.cells
        measured = [c for c in known if self.run.past.done.get(c, {}).get("status") == "measured"]
        for modes in preferred:
            fitting = [c for c in measured if known[c]["mode"] in modes and known[c]["workload"] not in chosen]
            for cell in sorted(fitting, key=lambda c: -int(known[c]["axes"].get("ranks", 1))):
                chosen.setdefault(known[cell]["workload"], cell)
        return [cell for cell in measured if chosen.get(known[cell]["workload"]) == cell]

    def _keeps_state(self, cell: str) -> bool:
        """Whether the frozen work has weights, which a checkpoint holds."""
        return bool(self.run.past.frozen.get(cell, {}).get("weights") != NO_WEIGHTS)

    def steps(self) -> list[tuple[str, str | None, Callable[[], dict[str, Any]]]]:
        """(step, cell, what it does) of everything that is asked for, in order."""
        found: list[tuple[str, str | None, Callable[[], dict[str, Any]]]] = [("restore", None, self._restore)]
        smoke = self.cells_of(STEPS, COMPILED, EXPORTS)
        found += [("smoke", cell, partial(self._smoke, cell)) for cell in smoke]
        if "checkpoint" in self.plan["reload"]:
            states = self.cells_of(*STATES)
            read = self._ranks_checkpoint if self.run.embedded.plan["backend"].get("over") else self._checkpoint
            found += [("reload.checkpoint", cell, partial(read, cell)) for cell in states if self._keeps_state(cell)]
        if "export" in self.plan["reload"]:
            found += [("reload.export", cell, partial(self._export, cell)) for cell in self.cells_of(EXPORTS)]
        for cell in smoke:
            if (lane := self._lane(cell)) is not None:
                found.append(("switch", cell, partial(self._throw, cell, lane)))
        return found

    def held(self, step: str, cell: str | None) -> bool:
        """Whether the ledger has this step, and it held."""
        known = self.run.past.steps.get((step, cell))
        return known is not None and bool(known["ok"])

    def open(self) -> bool:
        """Whether anything is still to be rehearsed. Before a cell was measured, there is not."""
        if not self.plan:
            return False
        measured = any(done.get("status") == "measured" for done in self.run.past.done.values())
        wanted: list[tuple[str, str | None]] = [(body["step"], None) for body in self.rebuilt.get("steps", ())]
        wanted += [(step, cell) for step, cell, _ in self.steps()] if measured else []
        return not all(self.held(step, cell) for step, cell in wanted)

    def all(self) -> None:
        """Runs what is open. Nothing to rehearse where no cell was measured."""
        if not self.plan or not self.run.environments:
            return
        self.take_rebuilt()
        try:
            for step, cell, do in self.steps():
                self._step(step, cell, do)
        finally:
            for worker in self.workers.values():
                worker.close()

    def note_rebuilding(self) -> None:
        """Writes down how rebuilding the baseline went, before anything is measured: it is over by then."""
        for body in self.rebuilt.get("steps", ()):
            if not self.held(body["step"], None):
                self.run.write("rehearsal.step", {"candidate": self.run.candidate, **body})

    def take_rebuilt(self) -> None:
        """From now on the baseline is what was rebuilt, where it was."""
        if self.rebuilt.get("python"):
            self.run.pythons = {**self.run.pythons, "baseline": str(self.rebuilt["python"])}

    def _step(self, step: str, cell: str | None, do: Callable[[], dict[str, Any]]) -> None:
        """Runs and records one step, unless it is there and held."""
        if self.held(step, cell):
            return
        label = self.run.embedded.cells[cell]["label"] if cell else ""
        what = f"rollback rehearsal: {step.replace('.', ' ')} {label}".rstrip()
        self.run.progress.event("doing", what=what, side="baseline")
        start = time.monotonic()
        detail: dict[str, Any] = {}
        error: str | None = None
        try:
            detail = do()
        except (WorkerFailed, Unable, StepFailed) as failure:
            error = getattr(failure, "error", None) or str(failure)
        body = {"candidate": self.run.candidate, "step": step, "cell": cell, "ok": error is None}
        seconds = time.monotonic() - start
        self.run.write("rehearsal.step", {**body, "seconds": seconds, "detail": detail, "error": error})

    def _worker(self, side: str) -> Worker:
        """One fresh worker a side for all steps; another one where a step has ended it."""
        held = self.workers.get(side)
        if held is None or held.ended:
            held = self.run.start(side, "rehearsal")
            self.workers[side] = held
            self.hello[side] = held.ask("hello", self.run.start_timeout_s)["environment"]
        return held

    def _opened(self, side: str, cell: str) -> Worker:
        worker = self._worker(side)
        frozen = str(self.run.frozen_file(cell))
        worker.ask("open", self.run.timeout_s, name="own", cell=cell, frozen=frozen)
        return worker

    def _restore(self) -> dict[str, Any]:
        """Starts the baseline anew and checks that it is the environment that was measured."""
        self._worker("baseline")
        found, before = self.hello["baseline"], self.run.environments["baseline"]
        for part in ("python", "torch", "packages", "executable"):
            if found[part] != before[part]:
                raise StepFailed(f"the baseline's {part} is no longer what was measured")
        return {
            "torch": found["torch"]["version"],
            "python": found["python"],
            "environment": "rebuilt from its lock" if self.rebuilt.get("python") else "the one that was measured",
        }

    def _as_measured(self, worker: Worker, cell: str) -> None:
        """Has the opened work compiled, or replaced by its exported program, where that is what was measured."""
        mode = self.run.embedded.cells[cell]["mode"]
        prepare = "compile" if mode in COMPILED else "exported" if mode in EXPORTS else None
        if prepare is not None:
            worker.ask(prepare, self.run.timeout_s, name="own")

    def _same_output(self, worker: Worker, cell: str, name: str) -> dict[str, Any]:
        """The baseline's output now against what it gave when it was measured."""
        run = self.run
        path = run.output_file(cell, "baseline", f"rehearsal-{name}")
        train = run.embedded.cells[cell]["mode"] in BACKWARD
        if not run.output_file(cell, "baseline").is_file():
            raise StepFailed("the baseline gave no output of this cell when it was measured")
        self._as_measured(worker, cell)
        worker.ask("outputs", run.timeout_s, name="own", path=str(path), gradients=train)
        before = str(run.output_file(cell, "baseline"))
        found = worker.ask("same", run.timeout_s, values=str(path), references=before)
        worker.ask("close", run.timeout_s, name="own")
        if not found["same"]:
            apart = f"the output differs by {found['max_rel']} of its size, more than {found['tolerance']}"
            raise StepFailed(told_apart(apart, found))
        return {"bit_identical": found["bit_identical"], "max_rel": found["max_rel"]}

    def _smoke(self, cell: str) -> dict[str, Any]:
        return self._same_output(self._opened("baseline", cell), cell, "smoke")

    def _checkpoint(self, cell: str) -> dict[str, Any]:
        """The candidate saves its state (and optimizer, in training); the baseline loads it, holds the same, goes on
        with a step of the optimizer, and reproduces its own output from the weights."""
        run, limit = self.run, self.run.timeout_s
        path = run.output_file(cell, run.candidate, "checkpoint")
        writer = self._opened(run.candidate, cell)
        parts = writer.ask("checkpoint", limit, name="own", path=str(path))["parts"]
        writer.ask("close", limit, name="own")
        reader = self._opened("baseline", cell)
        restored = reader.ask("restore", limit, name="own", path=str(path))
        if (problem := restored_problem(restored, parts)) is not None:
            raise StepFailed(f"the baseline with the candidate's checkpoint: {problem}")
        return {"parts": parts, "bytes": path.stat().st_size, **self._same_output(reader, cell, "checkpoint")}

    def _ranks_checkpoint(self, cell: str) -> dict[str, Any]:
        """All ranks of the candidate save their state; the baseline's load it in shards and whole, and go on."""
        run, limit = self.run, self.run.timeout_s
        root = run.scratch / "rehearsal" / cell
        writer = self._opened(run.candidate, cell)
        shape = {"name": "own", "further": STEPS_BEHIND}
        written = writer.ask("checkpoint.write", limit, root=str(root), steps=STEPS_BEFORE, **shape)
        writer.ask("close", limit, name="own")
        reader = self._opened("baseline", cell)
        losses = {"written": written["losses"]}
        for form in ("sharded", "whole"):
            read = reader.ask("checkpoint.read", limit, path=written["path"], form=form, index=STEPS_BEFORE, **shape)
            for part in ("model", "optimizer"):
                if read["digests"][part] != written["digests"][part]:
                    raise StepFailed(f"{form}: the {part} that the baseline loaded is not what the candidate saved")
            if not all_finite(read["losses"]):
                raise StepFailed(f"{form}: the losses behind the candidate's checkpoint are not finite")
            losses[form] = read["losses"]
        reader.ask("close", limit, name="own")
        shutil.rmtree(root, ignore_errors=True)
        return {"ranks": run.embedded.cells[cell]["axes"].get("ranks", 1), "bytes": written["bytes"], "losses": losses}

    def _export(self, cell: str) -> dict[str, Any]:
        """The baseline loads and runs the program that the candidate exported."""
        run = self.run
        path = run.output_file(cell, run.candidate, "exported").with_suffix(".pt2")
        if not path.is_file():
            trip = self._opened(run.candidate, cell).ask("export", run.timeout_s, name="own", path=str(path))
            if not trip["holds"]:
                raise StepFailed(f"the candidate exported no program: {trip['stage']}: {trip['error']}")
        worker = self._opened("baseline", cell)
        found = worker.ask("reload", run.timeout_s, name="own", path=str(path))
        worker.ask("close", run.timeout_s, name="own")
        if not found["holds"]:
            raise StepFailed(f"{found['stage']}: {found['error']}")
        return {"max_rel": found["max_rel"], "bytes": path.stat().st_size}

    def _lane(self, cell: str) -> dict[str, Any] | None:
        """The lane that this cell's workload runs in, where it does."""
        workload = self.run.embedded.workloads[self.run.embedded.cells[cell]["workload"]]
        lanes: dict[str, dict[str, Any]] = {lane["name"]: lane for lane in self.run.embedded.plan["lanes"]}
        return lanes.get(workload["lane"]) if workload["lane"] else None

    def _throw(self, cell: str, lane: dict[str, Any]) -> dict[str, Any]:
        """Throws the off switch of a lane's workload: the candidate must still run, right, and another way."""
        found = throw(self.run, cell, lane["disable_env"], lambda worker: self._as_measured(worker, cell))
        if (problem := found.pop("problem")) is not None:
            raise StepFailed(problem)
        return found
