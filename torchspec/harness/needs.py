"""What a cell's gates need: which comparisons are timed, and what a fresh process must be asked. Pure; no clocks."""

from __future__ import annotations

from typing import Any

from .embedded import TIMED, Embedded
from .modes import BACKWARD

MEMORY = ("memory.driver_peak", "memory.reserved_peak", "memory.allocated_peak", "memory.fragmentation")
#: Metrics that one fresh process gives once; three of them are asked.
REPEATED = (*MEMORY, "import.time", "latency.first_call", "compile.time", "compile.time_warm", "compile.graph_breaks",
            "compile.recompiles", "fallback.operators", "latency.first_token_p50",
            "latency.first_token_p95")  # fmt: skip
KNOWN = (
    *REPEATED, *TIMED, "runs", "loss.final", "task.accuracy", "export.roundtrip", "export.reload",
    "export.candidate_to_baseline", "export.baseline_to_candidate", "export.dynamic", "export.aot_package",
    "export.onnx", "checkpoint.candidate_to_baseline", "checkpoint.baseline_to_candidate",
)  # fmt: skip
#: Metrics of repeats that give the same bits -> the part of a result that they are about.
SAME_BITS = {"determinism.output": "output", "determinism.gradient": "gradient"}
#: The same under torch.use_deterministic_algorithms(True), which takes fresh processes of its own.
FORCED_BITS = {f"{metric}_forced": part for metric, part in SAME_BITS.items()}
#: What a device that measures more adds to the metrics known and to those that three processes are asked for.
MORE_KNOWN: set[str] = set()
MORE_REPEATED: set[str] = set()
#: Steps over which a fresh process measures its peaks.
MEMORY_STEPS = 2
FRESH_PROCESSES = 3
USUAL_REPEATS = 5
USUAL_LOSS_STEPS = 5


class Comparison:
    """Two ways of doing one cell's work that are timed in turn, and the gates that ask for it.

    `a` and `b` are (side, variant): the baseline's own work and the candidate's; or, on the candidate alone, its work
    not compiled or its old path, and its own.
    """

    def __init__(self, cell: str, against: str, candidate: str, gates: list[dict[str, Any]]) -> None:
        self.cell, self.against, self.gates = cell, against, gates
        self.a = ("baseline", "own") if against == "baseline" else (candidate, against)
        self.b = (candidate, "own")

    @property
    def key(self) -> tuple[str, str]:
        return self.cell, self.against


class Needs:
    """What one cell needs, from its gates."""

    def __init__(self, embedded: Embedded, cell_id: str, candidate: str) -> None:
        cell = embedded.cells[cell_id]
        gates = embedded.gates(cell_id)
        self.mode: str = cell["mode"]
        self.metrics = {gate["metric"] for gate in gates}
        self.train = self.mode in BACKWARD
        beside = embedded.workloads[cell["workload"]]["beside"]
        errors = [gate for gate in gates if gate["metric"].startswith("error.")]
        self.errors = bool(errors)
        asked = {gate["against"] for gate in errors if gate["against"]}
        #: References to be made once, such as cpu.float64.
        self.references = sorted(
            {against for against in asked if "." in against} | ({"cpu.float64"} if errors else set())
        )
        #: Variants whose output the candidate's own is compared with.
        self.variants = [v for v in ("beside", "eager") if v in asked or (v == "beside" and beside and errors)]
        determinism = [gate for gate in gates if gate["metric"] in SAME_BITS]
        self.repeats = max((int(gate["repeats"] or USUAL_REPEATS) for gate in determinism), default=0)
        forced = [gate for gate in gates if gate["metric"] in FORCED_BITS]
        #: part of a result -> its metric, of the gates on bits under deterministic algorithms.
        self.forced = {part: metric for metric, part in FORCED_BITS.items() if metric in self.metrics}
        self.forced_processes = FRESH_PROCESSES if forced else 0
        #: Repeats in each of these processes: two at least, so that one process says something by itself.
        self.forced_each = max((2, *(-(-int(gate["repeats"] or USUAL_REPEATS) // FRESH_PROCESSES) for gate in forced)))
        self.memory = sorted(self.metrics & set(MEMORY))
        self.processes = FRESH_PROCESSES if determinism or self.metrics & {*REPEATED, *MORE_REPEATED} else 1
        #: Whether starting, first calls or compiling are timed, which two processes at once would disturb.
        self.times_starting = any(
            self.wants(m) for m in ("import.time", "latency.first_call", "compile.time", "compile.time_warm")
        )
        #: Metrics that nothing here measures, which is said rather than passed over.
        known = {*KNOWN, *MORE_KNOWN, *SAME_BITS, *FORCED_BITS}
        self.unknown = {m for m in self.metrics if m not in known and not m.startswith("error.")}
        self.loss_steps = USUAL_LOSS_STEPS
        #: Repeats in each process, beside the first run, so that all processes together give at least `repeats`.
        self.repeats_each = max(1, -(-self.repeats // self.processes) - 1)
        timed: dict[str, list[dict[str, Any]]] = {}
        for gate in gates:
            if gate["metric"] in TIMED:
                against = gate["against"] if gate["against"] in ("beside", "eager") else "baseline"
                timed.setdefault(against, []).append(gate)
        self.comparisons = [Comparison(cell_id, against, candidate, timed[against]) for against in sorted(timed)]

    def wants(self, metric: str) -> bool:
        return metric in self.metrics
