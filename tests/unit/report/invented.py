"""A plan and a verdict with INVENTED figures, shaped like the quickstart: nothing here was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torchspec.model.evidence import GENESIS, Record
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
from torchspec.model.registration import GitState, LimitChange, Lock, LockedFile, Registration
from torchspec.model.verdict import ClaimVerdict, Fleet, Judgement, Rehearsal, Row, Verdict

DIGEST = "3f1c9a7be2d40586" * 4
HEAD = "a90c4e1f77d2b380" * 4
ISSUED = "2026-11-10T06:20:00Z"
COMMIT = "4f2c9e1d0b7a86f35241c0de9b8a7f6e5d4c3b2a"

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
RULES = {
    "pass": "upper bound below limit",
    "fail": "lower bound above limit, confirmed",
    "inconclusive": "interval crosses limit",
    "not_run": "no evidence",
    "error": "side failed",
}
RANK = {"adopt": 0, "isolate": 1, "defer": 2, "rollback": 3}


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


def _judgement(p: Plan, gate: Gate, cell: Cell, seq: int) -> Judgement:
    key = gate.id.removeprefix("g-")
    if cell.backend != "cpu":
        return Judgement(
            gate.id,
            cell.id,
            "candidate",
            gate.metric,
            "not_run",
            "defer",
            "no evidence",
            "the ledger holds no evidence of it",
        )
    n = {"pairs": 8, "builds": 4} if key in {"p50", "p95", "throughput"} else {"repeats": 3}
    if (figures := FIGURES.get((cell.workload, cell.mode, key))) is None:
        return Judgement(
            gate.id,
            cell.id,
            "candidate",
            gate.metric,
            "pass",
            "adopt",
            "holds on both sides",
            "it held",
            n={"repeats": 20 if key == "bits" else 1},
            evidence=(seq,),
        )
    b, c, unit, estimate, low, high, outcome = figures
    contribution = {"pass": "adopt", "fail": gate.decision}.get(outcome, "defer")
    return Judgement(
        gate.id,
        cell.id,
        "candidate",
        gate.metric,
        outcome,
        contribution,
        RULES[outcome],  # type: ignore[arg-type]
        f"{gate.metric} {outcome}",
        estimate,
        low,
        high,
        0.95,
        b,
        c,
        unit,
        n,
        0.018 if key == "p50" else None,
        improvement=outcome == "pass" and high < -0.02,
        evidence=(seq, seq + 1),
        detail={"pairs_needed": 31} if outcome == "inconclusive" else None,
    )


def verdict(p: Plan | None = None) -> Verdict:
    """The driver's peak of fine_tune_loss fails, one interval crosses its limit, four backends have no evidence."""
    p = p or plan()
    cells = {c.id: c for c in p.cells}
    judgements, seq = [], 40
    for gate in p.gates:
        for cell_id in gate.cells:
            judgements.append(_judgement(p, gate, cells[cell_id], seq))
            seq += 2
    return decided(p, tuple(judgements))


