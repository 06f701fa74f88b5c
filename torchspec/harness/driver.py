"""`pair`: measures a baseline and a candidate side by side and writes what happened to the ledger.

The order: what both sides are; each cell in fresh processes; controls and timing in shared pairs of workers; the
rehearsal of going back. A side that raises, exits, is killed or hangs ends its cell, not the run. Must not judge.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import sys
import threading
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .alike import device_differences, other_hardware
from .below import missing_below
from .calibrate import calibrate, take_calibration
from .chain import EvidenceError, Ledger, file_sha256
from .device import DEVICES, Device
from .embedded import Embedded
from .environ import host, normal_name
from .fresh import CellOver, FreshCell
from .needs import Comparison, Needs
from .noise import Clocks
from .pairs import Pairs
from .past import Past
from .progress import Estimate, Progress
from .rehearsal import Rehearsal
from .run import Run
from .sides import pair_weight
from .supervise import WorkerFailed

#: Distributions that install others and take no part in the work.
INSTALLERS = ("pip", "uv", "wheel")


class Interrupted(BaseException):
    """The run was asked to stop."""


class Broken(Exception):
    """The two sides differ in more than was declared; nothing is measured."""


def new_run_id() -> str:
    """Sortable by time, unlike any other."""
    return f"r-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


class Driver:
    """One run of `pair`."""

    def __init__(
        self, embedded: Embedded, pythons: dict[str, str], candidate: str, folder: Path, only: list[str],
        stage: str | None, run_id: str | None, context: dict[str, Any], progress: Progress,
    ) -> None:  # fmt: skip
        self.embedded, self.candidate, self.context, self.progress = embedded, candidate, context, progress
        self.cells = self._chosen(only, stage)
        self.missing: dict[str, str] = {}  # side -> the device that it cannot run without
        self.digest = file_sha256(embedded.source)
        harness = folder / "harness" / self.digest[:12] / f"{embedded.backend}.py"
        harness.parent.mkdir(parents=True, exist_ok=True)
        if not harness.is_file() or file_sha256(harness) != self.digest:
            partial = harness.with_name(f"{harness.name}.{os.getpid()}.partial")
            shutil.copyfile(embedded.source, partial)
            os.replace(partial, harness)
        ledger = Ledger(folder / "ledger.jsonl", run_id or new_run_id())
        past = Past(ledger.records(), embedded.digest, self.digest, candidate, host())
        self.device = DEVICES.get(embedded.backend, Device)
        make = self.device.run_type or Run
        self.run: Run = make(embedded, ledger, past, folder, harness, candidate, pythons, progress)
        embedded.data_slices(self.run.team, context.get("data"))
        self.run.clock, self.run.shared_meter = self.device.clock, self.device.shared_meter
        self.run.shortest_ns = self.device.shortest_ns
        self.run.clocks = self._clocks()

    def _clocks(self) -> Clocks | None:
        """What tells the clocks of the device, or of those below the ranks; None where no program does."""
        over = self.embedded.plan["backend"].get("over")
        named = DEVICES.get(over or "", self.device).clocks_program
        program = shutil.which(named) if named is not None else None
        if program is None:
            return None
        visible = self.embedded.frozen["env"].get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
        return Clocks(program, visible, ranks=self.device.cells_type is not None)

    def _chosen(self, only: list[str], stage: str | None) -> list[str]:
        unknown = [name for name in only if name not in self.embedded.cells]
        if unknown:
            raise KeyError(f"the plan has no cell {', '.join(unknown)}; `cells` lists them")
        stages = {cell.get("stage") for cell in self.embedded.cells.values()}
        if stage is not None and stage not in stages:
            raise KeyError(f"no cell of this backend is in the stage {stage}")
        return [
            name
            for name, cell in self.embedded.cells.items()
            if (not only or name in only) and (stage is None or cell.get("stage") == stage)
        ]

    def go(self) -> int:
        """Measures what is open. Gives the exit status: 0, 3 or 130."""
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._stop)
        status, reason, code = "completed", None, 0
        try:
            self._start_record()
            if "calibrate" in self.context:
                self._calibrate()
            else:
                self._measure()
        except Interrupted as stopped:
            status, reason, code = "interrupted", str(stopped), 130
        except Broken as difference:
            status, reason, code = "failed", str(difference), 3
        except EvidenceError as problem:
            status, reason, code = "failed", str(problem), 3
            print(f"error: {problem}", file=sys.stderr)
        except OSError as problem:
            status, reason, code = "failed", f"{problem.strerror}: {Path(str(problem.filename or '')).name}", 3
            print(f"error: the evidence folder cannot be written: {reason}", file=sys.stderr)
        except Exception as bug:
            status, reason, code = "failed", f"{type(bug).__name__}: {bug}", 3
            raise
        finally:
            for name in ("SIGTERM", "SIGHUP", "SIGINT"):
                if hasattr(signal, name):
                    signal.signal(getattr(signal, name), signal.SIG_IGN)
            self.run.clean_up()
            code = self._end_record(status, reason, code)
        return code

    def _stop(self, number: int, frame: Any) -> None:
        """Raises in the main thread, but never in the middle of a record."""
        stopped = Interrupted(signal.Signals(number).name)
        if self.run.ledger.writing == threading.get_ident():
            self.run.ledger.pending = stopped
        else:
            raise stopped

    def _start_record(self) -> None:
        run, embedded = self.run, self.embedded
        body = {
            "plan": embedded.digest,
            "harness": {"backend": embedded.backend, "sha256": self.digest},
            "argv": [Path(sys.argv[0]).name, *self._safe_arguments()],
            "backend": embedded.backend,
            "candidate": self.candidate,
            "git": self.context.get("git"),
            "host": host(),
            "tool": self.context.get("tool"),
            "pid": os.getpid(),
            "resumes": run.past.last_run,
            "lock": self.context.get("lock"),
        }
        run.write("run.start", body)
        open_cells = [cell for cell in self.cells if not run.past.ended(cell)]
        self.progress.event("plan", cells=len(open_cells))

    @staticmethod
    def _safe_arguments() -> list[str]:
        """The command line with the user's home folder written as ~."""
        home = os.path.expanduser("~")
        return [re.sub(rf"^{re.escape(home)}(?=/|$)", "~", a) if len(home) > 1 else a for a in sys.argv[1:]]

    def _end_record(self, status: str, reason: str | None, code: int) -> int:
        run = self.run
        done = sum(run.past.ended(cell) for cell in self.cells)
        timed_s = run.timed_ns * 1e-9
        spent = {
            "wall_s": run.spent_s(), "timed_s": timed_s, "pairs_s": run.pairs_s, "compiling_s": run.compiling_s,
        }  # fmt: skip
        body = {"status": status, "reason": reason, **spent}
        try:
            run.write("run.end", {**body, "cells": {"done": done, "total": len(self.cells)}})
        except EvidenceError as problem:
            print(f"error: {problem}", file=sys.stderr)
            code = 3
        run.ledger.close()
        told = {name: round(spent[name], 1) for name in ("timed_s", "pairs_s", "compiling_s")}
        self.progress.event("end", status=status, reason=reason, seconds=round(run.spent_s(), 1), **told)
        return code

    # The stages.

    def _calibrate(self) -> None:
        """Equal pairs of the baseline alone, as many as the context says."""
        run = self.run
        if self.device.cells_type is not None:
            raise Broken(f"the cells of {self.embedded.backend} are not timed in pairs of workers")
        hello = self._hello("baseline")
        if hello is None:
            raise Broken(f"baseline does not start: {run.past.failures[None, 'baseline'][-1]['error']}")
        run.environments["baseline"] = hello["environment"]
        run.write("side.environment", {"side": "baseline", "candidate": self.candidate, **hello["environment"]})
        if hello["missing"] is not None:
            raise Broken(hello["missing"])
        calibrate(run, self.cells, int(self.context["calibrate"]), host())

    def _measure(self) -> None:
        run = self.run
        self._leave_to_service()
        open_cells = [cell for cell in self.cells if not run.past.ended(cell)]
        rehearsal = Rehearsal(run, self.context.get("rebuilt"))
        if open_cells or rehearsal.open():
            rehearsal.note_rebuilding()
            missing = self._environments(open_cells)
            if missing is not None:
                for cell in open_cells:
                    run.cell_done(cell, "not_run", missing)
                return
            take_calibration(run, self.context.get("calibration") or {}, self.cells, host())
        comparisons: list[Comparison] = []
        self.estimate = Estimate(self.progress, self._work_ahead(open_cells))
        if self.device.cells_type is not None:
            comparisons = self.device.cells_type(run, open_cells, self.estimate).all()
            open_cells = []
        for index, cell in enumerate(open_cells, 1):
            row = self.embedded.cells[cell]
            self.progress.event(
                "cell", cell=cell, label=row["label"], candidate=self.candidate, index=index, of=len(open_cells)
            )
            comparisons += self._one_cell(cell)
        self._time(comparisons)
        rehearsal.all()

    def _leave_to_service(self) -> None:
        """Cells whose figures a service of the team gives as files: nothing here measures them."""
        for cell in [c for c in self.cells if self.embedded.kind(c) == "ingested"]:
            if "lock" not in self.context and not self.run.past.ended(cell):
                self.run.cell_done(cell, "not_run", "the team's own service gives its figures, to `torchspec run`")
            self.cells.remove(cell)

    def _work_ahead(self, open_cells: list[str]) -> float:
        """How much there is to do, in units of a fresh process of both sides."""
        needs = [Needs(self.embedded, cell, self.candidate) for cell in open_cells]
        timed = sum(bool(one.comparisons) for one in needs)
        pairs = self.run.control_pairs + int(self.embedded.budget["min_pairs"])
        fresh = sum(one.processes + one.forced_processes for one in needs)
        return fresh + (pair_weight(timed) * pairs if timed else 0.0)

    def _one_cell(self, cell: str) -> list[Comparison]:
        """Fresh processes of one cell; gives what is still to be timed."""
        run = self.run
        if run.out_of_time():
            run.cell_done(cell, "error", "the time for the whole run was spent before this cell")
            return []
        try:
            FreshCell(run, cell, self.estimate).all()
        except CellOver as over:
            run.cell_done(cell, over.status, over.reason)
            return []
        comparisons = Needs(self.embedded, cell, self.candidate).comparisons
        if not comparisons:
            run.cell_done(cell, "measured", None)
        return comparisons

    def _time(self, comparisons: list[Comparison]) -> None:
        if not comparisons:
            return
        begin = time.monotonic()
        try:
            ended = Pairs(self.run, comparisons, self.estimate).all()
        finally:
            self.run.pairs_s += time.monotonic() - begin
        for cell, problem in ended.items():
            past = self.run.past
            if problem is None:
                self.run.cell_done(cell, "measured", None)
            elif past.failed(cell, self.candidate, "timing") >= 2 and not past.failures.get((cell, "baseline")):
                self.run.cell_done(cell, "failed", problem)
            else:
                self.run.cell_done(cell, "error", problem)

    # What both sides are.

    def _environments(self, open_cells: list[str]) -> str | None:
        """Records both environments and holds them against the plan; why nothing can run here, or None."""
        run = self.run
        earlier = dict(run.past.environments) if run.past.figures or run.past.timings else {}
        missing = self._missing_below()
        if missing:
            return self._unsupported(open_cells, missing)
        for side in run.sides:
            self.progress.event("doing", what="looking at the environment", side=side)
            hello = self._hello(side)
            if hello is None:
                reason = f"{side} does not start: {run.past.failures[None, side][-1]['error']}"
                for cell in open_cells:
                    candidate_only = side == self.candidate
                    run.cell_done(cell, "failed" if candidate_only else "error", reason)
                raise Broken(reason)
            environment = hello["environment"]
            run.environments[side] = environment
            run.write("side.environment", {"side": side, "candidate": self.candidate, **environment})
            if hello["missing"] is not None:
                missing[side] = hello["missing"]
        self.missing = missing
        self._hold_controls(open_cells, earlier)
        return self._unsupported(open_cells, missing)

    def _missing_below(self) -> dict[str, str]:
        """The sides that lack the device below their ranks, with the reason; nothing where ranks need none."""
        if self.embedded.plan["backend"].get("over") in (None, "cpu"):
            return {}
        run = self.run
        told: dict[str, str | None] = {}
        for side in run.sides:
            _, env = run.prepared(side, "probe", None, False, {})
            told[side] = missing_below(run.pythons[side], run.harness, env, run.start_timeout_s)
        return {side: why for side, why in told.items() if why is not None}

    def _unsupported(self, open_cells: list[str], missing: dict[str, str]) -> str | None:
        """Records what no side can run without, for each cell; why, in one sentence, or None."""
        for side, why in missing.items():
            for cell in open_cells:
                body = {"cell": cell, "candidate": self.candidate, "side": side, "metric": None, "error": why}
                self.run.write("unsupported", {**body, "where": "machine"})
        return "; ".join(f"{side}: {why}" for side, why in missing.items()) or None

    def _hello(self, side: str) -> dict[str, Any] | None:
        """A side's first words, asked for twice where it fails."""
        run = self.run
        for _ in range(2):
            try:
                worker = run.start(side, "hello")
                try:
                    return worker.ask("hello", run.start_timeout_s)
                finally:
                    worker.close()
            except WorkerFailed as failure:
                run.side_failed(None, failure, side, side == self.candidate)
        return None

    def _hold_controls(self, open_cells: list[str], earlier: dict[str, dict[str, Any]]) -> None:
        """Every difference that was not declared is a broken control, and then nothing is measured."""
        baseline, candidate = self.run.environments["baseline"], self.run.environments[self.candidate]
        found: list[tuple[str, Any, Any, str]] = []
        for side, before in earlier.items():
            now = self.run.environments[side]
            for part in ("python", "torch", "packages", "executable"):
                if before[part] != now[part]:
                    reason = (
                        f"{part} of {side} is no longer what the evidence in this folder was taken with; "
                        "measure into another evidence folder"
                    )
                    found.append((f"{part} of {side} since the earlier run", before[part], now[part], reason))
        for side, held in (("baseline", baseline), (self.candidate, candidate)):
            named = self.embedded.side(side).get("torch")
            have = held["torch"]["version"].split("+")[0]
            if named is not None and have != named.split("+")[0]:
                found.append((f"torch of {side}", named, have, f"the plan names torch {named}; {side} holds {have}"))
        wanted = self.embedded.frozen["python"]
        for side, held in (("baseline", baseline), (self.candidate, candidate)):
            if wanted and ".".join(held["python"].split(".")[:2]) != wanted:
                reason = f"{side} runs Python {held['python']}, and the plan freezes Python {wanted}"
                found.append((f"python of {side}", wanted, held["python"], reason))
        for part in ("python", "implementation", "env", "threads", "settings", "digests", "glibc", "malloc"):
            one, two = self._comparable(part, baseline), self._comparable(part, candidate)
            if one != two:
                found.append((part, one, two, f"the two sides differ in {part}"))
        found += device_differences(baseline.get("device") or {}, candidate.get("device") or {})
        named = [str(name) for name in self.embedded.plan["backend"].get("hardware") or ()]
        for side, held in (("baseline", baseline), (self.candidate, candidate)):
            other = other_hardware(named, held.get("device") or {})
            if other is not None and side not in self.missing:
                found.append((f"hardware of {side}", named, (held.get("device") or {}).get("name"), other))
        found += self._package_differences(baseline, candidate)
        for what, one, two, reason in found:
            self.run.broken(None, what, one, two, reason)
        if found:
            reason = "; ".join(reason for *_, reason in found)
            for cell in open_cells:
                self.run.cell_done(cell, "error", f"broken control: {reason}")
            raise Broken(reason)

    @staticmethod
    def _comparable(part: str, environment: dict[str, Any]) -> Any:
        if part == "env":  # each worker has cache folders of its own
            own = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
            return {name: value for name, value in environment["env"].items() if name not in own}
        return environment[part]

    def _package_differences(self, one: dict[str, Any], two: dict[str, Any]) -> list[tuple[str, Any, Any, str]]:
        allowed = {"torch", *INSTALLERS, *one["torch_pins"], *two["torch_pins"]}
        patterns = [normal_name(p) for p in self.embedded.side(self.candidate).get("may_differ", [])]
        found = []
        for name in sorted({*one["packages"], *two["packages"]}):
            a, b = one["packages"].get(name), two["packages"].get(name)
            declared = name in allowed or any(fnmatchcase(name, pattern) for pattern in patterns)
            if a != b and not declared:
                reason = f"package {name} is {a or 'absent'} in the baseline and {b or 'absent'} in the candidate"
                found.append((f"package {name}", a, b, reason))
        return found
