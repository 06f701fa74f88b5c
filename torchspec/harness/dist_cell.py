"""One cell of ranks before it is timed: what its round's jobs are asked, and the records that come of it.

What any cell gives (outputs, errors, losses, memory, determinism) is `FreshCell`'s; what only ranks give is here: the
collective's correctness, the loss curve of one rank, waiting, and scaling. Must not judge.
"""

from __future__ import annotations

from typing import Any

from .dist_worker import RankRun, RankWorker
from .fresh import MEMORY_STEPS, FreshCell, Records
from .planted_memory import PlantedMemory
from .progress import Estimate
from .supervise import Unable, Worker, WorkerFailed

WAIT_METRICS = ("comm.wait", "comm.overlap")
BANDWIDTHS = ("comm.bus_bandwidth", "comm.algorithm_bandwidth")
CURVE_METRICS = ("loss.one_rank", "loss.optimizer_one_rank")
ROUND_METRICS = (*WAIT_METRICS, "scaling.efficiency")
#: Steps under the profiler, steps of the loss curve, and blocks of the scaling measurement.
WAIT_STEPS = 4
CURVE_STEPS = 6
SCALING_CALLS = 2
SCALING_ROUNDS = 6


def usual_transport(over: str | None) -> str:
    """What ranks talk over where the spec does not say it."""
    return "gloo" if over in (None, "cpu") else "nccl"


class RankPool:
    """The jobs of a round: one worker a side, with a job for each rank count."""

    def __init__(self, run: RankRun) -> None:
        self.run, self.name, self.counts = run, "", [1]
        self._workers: dict[str, RankWorker] = {}

    def begin(self, name: str, counts: list[int]) -> None:
        """From now on workers are new, with jobs of these rank counts."""
        self.end()
        self.name, self.counts = name, counts

    def worker(self, side: str) -> RankWorker:
        """The round's worker of a side; both sides' are started at once where they are not there."""
        missing = [one for one in self.run.sides if one not in self._workers or self._workers[one].ended]
        if side in missing:
            started = {one: self._fresh(one) for one in missing}
            self._workers.update(started)
            for worker in started.values():
                worker.send("hello")
        return self._workers[side]

    def _fresh(self, side: str) -> RankWorker:
        """A worker that has not worked yet: the one that was asked what it is, or a new one."""
        return self.run.greeter_for(side, self.counts) or self.run.start_ranks(side, self.name, self.counts)

    def end(self) -> None:
        for worker in self._workers.values():
            worker.lent = False
            worker.close()
        self._workers.clear()


class RankPlantedMemory(PlantedMemory):
    """In a round's job of the baseline, as the plain figures are: every rank plants as much. Once, since what steps
    before have left in a job's processes would hide it from a second look."""

    cell: RankCell
    processes = 1

    def _measured(self, wanted: dict[str, int]) -> dict[str, tuple[float, str]]:
        worker = self.cell.pool.worker("baseline")
        worker.ask("hello", self.run.start_timeout_s)
        found = self._peaks(worker, wanted)
        worker.ask("close", self.run.timeout_s, name="own")
        return found


