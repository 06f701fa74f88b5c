"""How long the language takes, against `python -c pass` in the same run: `python tests/bench/language.py`.

Prints the ratios of `--version` and of `check` on a spec of 300 lines, then the time and peak memory of compiling
matrices of 1,250 to 10,000 cells to a plan. The best of several runs counts: the rest is other work on the machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 15

HEAD = """tspec 1
upgrade "bench" {
  owner   "ml"
  asks    "How long?"
  caveat  "none"
}
baseline torch "2.13.0"
candidate torch "2.14.1"
backend cpu
backend cuda
rollback {
  rehearse  baseline  within 10 min
}
gates service {
  error.max_abs       <= 1e-4        against cpu.float64  else rollback
  latency.p50         growth <= 3 %  else isolate
  latency.p95         growth <= 5 %  else isolate
  throughput          drop <= 3 %    else isolate
  memory.driver_peak  growth <= 5 %  else defer
  determinism.output  identical      else defer
}
"""


def workload(name: str, seqs: int, heads: int) -> str:
    def values(n: int) -> str:
        return ", ".join(str(i) for i in range(1, n + 1))

    return f"""workload {name} {{
  owner  "search"
  kind   attention
  mask   causal
  shape {{
    heads  {values(heads)}
    seq    {values(seqs)}
  }}
  dtype  float32
  mode   infer
  on     cpu, cuda
  gates  service
}}
"""


def best(commands: list[list[str]], env: dict[str, str]) -> list[float]:
    """Seconds of wall time of the fastest run of each command. They take turns, so that a busy while meets all."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(RUNS):
        for command, mine in zip(commands, times, strict=True):
            start = time.perf_counter()
            subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            mine.append(time.perf_counter() - start)
    return [min(mine) for mine in times]


def compile_cells(path: Path) -> tuple[int, float]:
    """Cells of the spec's plan, and the seconds from its text to the plan."""
    from torchspec import catalog, lower
    from torchspec.check import check_spec

    start = time.perf_counter()
    result = check_spec(path)
    assert result.spec is not None, result.diagnostics
    plan = lower.lower(result.spec, catalog.load(), "bench").value
    assert plan is not None
    return len(plan.cells), time.perf_counter() - start


def main() -> None:
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        spec = folder / "lines.tspec"
        text = HEAD + "".join(workload(f"work{i}", 2, 1) for i in range(22))
        spec.write_text(text, encoding="utf-8")
        python = [sys.executable]
        ours = [*python, "-m", "torchspec"]
        nothing, version, check = best(
            [[*python, "-c", "pass"], [*ours, "--version"], [*ours, "check", str(spec)]], env
        )
        print(f"python -c pass          {nothing * 1e3:7.1f} ms")
        print(f"torchspec --version     {version * 1e3:7.1f} ms  {version / nothing:5.1f} times (at most 2.5)")
        print(
            f"check of {text.count(chr(10))} lines      {check * 1e3:7.1f} ms  {check / nothing:5.1f} times (at most 8)"
        )
        for seqs in (25, 50, 100, 200):
            spec.write_text(HEAD + workload("work", seqs, 25), encoding="utf-8")
            cells, seconds = compile_cells(spec)
            print(f"plan of {cells:6} cells     {seconds:7.2f} s   {seconds / cells * 1e6:5.0f} us a cell")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory             {peak:7.0f} MiB")


if __name__ == "__main__":
    main()
