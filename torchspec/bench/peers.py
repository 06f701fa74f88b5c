"""Other tools on the same works and in the same time, each asked in its own way whether b is slower by the limit.

A peer is asked about all works at once, as the tool's own pairs are, so that imports are paid for once where it can
share a process. A peer that is not installed is named in the report, not left out. How each is called is in `HOW`, and
is printed. Every peer runs a, then b: none of them has a way to alternate between two interpreters.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchspec.bench import plan as plans
from torchspec.bench.asking import START_S, Ask, Unavailable, call, needs, ran
from torchspec.judge.stats import t_point

HOW = {
    "a then b": "one process each, its time shared equally by the works; a t test of log times of single calls at "
    "one-sided 5 %",
    "torch.utils.benchmark, default": "Timer.blocked_autorange() in one process each (0.2 s a work); slower where the "
    "ratio of medians is beyond the limit, as Compare shows them",
    "torch.utils.benchmark, best": "blocked_autorange(min_run_time=the whole time); slower where the ratio of medians "
    "is beyond the limit and the interquartile ranges do not overlap",
    "pytest-benchmark, default": "two runs with --benchmark-save and --benchmark-compare-fail=median:LIMIT",
    "pytest-benchmark, best": "the same with --benchmark-disable-gc, --benchmark-warmup=on and --benchmark-max-time="
    "the whole time",
    "pyperf": "Runner.bench_func in as many processes as the time allows, at least two, on one core (--affinity), and "
    "compare_to --min-speed; its default of 20 processes a work does not fit into the time",
    "hyperfine": "whole processes of a fixed number of calls, --warmup 1 and as many runs as the time allows, at "
    "least two; the ratio of means of its export; its default of 10 runs does not fit into the time",
    "asv, default": "asv run in an existing environment, with two empty commits for the sides; asv compare --factor",
    "asv, best": "the same with rounds = 4 and sample_time = 0.05 (it interleaves no rounds in existing environments)",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A peer's verdict and ratio of each work, and what all of it cost."""

    answers: dict[str, tuple[str, float | None]]
    seconds: float


def run(name: str, ask: Ask) -> Told:
    """What the peer says. Raises Unavailable."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torchspec-peer-") as folder:
        place = Path(folder)
        (place / plans.FILE).write_text(plans.text(), encoding="utf-8")
        answers = PEERS[name](ask, place)
    return Told(answers, time.monotonic() - begin)


Answers = dict[str, tuple[str, float | None]]


def _beyond(ask: Ask, ratio: float) -> tuple[str, float]:
    return ("fail" if ratio > 1 + ask.limit else "pass"), ratio


_CALLS = """
import json, sys, time, work_code
until, found = float(sys.argv[1]), {}
for name in sys.argv[2:]:
    step, taken = work_code.step_of(name), []
    for _ in range(3): step()
    end = time.perf_counter() + until
    while time.perf_counter() < end:
        start = time.perf_counter_ns(); step(); taken.append(time.perf_counter_ns() - start)
    found[name] = taken
print(json.dumps(found))
"""


def _one_after_the_other(ask: Ask, place: Path) -> Answers:
    sides = [
        json.loads(call(ask, place, planted, ["-c", _CALLS, str(ask.each_s), *ask.works]).splitlines()[-1])
        for planted in (False, True)
    ]
    answers: Answers = {}
    for work in ask.works:
        a, b = ([math.log(v) for v in side[work]] for side in sides)
        change = statistics.fmean(b) - statistics.fmean(a)
        error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
        reach = t_point(0.05, min(len(a), len(b)) - 1) * error
        tau = math.log1p(ask.limit)
        verdict = "pass" if change + reach <= tau else "fail" if change - reach > tau else "inconclusive"
        answers[work] = verdict, math.exp(change)
    return answers


_TIMER = """
import json, sys, work_code, torch.utils.benchmark as benchmark
found = {}
for name in sys.argv[2:]:
    timer = benchmark.Timer("step()", globals={"step": work_code.step_of(name)}, num_threads=1)
    one = timer.blocked_autorange(min_run_time=float(sys.argv[1]))
    found[name] = [one.median, one._p25, one._p75]
