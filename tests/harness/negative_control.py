"""The negative control: the baseline against itself, again and again. How often does a gate of a workload fail?

    python -m tests.harness.negative_control --python ENV/bin/python --torch 2.13.0 --runs 20 --out DIR [--for-s 400]

Every run is a whole one: the spec below is compiled and emitted, `pair` runs with the same interpreter on both sides,
and the judge judges. What was run is kept in DIR, so that it can be done in pieces; the table counts all of it. `modes`
takes the cells that compile and export, which are slower, in place of the others, `ranks` those of two ranks. No test:
it takes too long. Must not leave out a run that it does not like.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchspec import judge, ledger, pipeline
from torchspec.emit.bundle import emit
from torchspec.model.plan import Plan

HEAD = """tspec 1
upgrade "the same against itself" {
  owner "a"
  asks "b?"
  window 2026-12-01 to 2026-12-14
  caveat "c"
}
frozen {
  env OMP_NUM_THREADS "1"
  compile mode default cache cold
  seed 1234
}
baseline torch "2.13.0"
candidate torch "2.14.1"
backend {backend} threads 1
measure {
  cell 5 s
  pairs 2 to 3
  builds 2
  rounds 6
}
rollback {
  rehearse baseline within 10 min
}
"""
STEADY_GATES = """gates steady {
  error.max_abs <= 1e-4 against cpu.float64 else rollback
  error.max_abs <= 1e-6 against baseline else rollback
  latency.p50 growth <= 10 % sees 30 % else isolate
  throughput drop <= 10 % sees 30 % else isolate
}
gates training extends steady {
  error.gradient_max_rel <= 1e-6 against baseline else rollback
}
"""
MODE_GATES = """gates compiler {
  error.max_abs <= 1e-4 against cpu.float64 else rollback
  error.max_abs <= 1e-6 against baseline else rollback
  compile.graph_breaks increase <= 0 else defer
  export.roundtrip holds else defer
  export.candidate_to_baseline holds else defer
}
"""
RANK_GATES = """gates collectives {
  collective.correct holds else rollback
  comm.latency_p50 growth <= 25 % sees 60 % else isolate
}
gates ranks {
  error.max_abs <= 1e-6 against baseline else rollback
  step.time growth <= 25 % sees 60 % else isolate
  loss.final growth <= 0.1 % else rollback
  memory.driver_peak growth <= 20 % else defer
  checkpoint.candidate_to_baseline holds else rollback
  checkpoint.resume holds else rollback
}
"""
#: workload -> (kind and its words, shape, mode, gates)
STEADY = {
    "attention": ("attention", "seq 64", "infer", "steady"),
    "flex_attention": ("flex_attention beside sdpa", "seq 64", "infer", "steady"),
    "linear_cross_entropy": (
        "linear_cross_entropy\n  options default", "tokens 64\n hidden 32\n vocabulary 500", "train", "training"
    ),
    "python": ('python "own.py:build"\n  counts 8 rows per step', "width 32", "train", "training"),
    "operator": ("operator", 'operator softmax\n input "1x128256"\n dim "-1"', "infer", "steady"),
    "decode": ("decode\n  hidden 64\n  vocabulary 500", "context 64", "infer", "steady"),
    "autoencoder": ("autoencoder", "size 16\n channels 8\n blocks 1", "infer", "steady"),
    "checkpoint": ("checkpoint", "layers 2\n hidden 32", "train", "training"),
}  # fmt: skip
MODES = {
    "python_compile": ('python "own.py:build"\n  counts 8 rows per step', "width 32", "compile", "compiler"),
    "python_export": ('python "own.py:build"\n  counts 8 rows per step', "width 32", "export", "compiler"),
}
TRAINING = "layers 2\n hidden 32\n batch 4"
RANKS = {
    "collective": ("collective", "operation all_reduce\n bytes 65536", "infer", "collectives"),
    "fsdp2": ("fsdp2", TRAINING, "train", "ranks"),
    "ddp": ("ddp", TRAINING, "train", "ranks"),
}
#: words on the command line -> (works, gates, backend and its words)
SETS = {
    "steady": (STEADY, STEADY_GATES, "cpu"),
    "modes": (MODES, MODE_GATES, "cpu"),
    "ranks": (RANKS, RANK_GATES, "distributed over cpu ranks 2 launcher torchrun"),
}
OWN = """
import torch


