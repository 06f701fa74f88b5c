"""One run of `pair`: its folders, ledger, sides and workers, and the records it writes. Knows no metric."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .chain import EvidenceError, Ledger
from .embedded import Embedded
from .environ import usable_cores, worker_environment
from .measure import SHORTEST_SAMPLE_NS
from .noise import Clocks
from .past import Past, figure_key
from .progress import Progress
from .supervise import Unable, Worker, WorkerFailed, child_failed

#: Pairs of controls where a pair is two processes.
CONTROL_PAIRS = 3


class Run:
    """What all stages of a run share."""

    #: Whether the next pair's workers may be started while a pair is timed: not where the work takes every core.
    keeps_spares = True
    #: Pairs of controls, more where what they plant is not seen by then.
    control_pairs = CONTROL_PAIRS

    def __init__(
        self, embedded: Embedded, ledger: Ledger, past: Past, folder: Path, harness: Path, candidate: str,
        pythons: dict[str, str], progress: Progress,
    ) -> None:  # fmt: skip
        self.embedded, self.ledger, self.past, self.folder, self.harness = embedded, ledger, past, folder, harness
        self.candidate, self.pythons, self.progress = candidate, pythons, progress
        self.run = ledger.run
        self.begin = time.monotonic()
        self.timed_ns = 0.0
        self.pairs_s = 0.0  # spent on pairs of workers, their starts and warm-ups included
        self.compiling_s = 0.0  # of these, spent in torch.compile
        self.clock, self.shared_meter, self.shortest_ns = "perf_counter_ns", False, SHORTEST_SAMPLE_NS
        self.clocks: Clocks | None = None  # of the device, where its driver tells them
        self.logs = folder / "logs" / self.run
        self.scratch = folder / "scratch" / self.run
        self.outputs = folder / "outputs"
        for place in (self.logs, self.scratch, self.outputs, folder / "frozen"):
            place.mkdir(parents=True, exist_ok=True)
        self.team = folder / "team" / self.embedded.digest[:12]
        self.team_digests = embedded.team_files(self.team)
        self.environments: dict[str, dict[str, Any]] = {}
        #: (cell, metric) -> (standard deviation between equal pairs, degrees of freedom), measured before this run.
        self.calibration: dict[tuple[str, str], tuple[float, int]] = {}
        self.workers: list[Worker] = []
        self._started = 0
        self._lock = threading.RLock()
        self._stopped = False
        self._maker: Worker | None = None
        self.timeout_s = float(embedded.budget["timeout_s"])
        #: Starting an interpreter and importing torch is not the work; a cold disk may make it slow.
        self.start_timeout_s = max(self.timeout_s, 120.0)

    @property
    def sides(self) -> tuple[str, str]:
        return "baseline", self.candidate

    def spent_s(self) -> float:
        return time.monotonic() - self.begin

    def out_of_time(self) -> bool:
        return self.spent_s() >= float(self.embedded.budget["run_s"])

    # Workers.

    def cache_folder(self, name: str) -> Path:
        """A compiler cache of its own, empty when first asked for."""
        place = self.scratch / f"cache-{name}"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def timing_cache(self, side: str) -> Path:
        """The compiler cache that all timing workers of a side share."""
        return self.cache_folder(f"timing-{side}")

    def start(
        self,
        side: str,
        purpose: str,
        *,
        cache: Path | None = None,
        timing: bool = False,
        extra: dict[str, str] | None = None,
    ) -> Worker:
        """A fresh worker of a side. Without `cache` its compiler cache is new and empty."""
        name, env = self.prepared(side, purpose, cache, timing, extra or {})
        arguments = {"team": str(self.team), "digests": self.team_digests}
        with self._lock:
            self._check_going()
            log, tmp = self.logs / f"{name}.log", self.scratch / name
            worker = Worker(self.pythons[side], self.harness, side, arguments, env, log, tmp)
            self.keep(worker)
        return worker

    def prepared(
        self, side: str, purpose: str, cache: Path | None, timing: bool, extra: dict[str, str]
    ) -> tuple[str, dict[str, str]]:
        """The name and the environment of the next worker; its scratch folder is there."""
        with self._lock:
            self._started += 1
            name = f"{self._started:03d}-{side}-{purpose}"
        tmp = self.scratch / name
        tmp.mkdir(parents=True, exist_ok=True)
        env = worker_environment(
            self.embedded.frozen["env"],
            self.embedded.threads,
            tmp,
            cache or self.cache_folder(name),
            timing and bool(self.embedded.budget["tuned_malloc"]),
            extra,
        )
        return name, env

    def keep(self, worker: Worker) -> None:
        """Remembers a worker, so that it ends with the run."""
        with self._lock:
            self.workers = [one for one in self.workers if not one.ended]
            self.workers.append(worker)

    def _check_going(self) -> None:
        """A thread that is still at work when the run has been stopped must not start or write anything more."""
        if self._stopped and threading.current_thread() is not threading.main_thread():
            raise EvidenceError("the run was stopped")

    def maker(self) -> Worker:
        """The baseline's worker that makes inputs, weights and references, for all cells."""
        if self._maker is None or self._maker.ended:
            self._maker = self.start("baseline", "freeze")
            self._maker.ask("hello", self.start_timeout_s)
        return self._maker

    def kill_all(self) -> None:
        for worker in self.workers:
            worker.kill()

    def clean_up(self) -> None:
        """Ends every worker and removes what only this run needed. Nothing is started after it."""
        with self._lock:
            self._stopped = True
        self.kill_all()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.scratch)

    # Records.

    def write(self, kind: str, body: dict[str, Any], sync: bool = True) -> int:
        """Appends a record; a figure that is already there is left out. Gives the record's number."""
        with self._lock:
            self._check_going()
            if kind in ("sample", "fact", "unsupported") and figure_key(kind, body) in self.past.figures:
                return -1
            record = self.ledger.append(kind, body)
            self.past.note(kind, record["body"], record["seq"])
            if sync:
                self.ledger.sync()
            return int(record["seq"])

    def write_all(self, records: list[tuple[str, dict[str, Any]]]) -> None:
        with self._lock:
            for kind, body in records:
                self.write(kind, body, sync=False)
            self.ledger.sync()

    def side_failed(
        self, cell: str | None, failure: WorkerFailed, side: str, other_side_ran: bool, at: str = "figures"
    ) -> int:
        """Records a failure; gives how often this side has now failed in this cell at the same thing: `at` is figures
        (a fresh process), timing, or question (what is asked for one fact, and has its own two attempts)."""
        attempt = self.past.failed(cell, side, at)
        body = {
            "cell": cell,
            "candidate": self.candidate,
            "side": side,
            **child_failed(failure),
            "at": at,
            "attempt": attempt,
            "other_side_ran": other_side_ran,
        }
        self.write("side.failed", body)
        self.progress.event("failed", cell=cell, side=side, doing=failure.doing, how=failure.how, error=failure.error)
        return attempt + 1

    def unsupported(self, cell: str, side: str, metric: str | None, reason: Unable, against: str | None = None) -> None:
        """Records what a side cannot give. `against` names the reference or other path that cannot be had."""
        body = {"cell": cell, "candidate": self.candidate, "side": side, "metric": metric, "against": against}
        error = f"{against}: {reason}" if against else str(reason)
        self.write("unsupported", {**body, "error": error, "where": reason.where})

    def cell_done(self, cell: str, status: str, reason: str | None) -> None:
        self.write("cell.done", {"cell": cell, "candidate": self.candidate, "status": status, "reason": reason})
        label = self.embedded.cells[cell]["label"]
        self.progress.event("done", cell=cell, label=label, status=status, reason=reason)

    def broken(self, cell: str | None, what: str, baseline: Any, candidate: Any, reason: str) -> None:
        body = {"candidate": self.candidate, "cell": cell, "what": what, "baseline": baseline}
        self.write("control.broken", {**body, "candidate_value": candidate, "reason": reason})

    # Files.

    def frozen_file(self, cell: str) -> Path:
        return self.folder / "frozen" / f"{cell}.pt"

    def reference_file(self, cell: str, against: str) -> Path:
        return self.folder / "frozen" / f"{cell}.{against}.pt"

    def output_file(self, cell: str, side: str, variant: str = "own") -> Path:
        return self.outputs / f"{cell}.{side}.{variant}.pt"


def at_once(turns: list[Callable[[], None]]) -> list[BaseException]:
    """Calls all of them side by side, a thread each; what they raised. A signal is taken while they run."""
    problems: list[BaseException] = []

    def guarded(turn: Callable[[], None]) -> None:
        try:
            turn()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(turn,), daemon=True) for turn in turns]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # a short wait at a time, so that a signal is taken at once
            thread.join(0.2)
    return problems


def idlest_cores(count: int, over_s: float = 0.1) -> list[int]:
    """The `count` usable cores that did least over the last moment; the last ones where the system does not tell."""

    def idle() -> dict[int, int]:
        found: dict[int, int] = {}
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
                if line.startswith("cpu") and line[3].isdigit():
                    parts = line.split()
                    found[int(parts[0][3:])] = int(parts[4]) + int(parts[5])
        return found

    cores = usable_cores()
    before = idle()
    time.sleep(over_s)
    after = idle()
    ranked = sorted(cores, key=lambda core: (after.get(core, 0) - before.get(core, 0), core), reverse=True)
    return sorted(ranked[: max(1, count)])
