"""A worker: one fresh interpreter of one side, asked over pipes to build, run and look at cells.

Answers one frame a request. An exception becomes an answer with `ok` false; whatever is printed goes to the log. Ends
when the command pipe closes or the driver dies. Must not decide what to measure.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .device import DEVICES, Device
from .embedded import Embedded
from .environ import apply_settings, side_environment, tie_to_cores, usable_cores, wants_determinism
from .exports import aot_package, break_places, dynamic_export, onnx_parity, other_shapes
from .frames import PipeClosed, receive_frame, send_frame
from .graph import close_enough, compile_job, export_job, export_runner, recompiles, reload_job
from .memory import with_planted
from .modes import BACKWARD, COMPILED
from .numerics import FIGURES, compare_trees
from .trace import fallbacks, trace_job
from .trees import load_tree, save_tree, tree_digest
from .work import KINDS, Job, Task, Unsupported, Work

PR_SET_PDEATHSIG = 1
#: How long work is run before it is timed: for the first time in a process, and after a new layout.
WARM_S, WARM_AGAIN_S = 0.03, 0.01


def die_with_parent(parent: int) -> None:
    """Asks the system to kill this process when the driver dies, where it has such a thing; checks for a race."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("the driver is gone")


def wake_runtime() -> None:
    """Runs a few tiny operators forward and backward, so that loading their code is not charged to the work."""
    import torch

    weight = torch.ones(8, 8, requires_grad=True)
    torch.nn.functional.cross_entropy(torch.ones(8, 8) @ weight, torch.zeros(8, dtype=torch.long)).backward()


