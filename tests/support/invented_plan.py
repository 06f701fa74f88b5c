"""A plan with INVENTED figures, shaped like the quickstart, and what each of its gates is said to have found."""

from __future__ import annotations

from typing import Any

from torchspec.model.plan import (
    Backend,
    Budget,
    Cell,
    Claim,
    Exclusion,
    Frozen,
    Gate,
    Limit,
    Plan,
    Rollback,
    Side,
    Source,
    SpecFile,
    Statement,
    TeamFile,
    Upgrade,
    Workload,
)

MB = 1e6


def _limit(form: str, op: str | None, value: float | None, unit: str | None, text: str) -> Limit:
    return Limit(form, op, value, unit, text)  # type: ignore[arg-type]


GATES: dict[str, tuple[str, Limit, str | None, str]] = {
    "error": ("error.max_abs", _limit("absolute", "<=", 1e-4, "1", "<= 1e-4"), "cpu.float64", "rollback"),
    "same": ("error.max_abs", _limit("absolute", "<=", 1e-5, "1", "<= 1e-5"), "baseline", "rollback"),
    "p50": ("latency.p50", _limit("growth", "<=", 0.03, "%", "growth <= 3 %"), "baseline", "isolate"),
    "p95": ("latency.p95", _limit("growth", "<=", 0.05, "%", "growth <= 5 %"), "baseline", "isolate"),
    "throughput": ("throughput", _limit("drop", "<=", 0.03, "%", "drop <= 3 %"), "baseline", "isolate"),
    "driver": ("memory.driver_peak", _limit("growth", "<=", 0.05, "%", "growth <= 5 %"), "baseline", "defer"),
    "allocated": ("memory.allocated_peak", _limit("growth", "<=", 0.05, "%", "growth <= 5 %"), "baseline", "defer"),
    "bits": ("determinism.output", _limit("identical", None, None, None, "identical"), None, "defer"),
    "breaks": ("compile.graph_breaks", _limit("increase", "<=", 0.0, "1", "increase <= 0"), "baseline", "defer"),
    "compiling": ("compile.time", _limit("growth", "<=", 0.25, "%", "growth <= 25 %"), "baseline", "isolate"),
    "export": ("export.roundtrip", _limit("holds", None, None, None, "holds"), None, "defer"),
    "runs": ("runs", _limit("holds", None, None, None, "holds"), None, "defer"),
}
BY_MODE = {
    "infer": ("error", "same", "p50", "p95", "throughput", "driver", "allocated", "bits", "runs"),
    "train": ("error", "same", "p50", "p95", "throughput", "driver", "allocated", "bits", "runs"),
    "compile": ("error", "p50", "p95", "compiling", "breaks", "runs"),
    "export": ("export", "runs"),
}
WORKLOADS: tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...] = (
    (
        "fine_tune_loss",
        "linear_cross_entropy",
        ("train",),
        {"dtype": "float32", "tokens": 1024, "hidden": 128, "vocabulary": 32000},
    ),
    ("attention", "attention", ("infer",), {"dtype": "float32", "mask": "causal", "seq": 256}),
    ("reranker", "python", ("infer", "compile", "export"), {"dtype": "float32"}),
)
BACKENDS = ("cpu", "cuda", "mps", "rocm", "distributed")

