"""Other tools on the same work and in the same time, each asked in its own way whether b is slower than a by the limit.

A peer that is not installed is named in the table, not left out. How each is called is in `HOW`, and is printed. Every
peer runs a, then b: none of them has a way to alternate between two interpreters.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchspec.bench import plan as plans
from torchspec.judge.stats import t_point

HOW = {
    "a then b": "one process each, half of the time each; a t test of log times of single calls at one-sided 5 %",
    "torch.utils.benchmark": "Timer.blocked_autorange in one process each; slower where the medians differ by more "
    "than the limit and the interquartile ranges do not overlap",
    "pytest-benchmark": "two runs with --benchmark-autosave and --benchmark-compare-fail=median:LIMIT",
    "pyperf": "Runner.bench_func in as many processes as the time allows; compare_to, slower beyond the limit",
    "hyperfine": "whole processes of a fixed number of calls; the ratio of means in its export, beyond the limit",
    "asv": "asv run in an existing environment, with two empty commits for the two sides, and asv compare --factor",
}


class Unavailable(Exception):
    """A peer cannot be run here, and why."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One comparison: interpreter, where peers are installed, the work, the planted ratio, the limit, and the time."""

    python: str
    packages: str | None
    work: str
    planted: float
    limit: float
    budget_s: float
    tail: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    verdict: str
    ratio: float | None
    seconds: float


def run(name: str, ask: Ask) -> Told:
    """What the peer says. Raises Unavailable."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torchspec-peer-") as folder:
        place = Path(folder)
        (place / plans.FILE).write_text(plans.text(), encoding="utf-8")
        verdict, ratio = PEERS[name](ask, place)
    return Told(verdict, ratio, time.monotonic() - begin)


def _environment(ask: Ask, place: Path, planted: bool) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    paths = [str(place), *([ask.packages] if ask.packages else [])]
    env = {**keep, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if planted:
        env |= {"BENCH_SLOWER": repr(ask.planted), "BENCH_TAIL": str(ask.tail)}
    return env


def _call(ask: Ask, place: Path, planted: bool, arguments: list[str], allowed: tuple[int, ...] = (0,)) -> str:
    """What a peer prints, on both streams where it ended with another status than 0. Raises Unavailable."""
    done = subprocess.run(
        [ask.python, *arguments],
        env=_environment(ask, place, planted),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60 + 20 * ask.budget_s,
        check=False,
    )
    if done.returncode not in allowed:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(last[-1] if last else f"ended with status {done.returncode}")
    return done.stdout if done.returncode == 0 else f"{done.stdout}\n{done.stderr}"


def _needs(ask: Ask, place: Path, module: str) -> None:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        _call(ask, place, False, ["-c", code])
    except Unavailable:
        raise Unavailable(f"{module} is not installed for this interpreter; --packages names where it is") from None


_CALLS = """
import json, sys, time, work_code
step, until = work_code.step_of(sys.argv[1]), float(sys.argv[2])
for _ in range(3): step()
end, taken = time.perf_counter() + until, []
while time.perf_counter() < end:
    start = time.perf_counter_ns(); step(); taken.append(time.perf_counter_ns() - start)
print(json.dumps(taken))
"""


def _one_after_the_other(ask: Ask, place: Path) -> tuple[str, float | None]:
    sides = []
    for planted in (False, True):
        out = _call(ask, place, planted, ["-c", _CALLS, ask.work, str(ask.budget_s / 2)])
        sides.append([math.log(v) for v in json.loads(out.splitlines()[-1])])
    a, b = sides
    change = statistics.fmean(b) - statistics.fmean(a)
    error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    reach = t_point(0.05, min(len(a), len(b)) - 1) * error
    tau = math.log1p(ask.limit)
    verdict = "pass" if change + reach <= tau else "fail" if change - reach > tau else "inconclusive"
    return verdict, math.exp(change)


_TIMER = """
import json, sys, work_code, torch.utils.benchmark as benchmark
timer = benchmark.Timer("step()", globals={"step": work_code.step_of(sys.argv[1])}, num_threads=1)
found = timer.blocked_autorange(min_run_time=float(sys.argv[2]))
print(json.dumps([found.median, found._p25, found._p75]))
"""


def _torch_benchmark(ask: Ask, place: Path) -> tuple[str, float | None]:
    a, b = (
        json.loads(_call(ask, place, planted, ["-c", _TIMER, ask.work, str(ask.budget_s / 2)]).splitlines()[-1])
        for planted in (False, True)
    )
    ratio = b[0] / a[0]
    if ratio <= 1 + ask.limit:
        return "pass", ratio
    return ("fail" if b[1] > a[2] else "inconclusive"), ratio


_PYTEST = """
import work_code
def test_step(benchmark):
    benchmark(work_code.step_of({work!r}))
