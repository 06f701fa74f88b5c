"""Metrics: one row a figure. `torchspec explain METRIC` and the reference documentation come from this table."""

from __future__ import annotations

from torchspec.catalog.rows import Metric

ALL = ("cpu", "cuda", "rocm", "mps", "distributed")
GPU = ("cuda", "rocm", "mps")
ONE = ("cpu", "cuda", "rocm", "mps")
RANKS = ("distributed",)
TRAINED = ("fsdp2", "ddp")
STEADY = ("infer", "train", "compile")
EVERY = ("infer", "train", "compile", "export")
SIZED = ("absolute", "growth", "drop", "increase", "decrease", "report")
TIMED = ("absolute", "growth", "drop", "increase", "decrease", "speedup", "report")
SIDES = ("baseline", "beside", "eager")
TRUTHS = ("holds", "report")
NUMERIC = ("reference", "baseline", "beside")
NUMBERS = ("absolute", "growth", "increase", "report")


def _latency(name: str, what: str) -> Metric:
    return Metric(
        name,
        f"Time of one call or step in steady state, {what}",
        "time",
        "lower",
        ALL,
        STEADY,
        TIMED,
        "isolate",
        "interleaved blocks of both sides in pairs of fresh workers; warm-up is left out",
        "timing",
        SIDES,
    )


def _memory(name: str, meaning: str, backends: tuple[str, ...], measured: str) -> Metric:
    return Metric(name, meaning, "bytes", "lower", backends, STEADY, SIZED, "defer", measured, "process")


def _error(
    name: str, meaning: str, dimension: str = "number", better: str = "lower", kinds: tuple[str, ...] = ()
) -> tuple[Metric, Metric]:
    measured = "same frozen inputs and weights; NaN never passes"
    plain = Metric(
        f"error.{name}",
        meaning,
        dimension,
        better,
        ALL,
        EVERY,
        NUMBERS if better == "lower" else ("absolute", "drop", "decrease", "report"),
        "rollback",
        measured,
        "numeric",
        NUMERIC,
        True,
        kinds,
        True,
    )
    gradient = Metric(
        f"error.gradient_{name}",
        f"{meaning}, of the gradients",
        dimension,
        better,
        ALL,
        ("train",),
        plain.forms,
        "rollback",
        measured,
        "numeric",
        NUMERIC,
        True,
        kinds,
        True,
    )
    return plain, gradient


def _truth(
    name: str, meaning: str, usual: str, modes: tuple[str, ...], measured: str, backends: tuple[str, ...] = ALL
) -> Metric:
    return Metric(name, meaning, "truth", "none", backends, modes, TRUTHS, usual, measured, "fact")


def _count(name: str, meaning: str, modes: tuple[str, ...], measured: str, backends: tuple[str, ...] = ALL) -> Metric:
    forms = ("absolute", "growth", "increase", "decrease", "report")
    return Metric(name, meaning, "count", "lower", backends, modes, forms, "defer", measured, "count")


def _once(name: str, meaning: str, modes: tuple[str, ...], usual: str, backends: tuple[str, ...] = ALL) -> Metric:
    return Metric(
        name, meaning, "time", "lower", backends, modes, TIMED, usual, "a fresh process each time", "duration"
    )