# (baseline, candidate, unit, estimate, low, high, outcome) by workload, mode and gate
FIGURES: dict[tuple[str, str, str], tuple[float | None, float | None, str, float, float, float, str]] = {
    ("fine_tune_loss", "train", "error"): (2.1e-7, 3.1e-7, "1", 3.1e-7, 3.1e-7, 3.1e-7, "pass"),
    ("fine_tune_loss", "train", "same"): (None, None, "1", 8.9e-7, 8.9e-7, 8.9e-7, "pass"),
    ("fine_tune_loss", "train", "p50"): (0.1021, 0.0968, "s", -0.0523, -0.0611, -0.0427, "pass"),
    ("fine_tune_loss", "train", "p95"): (0.1192, 0.1153, "s", -0.0331, -0.0740, 0.0102, "pass"),
    ("fine_tune_loss", "train", "throughput"): (10029.0, 10579.0, "tokens/s", -0.0548, -0.0640, -0.0439, "pass"),
    ("fine_tune_loss", "train", "driver"): (101.3e6, 172.4e6, "B", 0.7019, 0.6480, 0.7733, "fail"),
    ("fine_tune_loss", "train", "allocated"): (98.57e6, 131.4e6, "B", 0.3331, 0.3331, 0.3331, "fail"),
    ("attention", "infer", "error"): (1.19e-7, 1.19e-7, "1", 1.19e-7, 1.19e-7, 1.19e-7, "pass"),
    ("attention", "infer", "same"): (None, None, "1", 0.0, 0.0, 0.0, "pass"),
    ("attention", "infer", "p50"): (0.00061, 0.000612, "s", 0.0041, -0.0062, 0.0131, "pass"),
    ("attention", "infer", "p95"): (0.00072, 0.000738, "s", 0.0262, -0.0190, 0.0731, "inconclusive"),
    ("attention", "infer", "throughput"): (1639.0, 1633.0, "items/s", 0.0041, -0.0131, 0.0062, "pass"),
    ("attention", "infer", "driver"): (4.39e6, 4.41e6, "B", 0.0046, -0.0012, 0.0093, "pass"),
    ("attention", "infer", "allocated"): (1.05e6, 1.05e6, "B", 0.0, 0.0, 0.0, "pass"),
    ("reranker", "infer", "error"): (4.0e-7, 4.2e-7, "1", 4.2e-7, 4.2e-7, 4.2e-7, "pass"),
    ("reranker", "infer", "same"): (None, None, "1", 1.2e-7, 1.2e-7, 1.2e-7, "pass"),
    ("reranker", "infer", "p50"): (0.01231, 0.01222, "s", -0.0071, -0.0166, 0.0030, "pass"),
    ("reranker", "infer", "p95"): (0.01390, 0.01378, "s", -0.0092, -0.0280, 0.0114, "pass"),
    ("reranker", "infer", "throughput"): (5199.0, 5237.0, "queries/s", -0.0073, -0.0170, 0.0029, "pass"),
    ("reranker", "infer", "driver"): (11.8e6, 11.9e6, "B", 0.0085, -0.0030, 0.0170, "pass"),
    ("reranker", "infer", "allocated"): (9.12e6, 9.12e6, "B", 0.0, 0.0, 0.0, "pass"),
    ("reranker", "compile", "error"): (4.1e-7, 4.4e-7, "1", 4.4e-7, 4.4e-7, 4.4e-7, "pass"),
    ("reranker", "compile", "p50"): (0.00880, 0.00640, "s", -0.2727, -0.2911, -0.2540, "pass"),
    ("reranker", "compile", "p95"): (0.00991, 0.00733, "s", -0.2603, -0.2999, -0.2214, "pass"),
    ("reranker", "compile", "compiling"): (14.20, 15.41, "s", 0.0852, 0.0310, 0.1422, "pass"),
    ("reranker", "compile", "breaks"): (0.0, 0.0, "count", 0.0, 0.0, 0.0, "pass"),
}


def _cells() -> tuple[Cell, ...]:
    out = []
    for b, backend in enumerate(BACKENDS[:4]):
        for w, (name, _, modes, axes) in enumerate(WORKLOADS):
            for m, mode in enumerate(modes):
                label = f"{name} {backend} {mode}"
                out.append(Cell(f"{b}{w}{m}" + "c" * 9, name, backend, mode, axes, label))  # type: ignore[arg-type]
    return tuple(out)


def plan() -> Plan:
    """Three workloads, five backends (distributed has no cell), twelve gates."""
    cells = _cells()
    gates = []
    for key, (metric, limit, against, decision) in GATES.items():
        own = tuple(c.id for c in cells if key in BY_MODE[c.mode])
        gates.append(
            Gate(
                f"g-{key}",
                "service",
                metric,
                limit,
                against,
                0.05 if limit.form == "growth" else None,
                20 if key == "bits" else None,
                decision,
                None,
                own,
                f"{metric} {limit.text}",
                implicit=key == "runs",
            )
        )  # type: ignore[arg-type]
    return Plan(
        schema="torchspec.plan/1",
        name="quickstart",
        compiler="0.1.0",
        spec=(SpecFile("quickstart.tspec", "11" * 32),),
        upgrade=Upgrade(
            "torch 2.13 to 2.14",
            "ml-platform",
            "Can our work move from torch 2.13.0 to 2.14.1?",
            "2026-11-02",
            "2026-11-14",
            (),
            (
                "Linux on one CPU machine with two cores; no accelerator was at hand.",
                "The reranker is a small stand-in for the service, with random weights.",
            ),
        ),
        params=(),
        frozen=Frozen("3.11", ("numpy==2.4.0",), {"OMP_NUM_THREADS": "1"}, {}, 1234),
        baseline=Side("baseline", "baseline", "2.13.0", None, None),
        candidates=(Side("candidate", "candidate", "2.14.1", None, None),),
        backends=tuple(Backend(b, "required", 1 if b == "cpu" else None) for b in BACKENDS),
        sources=(Source("notes", "https://github.com/pytorch/pytorch/releases/tag/v2.14.0", "2026-11-01"),),
        claims=(
            Claim(
                "chunked_loss",
                "notes",
                {"device": "H100", "dtype": "bfloat16", "vocabulary": 128256},
                (Statement("memory.allocated_peak", "drop", 0.5, "%", 0.05, "pp", {}, "drop 50 %"),),
                "fine_tune_loss",
                ("cpu",),
            ),
        ),
        workloads=tuple(Workload(n, k, None, None, None, None, {}) for n, k, _, _ in WORKLOADS),
        lanes=(),
        cells=cells,
        gates=tuple(gates),
        waivers=(),
        together=(),
        exclusions=(Exclusion("reranker", "mode export on rocm", "no exporter was asked for there", None, 1),),
        rollback=Rollback("baseline", 600.0, ("checkpoint",)),
        budget=Budget(),
        files=(TeamFile("quickstart/reranker.py", "22" * 32, ""),),
        meta={},
    )
