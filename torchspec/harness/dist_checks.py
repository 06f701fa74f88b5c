"""Checkpoints between the two sides of a training cell: both write, both read, and what a crash leaves is refused.

A fact holds where the state that was read is the state that was written, bit for bit, and the run goes on from it: to
the same losses bit for bit on the torch and rank count that wrote it, and elsewhere within the workload's option
`resume_tolerance` (relative) where it has one; without one, losses of another version or rank count are recorded and
have to be finite, but are not weighed. Must not judge.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

from .dist_cell import RankCell
from .dist_worker import RankWorker
from .numerics import numbers_apart
from .restored import all_finite
from .supervise import Unable, WorkerFailed
from .twice import asked_twice

CHECKPOINT_FACTS = (
    "checkpoint.candidate_to_baseline", "checkpoint.baseline_to_candidate", "checkpoint.reshard", "checkpoint.resume",
    "checkpoint.truncated",
)  # fmt: skip
#: Steps before the checkpoint, and steps behind it whose losses are compared.
CHECKPOINT_STEPS = 3
FURTHER_STEPS = 3
FORMS = ("sharded", "whole")
#: The requests that are under test: what reads a checkpoint, and what writes one.
CHECKPOINT_READS = ("checkpoint.read", "checkpoint.damaged")
CHECKPOINT_WRITES = ("checkpoint.write", "checkpoint.write_alone")


def losses_apart(one: list[float], two: list[float]) -> float:
    """The largest relative difference of two loss curves, as `numbers_apart`; infinite where their lengths differ."""
    return numbers_apart(one, two) if len(one) == len(two) else float("inf")


class CheckpointFacts:
    """The checkpoint facts of one cell, from jobs of both sides that are open already."""

    def __init__(self, cell: RankCell) -> None:
        self.cell, self.run = cell, cell.ranks
        self.root = self.run.scratch / "checkpoints" / cell.cell
        self.written: dict[str, dict[str, Any]] = {}
        self.open_in: list[RankWorker] = []

    def wanted(self) -> list[str]:
        return [metric for metric in CHECKPOINT_FACTS if self.cell.needs.wants(metric)]

    def missing(self, metric: str, side: str) -> bool:
        return not self.run.past.has("fact", cell=self.cell.cell, side=side, metric=metric, against=None)

    def all(self) -> None:
        """Asks for what the gates want and the ledger lacks. A side that raises an error at it fails the fact, by name;
        one that is ended at it is asked again first."""
        todo = [
            (metric, side) for metric in self.wanted() for side in self.sides_of(metric) if self.missing(metric, side)
        ]
        if not todo:
            return
        self.run.progress.event("doing", what="checkpoints", side=None)
        try:
            for metric, side in todo:
                try:
                    kind, body = self.one(metric, side)
                    body["detail"]["world"] = self.cell.count
                    self.run.write(kind, body)
                except Unable as reason:
                    self.run.unsupported(self.cell.cell, side, metric, reason)
        finally:
            self.close()
            shutil.rmtree(self.root, ignore_errors=True)

    def sides_of(self, metric: str) -> tuple[str, ...]:
        """Whose word a fact is. What crosses over is the candidate's; the rest both sides show."""
        crossing = ("checkpoint.candidate_to_baseline", "checkpoint.baseline_to_candidate")
        return (self.run.candidate,) if metric in crossing else self.run.sides

    def one(self, metric: str, side: str) -> tuple[str, dict[str, Any]]:
        """The record of one metric. Raises Unable where there is none."""
        base, new = "baseline", self.run.candidate
        ask: Callable[[], dict[str, Any]] = {
            "checkpoint.candidate_to_baseline": partial(self.crossing, new, base),
            "checkpoint.baseline_to_candidate": partial(self.crossing, base, new),
            "checkpoint.resume": partial(self.crossing, side, side),
            "checkpoint.reshard": partial(self.resharded, side),
            "checkpoint.truncated": partial(self.truncated, side),
        }[metric]
        return self.cell.fact(side, metric, self.asked(side, ask))

    def asked(self, side: str, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `ask` finds. Where the baseline is ended at the candidate's checkpoint, it is held against its own."""
        return asked_twice(
            self.run, self.cell.cell, side, ask, reads=CHECKPOINT_READS, writes=CHECKPOINT_WRITES,
            alone=partial(self.crossing, "baseline", "baseline"),
        )  # fmt: skip

    # Asking.

    def opened(self, side: str) -> RankWorker:
        worker = self.cell.pool.worker(side)
        if "checkpoint" not in worker.open_names():
            frozen = str(self.run.frozen_file(self.cell.cell))
            worker.ask("hello", self.run.start_timeout_s)
            worker.ask("open", self.run.timeout_s, name="checkpoint", cell=self.cell.cell, frozen=frozen)
            self.open_in.append(worker)
        return worker

    def close(self) -> None:
        """Closes what was opened: the round's jobs go on with other cells, and are timed."""
        for worker in self.open_in:
            with contextlib.suppress(WorkerFailed, Unable):  # it ends with its worker
                if not worker.ended:
                    worker.ask("close", self.run.timeout_s, name="checkpoint")
        self.open_in.clear()

    def ask(self, side: str, do: str, **arguments: Any) -> Any:
        """Rank 0's answer."""
        return self.opened(side).each(do, self.run.timeout_s, {"name": "checkpoint", **arguments})[0]

    def write(self, side: str) -> dict[str, Any]:
        """What a side wrote, once."""
        if side not in self.written:
            self.written[side] = self.ask(
                side, "checkpoint.write", root=str(self.root / side), steps=CHECKPOINT_STEPS, further=FURTHER_STEPS
            )
        return self.written[side]

    def read(self, side: str, path: str, form: str, index: int = CHECKPOINT_STEPS, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ask(
            side, "checkpoint.read", path=path, form=form, index=index, further=FURTHER_STEPS, **more
        )
        return found

    def tolerance(self) -> float | None:
        workload = self.run.embedded.workloads[self.run.embedded.cells[self.cell.cell]["workload"]]
        given = workload["options"].get("resume_tolerance")
        return None if given is None else float(given)

    def weighed(self, written: dict[str, Any], read: dict[str, Any], exact: bool) -> str | None:
        """Why a reading is not what was written; None where it is."""
        for part in ("model", "optimizer"):
            if read["digests"][part] != written["digests"][part]:
                return f"the {part} that was read is not the {part} that was written"
        if all_finite(written["losses"]) and not all_finite(read["losses"]):
            return "the losses behind it are no longer finite"
        apart = losses_apart(read["losses"], written["losses"])
        limit = 0.0 if exact else self.tolerance()
        if limit is not None and not apart <= limit:
            return f"the losses behind it are {apart:.3g} apart (relative), and {limit:g} is allowed"
        return None

    # The facts.

    def crossing(self, writer: str, reader: str) -> dict[str, Any]:
        """The reader loads the writer's checkpoint in both forms and goes on."""
        written = self.write(writer)
        tolerance = 0.0 if writer == reader else self.tolerance()
        detail: dict[str, Any] = {"writer": writer, "reader": reader, "bytes": written["bytes"], "tolerance": tolerance}
        error = None
        for form in FORMS:
            try:
                read = self.read(reader, written["path"], form)
            except WorkerFailed as failure:
                if failure.how != "raised":
                    raise
                return {"holds": False, "error": f"{form}: {failure.error}", "stage": "load", **detail}
            problem = self.weighed(written, read, exact=writer == reader)
            apart = losses_apart(read["losses"], written["losses"])
            detail[form] = {"seconds": read["seconds"], "losses_apart": apart, "error": problem}
            error = error or (f"{form}: {problem}" if problem else None)
        detail["losses"] = written["losses"]
        return {"holds": error is None, "error": error, **detail}

    def resharded(self, side: str) -> dict[str, Any]:
        """From all ranks to one, and from one to all."""
        if self.cell.count < 2:
            raise Unable("resharding needs two rank counts: narrow it by `at ranks 2` or more", "backend")
        written = self.write(side)
        alone = self.read(side, written["path"], "sharded", solo=True)
        down = self.weighed(written, alone, exact=False)
        root = str(self.root / side / "alone")
        single = self.ask(side, "checkpoint.write_alone", root=root, steps=CHECKPOINT_STEPS, further=FURTHER_STEPS)
        spread = self.read(side, single["path"], "sharded")
        up = self.weighed(single, spread, exact=False)
        detail = {
            "to_one": {"losses_apart": losses_apart(alone["losses"], written["losses"]), "error": down},
            "from_one": {"losses_apart": losses_apart(spread["losses"], single["losses"]), "error": up},
            "ranks": [self.cell.count, 1],
            "tolerance": self.tolerance(),
        }
        return {"holds": down is None and up is None, "error": down or up, **detail}

    def truncated(self, side: str) -> dict[str, Any]:
        """Every damage is refused on every rank, and the checkpoint before still loads in both forms."""
        written = self.write(side)
        answers = self.opened(side).each(
            "checkpoint.damaged", self.run.timeout_s, {"name": "checkpoint", "path": written["path"]}
        )
        taken = [(damage, rank) for rank, refused in enumerate(answers) for damage, said in refused.items() if not said]
        error = f"a checkpoint with {taken[0][0]} was taken for whole by rank {taken[0][1]}" if taken else None
        loads = True
        for form in FORMS:
            try:
                before = self.read(side, written["earlier_path"], form, index=CHECKPOINT_STEPS - 1)
                problem = None if before["digests"] == written["earlier"] else "it is not what was written"
            except WorkerFailed as failure:
                if failure.how != "raised":
                    raise
                problem = failure.error
            if problem is not None:
                loads, error = False, error or f"the checkpoint before does not load ({form}): {problem}"
        return {"holds": error is None, "error": error, "refused": answers[0], "previous_loads": loads}
