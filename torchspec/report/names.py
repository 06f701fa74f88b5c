"""Names for people: metrics, modes, outcomes and decisions in words. A name that is not here is shown as it is."""

from __future__ import annotations

from torchspec.model.memo import Mark
from torchspec.report.language import Language

METRICS = {
    "runs": "runs to the end",
    "latency.p50": "latency p50",
    "latency.p95": "latency p95",
    "latency.p99": "latency p99",
    "latency.first_call": "first call",
    "latency.first_token_p50": "first token p50",
    "latency.first_token_p95": "first token p95",
    "throughput": "throughput",
    "step.time": "step time",
    "memory.driver_peak": "driver memory, peak",
    "memory.reserved_peak": "reserved memory, peak",
    "memory.allocated_peak": "allocated memory, peak",
    "memory.fragmentation": "memory fragmentation",
    "compile.time": "compile time, cold",
    "compile.time_warm": "compile time, warm",
    "compile.graph_breaks": "graph breaks",
    "compile.recompiles": "recompilations",
    "import.time": "import time",
    "error.max_abs": "largest absolute error",
    "error.max_rel": "largest relative error",
    "error.ulp": "largest error in ULP",
    "error.cosine": "cosine similarity",
    "error.psnr": "PSNR",
    "error.nonfinite": "NaN and infinity positions",
    "error.gradient_max_abs": "largest absolute error of gradients",
    "error.gradient_max_rel": "largest relative error of gradients",
    "error.gradient_ulp": "largest error of gradients in ULP",
    "error.gradient_cosine": "cosine similarity of gradients",
    "error.gradient_psnr": "PSNR of gradients",
    "error.gradient_nonfinite": "NaN and infinity positions of gradients",
    "error.logits_max_abs": "largest absolute error of logits",
    "error.rate": "error rate",
    "loss.final": "final loss",
    "task.accuracy": "accuracy",
    "determinism.output": "determinism of outputs",
    "determinism.gradient": "determinism of gradients",
    "determinism.output_forced": "determinism of outputs, forced",
    "determinism.gradient_forced": "determinism of gradients, forced",
    "export.roundtrip": "export round trip",
    "export.reload": "export reload",
    "export.candidate_to_baseline": "candidate's export read by the baseline",
    "export.baseline_to_candidate": "baseline's export read by the candidate",
    "export.dynamic": "export with dynamic shapes",
    "export.aot_package": "AOTInductor package",
    "export.onnx": "ONNX in onnxruntime",
    "checkpoint.roundtrip": "checkpoint round trip",
    "fallback.operators": "operators that fell back",
    "comm.wait": "waiting for communication",
    "comm.overlap": "communication that overlaps with computing",
    "comm.latency_p50": "collective's latency p50",
    "comm.latency_p95": "collective's latency p95",
    "comm.bus_bandwidth": "bus bandwidth",
    "comm.algorithm_bandwidth": "algorithm bandwidth",
    "collective.correct": "collective's result",
    "collective.rank_missing": "error where a rank never comes",
    "collective.rank_late": "error where a rank comes too late",
    "collective.rank_dead": "error where a rank dies",
    "collective.slow_rank_named": "name of the slow rank",
    "scaling.efficiency": "scaling efficiency",
    "loss.one_rank": "loss curve of one rank",
    "loss.optimizer_one_rank": "optimizer state of one rank",
    "checkpoint.candidate_to_baseline": "candidate's checkpoint read by the baseline",
    "checkpoint.baseline_to_candidate": "baseline's checkpoint read by the candidate",
    "checkpoint.reshard": "checkpoint on another rank count",
    "checkpoint.resume": "going on from a checkpoint",
    "checkpoint.truncated": "damaged checkpoints refused",
    "checkpoint.save_time": "time to save a checkpoint",
    "checkpoint.load_time": "time to load a checkpoint",
    "recovery.rank_killed": "recovery after a killed rank",
    "recovery.time": "recovery time",
}

FAMILIES = {
    "runs": "Running to the end",
    "latency": "Latency",
    "throughput": "Throughput",
    "step": "Step time",
    "memory": "Peak memory",
    "compile": "Compilation",
    "import": "Import time",
    "error": "Correctness",
    "loss": "Loss",
    "task": "Task quality",
    "determinism": "Determinism",
    "export": "Export",
    "checkpoint": "Checkpoints",
    "recovery": "Recovery",
    "fallback": "Fallback",
    "comm": "Communication",
    "collective": "Collectives",
    "scaling": "Scaling",
}

#: meters of memory: (short name, what holds it)
METERS = {
    "memory.driver_peak": ("Driver", "held by the process"),
    "memory.reserved_peak": ("Reserved", "held by the allocator"),
    "memory.allocated_peak": ("Allocated", "held by live tensors"),
}

HIGHER_IS_BETTER = frozenset({"throughput", "error.cosine", "error.psnr", "task.accuracy"})

