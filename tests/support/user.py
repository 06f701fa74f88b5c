"""torchspec as a user types it, in a process of its own, and small whole specs around what a test is about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_HEAD = """tspec 1
upgrade "small" {
  owner "a"
  asks "b?"
  window 2026-12-01 to 2026-12-14
  caveat "c"
}
baseline torch "2.13.0"
candidate torch "2.14.1"
"""
_TAIL = """
rollback {
  rehearse baseline within 10 min
}
"""


def small_spec(body: str, gate: str = "error.max_abs <= 1e-5 against cpu.float64 else rollback") -> str:
    """A whole spec whose backends and workloads are `body`; the set `service` has the one line `gate`."""
    return f"{_HEAD}{body}\ngates service {{\n  {gate}\n}}{_TAIL}"


def torchspec(
    *words: str, cwd: Path, root: Path = ROOT, packages: Sequence[Path] = (), env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command line of the tree at `root`, with `packages` beside it. It never ends in a traceback."""
    path = os.pathsep.join(str(one) for one in (root, *packages))
    whole = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "PYTHONUTF8": "1", **(env or {})}
    command = [sys.executable, "-m", "torchspec", *words]
    done = subprocess.run(command, cwd=cwd, env=whole, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done


def pair(harness: Path, baseline: Path, candidate: Path, evidence: Path, timeout: float = 540) -> list[dict[str, Any]]:
    """Runs an emitted file's `pair` to its end; the ledger's records."""
    sides = ["--baseline", str(baseline), "--candidate", str(candidate), "--evidence", str(evidence)]
    command = [sys.executable, str(harness), "pair", *sides]
    given = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert given.returncode == 0, given.stdout + given.stderr
    return [json.loads(line) for line in (evidence / "ledger.jsonl").read_text().splitlines()]


def bodies(records: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [record["body"] for record in records if record["kind"] == kind]
