"""What ranks hear when one is missing, late, dead or slow, over the transport that the cell names.

Each side has jobs of its own for it, one after the other, since nothing can be measured in them afterwards. A trial is
tried once more where its job was ended, or where nobody heard anything in time. Must not judge.
"""

from __future__ import annotations

import statistics
from collections import Counter
from functools import partial
from typing import Any

from .dist_cell import RankCell
from .dist_launch import Launch
from .dist_peer import LaunchFailed
from .dist_trials import started_together
from .dist_worker import RankRun, RankWorker
from .run import at_once
from .supervise import Unable
from .twice import ATTEMPTS, fact_of_failure

#: In the order in which one job can be asked for them: the last one ends it.
FAULT_FACTS = (
    "collective.rank_missing", "collective.slow_rank_named", "collective.rank_late", "collective.rank_dead",
)  # fmt: skip
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


def what_was_heard(do: str, answers: list[Any]) -> dict[str, Any]:
    """Whether every rank that had to hear an error heard one in time; None is the answer of a rank that had not to.

    Raises LaunchFailed where one heard nothing for too long (hung), or whoever waited for it was ended (killed)."""
    heard = [one for one in answers if one is not None]
    detail = {"heard": heard, "timeout_s": FAULT_TIMEOUT_S}
    for rank, one in enumerate(answers):
        if one is None:
            continue
        if one.get("ended"):
            raise LaunchFailed("killed", "the process that waited was ended", doing=do, rank=rank)
        if not one["in_time"]:
            error = (
                f"no error within {FAULT_TIMEOUT_S:g} s and a margin; it took {one['seconds']:.1f} s: {one['error']}"
            )
            raise LaunchFailed("hung", error, doing=do, rank=rank, detail=detail)
    nobody = None if heard else "there was no rank that could hear an error"
    return {"holds": nobody is None, "error": nobody, **detail}


class FaultTrials:
    """The fault facts of all cells: one job a side, rank count and transport serves all its cells."""

    def __init__(self, run: RankRun, cells: list[RankCell]) -> None:
        self.run = run
        self.cells = [cell for cell in cells if any(cell.needs.wants(metric) for metric in FAULT_FACTS)]

    def all(self) -> None:
        for count, transport in sorted({(cell.count, cell.transport) for cell in self.cells}):
            cells = [cell for cell in self.cells if (cell.count, cell.transport) == (count, transport)]
            todo = {side: self._todo(cells, side) for side in self.run.sides}
            sides = [side for side, facts in todo.items() if facts]
            if count < 2:
                for side in sides:
                    self._alone(side, todo[side])
                continue
            workers = started_together(self.run, sides, "faults", count, monitor_s=RARELY_S, join=False)
            what = f"late, dead and missing ranks of {count}, {transport}"
            self.run.progress.event("doing", what=what, side=None)
            # Both at once: what takes time here is waiting. Each side's turn ends its own job; where the run was
            # stopped in between, the run does, for the reason that is told at the recovery's.
            trials = [SideFaults(self.run, side, count, transport, todo[side]) for side in sides]
            for problem in at_once([partial(one.write_all, workers[one.side]) for one in trials]):
                raise problem

    def _todo(self, cells: list[RankCell], side: str) -> list[tuple[RankCell, str]]:
        return [(cell, m) for cell in cells for m in FAULT_FACTS if cell.needs.wants(m) and self._open(cell, m, side)]

    def _open(self, cell: RankCell, metric: str, side: str) -> bool:
        return not self.run.past.has("fact", cell=cell.cell, side=side, metric=metric, against=None)

    def _alone(self, side: str, todo: list[tuple[RankCell, str]]) -> None:
        for cell, metric in todo:
            reason = Unable(f"one rank has no other to wait for: {metric} needs `at ranks 2` or more", "backend")
            self.run.unsupported(cell.cell, side, metric, reason)


