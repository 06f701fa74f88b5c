"""Metrics of jobs of several ranks, and of the state that training writes and reads: one row a figure."""

from __future__ import annotations

from torchspec.catalog.metric_forms import RANKS, TIMED, TRAINED, once, truth
from torchspec.catalog.rows import Metric

RANK_METRICS: tuple[Metric, ...] = (
    once("comm.wait", "Time of a step spent waiting for communication", ("train",), "isolate", RANKS),
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
        "comm.algorithm_bandwidth",
        "Algorithm bandwidth of one collective",
        "bandwidth",
        "higher",
        RANKS,
        ("infer", "train"),
        ("report",),
        "isolate",
        "message size by the usual formula",
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
        truth(name, meaning, "rollback" if name.endswith("correct") else "defer", ("infer",), measured, RANKS)._replace(
            kinds=("collective",)
        )
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
    truth(
        "checkpoint.candidate_to_baseline",
        "The baseline loads the candidate's checkpoint and goes on",
        "defer",
        ("train",),
        "written by the candidate, read by the baseline",
    ),
    truth(
        "checkpoint.baseline_to_candidate",
        "The candidate loads the baseline's checkpoint and goes on",
        "defer",
        ("train",),
        "written by the baseline, read by the candidate",
    ),
    truth(
        "checkpoint.reshard", "A checkpoint loads at another rank count", "defer", ("train",), "save and load", RANKS
    ),
    truth(
        "checkpoint.resume",
        "A run goes on from its own checkpoint to the same losses, bit for bit",
        "defer",
        ("train",),
        "written and read by the same side",
        RANKS,
    ),
    truth(
        "checkpoint.truncated",
        "A checkpoint that a crash cut short is refused, and the one before still loads",
        "defer",
        ("train",),
        "data cut, metadata cut, metadata missing",
        RANKS,
    ),
    *(
        once(name, meaning, ("train",), "defer", RANKS)._replace(
            measured="the sharded form, the slowest rank, in the jobs of each of three rounds"
        )
        for name, meaning in (
            ("checkpoint.save_time", "Time of writing a checkpoint"),
            ("checkpoint.load_time", "Time of reading a checkpoint"),
        )
    ),
    truth(
        "recovery.rank_killed",
        "A job whose rank was killed goes on from its last checkpoint",
        "defer",
        ("train",),
        "one rank killed in the middle of a step",
        RANKS,
    ),
    once("recovery.time", "Time from a rank's death to the next step", ("train",), "defer", RANKS),
)
