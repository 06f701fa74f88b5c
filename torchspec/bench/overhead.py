"""`torchspec bench overhead`: what timing a call costs, and whether medians agree with `torch.utils.benchmark`.

One process runs all of it: the harness's own `timed_samples` and a bare loop around the same call in turn, then the
harness and the Timer in turn, with as many calls a sample as the Timer chooses: so both meet the same moods of the
machine, and a median of calls is not held against a median of means. Must not judge.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scipy import stats

from torchspec.bench import plan as plans
from torchspec.emit.bundle import emit

#: A timed call costs at most this much more than the same call in a bare loop.
MOST_NS = 1000.0
#: Medians differ from those of torch.utils.benchmark by at most this share.
MOST_APART = 0.01

#: The harness is imported as a file, so that what is measured is what is emitted.
_PROGRAM = """
import gc, importlib.util, json, os, random, statistics, sys, time
TURN_MS = 20.0
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
sys.argv = [sys.argv[0], *sys.argv[1:]]
spec = importlib.util.spec_from_file_location("harness_file", sys.argv[1])
harness = importlib.util.module_from_spec(spec)
sys.modules["harness_file"] = harness
spec.loader.exec_module(harness)
import torch, torch.utils.benchmark as benchmark
import work_code

def bare(step, calls):
    clock = time.perf_counter_ns
    gc.disable()
    start = clock()
    for _ in range(calls):
        step()
    taken = clock() - start
    gc.enable()
    return taken / calls

def ours(step, calls, samples):
    begin = time.perf_counter_ns()
    taken = harness.timed_samples(step, calls, samples, [], None)[0]
    return (time.perf_counter_ns() - begin) / (calls * samples), taken

def nothing():
    pass

found = {"call": [], "medians": {}}
for calls in (1, 10):
    shapes = {"calls": calls, "bare_ns": [], "around_ns": [], "told_ns": []}
    for _ in range(10 * int(sys.argv[2])):  # turns of less than a millisecond, so that many are not disturbed at all
        shapes["bare_ns"].append(bare(nothing, 2000))
        around, taken = ours(nothing, calls, 300 // calls)
        shapes["around_ns"].append(around)
        shapes["told_ns"].append(statistics.median(taken))
    found["call"].append(shapes)
for name in work_code.WORKS:
    step = work_code.step_of(name)
    call_ns = harness.warm_up(step)
    ratios = []
    timer = benchmark.Timer("step()", globals={"step": step}, num_threads=1)
    calls = timer.blocked_autorange(min_run_time=TURN_MS * 1e-3).number_per_run  # its choice, for both
    samples = max(1, round(TURN_MS * 1e6 / (calls * call_ns)))
    for turn in range(10 * int(sys.argv[2])):
        taken = {}
        for who in random.sample(("ours", "timer"), 2):
            if who == "ours":
                taken[who] = statistics.median(harness.timed_samples(step, calls, samples, [], None)[0])
            else:
                taken[who] = timer.blocked_autorange(min_run_time=TURN_MS * 1e-3).median * 1e9
        ratios.append([taken["ours"], taken["timer"]])
    found["medians"][name] = ratios
print(json.dumps(found))
"""


def measured(python: str, repeats: int) -> dict[str, Any]:
    """The raw figures of a process of `python`."""
    with tempfile.TemporaryDirectory(prefix="torchspec-overhead-") as name:
        folder = Path(name)
        (folder / plans.FILE).write_text(plans.text(), encoding="utf-8")
        (folder / "cpu.py").write_text(emit(plans.plan(plans.WORKS))["cpu"], encoding="utf-8")
        (folder / "program.py").write_text(_PROGRAM, encoding="utf-8")
        env = {"PATH": os.environ.get("PATH", ""), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(
            [python, "program.py", "cpu.py", str(repeats)],
            cwd=folder,
            env=env,
            check=False,
            capture_output=True,
            text=True,
            timeout=900,
        )
        if done.returncode != 0:
            raise RuntimeError(f"the benchmark's own program failed:\n{done.stderr[-2000:]}")
        held: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return held


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _median_interval(ordered: list[float]) -> tuple[float, float]:
    """The 95 % interval of a median, from the order of independent values alone (Hahn and Meeker 1991, 5.2)."""
    n = len(ordered)
    place = int(stats.binom.ppf(0.025, n, 0.5))
    return ordered[max(0, place - 1)], ordered[min(n - 1, n - place)]


def summed(found: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """What was asked, the figure in words, whether it is within the target."""
    rows: list[tuple[str, str, bool]] = []
    for shape in found["call"]:
        bare = min(shape["bare_ns"])  # the least disturbed turn of each: other work only ever adds
        told, whole = min(shape["told_ns"]) - bare, min(shape["around_ns"]) - bare
        calls = f"{shape['calls']} call{'s' if shape['calls'] > 1 else ''} a sample"
        rows.append((f"a call's figure above a bare loop, {calls}", f"{told:.0f} ns", told < MOST_NS))
        rows.append((f"time spent a call above a bare loop, {calls}", f"{whole:.0f} ns", whole < MOST_NS))
    for work, pairs in found["medians"].items():
        ratios = sorted(ours / timer for ours, timer in pairs)
        middle = _median(ratios)
        low, high = _median_interval(ratios)
        ends = f"[{(low - 1) * 100:+.2f}, {(high - 1) * 100:+.2f}]"
        text = f"{(middle - 1) * 100:+.2f} % {ends} of {len(ratios)} turns"
        rows.append((f"{work}: median against torch.utils.benchmark", text, abs(middle - 1) < MOST_APART))
    return rows


def run(python: str, out: Path, say: Callable[[str], None], repeats: int = 12) -> str:
    """Measures and writes `overhead.md` and `overhead.json` below `out`; the table."""
    say("timing calls with the harness, in a bare loop and with torch.utils.benchmark, in turn")
    found = measured(python, repeats)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "not told"
    lines = [
        "# Cost of timing",
        "",
        f"- measured: {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}, load {load} at the end",
        f"- targets: below {MOST_NS:.0f} ns a call; medians within {MOST_APART * 100:g} %",
        "",
        "| what | figure | target |",
        "|---|---:|---|",
        *(f"| {what} | {figure} | {'reached' if good else 'missed'} |" for what, figure, good in summed(found)),
        "",
    ]
    out.mkdir(parents=True, exist_ok=True)
    (out / "overhead.md").write_text("\n".join(lines), encoding="utf-8")
    (out / "overhead.json").write_text(json.dumps(found), encoding="utf-8")
    return "\n".join(lines)