def build(width):
    module = torch.nn.Sequential(torch.nn.Linear(width, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))
    return module, (torch.randn(8, width),), lambda output, inputs: output.square().mean()
"""


def same_plan(folder: Path, chosen: str, torch: str) -> Plan:
    """The compiled plan, whose candidate is then made the baseline's own version: the compiler refuses such a spec."""
    works, gates_text, backend = SETS[chosen]
    parts = [HEAD.replace("{backend}", backend), gates_text]
    for name, (kind, shape, mode, gates) in works.items():
        body = f"  kind {kind}\n  shape {{\n {shape}\n  }}\n  mode {mode}\n  on {backend.split()[0]}\n  gates {gates}"
        parts.append(f"workload {name} {{\n{body}\n}}\n")
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    (folder / "same.tspec").write_text("".join(parts), encoding="utf-8")
    outcome = pipeline.compile_spec(folder / "same.tspec", folder / "out", {})
    if outcome.compiled is None:
        raise SystemExit("\n".join(d.message for d in outcome.diagnostics))
    plan = outcome.compiled.plan
    baseline = replace(plan.baseline, torch=torch)
    return replace(plan, baseline=baseline, candidates=tuple(replace(c, torch=torch) for c in plan.candidates))


def one_run(plan: Plan, python: str, folder: Path) -> dict[str, Any]:
    """{workload: {gate: outcome}} of one run, and how long it took."""
    folder.mkdir(parents=True)
    ((backend, source),) = emit(plan).items()
    harness = folder / f"{backend}.py"
    harness.write_text(source, encoding="utf-8")
    command = [sys.executable, "-I", str(harness), "pair", "--baseline", python, "--candidate", python]
    start = time.monotonic()
    done = subprocess.run(
        [*command, "--evidence", str(folder / "evidence")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    judged = judge.judge(plan, ledger.read(folder / "evidence" / "ledger.jsonl"))
    workload = {cell.id: cell.workload for cell in plan.cells}
    found: dict[str, dict[str, str]] = {name: {} for name in workload.values()}
    for one in judged.judgements:
        found[workload[one.cell]][one.gate] = one.outcome
    bad = [one for one in judged.judgements if one.outcome in ("fail", "error")]
    reasons = [f"{workload[one.cell]} {one.metric}: {one.reason}" for one in bad]
    return {"outcomes": found, "seconds": time.monotonic() - start, "reasons": reasons}


def table(lines: list[dict[str, Any]]) -> str:
    """One line a workload: runs, runs with a failure or an error, and outcomes of all gates."""
    names = sorted({name for line in lines for name in line["outcomes"]})
    out = [f"{'workload':22} {'runs':>4} {'failed':>6}  outcomes of its gates"]
    for name in names:
        held = [line["outcomes"][name] for line in lines if name in line["outcomes"]]
        failed = sum(any(outcome in ("fail", "error") for outcome in one.values()) for one in held)
        counts = Counter(outcome for one in held for outcome in one.values())
        told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))
        out.append(f"{name:22} {len(held):4} {failed:6}  {told}")
    return "\n".join(out)


def main() -> int:
    read = argparse.ArgumentParser(description="The baseline against itself, run by run.")
    read.add_argument("--python", required=True)
    read.add_argument("--torch", default="2.13.0")
    read.add_argument("--runs", type=int, default=20)
    read.add_argument("--for-s", type=float, default=None, help="stop starting runs after so many seconds")
    read.add_argument("--out", type=Path, required=True)
    read.add_argument("works", nargs="?", choices=tuple(SETS), default="steady")
    told = read.parse_args()
    out: Path = told.out / told.works
    out.mkdir(parents=True, exist_ok=True)
    plan = same_plan(out, told.works, told.torch)
    kept = out / "runs.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    start = time.monotonic()
    while len(lines) < told.runs and (told.for_s is None or time.monotonic() - start < told.for_s):
        lines.append(one_run(plan, told.python, out / f"run{len(lines):03}-{int(time.time())}"))
        with kept.open("a") as stream:
            stream.write(json.dumps(lines[-1]) + "\n")
        print(f"run {len(lines)}: {lines[-1]['seconds']:.0f} s", *lines[-1]["reasons"], sep="\n  ", flush=True)
    print(table(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