class Bench:
    """Everything a worker holds: the plan, the device, and jobs by the driver's names for them."""

    def __init__(self, embedded: Embedded, side: str, team: Path, digests: dict[str, str], import_s: float) -> None:
        self.embedded, self.side, self.team, self.digests = embedded, side, team, digests
        self.import_s = import_s
        self.device: Device = DEVICES[embedded.backend]()
        self.jobs: dict[str, Job] = {}
        self.works: dict[str, Work] = {}
        self.settings: dict[str, str] = embedded.frozen["settings"]
        if wants_determinism(self.settings) and self.device.missing() is None:
            self.device.be_deterministic()

    def work(self, cell_id: str) -> Work:
        cell = self.embedded.cells[cell_id]
        workload = self.embedded.workloads[cell["workload"]]
        kind = KINDS.get(workload["kind"])
        if kind is None:
            raise Unsupported(f"this harness has no workload of the kind {workload['kind']}", "backend")
        task = Task(cell, workload, int(self.embedded.frozen["seed"]), self.team, self.settings)
        task.metrics = {gate["metric"] for gate in self.embedded.gates(cell_id)}
        return kind(task)

    def lacks_operator(self, request: dict[str, Any]) -> bool:
        """Whether what is not implemented is a bare operator, in the baseline: its precision or its device lacks it,
        and nothing can be compared. What only the candidate lacks has been lost."""
        work, cell = self.works.get(str(request.get("name"))), request.get("cell")
        kind = work.kind if work is not None else self.embedded.kind(str(cell)) if cell else ""
        return self.side == "baseline" and kind == "operator"

    # Each method below answers the request of its name; its arguments are the request's fields.

    def hello(self) -> dict[str, Any]:
        body = side_environment(self.embedded.source, self.digests, self.settings)
        missing = self.device.missing()
        return {
            "environment": {**body, "device": {**self.device.probe(), "precision": self.device.precision()}},
            "missing": missing,
            "import_s": self.import_s,
        }

    def ready(self) -> dict[str, Any]:
        """An answer as soon as there can be one; what this process is, the driver knows from another of its side."""
        return {}

    def force_determinism(self) -> dict[str, Any]:
        """From now on this process uses deterministic algorithms, beyond what the spec freezes; the switches as they
        then stand. Asked before any work is built: libraries read some of them once, when they start."""
        import torch

        torch.use_deterministic_algorithms(True)
        self.device.be_deterministic()
        return {"switches": self.device.precision()}

    def pin(self, cores: list[int]) -> dict[str, Any]:
        """From now on this process runs on these cores alone, where the system can do that."""
        tie_to_cores(os.getpid(), set(cores))
        return {"cores": usable_cores()}

    def freeze(self, cell: str, path: str) -> dict[str, Any]:
        frozen = self.work(cell).freeze()
        save_tree(frozen, Path(path))
        return {"inputs": tree_digest(frozen["inputs"]), "weights": tree_digest(frozen["weights"])}

    def reference(self, cell: str, frozen: str, against: str, path: str) -> dict[str, Any]:
        """The reference output (and gradients) on `against`, such as cpu.float64, saved to `path`."""
        import torch

        where, dtype_name = against.split(".", 1)
        if where not in ("cpu", self.embedded.backend):
            raise Unsupported(f"a reference on {where} cannot be made on {self.embedded.backend}", "backend")
        place = torch.device("cpu") if where == "cpu" else self.device.place()
        work = self.work(cell)
        gradients = work.task.mode in BACKWARD
        mode = "train" if gradients else "infer"
        job = work.job(load_tree(Path(frozen)), mode, work.reference(), place, getattr(torch, dtype_name))
        found = self._results(job, gradients)
        save_tree(found, Path(path))
        return {"digest": tree_digest(found)}

    def open(self, name: str, cell: str, frozen: str, variant: str = "own") -> dict[str, Any]:
        """Builds a job. `variant` is own, eager (a compiled cell's work, not compiled) or beside (the old path)."""
        work = self.work(cell)
        held = load_tree(Path(frozen))
        path = work.task.beside if variant == "beside" else self.embedded.side(self.side).get("path")
        mode = work.task.mode
        if variant == "eager":
            mode = "train" if mode in BACKWARD else "infer"
        self.device.seed(work.task.seed)
        job = work.job(held, mode, path, self.device.place(), None)
        self.jobs[name], self.works[name] = job, work
        weights = tree_digest(job.weights()) if job.weights() else tree_digest({})
        return {
            "inputs": tree_digest(held["inputs"]),
            "weights": weights,
            "items": job.items,
            "items_unit": job.items_unit,
            "compiles": mode in COMPILED,
        }

    def compile(self, name: str) -> dict[str, Any]:
        return compile_job(self.jobs[name], self.settings, self.device.synchronize)

    def recompiles(self, name: str, calls: int) -> dict[str, Any]:
        return recompiles(self.jobs[name], calls, self._other_shapes(name))

    def _other_shapes(self, name: str) -> list[Any]:
        return other_shapes(self.embedded, self.works[name], self.work, self.device.place())

    def break_places(self, name: str) -> dict[str, Any]:
        return break_places(self.jobs[name], self.team)

    def first(self, name: str) -> dict[str, Any]:
        job = self.jobs[name]
        with job.ambient():
            self.device.synchronize()
            start = time.perf_counter()
            job.step()
            self.device.synchronize()
            return {"seconds": time.perf_counter() - start}

    def first_tokens(self, name: str, count: int) -> dict[str, Any]:
        """Seconds from a request to its first token, `count` times after one that is left out."""
        job, seconds = self.jobs[name], []
        for _ in range(count + 1):
            self.device.synchronize()
            start = time.perf_counter()
            job.first_token()
            self.device.synchronize()
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds[1:]}

    def memory(self, name: str, steps: int, wanted: list[str], planted: int = 0) -> dict[str, Any]:
        """Peaks over `steps` steps, each with `planted` bytes more alive than the work needs."""
        job = self.jobs[name]
        with job.ambient():
            step = with_planted(job.step, planted, self.device.place()) if planted else job.step
            peaks = {k: list(v) for k, v in self.device.memory(step, steps, set(wanted)).items()}
            return {"peaks": peaks, "notes": self.device.notes}

    def trace(self, name: str) -> dict[str, Any]:
        """Which operators one step calls and what path it took. Seeds first, so that a repeat is the same step."""
        self.device.seed(self.works[name].task.seed)
        return trace_job(self.jobs[name], self.device.torch_name)

    def fallbacks(self, name: str) -> dict[str, Any]:
        """Operators of one step that ran on the CPU instead of the device."""
        return fallbacks(self.jobs[name], self.device.torch_name)

    def _results(self, job: Job, gradients: bool) -> dict[str, Any]:
        found = job.results(gradients)
        return {part: {n: t.detach().cpu().clone() for n, t in tree.items()} for part, tree in found.items()}

    def outputs(self, name: str, path: str, gradients: bool) -> dict[str, Any]:
        """Runs once, saves output and gradients, and gives their digests."""
        self.device.seed(self.works[name].task.seed)
        found = self._results(self.jobs[name], gradients)
        save_tree(found, Path(path))
        return {part: tree_digest(tree) for part, tree in found.items()}

    def repeats(self, name: str, count: int, gradients: bool) -> dict[str, Any]:
        """Digests of `count` seeded repeats: {"output": [..], "gradient": [..]}."""
        seen: dict[str, list[str]] = {}
        for _ in range(count):
            self.device.seed(self.works[name].task.seed)
            for part, tree in self._results(self.jobs[name], gradients).items():
                seen.setdefault(part, []).append(tree_digest(tree))
        return {"digests": seen}

    def compare(self, values: str, references: str, truth: str | None = None) -> dict[str, Any]:
        """Errors of one saved result against another, part by part (output, gradient). `truth`: the one in float64."""
        return compare_saved(Path(values), Path(references), None if truth is None else Path(truth))

    def same(self, values: str, references: str) -> dict[str, Any]:
        """Whether two saved results are the same bit for bit, or within what reordered sums explain."""
        ours, theirs = load_tree(Path(values))["output"], load_tree(Path(references))["output"]
        return {**close_enough(ours, theirs), "bit_identical": tree_digest(ours) == tree_digest(theirs)}

    def accuracy(self, name: str) -> dict[str, Any]:
        """The share of right answers. Seeds first, so that a repeat is the same."""
        self.device.seed(self.works[name].task.seed)
        return self.jobs[name].accuracy()

    def losses(self, name: str, steps: int) -> dict[str, Any]:
        return {"losses": self.jobs[name].losses(steps)}

    def export(self, name: str, path: str) -> dict[str, Any]:
        return export_job(self.jobs[name], Path(path))

    def reload(self, name: str, path: str) -> dict[str, Any]:
        return reload_job(self.jobs[name], Path(path))

    def exported(self, name: str) -> dict[str, Any]:
        export_runner(self.jobs[name])
        return {}

    def dynamic_export(self, name: str) -> dict[str, Any]:
        return dynamic_export(self.jobs[name], self._other_shapes(name))

    def aot_package(self, name: str, path: str) -> dict[str, Any]:
        return aot_package(self.jobs[name], Path(path))

    def onnx_parity(self, name: str, path: str) -> dict[str, Any]:
        return onnx_parity(self.jobs[name], Path(path))

    def checkpoint(self, name: str, path: str) -> dict[str, Any]:
        saved = self.jobs[name].checkpoint()
        save_tree(saved, Path(path))
        return {"parts": sorted(saved), "weights": tree_digest(saved.get("module", {}))}

    def restore(self, name: str, path: str) -> dict[str, Any]:
        saved = load_tree(Path(path))
        told = self.jobs[name].restore(saved) or {}
        weights, expected = tree_digest(self.jobs[name].weights()), tree_digest(saved.get("module", {}))
        return {**told, "weights": weights, "expected": expected}

    def relayout(self, name: str, padding: int) -> dict[str, Any]:
        self.jobs[name].relayout(padding)
        return {}

    def warm(self, name: str, again: bool = False) -> dict[str, Any]:
        """Runs until the work is warm; `again`: it was warm before it was laid out anew. The median call, in ns."""
        job = self.jobs[name]
        with job.ambient():
            return {"call_ns": self.device.warm(job.step, WARM_AGAIN_S if again else WARM_S)}

    def block(self, name: str, calls: int, samples: int, plants: list[float]) -> dict[str, Any]:
        """One timed block: per-call nanoseconds (a list for each of `plants`, else one list), and how often the system
        took the core away meanwhile."""
        job = self.jobs[name]
        before = involuntary_switches()
        with job.ambient():
            taken = self.device.sample(job.step, calls, samples, plants)
        return {"ns": taken, "preempted": involuntary_switches() - before}

    def close(self, name: str) -> dict[str, Any]:
        self.jobs.pop(name, None)
        self.works.pop(name, None)
        self.device.empty_cache()
        return {}