def decided(p: Plan, judgements: tuple[Judgement, ...], candidate: str = "candidate") -> Verdict:
    """Rows and fleet as plain maxima of the judgements (the real algebra is the decide stage's)."""
    cells = {c.id: c for c in p.cells}
    order = ("fail", "error", "inconclusive", "not_run", "pass")
    rows = []
    by_place: dict[tuple[str, str], list[Judgement]] = {(c.workload, c.backend): [] for c in p.cells}
    for j in judgements:
        by_place[cells[j.cell].workload, cells[j.cell].backend].append(j)
    for (w, b), own in by_place.items():
        decision = max((j.contribution or "adopt" for j in own), key=lambda d: RANK[d])
        counts = {o: sum(j.outcome == o for j in own) for o in order if any(j.outcome == o for j in own)}
        rows.append(
            Row(
                w,
                b,
                candidate,
                "required",
                min((j.outcome for j in own), key=order.index),
                decision,
                decision,
                "worst gate",
                "",
                counts,
            )
        )
    heaviest = max((r.decision for r in rows), key=lambda d: RANK[d])
    fleet = Fleet(
        candidate,
        heaviest,
        "a required row decides",
        "",
        tuple((r.workload, r.backend) for r in rows if r.decision == heaviest) if heaviest != "adopt" else (),
    )
    steps = (
        {"step": "restore", "ok": True, "seconds": 3.2, "detail": {"packages": 24}, "error": None},
        {
            "step": "reload.checkpoint",
            "ok": True,
            "seconds": 5.1,
            "detail": {"max_abs": 0.0},
            "error": None,
            "cell": p.cells[-1].id,
        },
        {
            "step": "smoke",
            "ok": True,
            "seconds": 8.4,
            "detail": {"output": "9f" * 32},
            "error": None,
            "cell": p.cells[-1].id,
        },
    )
    cpu = [c for c in p.cells if c.backend == "cpu"]
    controls = tuple(
        {
            "cell": c.id,
            "candidate": candidate,
            "metric": "latency.p50",
            "what": what,
            "planted": planted,
            "ok": True,
            "estimate": e,
            "low": e - 0.011,
            "high": e + 0.011,
            "visible": 0.018,
            "evidence": [20 + i],
        }
        for i, (c, what, planted, e) in enumerate(
            [(c, "same", None, 0.001) for c in cpu[:3]] + [(c, "planted", 0.05, 0.051) for c in cpu[:3]]
        )
    )
    return Verdict(
        "torchspec.verdict/1",
        DIGEST,
        HEAD,
        judgements,
        tuple(rows),
        (fleet,),
        {
            candidate: Rehearsal(
                "pass",
                "adopt",
                16.7,
                600.0,
                "restored, reloaded and run again with its own output",
                steps,
                (201, 202, 203),
            )
        },
        {
            candidate: tuple(
                ClaimVerdict(
                    c.name,
                    0,
                    "not comparable here",
                    "the stated device was not at hand; on cpu it grew instead",
                    -0.3331,
                    None,
                    None,
                    (71, 72),
                )
                for c in p.claims
            )
        },
        controls,
        (),
        (
            {
                "run": "r-20261109-2104",
                "status": "interrupted",
                "reason": "interrupted by the user",
                "backend": "cpu",
                "candidate": candidate,
                "started": "2026-11-09T21:04:10Z",
                "wall_s": 63.0,
                "cells": {"done": 1, "total": 5},
            },
            {
                "run": "r-20261109-2107",
                "status": "completed",
                "reason": None,
                "backend": "cpu",
                "candidate": candidate,
                "started": "2026-11-09T21:07:44Z",
                "wall_s": 512.0,
                "cells": {"done": 5, "total": 5},
            },
        ),
    )


def lock(p: Plan | None = None) -> Lock:
    p = p or plan()
    git = GitState(COMMIT, "main", False, True, "2026-11-06T09:12:00Z", "https://git.example/ml/platform.git")
    return Lock(
        "torchspec.lock/1",
        p.name,
        "0.1.0",
        "33" * 32,
        {},
        (LockedFile("quickstart.tspec", "11" * 32),),
        (LockedFile("quickstart/reranker.py", "22" * 32),),
        DIGEST,
        {b: f"4{i}" * 32 for i, b in enumerate(BACKENDS)},
        {},
        git,
    )


def confirmatory() -> Registration:
    return Registration("confirmatory", (), COMMIT, "2026-11-06T09:12:00Z", "2026-11-09T21:04:11Z")


def exploratory() -> Registration:
    return Registration(
        "exploratory",
        ("a limit changed after its first evidence",),
        COMMIT,
        "2026-11-06T09:12:00Z",
        "2026-11-09T21:04:11Z",
        (
            LimitChange(
                "memory.driver_peak", "growth <= 5 %", "growth <= 80 %", "77ab03d" + "0" * 33, "2026-11-10T01:00:00Z"
            ),
        ),
        "-  memory.driver_peak  growth <= 5 %   else defer\n+  memory.driver_peak  growth <= 80 %  else defer\n",
    )