METRICS: tuple[Metric, ...] = (
    _truth("runs", "The work runs to its end where the baseline does", "defer", EVERY, "endings of the cell's workers"),
    *_error("max_abs", "Largest absolute difference from the reference"),
    *_error("max_rel", "Largest difference relative to the reference's own size"),
    *_error("ulp", "Largest difference in units of the last place", "ulp"),
    *_error("cosine", "Cosine of the angle between output and reference", "number", "higher"),
    *_error("psnr", "Peak signal-to-noise ratio against the reference", "db", "higher"),
    *_error("nonfinite", "Positions that are NaN or infinite on one side only", "count"),
    _error(
        "logits_max_abs",
        "Largest absolute difference of the logits",
        kinds=("decode", "python", "linear_cross_entropy"),
    )[0],
    Metric(
        "error.rate",
        "Share of requests that ended in an error",
        "ratio",
        "lower",
        ALL,
        EVERY,
        ("absolute", "increase", "growth", "report"),
        "rollback",
        "counted where the requests were served",
        "count",
        kinds=("ingested",),
        correctness=True,
    ),
    Metric(
        "loss.final",
        "Loss after the mode's seeded steps",
        "number",
        "lower",
        ALL,
        ("train",),
        ("absolute", "growth", "increase", "report"),
        "rollback",
        "the same seeded steps on both sides",
        "numeric",
        kinds=("linear_cross_entropy", "python", "fsdp2", "ddp", "checkpoint"),
        correctness=True,
    ),
    Metric(
        "task.accuracy",
        "Share of right answers on the frozen data slice",
        "ratio",
        "higher",
        ALL,
        EVERY,
        ("absolute", "drop", "decrease", "report"),
        "rollback",
        "the frozen slice, whole, on both sides",
        "numeric",
        kinds=("decode", "python", "ingested"),
        correctness=True,
    ),
    _latency("latency.p50", "the median"),
    _latency("latency.p95", "the 95th percentile"),
    _latency("latency.p99", "the 99th percentile"),
    Metric(
        "latency.first_token_p50",
        "Time from the request to its first token, the median",
        "time",
        "lower",
        ALL,
        ("infer", "compile"),
        TIMED,
        "isolate",
        "prefill and first step: 20 requests in each of three fresh processes",
        "duration",
        kinds=("decode", "ingested"),
    ),
    Metric(
        "latency.first_token_p95",
        "Time from the request to its first token, the 95th percentile",
        "time",
        "lower",
        ALL,
        ("infer", "compile"),
        TIMED,
        "isolate",
        "prefill and first step: 20 requests in each of three fresh processes",
        "duration",
        kinds=("decode", "ingested"),
    ),
    Metric(
        "throughput",
        "Items per second in steady state",
        "rate",
        "higher",
        ALL,
        STEADY,
        ("absolute", "drop", "growth", "speedup", "report"),
        "isolate",
        "declared items per call over the time of the same blocks as latency",
        "timing",
        SIDES,
    ),
    Metric(
        "step.time",
        "Time of one whole training step, optimizer included",
        "time",
        "lower",
        ALL,
        ("train",),
        TIMED,
        "isolate",
        "interleaved blocks; over all ranks where there are several",
        "timing",
        SIDES,
    ),
    _once("latency.first_call", "Time of the first call, everything lazy included", STEADY, "isolate"),
    _once("import.time", "Time of `import torch`", EVERY, "isolate"),
    _memory(
        "memory.driver_peak",
        "Peak of all memory of the process as the driver or system counts it, above the level before the first step",
        ALL,
        "cpu: peak resident set; cuda, rocm: the device's own accounting; mps: driver, sampled",
    ),
    _memory("memory.reserved_peak", "Peak of what torch's allocator holds", GPU, "the allocator's own counter"),
    _memory(
        "memory.allocated_peak", "Peak of what tensors hold", ALL, "the allocator's own counter; cpu: torch's profiler"
    ),
    Metric(
        "memory.fragmentation",
        "Share of reserved memory that no tensor uses at the peak",
        "ratio",
        "lower",
        GPU,
        STEADY,
        ("absolute", "increase", "growth", "report"),
        "defer",
        "reserved and allocated at the same moment",
        "process",
    ),
    Metric(
        "determinism.output",
        "Every repeat gives the same bits",
        "truth",
        "none",
        ALL,
        STEADY,
        ("identical", "report"),
        "defer",
        "seeded repeats in one process and across processes",
        "fact",
        correctness=False,
    ),
    Metric(
        "determinism.gradient",
        "Every repeat gives gradients of the same bits",
        "truth",
        "none",
        ALL,
        ("train",),
        ("identical", "report"),
        "defer",
        "seeded repeats in one process and across processes",
        "fact",
    ),
    _once("compile.time", "Time of the first compiled call with empty caches", ("compile",), "isolate"),
    _once("compile.time_warm", "Time of the first compiled call with warm caches", ("compile",), "isolate"),
    _count("compile.graph_breaks", "Graph breaks of the compiled work", ("compile",), "explained by the compiler"),
    _count("compile.recompiles", "Recompiles over the declared shapes", ("compile",), "counted by the compiler"),
    _truth(
        "export.roundtrip", "Exported, saved, loaded and run with the same output", "defer", ("export",), "one process"
    ),
    _truth(
        "export.reload", "The exported file loads and runs in a fresh process", "defer", ("export",), "two processes"
    ),
    _truth(
        "export.candidate_to_baseline",
        "What the candidate exported loads and runs in the baseline",
        "defer",
        ("export",),
        "written by the candidate, read by the baseline",
    ),
    _truth(
        "export.baseline_to_candidate",
        "What the baseline exported loads and runs in the candidate",
        "defer",
        ("export",),
        "written by the baseline, read by the candidate",
    ),
    _truth(
        "export.dynamic",
        "Exported with the dimensions dynamic that vary over the declared shapes, and right on each",
        "defer",
        ("export",),
        "one process, every declared shape",
    ),
    _truth(
        "export.aot_package",
        "Compiled ahead of time into an AOTInductor package, loaded and run with the same output",
        "defer",
        ("export",),
        "one process",
    ),
    _truth(
        "export.onnx",
        "Exported to ONNX and run by onnxruntime with the same output (needs both packages)",
        "defer",
        ("export",),
        "one process",
    ),
    _count(
        "fallback.operators",
        "Operators that ran on the CPU instead of the device",
        STEADY,
        "warnings and dispatch of one call",
        GPU,
    ),
    _once("comm.wait", "Time of a step spent waiting for communication", ("train",), "isolate", RANKS),
    Metric(
        "comm.latency_p50",
        "Time of one collective, the median",
        "time",
        "lower",
        RANKS,
        ("infer", "train"),
        TIMED,
        "isolate",
        "over all ranks, the slowest",
        "timing",
        kinds=("collective",),
    ),
    Metric(
        "comm.latency_p95",
        "Time of one collective, the 95th percentile",
        "time",
        "lower",
        RANKS,
        ("infer", "train"),
        TIMED,
        "isolate",
        "over all ranks, the slowest",
        "timing",
        kinds=("collective",),
    ),
    Metric(
        "comm.bus_bandwidth",
        "Bus bandwidth of one collective",
        "bandwidth",
        "higher",
        RANKS,
        ("infer", "train"),
        ("absolute", "drop", "growth", "speedup", "report"),
        "isolate",
        "message size and ranks by the usual formula",
        "timing",
        kinds=("collective",),
    ),
    Metric(
        "comm.overlap",
        "Share of the time with communication in flight in which something was computed",
        "ratio",
        "higher",
        RANKS,
        ("train",),
        ("absolute", "drop", "decrease", "report"),
        "isolate",
        "the profiler's ranges; the rank that overlaps least",
        "process",
        kinds=TRAINED,
    ),
    *(
        _truth(
            name, meaning, "rollback" if name.endswith("correct") else "defer", ("infer",), measured, RANKS
        )._replace(kinds=("collective",))
        for name, meaning, measured in (
            (
                "collective.correct",
                "A collective gives what one process computes, and a barrier holds until the last rank has come",
                "whole numbers by a formula, compared bit for bit on every rank",
            ),
            (
                "collective.rank_missing",
                "The others hear an error within the timeout when a rank never joins",
                "one rank stays away from init_process_group",
            ),
            (
                "collective.rank_late",
                "A rank a little late is waited for, and one later than the timeout is an error in time",
                "one rank sleeps before an all_reduce",
            ),
            (
                "collective.rank_dead",
                "The others hear an error within the timeout when a rank is killed",
                "one rank killed between two all_reduce calls",
            ),
            (
                "collective.slow_rank_named",
                "Waiting times and the monitored barrier name the rank that is slow or absent",
                "each rank slow in turn; one rank stays away from a monitored barrier",
            ),
        )
    ),
    Metric(
        "loss.one_rank",
        "Largest relative difference of the loss curve from that of one rank on the same global batches",
        "number",
        "lower",
        RANKS,
        ("train",),
        ("absolute", "increase", "report"),
        "rollback",
        "the same seeded steps on all ranks and on rank 0 alone",
        "numeric",
        kinds=TRAINED,
        correctness=True,
    ),
    Metric(
        "loss.optimizer_one_rank",
        "Largest relative difference of the optimizer's state from that of one rank after the same steps",
        "number",
        "lower",
        RANKS,
        ("train",),
        ("absolute", "increase", "report"),
        "rollback",
        "whole states gathered from all ranks against rank 0 alone",
        "numeric",
        kinds=TRAINED,
        correctness=True,
    ),
    Metric(
        "scaling.efficiency",
        "Throughput at N ranks over N times that of one",
        "ratio",
        "higher",
        RANKS,
        ("train",),
        ("absolute", "drop", "decrease", "report"),
        "isolate",
        "the same work at each rank count",
        "timing",
    ),
    _truth(
        "checkpoint.candidate_to_baseline",
        "The baseline loads the candidate's checkpoint and goes on",
        "defer",
        ("train",),
        "written by the candidate, read by the baseline",
    ),
    _truth(
        "checkpoint.baseline_to_candidate",
        "The candidate loads the baseline's checkpoint and goes on",
        "defer",
        ("train",),
        "written by the baseline, read by the candidate",
    ),
    _truth(
        "checkpoint.reshard", "A checkpoint loads at another rank count", "defer", ("train",), "save and load", RANKS
    ),
    _truth(
        "checkpoint.resume",
        "A run goes on from its own checkpoint to the same losses, bit for bit",
        "defer",
        ("train",),
        "written and read by the same side",
        RANKS,
    ),
    _truth(
        "checkpoint.truncated",
        "A checkpoint that a crash cut short is refused, and the one before still loads",
        "defer",
        ("train",),
        "data cut, metadata cut, metadata missing",
        RANKS,
    ),
    _once("checkpoint.save_time", "Time of writing a checkpoint", ("train",), "defer", RANKS),
    _once("checkpoint.load_time", "Time of reading a checkpoint", ("train",), "defer", RANKS),
    _truth(
        "recovery.rank_killed",
        "A job whose rank was killed goes on from its last checkpoint",
        "defer",
        ("train",),
        "one rank killed in the middle of a step",
        RANKS,
    ),
    _once("recovery.time", "Time from a rank's death to the next step", ("train",), "defer", RANKS),
)