def compare_saved(values: Path, references: Path, truth: Path | None) -> dict[str, Any]:
    """{"parts": {output or gradient: figures}} of one saved result against another. `truth`: the one in float64."""
    ours, theirs = load_tree(values), load_tree(references)
    exact = load_tree(truth).get("gradient") if truth is not None else None
    parts: dict[str, Any] = {}
    for part in ours:
        if part in theirs:
            try:
                parts[part] = compare_trees(ours[part], theirs[part], exact if part == "gradient" else None)
                named = [n for n in ours[part] if n.rsplit(".", 1)[-1] == "logits"] if part == "output" else []
                if named:
                    both = [{n: tree[part][n] for n in named} for tree in (ours, theirs)]
                    parts[part]["logits_max_abs"] = compare_trees(both[0], both[1])["max_abs"]
            except ValueError as other_shape:  # not the same tensors at all: every figure is not a number
                parts[part] = {**dict.fromkeys(FIGURES, math.nan), "problem": str(other_shape)}
    return {"parts": parts}


def involuntary_switches() -> int:
    """How often the system has taken the core from this process while it wanted to run."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def last_line(error: BaseException) -> str:
    """What a traceback ends with, on one line."""
    return " ".join("".join(traceback.format_exception_only(type(error), error)).split())[:1000]


def answer(bench: Bench, request: dict[str, Any]) -> dict[str, Any]:
    """Runs one request. Exceptions become answers; SystemExit and the like end the worker."""
    method: Callable[..., dict[str, Any]] = getattr(bench, str(request.pop("do")))
    try:
        return {"ok": True, **method(**request)}
    except Unsupported as reason:
        return {"ok": False, "unsupported": str(reason), "where": reason.where}
    except Exception as error:
        if isinstance(error, NotImplementedError) and bench.lacks_operator(request):
            return {"ok": False, "unsupported": f"NotImplementedError: {error}"[:1000], "where": "version"}
        traceback.print_exc()
        sys.stderr.flush()
        return {"ok": False, "error": last_line(error), "type": type(error).__name__}


def serve(embedded: Embedded, arguments: dict[str, Any]) -> int:
    """The worker's life. `arguments` {"commands", "replies": file descriptors, "parent", "side", "team", "digests"}."""
    die_with_parent(int(arguments["parent"]))
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    commands, replies = int(arguments["commands"]), int(arguments["replies"])
    for fd in (commands, replies):
        os.set_inheritable(fd, False)
    start = time.perf_counter()
    import torch

    import_s = time.perf_counter() - start
    torch.set_num_threads(embedded.threads)
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(1)
    apply_settings(embedded.frozen["settings"])
    wake_runtime()
    bench = Bench(embedded, arguments["side"], Path(arguments["team"]), arguments["digests"], import_s)
    with contextlib.suppress(PipeClosed):
        while True:
            request = receive_frame(commands)
            if request["do"] == "end":  # nothing here is worth the second that taking torch down in order costs
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
            number = request.pop("request")
            send_frame(replies, {**answer(bench, request), "request": number})
            sys.stdout.flush()
    return 0