print(json.dumps(found))
"""


def _timer_sides(ask: Ask, place: Path, seconds: float) -> list[dict[str, list[float]]]:
    return [
        json.loads(call(ask, place, planted, ["-c", _TIMER, str(seconds), *ask.works]).splitlines()[-1])
        for planted in (False, True)
    ]


def _timer_default(ask: Ask, place: Path) -> Answers:
    a, b = _timer_sides(ask, place, 0.2)
    return {work: _beyond(ask, b[work][0] / a[work][0]) for work in ask.works}


def _timer_best(ask: Ask, place: Path) -> Answers:
    a, b = _timer_sides(ask, place, ask.each_s)
    answers: Answers = {}
    for work in ask.works:
        verdict, ratio = _beyond(ask, b[work][0] / a[work][0])
        apart = b[work][1] > a[work][2]
        answers[work] = "inconclusive" if verdict == "fail" and not apart else verdict, ratio
    return answers


_PYTEST = """
import pytest, work_code
@pytest.mark.parametrize("name", {works!r})
def test_step(benchmark, name):
    benchmark(work_code.step_of(name))
"""


def _pytest_benchmark(ask: Ask, place: Path, settings: list[str]) -> Answers:
    needs(ask, place, "pytest_benchmark")
    (place / "test_step.py").write_text(_PYTEST.format(works=list(ask.works)), encoding="utf-8")
    common = ["-m", "pytest", "-q", "test_step.py", "-p", "no:cacheprovider", *settings]
    call(ask, place, False, [*common, "--benchmark-save=a"])
    fail = f"--benchmark-compare-fail=median:{ask.limit * 100:g}%"
    out = call(ask, place, True, [*common, "--benchmark-compare=0001", fail, "--benchmark-save=b"], (0, 1))
    medians = [
        {one["params"]["name"]: one["stats"]["median"] for one in json.loads(path.read_text("utf-8"))["benchmarks"]}
        for path in sorted(place.glob(".benchmarks/*/*.json"))
    ]
    answers: Answers = {}
    for work in ask.works:
        named = re.search(
            rf"test_step\[{re.escape(work)}\][^\n]*(has failed|regress)|\[{re.escape(work)}\] \(.*failed", out
        )
        ratio = medians[1][work] / medians[0][work]
        answers[work] = ("fail" if named else _beyond(ask, ratio)[0]), ratio
    return answers


def _pytest_default(ask: Ask, place: Path) -> Answers:
    return _pytest_benchmark(ask, place, [])


def _pytest_best(ask: Ask, place: Path) -> Answers:
    long = f"--benchmark-max-time={ask.each_s}"
    return _pytest_benchmark(ask, place, [long, "--benchmark-disable-gc", "--benchmark-warmup=on"])


_PYPERF = """
import pyperf, work_code
runner = pyperf.Runner(processes={processes}, values=3, warmups=1)
runner.argparser.set_defaults(inherit_environ=["BENCH_SLOWER", "BENCH_TAIL", "OMP_NUM_THREADS", "PYTHONPATH"])
for name in {works!r}:
    runner.bench_func(name, work_code.step_of(name))
"""


def _pyperf(ask: Ask, place: Path) -> Answers:
    needs(ask, place, "pyperf")
    processes = max(2, int(ask.budget_s / 2 / len(ask.works) / (START_S + 1.0)) - 1)  # one more calibrates each work
    (place / "bench.py").write_text(_PYPERF.format(works=list(ask.works), processes=processes), encoding="utf-8")
    core = [f"--affinity={max(os.sched_getaffinity(0))}"] if hasattr(os, "sched_getaffinity") else []
    for name, planted in (("a", False), ("b", True)):
        call(ask, place, planted, ["bench.py", "-q", *core, "-o", f"{name}.json"])
    least = f"--min-speed={ask.limit * 100:g}"
    out = call(ask, place, False, ["-m", "pyperf", "compare_to", "a.json", "b.json", "--table", least])
    a, b = (_pyperf_means(place / f"{name}.json") for name in ("a", "b"))
    slower = {work for work in ask.works if re.search(rf"\b{work}\b.*x slower", out)}
    return {work: ("fail" if work in slower else "pass", b[work] / a[work]) for work in ask.works}


def _pyperf_means(path: Path) -> dict[str, float]:
    held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    only = held["benchmarks"][0].get("metadata", {}) | held.get("metadata", {})
    return {
        one.get("metadata", only).get("name", only.get("name")): statistics.fmean(
            v for r in one["runs"] for v in r.get("values", [])
        )
        for one in held["benchmarks"]
    }


_HYPERFINE = "import sys, work_code; step = work_code.step_of(sys.argv[1]); [step() for _ in range(int(sys.argv[2]))]"
_CALLS_OF = {"attention": 2000, "training_step": 300, "small_operators": 5000}


def _hyperfine(ask: Ask, place: Path) -> Answers:
    program = shutil.which("hyperfine")
    if program is None:
        raise Unavailable("hyperfine is not on PATH")
    runs = max(2, int(ask.budget_s / 2 / len(ask.works) / (START_S + 1.5)) - 1)  # one more warms the cache of files
    means: list[dict[str, float]] = []
    for name, planted in (("a", False), ("b", True)):
        commands = [f"{ask.python} -c '{_HYPERFINE}' {work} {_CALLS_OF[work]}" for work in ask.works]
        settings = ["--warmup", "1", "--runs", str(runs), "--export-json", f"{name}.json"]
        ran(ask, place, planted, [program, *settings, *commands])
        held = json.loads((place / f"{name}.json").read_text(encoding="utf-8"))["results"]
        means.append({work: one["mean"] for work, one in zip(ask.works, held, strict=True)})
    return {work: _beyond(ask, means[1][work] / means[0][work]) for work in ask.works}


#: asv drops PYTHONPATH, so the benchmark says itself where the work is.
_ASV = """
import sys
sys.path.insert(0, {place!r})
import work_code
def time_step(name):
    STEPS[name]()