def environments() -> dict[str, dict[str, Any]]:
    def one(side: str, torch: str, git: str, packages: dict[str, str]) -> dict[str, Any]:
        return {
            "side": side,
            "python": "3.11.2",
            "executable": ("5" if side == "baseline" else "6") * 64,
            "torch": {
                "version": torch,
                "git_version": git,
                "cuda": None,
                "debug": False,
                "config": ("7" if side == "baseline" else "8") * 64,
            },
            "packages": {"torch": torch, "numpy": "2.4.0", "filelock": "3.20.0", "sympy": "1.14.0"} | packages,
            "torch_pins": ["sympy", "triton", "networkx"],
            "env": {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            "threads": {"torch": 1, "interop": 1, "omp": 1},
            "device": {"name": "cpu", "model": "two cores"},
            "glibc": "2.41",
            "affinity": [0, 1],
            "malloc": {"MALLOC_TRIM_THRESHOLD_": "1073741824"},
        }

    return {
        "baseline": one("baseline", "2.13.0", "a" * 40, {"networkx": "3.5"}),
        "candidate": one("candidate", "2.14.1", "b" * 40, {"networkx": "3.6"}),
    }


def records(p: Plan | None = None) -> list[Record]:
    """A short ledger: the runs' starts and timings of the cpu cells."""
    p = p or plan()
    out: list[Record] = []

    def add(time: str, run: str, kind: str, body: dict[str, Any]) -> None:
        out.append(Record(len(out), time, run, kind, body, GENESIS, f"{len(out):064x}"))

    for run, time in (("r-20261109-2104", "2026-11-09T21:04:10.5Z"), ("r-20261109-2107", "2026-11-09T21:07:44.0Z")):
        add(
            time,
            run,
            "run.start",
            {
                "argv": [
                    "python",
                    "cpu.py",
                    "pair",
                    "--baseline",
                    "/opt/envs/2.13.0/bin/python",
                    "--candidate",
                    "/opt/envs/2.14.1/bin/python",
                    "--evidence",
                    "out/quickstart/evidence",
                ],
                "backend": "cpu",
                "candidate": "candidate",
                "git": {"commit": COMMIT, "dirty": False},
                "host": {"os": "Linux", "cpu": "2 cores, AVX2"},
            },
        )
    for index, cell in enumerate(c for c in p.cells if c.backend == "cpu" and c.mode != "export"):
        for pair in range(4):
            base = (1 + index) * 1e6
            rounds = [
                {
                    "order": "ab",
                    "a_ns": [base * (1 + 0.01 * ((k * 7 + pair) % 9)) for k in range(12)],
                    "b_ns": [base * (0.98 + 0.012 * ((k * 5 + pair) % 9)) for k in range(12)],
                }
                for _ in range(4)
            ]
            add(
                f"2026-11-09T21:1{pair}:00Z",
                "r-20261109-2107",
                "timing",
                {
                    "cell": cell.id,
                    "candidate": "candidate",
                    "pair": pair,
                    "build": 0,
                    "stage": "measure",
                    "a": "baseline",
                    "b": "candidate",
                    "rounds": rounds,
                },
            )
    add("2026-11-10T03:37:02Z", "r-20261109-2107", "run.end", {"status": "completed"})
    return out


SIGNER = "ci-bot: self-signed, and unknown to you unless you hold its certificate"


def arguments(**changes: Any) -> dict[str, Any]:
    """Keyword arguments of `view`, but for plan and verdict."""
    given = {
        "lock": lock(),
        "registration": confirmatory(),
        "environments": environments(),
        "records": records(),
        "signer": SIGNER,
        "issued": ISSUED,
    }
    return given | changes


def adopted() -> tuple[Plan, Verdict]:
    """Everything passes: one backend, all figures inside their limits."""
    p = plan()
    cells = tuple(c for c in p.cells if c.backend == "cpu")
    keep = {c.id for c in cells}
    p = replace(
        p,
        cells=cells,
        backends=p.backends[:1],
        gates=tuple(replace(g, cells=tuple(c for c in g.cells if c in keep)) for g in p.gates),
    )
    judgements = []
    for j in verdict(plan()).judgements:
        if j.cell not in keep:
            continue
        if j.outcome in {"fail", "inconclusive"}:
            j = replace(
                j,
                outcome="pass",
                contribution="adopt",
                rule=RULES["pass"],
                estimate=0.004,
                low=-0.006,
                high=0.013,
                baseline=100e6 if j.unit == "B" else 0.1,
                candidate_value=100.4e6 if j.unit == "B" else 0.1004,
            )
        judgements.append(j)
    return p, decided(p, tuple(judgements))


def scaled(workloads: int, backends: tuple[str, ...] = BACKENDS) -> tuple[Plan, Verdict]:
    """A plan of `workloads` times the backends, one cell each with eight gates, of which a few do not pass."""
    base = plan()
    cells = tuple(
        Cell(f"{w:06d}{b:02d}beef", f"work_{w:04d}", backend, "infer", {"dtype": "float32"}, f"work_{w:04d} {backend}")
        for w in range(workloads)
        for b, backend in enumerate(backends)
    )
    keys = ("error", "same", "p50", "p95", "throughput", "driver", "allocated", "bits")
    gates = tuple(replace(g, cells=tuple(c.id for c in cells)) for g in base.gates if g.id.removeprefix("g-") in keys)
    p = replace(
        base,
        cells=cells,
        gates=gates,
        exclusions=(),
        claims=(),
        backends=tuple(Backend(b, "required", None) for b in backends),
        workloads=tuple(Workload(f"work_{w:04d}", "python", None, None, None, None, {}) for w in range(workloads)),
    )
    judgements = []
    for g, gate in enumerate(gates):
        key = gate.id.removeprefix("g-")
        for c, cell in enumerate(cells):
            odd = (c * 31 + g * 7) % 97
            outcome = "fail" if odd == 0 else "inconclusive" if odd == 1 else "error" if odd == 2 else "pass"
            if outcome == "fail" and gate.decision == "rollback":
                outcome = "pass"
            contribution = {"pass": "adopt", "fail": gate.decision}.get(outcome, "defer")
            b, cand, unit, e, lo, hi, _ = FIGURES["attention", "infer", key] if key != "bits" else (None,) * 7
            judgements.append(
                Judgement(
                    gate.id,
                    cell.id,
                    "candidate",
                    gate.metric,
                    outcome,  # type: ignore[arg-type]
                    contribution,  # type: ignore[arg-type]
                    RULES[outcome],
                    "",
                    e,
                    lo,
                    hi,
                    0.9,
                    b,
                    cand,
                    unit,
                    {"pairs": 8},
                    evidence=(c,),
                )
            )
    return p, decided(p, tuple(judgements))


def several(*versions: str) -> tuple[Plan, Verdict]:
    """The quickstart with more candidates, of which every second fails nothing: the most that page one has to hold."""
    one = both = verdict()
    p = plan()
    for number, version in enumerate(versions, start=2):
        name = f"candidate-{number}"
        p = replace(p, candidates=(*p.candidates, Side(name, "candidate", version, None, None)))
        judged = []
        for j in one.judgements:
            if j.outcome == "fail" and number % 2 == 0:
                j = replace(j, outcome="pass", contribution="adopt", rule=RULES["pass"])
            judged.append(replace(j, candidate=name))
        more = decided(p, tuple(judged), name)
        both = replace(
            both,
            judgements=both.judgements + more.judgements,
            rows=both.rows + more.rows,
            fleet=both.fleet + more.fleet,
            rehearsals=both.rehearsals | more.rehearsals,
            claims=both.claims | more.claims,
            controls=both.controls + more.controls,
        )
    return p, both


def twice() -> tuple[Plan, Verdict]:
    """Two candidates."""
    return several("2.15.0")


EVIL = (
    "</script><script>alert(1)</script> {{ 7*7 }} {% raw %} <img src=http://evil.example/x.png> "
    "![x](file:///etc/passwd) [y](javascript:alert(1)) `rm` | a | **b** \u202eevil\u202c # h\n- list\n\n<b>html</b> "
    "url(file:///etc/passwd) @import 'http://evil.example/a.css' &lt; $x$ "
    + "W" * 300
    + " שלום עולם 漢字かな交じり文 🙈👩‍👩‍👧"
)


def hostile() -> tuple[Plan, Verdict, dict[str, Any]]:
    """Every text that a spec, a log or a signer controls is markup, template syntax, addresses or a very long word."""
    p = plan()
    rename = {n: f"{n}</code><img src=x>{{{{n}}}}|`{'Q' * 90}" for n, *_ in WORKLOADS}
    p = replace(
        p,
        upgrade=replace(p.upgrade, title=EVIL, owner=EVIL, asks=EVIL, caveats=(EVIL, EVIL)),
        cells=tuple(replace(c, workload=rename[c.workload], axes={"dtype": EVIL}, label=EVIL) for c in p.cells),
        workloads=tuple(replace(w, name=rename[w.name]) for w in p.workloads),
        sources=(
            Source(EVIL, "javascript:alert(1)", EVIL),
            Source("b", "file:///etc/passwd", None),
            Source("c", "https://a.example/?q=<b>&x=\"'", None),
        ),
        claims=tuple(replace(c, name=EVIL, source=EVIL, basis={EVIL: EVIL}) for c in p.claims),
        exclusions=(Exclusion(EVIL, EVIL, EVIL, EVIL, 3),),
        spec=(SpecFile(EVIL, "11" * 32),),
    )
    v = verdict(plan())
    judgements = tuple(replace(j, reason=EVIL, rule=EVIL if j.outcome == "error" else j.rule) for j in v.judgements)
    v = decided(p, judgements)
    v = replace(
        v,
        broken_controls=(
            {"what": EVIL, "baseline": EVIL, "candidate_value": [EVIL], "reason": EVIL, "cell": None, "seq": 4},
        ),
        runs=tuple(r | {"reason": EVIL, "status": EVIL} for r in v.runs),
    )
    environment = environments()
    environment["candidate"]["env"] = {EVIL: EVIL}
    found = replace(exploratory(), reasons=(EVIL,), diff=EVIL + "\n```\n~~~\n" + EVIL)
    return p, v, arguments(registration=found, environments=environment, signer=EVIL, lock=lock(p), records=records(p))
