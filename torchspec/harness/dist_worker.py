"""A distributed job behind the face of one worker: the driver asks, all ranks do it, and one answer comes back.

So pairs, controls, stopping and the rehearsal of going back are the driver's own, unchanged. A worker of several rank
counts holds one job for each; a request goes to the job of its cell. Figures of several ranks are merged here: times
and memory by the slowest or largest rank, rank 0's word for what only rank 0 holds. Must not know a gate.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, ClassVar

from .dist_launch import Launch
from .dist_peer import LaunchFailed
from .dist_processes import rank_disagreements
from .run import Run
from .supervise import Unable, Worker, WorkerFailed, without_secrets

#: A warm-up takes this many steps, and this many more where a step is short.
WARM_STEPS = 3
WARM_MORE_NS = 50e6
WARM_MOST = 40
#: A launcher and then its ranks import torch, one after the other, and a busy machine makes that slow.
START_TIMEOUT_S = 300.0


def slowest(ranks: list[list[list[float]]]) -> list[list[float]]:
    """Call by call the slowest rank's time. `ranks` holds what each rank measured: lists of times, one a plant."""
    return [[max(times) for times in zip(*lists, strict=True)] for lists in zip(*ranks, strict=True)]


class RankWorker(Worker):
    """One side's jobs, started when they are first spoken to. Keeps `Worker`'s promises: see supervise."""

    def __init__(
        self, run: Run, side: str, name: str, env: dict[str, str], counts: list[int], settings: dict[str, Any],
        restarts: int = 0, monitor_s: float = 0.1, alone: bool = False,
    ) -> None:  # fmt: skip
        self.alone = alone  # makes things for all cells in its one job, whatever their rank count
        self.run, self.side, self.name, self.env, self.counts = run, side, name, env, counts
        self.settings, self.restarts, self.monitor_s = settings, restarts, monitor_s
        self.cache = Path(env["TORCHINDUCTOR_CACHE_DIR"]).parent
        self.doing = "starting"
        self.ended = False
        self.lent = False  # whoever has it now may not end it: it is to be used again
        self.jobs: dict[int, Launch] = {}
        self.log = run.logs / f"{name}.log"
        self._greeted: dict[int, list[dict[str, Any]]] = {}
        self._names: dict[str, int] = {}
        self._bus: dict[str, float] = {}
        self._asked: dict[str, Any] = {}

    # Jobs.

    def pids(self) -> list[int] | None:
        """None: its ranks are started and ended while it measures, so nobody can tell their time from others'."""
        return None

    def launch(self, count: int) -> Launch:
        """The job of `count` ranks, started where it is not there. Does not wait for it."""
        if count not in self.jobs:
            folder = self.run.logs / f"{self.name}-ranks{count}"
            job = Launch(
                self.run.pythons[self.side],
                [str(self.run.harness), "rank"],
                side=self.side,
                ranks=count,
                folder=str(folder),
                settings=self.settings,
                env=self.env,
                threads=self.run.embedded.threads,
                restarts=self.restarts,
                monitor_s=self.monitor_s,
            )
            self.jobs[count] = job
            self.log = folder / "job.log"
            job.launch()
        return self.jobs[count]

    def job(self, count: int) -> Launch:
        """The job of `count` ranks, ready. Ranks that disagree on what they are break a control."""
        job = self.launch(count)
        if count not in self._greeted:
            greeted = job.ready(self.run.start_timeout_s)
            odd = rank_disagreements([one["environment"] for one in greeted])
            for what, values in odd.items():
                reason = f"the ranks of {self.side} do not agree on {what}"
                self.run.broken(None, f"ranks of {self.side}: {what}", values[0], values[-1], reason)
            if odd:
                raise LaunchFailed("raised", f"the ranks do not agree on {', '.join(odd)}", doing="starting")
            self._greeted[count] = greeted
        return self.jobs[count]

    def open_names(self) -> list[str]:
        """The names under which work is open."""
        return list(self._names)

    def moves_bytes(self, name: str) -> bool:
        """Whether a call of the work under this name moves bytes between ranks that a bandwidth counts."""
        return self._bus.get(name, 0.0) > 0

    def count_of(self, arguments: dict[str, Any]) -> int:
        """The rank count that a request is for: its cell's, its name's, or the first there is."""
        if "cell" in arguments and not self.alone:
            return int(self.run.embedded.cells[arguments["cell"]]["axes"].get("ranks", 1))
        return self._names.get(arguments.get("name", ""), self.counts[0])

    # Worker's promises.

    def send(self, do: str, **arguments: Any) -> None:
        self.doing = do
        self._asked = {"do": do, **arguments}
        if do in ("hello", "ready"):
            try:
                for count in self.counts:
                    self.launch(count)
            except LaunchFailed as failure:
                raise self.as_worker_failed(failure, None) from failure

    def receive(self, timeout_s: float) -> dict[str, Any]:
        do = self._asked.pop("do")
        try:
            answer = getattr(self, f"_do_{do}", self._do_rank_zero)(do, timeout_s, self._asked)
        except LaunchFailed as failure:
            count = self.count_of(self._asked)
            raise self.as_worker_failed(failure, self.jobs.get(count)) from failure
        return {"ok": True, **answer}

    def as_worker_failed(self, failure: LaunchFailed, job: Launch | None) -> WorkerFailed:
        if job is not None:
            life = max((peer.restart for peer in job.peers), default=0)
            own = Path(job.rank_log(failure.rank, max(0, life))) if failure.rank is not None else Path(job.log)
            self.log = own if own.is_file() else Path(job.log)
            trace = failure.detail.get("error", {}).get("traceback")
            if trace and own.is_file():
                with open(own, "a", encoding="utf-8") as stream:
                    stream.write(trace)
        self.kill()
        who = "" if failure.rank is None else f"rank {failure.rank}: "
        error = without_secrets(f"{who}{failure.error}")
        made = WorkerFailed(failure.how, failure.doing, error, failure.code, failure.signal_name)
        made.worker = self
        return made

    def _each(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> list[Any]:
        """Every rank's answer. Raises Unable where a rank cannot, LaunchFailed where the job did not."""
        answers = self.job(self.count_of(arguments)).ask(do, timeout_s, **arguments)
        for answer in answers:
            if isinstance(answer, dict) and "unsupported" in answer:
                raise Unable(answer["unsupported"]["error"], answer["unsupported"]["where"])
        return answers

    def each(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> list[Any]:
        """Every rank's answer to a command. Raises Unable or WorkerFailed, as `ask` does."""
        self.doing = do
        try:
            return self._each(do, timeout_s, arguments)
        except LaunchFailed as failure:
            raise self.as_worker_failed(failure, self.jobs.get(self.count_of(arguments))) from failure

    def _do_rank_zero(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = self._each(do, timeout_s, arguments)[0]
        return answer if isinstance(answer, dict) else {"value": answer}

    def _do_ready(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        for count in self.counts:
            self.job(count)
        return {}

    def _do_hello(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        for count in self.counts:
            self.job(count)
        first = self._greeted[self.counts[0]][0]
        environment = dict(first["environment"])
        transports = environment.pop("ranks")["transports"]
        given = self.jobs[self.counts[0]].env  # what torchrun adds is torch's own and may differ between versions
        environment["env"] = {name: value for name, value in environment["env"].items() if name in given}
        job = {"ranks": self.counts, "launcher": "torchrun", "transports": transports}
        environment["device"] = {**environment.get("device", {}), **job}
        return {"environment": environment, "missing": None, "import_s": first["import_s"]}

    def _do_pin(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"cores": []}  # ranks run where the system puts them: their own threads need the other cores

    def _do_open(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments.get("variant", "own") != "own":
            raise Unable(f"work on ranks has no variant {arguments['variant']}", "backend")
        count = self.count_of(arguments)
        answers = self._each(do, timeout_s, arguments)
        self._names[arguments["name"]] = count
        self._bus[arguments["name"]] = float(answers[0]["bus_bytes"])
        odd = rank_disagreements([{key: one[key] for key in ("inputs", "weights")} for one in answers])
        if odd:
            raise LaunchFailed("raised", f"the ranks hold different {', '.join(odd)}", doing=do)
        return {**answers[0], "compiles": False}

    def _do_close(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = self._do_rank_zero(do, timeout_s, arguments)
        self._names.pop(arguments["name"], None)
        return answer

    def _do_warm(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        """A fixed number of steps on every rank, so that they stay together; ns of the median step."""
        shape = {"name": arguments["name"], "calls": 1, "samples": WARM_STEPS, "plants": []}
        times = slowest([one["ns"] for one in self._each("block", timeout_s, shape)])[0]
        more = min(WARM_MOST, int(WARM_MORE_NS / max(1.0, statistics.median(times))))
        if more > 1 and not arguments.get("again"):
            shape["samples"] = more
            times = slowest([one["ns"] for one in self._each("block", timeout_s, shape)])[0]
        return {"call_ns": float(statistics.median(times[1:] or times))}

    def _do_block(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        answers = self._each(do, timeout_s, arguments)
        return {"ns": slowest([one["ns"] for one in answers]), "preempted": sum(one["preempted"] for one in answers)}

    def _do_first(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        taken = self._do_block("block", timeout_s, {**arguments, "calls": 1, "samples": 1, "plants": []})["ns"]
        return {"seconds": taken[0][0] * 1e-9}

    def _do_memory(self, do: str, timeout_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
        """The largest rank's peaks, and each rank's."""
        answers = [one["peaks"] for one in self._each(do, timeout_s, arguments)]
        peaks = {name: [max(one[name][0] for one in answers), answers[0][name][1]] for name in answers[0]}
        return {"peaks": peaks, "by_rank": {name: [one[name][0] for one in answers] for name in answers[0]}}

    def close(self) -> None:
        """End every job; all are told before one is waited for."""
        if self.ended or self.lent:
            return
        for job in self.jobs.values():
            job.finish()
        self.kill(polite=True)

    def kill(self, polite: bool = False) -> None:
        self.ended = True
        for job in self.jobs.values():
            job.close(polite)
        self.jobs.clear()


class RankRun(Run):
    """A run whose workers are jobs of ranks."""

    #: side -> faults that a test plants in its jobs: {"fault": name, "rank": which, ...}. Nothing else sets it.
    planted_faults: ClassVar[dict[str, list[dict[str, Any]]]] = {}

    keeps_spares = False
    control_pairs = 2  # a pair is a launcher and its ranks for each rank count and side

    #: The rank counts of what is still to be timed, once that is known.
    settled: list[int] | None = None

    def rank_counts(self, cells: list[str] | None = None) -> list[int]:
        """The rank counts of these cells (default: those that were settled, or all), the largest first."""
        if cells is None and self.settled is not None:
            return self.settled
        known = self.embedded.cells
        counts = {int(known[cell]["axes"].get("ranks", 1)) for cell in (known if cells is None else cells)}
        return sorted(counts, reverse=True) or [1]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.start_timeout_s = max(self.start_timeout_s, START_TIMEOUT_S)
        #: Workers that have said what they are and nothing else: the first round's, so that no job is started in vain.
        self.greeters: dict[str, RankWorker] = {}

    def end_greeters(self) -> None:
        """The first round is over, or there is none: nobody waits idle beside what is timed."""
        for worker in self.greeters.values():
            worker.lent = False
            worker.close()
        self.greeters.clear()

    def end_maker(self) -> None:
        """Nothing more is to be made: its job ends."""
        if self._maker is not None:
            self._maker.close()

    def settings_of(self, side: str, **more: Any) -> dict[str, Any]:
        """What the ranks of a side are told about the run."""
        told = {
            "team": str(self.team),
            "digests": self.team_digests,
            "device": {"rocm": "cuda"}.get(str(self.embedded.plan["backend"].get("over")))
            or self.embedded.plan["backend"].get("over"),
            "timeout_s": min(self.timeout_s, 120.0),
            **more,
        }
        faults = self.planted_faults.get(side)
        return {**told, "planted_faults": faults} if faults else told

    def start_ranks(
        self, side: str, purpose: str, counts: list[int], *, timing: bool = False, restarts: int = 0,
        monitor_s: float = 0.1, **settings: Any,
    ) -> RankWorker:  # fmt: skip
        """A worker of its own with jobs of these rank counts."""
        self._check_going()
        name, env = self.prepared(side, purpose, None, timing, {})
        held = self.settings_of(side, **settings)
        worker = RankWorker(self, side, name, env, counts, held, restarts, monitor_s)
        self.keep(worker)
        return worker

    def start(
        self,
        side: str,
        purpose: str,
        *,
        cache: Path | None = None,
        timing: bool = False,
        extra: dict[str, str] | None = None,
    ) -> Worker:
        if purpose == "hello":
            return self._greeter(side)
        name, env = self.prepared(side, purpose, cache, timing, extra or {})
        counts = self.rank_counts()
        few = counts[-1:] if purpose == "freeze" else counts  # what one rank can make
        worker = RankWorker(self, side, name, env, few, self.settings_of(side), alone=purpose == "freeze")
        self.keep(worker)
        return worker

    def _greeter(self, side: str) -> RankWorker:
        """A worker that is asked what it is; both sides' start at once, and stay for the first round."""
        for one in self.sides:
            if one not in self.greeters or self.greeters[one].ended:
                self.greeters[one] = self.start_ranks(one, "hello", self.rank_counts())
                self.greeters[one].lent = True
                self.greeters[one].send("hello")
        return self.greeters[side]

    def greeter_for(self, side: str, counts: list[int]) -> RankWorker | None:
        """The side's worker that has only been greeted, once, where it has jobs of these rank counts."""
        worker = self.greeters.pop(side, None)
        if worker is None:
            return None
        worker.lent = False
        if worker.ended or worker.counts != counts:
            worker.close()
            return None
        return worker