OUTCOMES = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "inconclusive",
    "error": "error",
    "not_run": "not run",
}
OUTCOME_MEANINGS = {
    "pass": "the whole interval is inside the limit",
    "fail": "the whole interval is beyond the limit",
    "inconclusive": "the interval crosses the limit",
    "error": "started, but gave no usable result",
    "not_run": "not started; the reason is given",
}
DECISIONS = {"adopt": "adopt", "isolate": "isolate", "defer": "defer", "rollback": "rollback"}
DECISION_MEANINGS = {
    "adopt": "make the candidate the default",
    "isolate": "use it apart, in the named places only",
    "defer": "stay on the baseline until the condition is met",
    "rollback": "return to the baseline, as rehearsed",
}
CLAIMS = {
    "reproduced": ("reproduced", "reproduced"),
    "not reproduced": ("not_reproduced", "not reproduced"),
    "not comparable here": ("not_comparable", "not comparable here"),
}

#: how many of what a judgement rests on, one and many
SAMPLES = {
    "pairs": ("{n} pair", "{n} pairs"),
    "builds": ("{n} build", "{n} builds"),
    "rounds": ("{n} round", "{n} rounds"),
    "iterations": ("{n} call", "{n} calls"),
    "repeats": ("{n} repeat", "{n} repeats"),
    "processes": ("{n} process", "{n} processes"),
    "values": ("{n} value", "{n} values"),
}
#: how many gates ended otherwise than pass, one and many
FOUND = {
    "fail": ("{n} fails", "{n} fail"),
    "error": ("{n} ended in an error", "{n} ended in an error"),
    "inconclusive": ("{n} is inconclusive", "{n} are inconclusive"),
    "not_run": ("{n} was not run", "{n} were not run"),
}
STATUSES = {"confirmatory": "confirmatory", "exploratory": "exploratory"}
RUNS = {w: w for w in ("completed", "interrupted", "failed", "no end recorded")}
WAIVERS = {"in effect": "in effect", "expired": "expired", "void": "void", "not needed": "not needed"}
STEPS = {
    "rebuild.cache": "rebuild the baseline from kept archives",
    "rebuild.scratch": "rebuild the baseline from scratch",
    "restore": "restore the baseline",
    "reload.checkpoint": "read the candidate's checkpoint",
    "reload.export": "read the candidate's export",
    "smoke": "run the smoke work",
    "switch": "throw the off switch",
}

#: rules of the judge, in its own fixed words, as sentences that other languages have
RULES = frozenset(
    {
        "upper bound below limit",
        "lower bound above limit",
        "interval crosses limit",
        "not confirmed on fresh pairs",
        "control failed",
        "exact",
        "value inside limit",
        "value beyond limit",
        "bits identical",
        "bits differ",
        "both sides ran",
        "candidate fails alone",
        "baseline failed",
        "failure not shown",
        "failed once, then ran",
        "broken control",
        "no ending",
        "cell not run",
        "metric never arrived",
        "unsupported",
        "report",
        "holds",
        "does not hold",
        "no evidence",
        "baseline fails too",
        "baseline is not a number",
        "baseline unknown",
        "NaN",
        "NaN never passes",
        "NaN on both sides",
        "no reference",
        "no spread",
        "not a count",
        "not a number",
        "negative figure",
        "clock",
        "no usable time",
        "not deterministic",
        "too few pairs",
        "too few processes",
        "too few repeats",
        "too few runs",
        "too few samples for a tail",
        "relative limit on a baseline of zero",
    }
)
#: The rule of a fact that does not hold; of a gate on identical bits: the repeats could not be taken at all.
DOES_NOT_HOLD = "does not hold"

SEVERITY = ("fail", "error", "inconclusive", "not_run", "pass")
DECISION_RANK = {"adopt": 0, "isolate": 1, "defer": 2, "rollback": 3}


def metric_name(t: Language, metric: str) -> str:
    """A metric in words; one of a plug-in keeps its own name."""
    return t.text(METRICS[metric]) if metric in METRICS else metric


def family_name(t: Language, metric: str) -> str:
    family = metric.split(".")[0]
    return t.text(FAMILIES[family]) if family in FAMILIES else metric


def outcome_mark(t: Language, outcome: str) -> Mark:
    return Mark(outcome, t.text(OUTCOMES[outcome]))


def decision_mark(t: Language, decision: str) -> Mark:
    return Mark(decision, t.text(DECISIONS[decision]))


def claim_mark(t: Language, verdict: str) -> Mark:
    key, word = CLAIMS[verdict]
    return Mark(key, t.text(word))


def family(metric: str) -> str:
    """ "memory" of "memory.driver_peak" """
    return metric.split(".")[0]


def capital(text: str) -> str:
    """The first letter large, for the beginning of a line."""
    return text[:1].upper() + text[1:]
