"""A lane's off switch, thrown: with it the candidate runs, another way, and gives what it should.

A variable that is misspelt is read by nobody: the work runs as before, and nothing about it shows. So the same work is
looked at with the switch and without it, each in a fresh process, and must differ in its bits or in the operators of
one step. Must not decide what is rehearsed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .graph import told_apart
from .modes import BACKWARD
from .run import Run
from .supervise import Unable, Worker

#: Repeats without the switch, that tell whether the work gives the same bits at all.
REPEATS = 2


class Look:
    """What was seen of a cell's work in one process: where its output lies, its results' digests, its operators."""

    def __init__(self) -> None:
        self.output: Path | None = None
        self.other: Path | None = None  # the output of what stands beside it
        self.digests: dict[str, set[str]] = {}
        self.operators: tuple[Any, Any] | None = None
        self.why: str | None = None  # it has no output


def throw(run: Run, cell: str, variables: dict[str, str], prepare: Callable[[Worker], None]) -> dict[str, Any]:
    """Runs a cell's work with `variables` set and without: {"problem": why the switch does not hold, or None, ...}.

    `prepare` has the opened work compiled or exported, where that is what was measured.
    """
    look = Looking(run, cell, prepare)
    plain, thrown = look.at("plain", {}), look.at("thrown", variables)
    said = ", ".join(f"{name}={value}" for name, value in sorted(variables.items()))
    told: dict[str, Any] = {"env": sorted(variables), "changed": changes(plain, thrown)}
    reference, what = (thrown.other, "what stands beside it") if thrown.other else (plain.output, "the work without it")
    if thrown.output is not None and reference is not None:
        found = look.held_against(thrown.output, reference)
        told |= {"against": what, "max_rel": found["max_rel"], "tolerance": found["tolerance"]}
        if not found["same"]:
            apart = f"by {found['max_rel']:.3g} of its size, more than {found['tolerance']:.3g}"
            told["problem"] = told_apart(f"with {said} the output differs from that of {what} {apart}", found)
            return told
    told["problem"] = None
    if not told["changed"]:
        told["problem"] = (
            f"the switch changed nothing that can be seen: with {said} the results have the same bits and one step "
            "calls the same operators. If the name and the value are those that the code reads, let the two ways "
            "differ in an operator, such as one of torch.library.custom_op, which is seen by its name"
        )
    return told


def changes(plain: Look, thrown: Look) -> list[str]:
    """In what two looks differ: "bits of output", "operators". Bits that vary without the switch tell nothing."""
    found = []
    for part, bits in sorted(thrown.digests.items()):
        before = plain.digests.get(part, set())
        if len(before) == 1 and len(bits) == 1 and bits != before:
            found.append(f"bits of {part}")
    if plain.operators is not None and thrown.operators is not None and plain.operators != thrown.operators:
        found.append("operators")
    return found


class Looking:
    """Fresh processes of the candidate that do one cell's work."""

    def __init__(self, run: Run, cell: str, prepare: Callable[[Worker], None]) -> None:
        self.run, self.cell, self.prepare = run, cell, prepare
        row = run.embedded.cells[cell]
        self.train = row["mode"] in BACKWARD
        self.beside = run.embedded.workloads[row["workload"]]["beside"]
        #: Ranks are not watched: their operators are those of many processes.
        self.watched = not run.embedded.plan["backend"].get("over")

    def at(self, name: str, variables: dict[str, str]) -> Look:
        """One process with `variables` set."""
        run, seen = self.run, Look()
        worker = run.start(run.candidate, f"switch-{name}", extra=variables)
        try:
            worker.ask("hello", run.start_timeout_s)
            self._open(worker, "own")
            self.prepare(worker)
            worker.ask("first", run.timeout_s, name="own")
            seen.output = self._output(worker, "own", name, seen)
            if self.watched:
                trace = worker.ask("trace", run.timeout_s, name="own")
                if not trace.get("error"):
                    seen.operators = trace.get("operators"), trace.get("path")
            if variables and self.beside and seen.output is not None:
                seen.other = self._beside(worker)
        finally:
            worker.close()
        return seen

    def _open(self, worker: Worker, name: str) -> None:
        frozen = str(self.run.frozen_file(self.cell))
        worker.ask("open", self.run.timeout_s, name=name, cell=self.cell, frozen=frozen, variant=name)

    def _output(self, worker: Worker, of: str, name: str, seen: Look) -> Path | None:
        """Where the output of one run lies, its digests and those of repeats noted; None for work without outputs."""
        run = self.run
        path = run.output_file(self.cell, run.candidate, f"switch-{name}")
        try:
            answer = worker.ask("outputs", run.timeout_s, name=of, path=str(path), gradients=self.train)
        except Unable:
            return None
        seen.digests = {part: {str(answer[part])} for part in ("output", "gradient") if part in answer}
        again = worker.ask("repeats", run.timeout_s, name=of, count=REPEATS, gradients=self.train)["digests"]
        for part, digests in again.items():
            seen.digests.setdefault(part, set()).update(map(str, digests))
        return path

    def _beside(self, worker: Worker) -> Path | None:
        run, path = self.run, self.run.output_file(self.cell, self.run.candidate, "switch-beside")
        try:
            self._open(worker, "beside")
            worker.ask("outputs", run.timeout_s, name="beside", path=str(path), gradients=self.train)
        except Unable:
            return None
        return path

    def held_against(self, output: Path, reference: Path) -> dict[str, Any]:
        """Whether two outputs are the same, as a process of the candidate says."""
        worker = self.run.start(self.run.candidate, "switch-compare")
        try:
            worker.ask("hello", self.run.start_timeout_s)
            return worker.ask("same", self.run.timeout_s, values=str(output), references=str(reference))
        finally:
            worker.close()
