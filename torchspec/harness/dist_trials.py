"""Trials that end a job: a rank is killed and the job recovers; a rank is late, dies, or never comes.

Each has jobs of its own, since nothing can be measured in them afterwards. Must not judge.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
from functools import partial
from typing import Any

from .dist_cell import RankCell
from .dist_launch import Launch
from .dist_peer import LaunchFailed
from .dist_worker import RankRun, RankWorker
from .run import at_once
from .supervise import Unable, WorkerFailed

RECOVERY_METRICS = ("recovery.rank_killed", "recovery.time")
FAULT_FACTS = (
    "collective.rank_missing", "collective.rank_late", "collective.rank_dead", "collective.slow_rank_named",
)  # fmt: skip
#: The run that loses a rank: its steps, a checkpoint every so many, and the step in which the rank dies.
RECOVERY_STEPS = 8
RECOVERY_EVERY = 2
RECOVERY_DEATH = 5
RECOVERY_REPEATS = 3
#: How long the groups of the fault trials wait, and how late the late rank comes.
FAULT_TIMEOUT_S = 2.0
LATE_S = 0.5
TOO_LATE_S = 3.0
SLOW_S = 0.1
SLOW_ROUNDS = 3
#: torchrun looks for dead ranks this rarely while the survivors have their say.
RARELY_S = 6.0


def who_was_slow(turns: list[dict[str, Any]]) -> dict[int, int]:
    """The rank that was slow -> the one that waited least: by the median of its waits, so that one stall of a busy
    machine names nobody."""
    waits: dict[int, list[list[float]]] = {}
    for turn in turns:
        waits.setdefault(int(turn["slow"]), []).append([float(one) for one in turn["waits"]])
    found = {}
    for slow, rounds in waits.items():
        middle = [statistics.median(own) for own in zip(*rounds, strict=True)]
        found[slow] = middle.index(min(middle))
    return found


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
        """One trial. A job that does not come back is what the fact is about, not an error of the tool."""
        try:
            found = self._trial(side, repeat, worker)
        except Unable as reason:
            for metric in RECOVERY_METRICS:
                if self.cell.needs.wants(metric):
                    self.run.unsupported(self.cell.cell, side, metric, reason)
            return
        except WorkerFailed as failure:
            self.run.side_failed(self.cell.cell, failure, side, False)
            found = {"holds": False, "error": failure.error, "how": failure.how, "stage": failure.doing}
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


class FaultTrials:
    """What ranks hear when one is missing, late, dead or slow. One job a side and rank count serves all its cells."""

    def __init__(self, run: RankRun, cells: list[RankCell]) -> None:
        self.run = run
        self.cells = [cell for cell in cells if any(cell.needs.wants(metric) for metric in FAULT_FACTS)]

    def all(self) -> None:
        for count in sorted({cell.count for cell in self.cells}):
            cells = [cell for cell in self.cells if cell.count == count]
            todo = {side: self._todo(cells, side) for side in self.run.sides}
            sides = [side for side, facts in todo.items() if facts]
            if count < 2:
                for side in sides:
                    self._alone(side, todo[side])
                continue
            workers = started_together(self.run, sides, "faults", count, monitor_s=RARELY_S, join=False)
            self.run.progress.event("doing", what=f"late, dead and missing ranks of {count}", side=None)
            # Both at once: what takes time here is waiting. Each side's turn ends its own job; where the run was
            # stopped in between, the run does, for the reason that is told at the recovery's.
            for problem in at_once([partial(self._side, side, workers[side], count, todo[side]) for side in sides]):
                raise problem

    def _todo(self, cells: list[RankCell], side: str) -> list[tuple[RankCell, str]]:
        return [(cell, m) for cell in cells for m in FAULT_FACTS if cell.needs.wants(m) and self._open(cell, m, side)]

    def _open(self, cell: RankCell, metric: str, side: str) -> bool:
        return not self.run.past.has("fact", cell=cell.cell, side=side, metric=metric, against=None)

    def _alone(self, side: str, todo: list[tuple[RankCell, str]]) -> None:
        for cell, metric in todo:
            reason = Unable(f"one rank has no other to wait for: {metric} needs `at ranks 2` or more", "backend")
            self.run.unsupported(cell.cell, side, metric, reason)

    def _side(self, side: str, worker: RankWorker, count: int, todo: list[tuple[RankCell, str]]) -> None:
        found = self._trials(worker, count)
        for cell, metric in todo:
            self.run.write(*cell.fact(side, metric, {**found[metric], "world": count}))

    def _trials(self, worker: RankWorker, count: int) -> dict[str, dict[str, Any]]:
        """Every fact of one side; a trial that hangs fails its own fact and those behind it."""
        found: dict[str, dict[str, Any]] = {}
        try:
            job = worker.job(count)
            found["collective.rank_missing"] = self._missing(job)
            job.ask("fault.join", 30.0)
            found["collective.slow_rank_named"] = self._slow(job)
            found["collective.rank_late"] = self._late(job)
            found["collective.rank_dead"] = self._dead(job)
        except LaunchFailed as failure:
            for metric in FAULT_FACTS:
                left = {"holds": False, "error": str(failure), "how": failure.how, "stage": failure.doing}
                found.setdefault(metric, left)
        finally:
            worker.kill()
        return found

    @staticmethod
    def _heard(answers: list[Any]) -> dict[str, Any]:
        """Whether every rank that had to hear an error heard one in time."""
        heard = [one for one in answers if one is not None]
        deaf = [one for one in heard if not one["in_time"]]
        error = None
        if deaf:
            seconds = deaf[0]["seconds"]
            error = f"no error within {FAULT_TIMEOUT_S:g} s and a margin; it took {seconds:.1f} s: {deaf[0]['error']}"
        return {"holds": bool(heard) and not deaf, "error": error, "heard": heard, "timeout_s": FAULT_TIMEOUT_S}

    def _missing(self, job: Launch) -> dict[str, Any]:
        return self._heard(job.ask("fault.missing", 60.0, timeout_s=FAULT_TIMEOUT_S))

    def _late(self, job: Launch) -> dict[str, Any]:
        """A little late is waited for; too late is an error in time."""
        little = job.ask("fault.late", 30.0, timeout_s=FAULT_TIMEOUT_S, late_s=LATE_S)
        impatient = [one["error"] for one in little if one["error"] is not None]
        found = self._heard(job.ask("fault.late", 60.0, timeout_s=FAULT_TIMEOUT_S, late_s=TOO_LATE_S))
        if impatient:
            found.update(holds=False, error=f"a rank {LATE_S:g} s late was not waited for: {impatient[0]}")
        return {**found, "late_s": LATE_S, "too_late_s": TOO_LATE_S}

    def _slow(self, job: Launch) -> dict[str, Any]:
        """Who waits least at a barrier came last; gloo's monitored barrier names who did not come at all."""
        turns = job.ask("fault.slow", 60.0, slow_s=SLOW_S, rounds=SLOW_ROUNDS)[0]["turns"]
        wrong = [(slow, named) for slow, named in who_was_slow(turns).items() if slow != named]
        monitored = [one for one in job.ask("fault.monitored", 60.0, timeout_s=FAULT_TIMEOUT_S) if one is not None]
        unnamed = not any(one["absent"] in one["named"] for one in monitored)
        error = None
        if wrong:
            error = f"rank {wrong[0][0]} was slow by {SLOW_S:g} s, and rank {wrong[0][1]} was named"
        elif unnamed:
            error = "the monitored barrier does not name the rank that did not come"
        waits = [max(turn["waits"]) for turn in turns]
        detail = {"turns": len(turns), "median_wait_s": statistics.median(waits), "monitored_barrier": monitored}
        return {"holds": error is None, "error": error, "slow_s": SLOW_S, **detail}

    def _dead(self, job: Launch) -> dict[str, Any]:
        number = job.tell("fault.dead", timeout_s=FAULT_TIMEOUT_S)
        survivors = job.ranks - 1
        job.wait(lambda: len(job.answers(number)) >= survivors, 30.0, "fault.dead", may_lose=True)
        answers = [one["value"] if one["ok"] else None for one in job.answers(number).values()]
        return self._heard(answers)
