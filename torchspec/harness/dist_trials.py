"""Recovery: a rank is killed in the middle of a step, torchrun restarts the job, and the training goes on.

A trial has a job of its own, since nothing can be measured in it afterwards. A trial that something else ended than the
planted death is tried once more. Must not judge.
"""

from __future__ import annotations

import contextlib
import shutil
from functools import partial
from typing import Any

from .dist_cell import RankCell
from .dist_launch import Launch
from .dist_peer import LaunchFailed
from .dist_worker import RankRun, RankWorker
from .run import at_once
from .supervise import Unable, WorkerFailed
from .twice import ATTEMPTS, fact_of_failure

RECOVERY_METRICS = ("recovery.rank_killed", "recovery.time")
#: The run that loses a rank: its steps, a checkpoint every so many, and the step in which the rank dies.
RECOVERY_STEPS = 8
RECOVERY_EVERY = 2
RECOVERY_DEATH = 5
RECOVERY_REPEATS = 3


def started_together(run: RankRun, sides: list[str], purpose: str, count: int, **options: Any) -> dict[str, RankWorker]:
    """A job a side, both starting at once."""
    workers = {side: run.start_ranks(side, purpose, [count], **options) for side in sides}
    for worker in workers.values():
        worker.send("hello")
    return workers


class RecoveryTrials:
    """One cell's recovery on both sides: in turn where it is timed, which takes three trials a side; the fact alone
    takes one, and then both sides lose their rank at once."""

    def __init__(self, cell: RankCell) -> None:
        self.cell, self.run = cell, cell.ranks

    def all(self) -> None:
        wants = self.cell.needs.wants
        if not any(wants(metric) for metric in RECOVERY_METRICS):
            return
        for repeat in range(RECOVERY_REPEATS if wants("recovery.time") else 1):
            sides = [side for side in self.run.sides if self._missing(side, repeat)]
            workers = started_together(self.run, sides, f"recovery{repeat}", self.cell.count, restarts=1)
            if wants("recovery.time"):
                for worker in workers.values():  # nobody imports any more while the other side is timed
                    with contextlib.suppress(LaunchFailed):  # the trial says it
                        worker.job(self.cell.count)
                for side in sides[:: -1 if repeat % 2 else 1]:
                    self.run.progress.event("doing", what=f"recovery, trial {repeat + 1}", side=side)
                    self._tried(side, repeat, workers[side])
            else:
                self.run.progress.event("doing", what="recovery", side=None)
                for problem in at_once([partial(self._tried, side, repeat, workers[side]) for side in sides]):
                    raise problem
            # Where the run was stopped in between, it ends the jobs itself, once nothing can be written any more:
            # a trial must not take a job that we have killed for one that did not come back.
            for worker in workers.values():
                worker.kill()

    def _missing(self, side: str, repeat: int) -> bool:
        key = {"cell": self.cell.cell, "side": side, "against": None}
        fact = repeat or not self.cell.needs.wants("recovery.rank_killed") or self.run.past.has(
            "fact", **key, metric="recovery.rank_killed"
        )  # fmt: skip
        timed = not self.cell.needs.wants("recovery.time") or self.run.past.has(
            "sample", **key, metric="recovery.time", repeat=repeat
        )
        return not (fact and timed)

    def _tried(self, side: str, repeat: int, worker: RankWorker) -> None:
        """One trial, once more where its job was ended by something else. What does not come back is the fact."""
        found: dict[str, Any] = {}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                found = self._trial(side, repeat, worker)
                break
            except Unable as reason:
                for metric in RECOVERY_METRICS:
                    if self.cell.needs.wants(metric):
                        self.run.unsupported(self.cell.cell, side, metric, reason)
                return
            except WorkerFailed as failure:
                found = fact_of_failure(failure, attempt)
                if failure.how == "raised":
                    break
                ran = any(one != side for one in self.cell.ran)
                self.run.side_failed(self.cell.cell, failure, side, ran, "question")
                if attempt < ATTEMPTS:
                    purpose = f"recovery{repeat}again"
                    worker = started_together(self.run, [side], purpose, self.cell.count, restarts=1)[side]
        found["world"] = self.cell.count
        records = []
        if repeat == 0 and self.cell.needs.wants("recovery.rank_killed"):
            records.append(self.cell.fact(side, "recovery.rank_killed", found))
        if self.cell.needs.wants("recovery.time") and "seconds" in found:
            meter = "driver's clock, from the closed connection of the dead rank to the first step behind"
            detail = {key: found[key] for key in ("restarted_s", "resumed_at", "world")}
            sample = self.cell.figure(side, "recovery.time", found["seconds"], "s", repeat, meter, **detail)
            records.append(("sample", {**sample[1], "process": "fresh"}))
        self.run.write_all(records)

    def _trial(self, side: str, repeat: int, worker: RankWorker) -> dict[str, Any]:
        count, run = self.cell.count, self.run
        root = run.scratch / "recovery" / f"{self.cell.cell}-{side}-{repeat}"
        frozen = str(run.frozen_file(self.cell.cell))
        opening = {"name": "own", "cell": self.cell.cell, "frozen": frozen}
        try:
            worker.receive(run.start_timeout_s)
            worker.ask("open", run.timeout_s, **opening)
            job = worker.job(count)
            plan = {"name": "own", "root": str(root), "steps": RECOVERY_STEPS, "every": RECOVERY_EVERY}
            try:
                return self._lose_and_recover(worker.job(count), plan, opening)
            except LaunchFailed as failure:
                raise worker.as_worker_failed(failure, job) from failure
        finally:
            worker.kill()
            shutil.rmtree(root, ignore_errors=True)

    def _lose_and_recover(self, job: Launch, plan: dict[str, Any], opening: dict[str, Any]) -> dict[str, Any]:
        count, run = self.cell.count, self.run
        if any(peer.restart for peer in job.current()):  # in a second life nobody is to die
            raise LaunchFailed("killed", "a rank was ended while it started, and torchrun began anew", doing="training")
        number = job.tell("recover.run", **plan, victim={"rank": count - 1, "step": RECOVERY_DEATH})

        def lost() -> dict[str, Any] | None:
            return next((m for m in job.messages if m["event"] == "lost" and m["rank"] == count - 1), None)

        job.wait(
            lambda: lost() is not None or len(job.answers(number)) == count, run.timeout_s, "training", may_lose=True
        )
        gone = lost()
        if gone is None:
            errors = [answer["error"]["message"] for answer in job.answers(number).values() if not answer["ok"]]
            raise LaunchFailed("raised", errors[0] if errors else "the rank did not die", doing="training")
        if not any(m["event"] == "dying" and m["rank"] == count - 1 and m["restart"] == 0 for m in job.messages):
            raise LaunchFailed("killed", "it was gone before the step in which it was to die", doing="training",
                               rank=count - 1)  # fmt: skip
        job.wait(lambda: job.back(1), run.start_timeout_s, "restarting after a rank's death", may_lose=True)
        restarted = max(peer.ready["at"] for peer in job.current() if peer.ready) - gone["at"]
        job.ask("open", run.timeout_s, **opening)
        answer = job.ask("recover.run", run.timeout_s, **plan)[0]
        step = next(m for m in job.messages if m["event"] == "step" and m["restart"] == 1)
        reference = job.ask("recover.reference", run.timeout_s, name="own", steps=RECOVERY_STEPS)[0]
        expected = RECOVERY_DEATH // RECOVERY_EVERY * RECOVERY_EVERY
        error = None
        if answer["began_at"] != expected:
            error = f"the run went on at step {answer['began_at']} instead of {expected}"
        elif answer["losses"] != reference[expected:]:
            error = "the losses behind the restart are not those of a run without a fault"
        return {
            "holds": error is None,
            "error": error,
            "seconds": step["at"] - gone["at"],
            "restarted_s": restarted,
            "resumed_at": answer["began_at"],
            "died_at": RECOVERY_DEATH,
            "losses": answer["losses"],
            "reference": reference,
        }
