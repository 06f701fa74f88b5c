"""What rows of metrics have in common: where, in which modes and in which forms, and a maker for each family."""

from __future__ import annotations

from torchspec.catalog.rows import Metric

ALL = ("cpu", "cuda", "rocm", "mps", "distributed")
GPU = ("cuda", "rocm", "mps")
ONE = ("cpu", "cuda", "rocm", "mps")
RANKS = ("distributed",)
TRAINED = ("fsdp2", "ddp")
TRAINING = ("train", "train_compiled")
COMPILED = ("compile", "train_compiled")
#: The modes that repeat a step, and all that there are; the harness has its own table.
STEADY = ("infer", "train", "compile", "train_compiled")
EVERY = (*STEADY, "export")
SIZED = ("absolute", "growth", "drop", "increase", "decrease", "report")
TIMED = ("absolute", "growth", "drop", "increase", "decrease", "speedup", "report")
SIDES = ("baseline", "beside", "eager")
TRUTHS = ("holds", "report")
NUMERIC = ("reference", "baseline", "beside")
NUMBERS = ("absolute", "growth", "increase", "report")


def latency(name: str, what: str) -> Metric:
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


def memory(name: str, meaning: str, backends: tuple[str, ...], measured: str) -> Metric:
    return Metric(name, meaning, "bytes", "lower", backends, STEADY, SIZED, "defer", measured, "process")


def error(
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
        TRAINING,
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


def truth(
    name: str, meaning: str, usual: str, modes: tuple[str, ...], measured: str, backends: tuple[str, ...] = ALL
) -> Metric:
    return Metric(name, meaning, "truth", "none", backends, modes, TRUTHS, usual, measured, "fact")


def forced(part: str, meaning: str, modes: tuple[str, ...]) -> Metric:
    """Not on ranks: their jobs are shared by cells, and the switch is one of a whole process."""
    return Metric(
        f"determinism.{part}_forced",
        f"{meaning} under torch.use_deterministic_algorithms(True)",
        "truth",
        "none",
        ONE,
        modes,
        ("identical", "report"),
        "defer",
        "seeded repeats in three fresh processes with the switch on; work that torch refuses there does not hold",
        "fact",
    )


def count(name: str, meaning: str, modes: tuple[str, ...], measured: str, backends: tuple[str, ...] = ALL) -> Metric:
    forms = ("absolute", "growth", "increase", "decrease", "report")
    return Metric(name, meaning, "count", "lower", backends, modes, forms, "defer", measured, "count")


def once(name: str, meaning: str, modes: tuple[str, ...], usual: str, backends: tuple[str, ...] = ALL) -> Metric:
    return Metric(
        name, meaning, "time", "lower", backends, modes, TIMED, usual, "a fresh process each time", "duration"
    )