class RankCell(FreshCell):
    """One cell; its workers are the round's."""

    def __init__(self, run: RankRun, cell: str, estimate: Estimate, pool: RankPool) -> None:
        super().__init__(run, cell, estimate)
        self.pool, self.ranks = pool, run
        axes = run.embedded.cells[cell]["axes"]
        options = run.embedded.workloads[run.embedded.cells[cell]["workload"]]["options"]
        over = run.embedded.plan["backend"].get("over")
        self.count = int(axes.get("ranks", 1))
        self.transport = str(axes.get("transport", options.get("transport")) or usual_transport(over))

    def round(self, repeat: int) -> None:
        """This round's processes of both sides, the baseline's first. Raises CellOver."""
        failed: dict[str, WorkerFailed] = {}
        for side in self.run.sides:
            self._turn(side, repeat, failed)
        self.estimate.done(1.0)
        if failed:
            raise self._over(failed)

    def finish(self) -> None:
        """What follows from all rounds, and what nothing measures."""
        self._determinism()
        for metric in sorted({*self.needs.unknown, *self.needs.forced.values()}):
            unmeasured = Unable(f"this harness does not measure {metric}", "backend")
            self.run.unsupported(self.cell, self.run.candidate, metric, unmeasured)

    def _process(self, side: str, repeat: int) -> Records:
        worker = self.pool.worker(side)
        records = self._asked(worker, side, repeat)
        worker.ask("close", self.run.timeout_s, name="own")
        return records

    def _asked(self, worker: Worker, side: str, repeat: int) -> Records:
        """Everything of one round on one side. The mark that all of it is there comes last."""
        if not isinstance(worker, RankWorker):
            raise TypeError("cells of ranks are asked of jobs of ranks")
        run, needs, limit = self.run, self.needs, self.run.timeout_s
        worker.ask("hello", run.start_timeout_s)
        opened = worker.ask("open", limit, name="own", cell=self.cell, frozen=str(run.frozen_file(self.cell)))
        self._seen(side, opened)
        records = self._memory(worker, side, repeat)
        path = run.output_file(self.cell, side)
        digests = worker.ask("outputs", limit, name="own", path=str(path), gradients=needs.train)
        digests.pop("ok", None)
        if repeat == 0 and needs.wants("loss.final"):
            records += self._losses(worker, side)
        if needs.repeats:
            again = worker.ask("repeats", limit, name="own", count=needs.repeats_each, gradients=needs.train)["digests"]
            whole = {part: [digests[part], *more] for part, more in again.items()}
            records.append(self.figure(side, "process.digests", 0, "1", repeat, "sha256", digests=whole))
        if repeat == 0 and needs.errors:
            records += self._errors(worker, side, path)
        if not worker.moves_bytes("own"):
            nothing = Unable("one rank, or a barrier, moves no bytes: it has no bandwidth", "backend")
            for metric in BANDWIDTHS:
                if needs.wants(metric):
                    self.run.unsupported(self.cell, side, metric, nothing)
        for name, ask in (("collective.correct", self._correct), ("curve", self._curve), ("wait", self._wait),
                          ("scaling.efficiency", self._scaling)):  # fmt: skip
            try:
                records += ask(worker, side, repeat)
            except Unable as reason:
                for metric in self._metrics_of(name):
                    self.run.unsupported(self.cell, side, metric, reason)
        for _, body in records:
            body.setdefault("detail", {}).setdefault("world", self.count)
        return [*records, self.figure(side, "process", 1, "1", repeat, "count", digests=digests)]

    def _memory(self, worker: RankWorker, side: str, repeat: int) -> Records:
        """The largest rank's peaks."""
        needs, records = self.needs, []
        if needs.memory:
            found = worker.ask("memory", self.run.timeout_s, name="own", steps=MEMORY_STEPS, wanted=needs.memory)
            for metric in needs.memory:
                if metric in found["peaks"]:
                    value, meter = found["peaks"][metric]
                    detail = {"by_rank": found["by_rank"][metric], "steps": MEMORY_STEPS}
                    records.append(self.figure(side, metric, value, "bytes", repeat, meter, **detail))
                else:
                    self.run.unsupported(self.cell, side, metric, Unable(f"ranks give no {metric}", "backend"))
        return records

    def _metrics_of(self, name: str) -> list[str]:
        groups = {"curve": CURVE_METRICS, "wait": WAIT_METRICS}
        return [metric for metric in groups.get(name, (name,)) if self.needs.wants(metric)]

    def figure(
        self, side: str, metric: str, value: Any, unit: str, repeat: int, meter: str, against: str | None = None,
        **detail: Any,
    ) -> tuple[str, dict[str, Any]]:  # fmt: skip
        body = self._sample(side, metric, value, unit, repeat, meter, against, detail)
        return "sample", {**body, "process": "shared"}

    def fact(self, side: str, metric: str, found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """A fact record; what `found` holds beside holds and error is its detail."""
        return self._fact(side, metric, found)

    def _needs_peers(self, metrics: list[str]) -> None:
        if self.count < 2:
            raise Unable(f"one rank has no other to talk to: {', '.join(metrics)} need `at ranks 2` or more", "backend")

    def _correct(self, worker: RankWorker, side: str, repeat: int) -> Records:
        if repeat or not self._metrics_of("collective.correct"):
            return []
        answers = worker.each("collective.check", self.run.timeout_s, {"name": "own"})
        wrong = [one["error"] for one in answers if not one["holds"]]
        found = {"holds": not wrong, "error": wrong[0] if wrong else None, "by_rank": answers}
        return [self._fact(side, "collective.correct", found)]

    def _curve(self, worker: RankWorker, side: str, repeat: int) -> Records:
        wanted = self._metrics_of("curve")
        if repeat or not wanted:
            return []
        self._needs_peers(wanted)
        found = worker.each("train.curve", self.run.timeout_s, {"name": "own", "steps": CURVE_STEPS})[0]
        detail: dict[str, Any] = {"losses": found["losses"], "one_rank": found["one_rank"], "steps": CURVE_STEPS}
        states = {"model": found["model"], "tensor": found["optimizer"]["where"]}
        values: dict[str, tuple[float, dict[str, Any]]] = {
            "loss.one_rank": (found["curve_max_rel"], detail),
            "loss.optimizer_one_rank": (found["optimizer"]["max_rel"], states),
        }
        meter = "the same global batches on one rank"
        return [self.figure(side, name, values[name][0], "1", 0, meter, **values[name][1]) for name in wanted]

    def _wait(self, worker: RankWorker, side: str, repeat: int) -> Records:
        wanted = self._metrics_of("wait")
        if not wanted:
            return []
        self._needs_peers(wanted)
        answers = worker.each("train.wait", self.run.timeout_s, {"name": "own", "steps": WAIT_STEPS})
        waits = [one["wait_s"] for one in answers]
        detail: dict[str, Any] = {"by_rank": answers, "waited_least": waits.index(min(waits)), "steps": WAIT_STEPS}
        overlap = min(one["overlap"] for one in answers)
        values = {"comm.wait": (max(waits), "s"), "comm.overlap": (overlap, "1")}
        meter = "torch profiler, communication in flight and nothing computed"
        return [self.figure(side, name, *values[name], repeat, meter, **detail) for name in wanted]

    def _scaling(self, worker: RankWorker, side: str, repeat: int) -> Records:
        wanted = self._metrics_of("scaling.efficiency")
        if not wanted:
            return []
        self._needs_peers(wanted)
        shape = {"name": "own", "calls": SCALING_CALLS, "rounds": SCALING_ROUNDS}
        answers = worker.each("train.scaling", self.run.timeout_s, shape)
        together = sorted(max(times) for times in zip(*(one["together"] for one in answers), strict=True))
        alone = sorted(answers[0]["alone"])
        step, one = together[len(together) // 2], alone[len(alone) // 2]
        meter = "one rank's share of the rows on one rank and on all, in turn"
        detail = {"step_ns": step, "one_rank_step_ns": one}
        return [self.figure(side, "scaling.efficiency", one / step, "1", repeat, meter, **detail)]
