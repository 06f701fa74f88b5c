"""Lowering: golden plans, the same bytes anywhere, ids that are digests, the schema, and what `runs` judges."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torchspec import catalog, lower
from torchspec.check import check_spec
from torchspec.core.canon import canonical
from torchspec.core.resources import data_folder
from torchspec.model import publish
from torchspec.model.codec import SCHEMAS, from_json, schema_errors, to_json
from torchspec.model.plan import Budget, Plan

CASES = Path(__file__).resolve().parents[2] / "cases" / "plan"
ROOT = Path(__file__).resolve().parents[3]
SPECS = sorted(p.name for p in data_folder("specs").glob("*.tspec"))
SCRIPT = """
import sys, pathlib
from torchspec import catalog, lower
from torchspec.check import check_spec
from torchspec.core.canon import digest
from torchspec.model.codec import to_json
spec = check_spec(pathlib.Path(sys.argv[1])).spec
print(digest(to_json(lower.lower(spec, catalog.load(), "0").value)))
"""


def plan_of(path: Path, **params: str) -> Plan:
    result = check_spec(path, params)
    assert result.spec is not None, result.diagnostics
    plan = lower.lower(result.spec, catalog.load(), "0").value
    assert plan is not None
    return plan


@pytest.mark.parametrize("path", sorted(CASES.glob("*.tspec")), ids=lambda p: p.name)
def test_golden(path: Path) -> None:
    """To accept a change: TORCHSPEC_ACCEPT=1, then read the diff."""
    value = to_json(plan_of(path))
    golden = path.with_suffix(".plan.json")
    if os.environ.get("TORCHSPEC_ACCEPT"):
        golden.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert value == json.loads(golden.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SPECS)
def test_every_shipped_spec_compiles_to_a_plan_that_its_schema_takes(name: str) -> None:
    plan = plan_of(data_folder("specs") / name)
    value = to_json(plan)
    assert schema_errors("plan", value) == []
    assert from_json(Plan, json.loads(canonical(value))) == plan


def test_the_same_bytes_elsewhere_and_under_another_hash_seed(tmp_path: Path) -> None:
    shutil.copytree(data_folder("specs"), tmp_path / "some where" / "x")
    digests = set()
    places = (data_folder("specs"), tmp_path / "some where" / "x")
    for seed, folder in zip(("1", "2"), places, strict=True):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", SCRIPT, str(folder / "upgrade.tspec")]
        digests.add(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    assert len(digests) == 1


def test_ids_are_unique_and_the_cells_of_gates_exist() -> None:
    plan = plan_of(data_folder("specs") / "upgrade.tspec")
    cells = [c.id for c in plan.cells]
    assert len(set(cells)) == len(cells) == len({c.label for c in plan.cells})
    assert len({g.id for g in plan.gates}) == len(plan.gates)
    assert all(set(g.cells) <= set(cells) for g in plan.gates)


def test_every_cell_has_runs_once() -> None:
    for name in SPECS:
        plan = plan_of(data_folder("specs") / name)
        judged = [c for g in plan.gates if g.metric == "runs" for c in g.cells]
        assert sorted(judged) == sorted(c.id for c in plan.cells)


def test_a_report_of_runs_is_no_gate(tmp_path: Path) -> None:
    text = (data_folder("specs") / "laptops.tspec").read_text(encoding="utf-8")
    assert text.count("runs ") == 1
    line = next(part for part in text.split("\n") if part.strip().startswith("runs "))
    (tmp_path / "laptops.tspec").write_text(text.replace(line, "  report runs"), encoding="utf-8")
    plan = plan_of(tmp_path / "laptops.tspec")
    (gate,) = (g for g in plan.gates if g.metric == "runs" and g.decision is not None)
    assert gate.implicit
    assert gate.cells == tuple(c.id for c in plan.cells)


def test_numbers_are_in_base_units() -> None:
    plan = plan_of(data_folder("specs") / "serving.tspec")
    limits = {(g.metric, g.limit.form): g.limit.value for g in plan.gates}
    assert limits["task.accuracy", "decrease"] == 0.002
    assert limits["latency.first_token_p95", "absolute"] == 0.18
    assert limits["memory.driver_peak", "absolute"] == 76 * 2**30
    assert limits["throughput", "drop"] == 0.02
    assert plan.claims[0].states[1].value == 7.14e-6


def test_parameters_are_set_and_kept() -> None:
    path = data_folder("specs") / "upgrade.tspec"
    plan = plan_of(path, longest="1024")
    assert {c.axes["seq"] for c in plan.cells if c.workload == "sparse_attention"} == {512, 1024}
    assert (plan.params[0].default, plan.params[0].value) == (4096, 1024)


def test_an_override_takes_the_place_of_the_inherited_line() -> None:
    plan = plan_of(data_folder("specs") / "upgrade.tspec")
    training = [g for g in plan.gates if g.gate_set == "training"]
    assert [g.limit.text for g in training if g.metric == "latency.p95"] == ["growth <= 10 %"]
    assert not [g for g in training if g.metric == "throughput"]


def test_imports_are_part_of_the_plan() -> None:
    plan = plan_of(data_folder("specs") / "upgrade.tspec")
    assert [f.path for f in plan.spec] == ["upgrade.tspec", "common/cluster.tspec"]
    assert next(g for g in plan.gates if g.metric == "comm.wait").place.file == "common/cluster.tspec"


def test_the_published_schema_is_that_of_the_classes() -> None:
    assert (SCHEMAS / "plan.schema.json").read_text(encoding="utf-8") == publish.published()


def test_the_schema_refuses_what_it_does_not_know() -> None:
    value = to_json(plan_of(data_folder("specs") / "laptops.tspec"))
    value["extra"] = 1
    value["cells"][0]["id"] = "x"
    assert {path for path, _ in schema_errors("plan", value)} == {"$", "$.cells[0].id"}


def test_defaults_of_the_budget_agree() -> None:
    from torchspec.check.question import DEFAULT_TIMEOUT_S

    assert Budget().timeout_s == DEFAULT_TIMEOUT_S