STEPS = {{name: work_code.step_of(name) for name in {works!r}}}
time_step.params = {works!r}
time_step.param_names = ["name"]
"""


def _asv(ask: Ask, place: Path, attributes: str, settings: list[str]) -> Answers:
    """asv compares commits: two empty ones stand for the two sides, and the environment is an existing one."""
    needs(ask, place, "asv")
    (place / "benchmarks").mkdir()
    (place / "benchmarks" / "__init__.py").write_text("", encoding="utf-8")
    code = _ASV.format(works=list(ask.works), place=str(place)) + attributes
    (place / "benchmarks" / "bench.py").write_text(code, encoding="utf-8")
    described = {"version": 1, "project": "bench", "repo": ".", "environment_type": "existing", "branches": ["main"]}
    (place / "asv.conf.json").write_text(json.dumps(described), encoding="utf-8")
    commits = [_git(place, side) for side in ("a", "b")]
    asv = ["-c", "import sys; from asv.main import main; sys.exit(main())"]
    call(ask, place, False, [*asv, "machine", "--yes", "--machine", "here"])
    for commit, planted in zip(commits, (False, True), strict=True):
        existing = ["-E", f"existing:{ask.python}", "--machine", "here", "--set-commit-hash", commit]
        call(ask, place, planted, [*asv, "run", *existing, *settings])
    factor = ["--factor", repr(1 + ask.limit), "--machine", "here"]
    out = call(ask, place, False, [*asv, "compare", *factor, *commits], (0, 1))
    answers: Answers = {}
    for work in ask.works:
        row = re.search(rf"^\|\s*([+x!-]?)\s*\|[^|]*\|[^|]*\|\s*~?([0-9.]+)\s*\|.*{work}", out, re.MULTILINE)
        if row is None:
            raise Unavailable(f"asv compare gave no row of {work}: {out.strip()[-200:]}")
        answers[work] = ("fail" if row.group(1) == "+" else "pass"), float(row.group(2))
    return answers


def _asv_default(ask: Ask, place: Path) -> Answers:
    return _asv(ask, place, "", [])


def _asv_best(ask: Ask, place: Path) -> Answers:
    return _asv(ask, place, "time_step.rounds = 4\ntime_step.sample_time = 0.05\n", [])


def _git(place: Path, message: str) -> str:
    """An empty commit in the folder's own repository; its hash."""
    who = {f"GIT_{one}_{what}": "bench" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(place), **who}

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=place, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", message)
    return git("rev-parse", "HEAD")


PEERS: dict[str, Callable[[Ask, Path], Answers]] = {
    "a then b": _one_after_the_other,
    "torch.utils.benchmark, default": _timer_default,
    "torch.utils.benchmark, best": _timer_best,
    "pytest-benchmark, default": _pytest_default,
    "pytest-benchmark, best": _pytest_best,
    "pyperf": _pyperf,
    "hyperfine": _hyperfine,
    "asv, default": _asv_default,
    "asv, best": _asv_best,
}


def versions(python: str, packages: str | None) -> dict[str, str]:
    """Who is asked, with the version that is installed; "not installed" for who is not."""
    code = (
        "import importlib.metadata as m, sys\n"
        "for name in ('torch', 'pytest-benchmark', 'pyperf', 'asv'):\n"
        "    try: print(name, m.version(name))\n"
        "    except m.PackageNotFoundError: print(name, 'not installed')\n"
    )
    env = {"PATH": os.environ.get("PATH", ""), **({"PYTHONPATH": packages} if packages else {})}
    done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=120)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    program = shutil.which("hyperfine")
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout if program else ""
    return {**found, "hyperfine": told.split()[-1] if told else "not installed", "python": sys.version.split()[0]}