class SideFaults:
    """The trials of one side over one transport."""

    def __init__(
        self, run: RankRun, side: str, count: int, transport: str, todo: list[tuple[RankCell, str]]
    ) -> None:  # fmt: skip
        self.run, self.side, self.count, self.transport, self.todo = run, side, count, transport, todo
        self.wanted = [metric for metric in FAULT_FACTS if metric in {asked for _, asked in todo}]
        self.found: dict[str, dict[str, Any] | Unable] = {}
        self.failed: Counter[str | None] = Counter()
        self.at: str | None = None  # the fact that is tried; None while the job starts
        self.trials = dict(zip(FAULT_FACTS, (self._missing, self._slow, self._late, self._dead), strict=True))

    def write_all(self, worker: RankWorker) -> None:
        """Every fact that is asked for, as a record; `worker` is the first job's."""
        while self._left():
            try:
                self._in_one_job(worker)
            except Unable as reason:
                self.found.update(dict.fromkeys(self._left(), reason))
            except LaunchFailed as failure:
                self._take_failure(failure, worker)
            finally:
                worker.kill()
            if self._left():
                again = started_together(
                    self.run, [self.side], "faults-again", self.count, monitor_s=RARELY_S, join=False
                )
                worker = again[self.side]
        for cell, metric in self.todo:
            found = self.found[metric]
            if isinstance(found, Unable):
                self.run.unsupported(cell.cell, self.side, metric, found)
            else:
                shown = {**found, "world": self.count, "transport": self.transport}
                self.run.write(*cell.fact(self.side, metric, shown))

    def _left(self) -> list[str]:
        return [metric for metric in self.wanted if metric not in self.found]

    def _in_one_job(self, worker: RankWorker) -> None:
        self.at = None
        job = worker.job(self.count)
        joined = False
        for metric in self._left():
            # gloo meets its peers when a group is made, so nobody may have joined; the others meet at the first call
            if not joined and (metric != "collective.rank_missing" or self.transport != "gloo"):
                self.at = None
                self._ask(job, "fault.join", 30.0)
                joined = True
            self.at = metric
            self.found[metric] = self.trials[metric](job)

    def _take_failure(self, failure: LaunchFailed, worker: RankWorker) -> None:
        """What a job that failed says of the fact that was tried: at once where the work told it, else when it is
        the second time. A job that does not even start says nothing about any."""
        told = failure.how == "raised" and self.at is not None
        shown = worker.as_worker_failed(failure, worker.jobs.get(self.count))
        self.failed[self.at] += 1
        if not told:
            cell = next(cell for cell, metric in self.todo if self.at in (metric, None))
            ran = any(one != self.side for one in cell.ran)
            self.run.side_failed(cell.cell, shown, self.side, ran, "question")
            if self.failed[self.at] < ATTEMPTS:
                return
        if self.at is None:
            why = Unable(f"{self.side} {shown.how} while doing {shown.doing}: {shown.error}", "machine")
            self.found.update(dict.fromkeys(self._left(), why))
        else:
            self.found[self.at] = {**fact_of_failure(shown, self.failed[self.at]), **failure.detail}

    def _ask(self, job: Launch, do: str, wait_s: float, **more: Any) -> list[Any]:
        """Every rank's answer. Raises Unable where a rank cannot, LaunchFailed where the job did not."""
        answers = job.ask(do, wait_s, transport=self.transport, **more)
        for answer in answers:
            if isinstance(answer, dict) and "unsupported" in answer:
                raise Unable(answer["unsupported"]["error"], answer["unsupported"]["where"])
        return answers

    # The trials.

    def _missing(self, job: Launch) -> dict[str, Any]:
        return what_was_heard("fault.missing", self._ask(job, "fault.missing", 60.0, timeout_s=FAULT_TIMEOUT_S))

    def _late(self, job: Launch) -> dict[str, Any]:
        """A little late is waited for; too late is an error in time."""
        little = self._ask(job, "fault.late", 30.0, timeout_s=FAULT_TIMEOUT_S, late_s=LATE_S)
        impatient = [one["error"] for one in little if one["error"] is not None]
        too_late = self._ask(job, "fault.late", 60.0, timeout_s=FAULT_TIMEOUT_S, late_s=TOO_LATE_S)
        found = what_was_heard("fault.late", too_late)
        if impatient:
            found.update(holds=False, error=f"a rank {LATE_S:g} s late was not waited for: {impatient[0]}")
        return {**found, "late_s": LATE_S, "too_late_s": TOO_LATE_S}

    def _slow(self, job: Launch) -> dict[str, Any]:
        """Who waits least at a barrier came last; gloo's monitored barrier names who did not come at all."""
        turns = self._ask(job, "fault.slow", 60.0, slow_s=SLOW_S, rounds=SLOW_ROUNDS)[0]["turns"]
        wrong = [(slow, named) for slow, named in who_was_slow(turns).items() if slow != named]
        error, monitored = None, None
        if self.transport == "gloo":  # no other transport has a monitored barrier
            monitored = [one for one in self._ask(job, "fault.monitored", 60.0, timeout_s=FAULT_TIMEOUT_S) if one]
            if not any(one["absent"] in one["named"] for one in monitored):
                error = "the monitored barrier does not name the rank that did not come"
        if wrong:
            error = f"rank {wrong[0][0]} was slow by {SLOW_S:g} s, and rank {wrong[0][1]} was named"
        waits = [max(turn["waits"]) for turn in turns]
        detail = {"turns": len(turns), "median_wait_s": statistics.median(waits), "monitored_barrier": monitored}
        return {"holds": error is None, "error": error, "slow_s": SLOW_S, **detail}

    def _dead(self, job: Launch) -> dict[str, Any]:
        number = job.tell("fault.dead", timeout_s=FAULT_TIMEOUT_S, transport=self.transport)
        survivors = range(job.ranks - 1)

        def silent() -> list[int]:
            return [peer.rank for peer in job.current() if peer.lost and peer.rank in survivors
                    and peer.rank not in job.answers(number)]  # fmt: skip

        def over() -> bool:
            return bool(silent()) or all(rank in job.answers(number) for rank in survivors)

        job.wait(over, 30.0, "fault.dead", may_lose=True)
        if silent():
            raise LaunchFailed("killed", "it was to survive, and is gone", doing="fault.dead", rank=silent()[0])
        for rank, answer in sorted(job.answers(number).items()):
            if not answer["ok"]:
                error = answer["error"]
                raise LaunchFailed("raised", error["message"], doing="fault.dead", rank=rank, detail={"error": error})
        return what_was_heard("fault.dead", [job.answers(number)[rank]["value"] for rank in survivors])