"""


def _pytest_benchmark(ask: Ask, place: Path) -> tuple[str, float | None]:
    _needs(ask, place, "pytest_benchmark")
    (place / "test_step.py").write_text(_PYTEST.format(work=ask.work), encoding="utf-8")
    common = [
        "-m",
        "pytest",
        "-q",
        "test_step.py",
        "-p",
        "no:cacheprovider",
        f"--benchmark-max-time={ask.budget_s / 2}",
    ]
    _call(ask, place, False, [*common, "--benchmark-save=a"])
    fail = f"--benchmark-compare-fail=median:{ask.limit * 100:g}%"
    out = _call(ask, place, True, [*common, "--benchmark-compare=0001", fail, "--benchmark-save=b"], (0, 1))
    medians = [
        json.loads(path.read_text(encoding="utf-8"))["benchmarks"][0]["stats"]["median"]
        for path in sorted(place.glob(".benchmarks/*/*.json"))
    ]
    return ("fail" if "regress" in out.lower() else "pass"), medians[1] / medians[0]


_PYPERF = """
import pyperf, work_code
name = {work!r}
runner = pyperf.Runner(processes={processes}, values=3, warmups=1)
runner.argparser.set_defaults(inherit_environ=["BENCH_SLOWER", "BENCH_TAIL", "OMP_NUM_THREADS", "PYTHONPATH"])
runner.bench_func(name, work_code.step_of(name))
"""


def _pyperf(ask: Ask, place: Path) -> tuple[str, float | None]:
    _needs(ask, place, "pyperf")
    processes = max(2, int(ask.budget_s / 2 / 5.0))  # a process costs about five seconds of imports and calibration
    (place / "bench.py").write_text(_PYPERF.format(work=ask.work, processes=processes), encoding="utf-8")
    for name, planted in (("a", False), ("b", True)):
        _call(ask, place, planted, ["bench.py", "-q", "-o", f"{name}.json"])
    out = _call(ask, place, False, ["-m", "pyperf", "compare_to", "a.json", "b.json"])
    means = [_pyperf_mean(place / f"{name}.json") for name in ("a", "b")]
    slower = re.search(r"([0-9.]+)x slower", out)
    return ("fail" if slower and float(slower.group(1)) > 1 + ask.limit else "pass"), means[1] / means[0]


def _pyperf_mean(path: Path) -> float:
    held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return statistics.fmean(v for one in held["benchmarks"][0]["runs"] for v in one.get("values", []))


_HYPERFINE = "import sys, work_code; step = work_code.step_of(sys.argv[1]); [step() for _ in range(int(sys.argv[2]))]"


def _hyperfine(ask: Ask, place: Path) -> tuple[str, float | None]:
    program = shutil.which("hyperfine")
    if program is None:
        raise Unavailable("hyperfine is not on PATH")
    calls = {"attention": 2000, "training_step": 300, "small_operators": 5000}[ask.work]
    runs = max(2, int(ask.budget_s / 2 / 5.0))
    means = []
    for name, planted in (("a", False), ("b", True)):
        command = f"{ask.python} -c '{_HYPERFINE}' {ask.work} {calls}"
        done = subprocess.run(
            [program, "--warmup", "1", "--runs", str(runs), "--export-json", f"{name}.json", command],
            env=_environment(ask, place, planted),
            cwd=place,
            capture_output=True,
            text=True,
            timeout=60 + 20 * ask.budget_s,
            check=False,
        )
        if done.returncode != 0:
            raise Unavailable(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "hyperfine failed")
        means.append(json.loads((place / f"{name}.json").read_text(encoding="utf-8"))["results"][0]["mean"])
    return ("fail" if means[1] / means[0] > 1 + ask.limit else "pass"), means[1] / means[0]


_ASV = """
import work_code
step = work_code.step_of({work!r})
def time_step():
    step()
"""


def _asv(ask: Ask, place: Path) -> tuple[str, float | None]:
    """asv compares commits: two empty ones stand for the two sides, and the environment is an existing one."""
    _needs(ask, place, "asv")
    (place / "benchmarks").mkdir()
    (place / "benchmarks" / "__init__.py").write_text("", encoding="utf-8")
    (place / "benchmarks" / "bench.py").write_text(_ASV.format(work=ask.work), encoding="utf-8")
    settings = {"version": 1, "project": "bench", "repo": ".", "environment_type": "existing", "branches": ["main"]}
    (place / "asv.conf.json").write_text(json.dumps(settings), encoding="utf-8")
    commits = [_git(place, side) for side in ("a", "b")]
    asv = ["-c", "import sys; from asv.main import main; sys.exit(main())"]
    _call(ask, place, False, [*asv, "machine", "--yes", "--machine", "here"])
    for commit, planted in zip(commits, (False, True), strict=True):
        existing = ["-E", f"existing:{ask.python}", "--machine", "here", "--set-commit-hash", commit]
        _call(ask, place, planted, [*asv, "run", *existing])
    factor = ["--factor", repr(1 + ask.limit), "--machine", "here"]
    out = _call(ask, place, False, [*asv, "compare", *factor, *commits], (0, 1))
    row = re.search(r"^\|\s*([+x!-]?)\s*\|[^|]*\|[^|]*\|\s*~?([0-9.]+)\s*\|.*time_step", out, re.MULTILINE)
    if row is None:
        raise Unavailable(f"asv compare gave no row: {out.strip()[-200:]}")
    return ("fail" if row.group(1) == "+" else "pass"), float(row.group(2))


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


PEERS: dict[str, Callable[[Ask, Path], tuple[str, float | None]]] = {
    "a then b": _one_after_the_other,
    "torch.utils.benchmark": _torch_benchmark,
    "pytest-benchmark": _pytest_benchmark,
    "pyperf": _pyperf,
    "hyperfine": _hyperfine,
    "asv": _asv,
}
