"""Bundling: one file, deterministic, nothing of a spec becomes code."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torchspec.core.canon import digest
from torchspec.emit.bundle import HARNESS, BundleError, emit, harness_source, take_apart
from torchspec.emit.verify import problems
from torchspec.model.codec import from_json, to_json
from torchspec.model.plan import Plan, TeamFile

NASTY = "'''\"\"\"\\ {{ x }} </script> \u202e \x00 \u2028 é \r\n os.system('id')"
BACKENDS = ("cpu", "cuda", "rocm", "mps")


def minimal(**changes: Any) -> Plan:
    value: dict[str, Any] = {
        "schema": "torchspec.plan/1",
        "name": "sample",
        "compiler": "0.0.0",
        "spec": [],
        "upgrade": {"title": "t", "owner": "o", "asks": "a", "window_from": None, "window_to": None},
        "params": [],
        "frozen": {"python": None, "packages": [], "env": {}, "settings": {}, "seed": 1},
        "baseline": {"id": "baseline", "role": "baseline", "torch": "2.13.0", "python": None, "path": None},
        "candidates": [{"id": "candidate", "role": "candidate", "torch": "2.14.1", "python": None, "path": None}],
        "backends": [{"name": name, "requirement": "required", "threads": None} for name in BACKENDS],
        "sources": [],
        "claims": [],
        "workloads": [
            {
                "name": "w",
                "kind": "attention",
                "beside": None,
                "entry": None,
                "owner": None,
                "lane": None,
                "options": {},
            }
        ],
        "lanes": [],
        "cells": [
            {"id": f"c-{name}", "workload": "w", "backend": name, "mode": "infer", "axes": {"seq": 64}, "label": name}
            for name in BACKENDS
        ],
        "gates": [],
        "waivers": [],
        "together": [],
        "exclusions": [],
        "rollback": None,
        "budget": {},
        "files": [],
        "meta": {},
    }
    return dataclasses.replace(from_json(Plan, value), **changes)


def constants(source: str) -> dict[str, Any]:
    """The data at the end of a harness file."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("PLAN_DIGEST", "PLAN_TEXT", "TEAM_FILES"):
                found[name] = ast.literal_eval(node.value)
    return found


def test_every_backend_keeps_the_promises() -> None:
    for name, source in emit(minimal()).items():
        assert problems(source) == [], name


def test_the_file_is_formatted(tmp_path: Path) -> None:
    for name, source in emit(minimal()).items():
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        asked = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "--diff", str(path)]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_same_plan_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    code = (
        "import sys, json\n"
        "from torchspec.emit.bundle import emit\n"
        "from torchspec.model.codec import from_json\n"
        "from torchspec.model.plan import Plan\n"
        "sys.stdout.write(json.dumps(emit(from_json(Plan, json.load(sys.stdin)))))\n"
    )
    plan = json.dumps(to_json(minimal()))
    given = set()
    for seed in ("0", "1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HARNESS.parent.parent)}
        done = subprocess.run(
            [sys.executable, "-c", code], input=plan, env=env, capture_output=True, text=True, check=True
        )
        given.add(done.stdout)
    assert len(given) == 1
    assert json.loads(given.pop()) == emit(minimal())


def test_the_digest_is_the_plans() -> None:
    plan = minimal()
    assert constants(emit(plan)["cpu"])["PLAN_DIGEST"] == digest(to_json(plan))


@pytest.mark.parametrize("path", sorted(HARNESS.rglob("*.py")), ids=lambda path: path.name)
def test_the_parts_that_travel_are_ascii(path: Path) -> None:
    """A harness is read on machines and through logs of any encoding, so it brings no character but these."""
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if not line.isascii()
    ]
    assert not found, "write it as an escape, or in words"


def test_hostile_text_travels_as_data() -> None:
    plan = minimal()
    workload = dataclasses.replace(plan.workloads[0], options={NASTY: [NASTY]})
    cells = tuple(dataclasses.replace(cell, label=NASTY) for cell in plan.cells)
    files = (TeamFile(f"{NASTY}.py", "0" * 64, NASTY), TeamFile("empty.py", "0" * 64, ""))
    source = emit(dataclasses.replace(plan, name=NASTY, workloads=(workload,), cells=cells, files=files))["cpu"]
    assert source.isascii()
    held = constants(source)
    assert held["TEAM_FILES"] == {f"{NASTY}.py": NASTY, "empty.py": ""}
    travelled = json.loads(held["PLAN_TEXT"])
    assert travelled["name"] == NASTY
    assert travelled["workloads"][0]["options"] == {NASTY: [NASTY]}
    plain = emit(plan)["cpu"]
    code = [ast.dump(node) for node in ast.parse(source).body if not isinstance(node, (ast.Assign, ast.Expr))]
    assert code == [ast.dump(node) for node in ast.parse(plain).body if not isinstance(node, (ast.Assign, ast.Expr))]


def test_only_what_the_backend_needs_travels() -> None:
    source = emit(minimal())["mps"]
    assert "class Mps" in source
    assert "class Cuda" not in source
    assert "class Attention(" in source
    assert "class LinearCrossEntropy" not in source
    travelled = json.loads(constants(source)["PLAN_TEXT"])
    assert [cell["id"] for cell in travelled["cells"]] == ["c-mps"]


def test_a_plugins_work_file_is_taken_along(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Mine."""\n\nfrom __future__ import annotations\n\nimport colorsys\n\nfrom .work import Work\n\n\n'
        'class Mine(Work):\n    kind = "mine"\n',
        encoding="utf-8",
    )
    plan = minimal()
    plan = dataclasses.replace(plan, workloads=(dataclasses.replace(plan.workloads[0], kind="mine"),))
    source = harness_source(plan, plan.backends[0], {"mine": path})
    assert "class Mine(Work)" in source
    assert "import colorsys" in source
    assert problems(source) == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("from .work import Work as W\n", "renamed"),
        ("from . import work\n", "only `from"),
        ("def f():\n    from .work import Work\n", "at the top"),
        ("if True:\n    x = 1\n", "no statement `if`"),
    ],
)
def test_a_module_that_breaks_a_rule_is_refused(code: str, says: str) -> None:
    with pytest.raises(BundleError, match=says):
        take_apart("bad", code)


def test_two_modules_with_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from .work import Work\n\n\ndef canonical() -> None: ...\n", encoding="utf-8")
    plan = minimal()
    plan = dataclasses.replace(plan, workloads=(dataclasses.replace(plan.workloads[0], kind="mine"),))
    with pytest.raises(BundleError, match="both define canonical"):
        harness_source(plan, plan.backends[0], {"mine": path})


def test_every_harness_module_can_be_bundled_together() -> None:
    for path in sorted(HARNESS.glob("*.py")):
        if path.stem != "__init__":
            take_apart(path.stem, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import numpy\n", "imports numpy"),
        ("import torch\n", "at the top"),
        ("def f():\n    from torchspec import core\n", "imports torchspec"),
        ("x = '/home/ada/file'\n", "a place on a machine"),
        ("type X = int\n", "Python 3.10 cannot read it"),
        ("def f():\n    try:\n        pass\n    except* ValueError:\n        pass\n", "Python 3.10 cannot read it"),
    ],
)
def test_verify_finds_what_is_wrong(code: str, says: str) -> None:
    found = problems(code)
    assert len(found) == 1
    assert says in found[0]


def test_verify_allows_what_is_declared() -> None:
    assert problems("def f():\n    import cutlass\n", allowed=["cutlass"]) == []
