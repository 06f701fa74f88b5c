"""An emitted file alone in an empty folder, with a Python that has no torch and sees nothing of torchspec."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torchspec.emit.bundle import emit
from torchspec.model.codec import from_json
from torchspec.model.plan import Plan

BACKENDS = ("cpu", "cuda", "rocm", "mps", "distributed")
PLAN = {
    "schema": "torchspec.plan/1", "name": "sample", "compiler": "0.0.0", "spec": [], "params": [],
    "upgrade": {"title": "t", "owner": "o", "asks": "a", "window_from": None, "window_to": None},
    "frozen": {"python": None, "packages": [], "env": {}, "settings": {}, "seed": 1},
    "baseline": {"id": "baseline", "role": "baseline", "torch": "2.13.0", "python": None, "path": None},
    "candidates": [{"id": "candidate", "role": "candidate", "torch": "2.14.1", "python": None, "path": None}],
    "backends": [{"name": n, "requirement": "required", "threads": None} for n in BACKENDS],
    "sources": [], "claims": [], "lanes": [], "gates": [], "waivers": [], "together": [], "exclusions": [],
    "workloads": [
        {"name": "w", "kind": "attention", "beside": None, "entry": None, "owner": None, "lane": None, "options": {}}
    ],
    "cells": [{"id": f"c{n}", "workload": "w", "backend": n, "mode": "infer", "axes": {"seq": 64}, "label": n}
              for n in BACKENDS],
    "rollback": None, "budget": {"timeout_s": 20.0}, "files": [], "meta": {},
}  # fmt: skip


def run(folder: Path, backend: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / f"{backend}.py").write_text(emit(from_json(Plan, PLAN))[backend], encoding="utf-8")
    asked = [sys.executable, "-I", "-S", f"{backend}.py", *arguments]
    return subprocess.run(asked, cwd=folder, env={}, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("backend", BACKENDS)
def test_probe_and_cells_answer_in_json(tmp_path: Path, backend: str) -> None:
    probed = run(tmp_path, backend, "probe")
    assert probed.returncode == 0, probed.stderr
    found = json.loads(probed.stdout)
    assert found["backend"] == backend
    assert found["torch"] is None
    assert "no torch" in found["missing"]
    listed = json.loads(run(tmp_path, backend, "cells").stdout)
    assert [cell["id"] for cell in listed["cells"]] == [f"c{backend}"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "nothing"], "the plan has no cell nothing"),
        (["--stage", "three"], "no cell of this backend is in the stage three"),
        (["--candidate-id", "candidate-9"], "the plan has no side candidate-9; it has baseline, candidate"),
        (["--context", "absent.json"], "the context file cannot be read"),
    ],
)
def test_a_wrong_argument_is_told_without_a_traceback(tmp_path: Path, arguments: list[str], says: str) -> None:
    sides = ["--baseline", "a", "--candidate", "b", "--evidence", "ev"]
    done = run(tmp_path, "cpu", "pair", *sides, *arguments)
    assert done.returncode == 3
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_evidence_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path, "cpu", "pair", "--baseline", "a", "--candidate", "b", "--evidence", "file/ev")
    assert done.returncode == 3
    assert "the evidence folder cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_interpreters_without_torch_end_every_cell(tmp_path: Path) -> None:
    sides = ["--baseline", sys.executable, "--candidate", "gone/bin/python", "--evidence", "ev"]
    done = run(tmp_path, "cpu", "pair", *sides)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    held = [json.loads(line) for line in (tmp_path / "ev" / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    failed = [r["body"] for r in held if r["kind"] == "side.failed"]
    assert [b["side"] for b in failed] == ["baseline", "baseline"]
    assert "No module named 'torch'" in failed[0]["error"]
    (ending,) = [r["body"] for r in held if r["kind"] == "cell.done"]
    assert ending["status"] == "error"
    assert held[-1]["body"]["status"] == "failed"
