"""The lock: what stands between a compiled folder and a run, and names the first thing that does not hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from memos import SPEC, Project, make_project

from torchspec.model.codec import schema_errors, to_json
from torchspec.provenance import lock


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path / "team")
    made.compile()
    return made


def refused(project: Project, **options: Path) -> tuple[str, str]:
    found = lock.check_lock(project.out, **options)
    assert found.value is None
    assert len(found.diagnostics) == 1
    assert "compile" in str(found.diagnostics[0].hint)
    return found.diagnostics[0].code, found.diagnostics[0].message


def test_what_was_compiled_holds(project: Project) -> None:
    found = lock.check_lock(project.out, spec_folder=project.spec.parent)
    assert found.ok
    assert found.value is not None
    assert found.value.lock_digest == lock.lock_digest(found.value.lock)
    assert found.value.harness == {"cpu": project.out / "harness" / "cpu.py"}


def test_run_without_compile(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert refused(Project(tmp_path, None))[0] == "TS801"  # type: ignore[arg-type]


def test_a_plan_edited_by_hand(project: Project) -> None:
    path = project.out / "plan.json"
    plan = json.loads(path.read_text())
    plan["gates"][0]["limit"]["value"] = 99.0
    path.write_text(json.dumps(plan))
    code, message = refused(project)
    assert code == "TS802"
    assert "changed after it was compiled" in message


def test_a_plan_in_other_white_space_is_the_same_plan(project: Project) -> None:
    path = project.out / "plan.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    assert lock.check_lock(project.out).ok


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "torchspec.plan/1"}', '{"a": NaN}', "\xff"])
def test_a_plan_that_is_none(project: Project, text: str) -> None:
    (project.out / "plan.json").write_text(text, encoding="latin-1")
    assert refused(project)[0] == "TS802"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "torchspec.lock/1"}', "[" * 100_000])
def test_a_lock_that_is_none(project: Project, text: str) -> None:
    (project.out / "lock.json").write_text(text)
    assert refused(project)[0] == "TS804"


def test_a_missing_lock(project: Project) -> None:
    (project.out / "lock.json").unlink()
    assert refused(project)[0] == "TS804"


def test_a_harness_edited_by_hand(project: Project) -> None:
    path = project.out / "harness" / "cpu.py"
    path.write_text(path.read_text() + "\n")
    assert refused(project)[0] == "TS803"
    path.unlink()
    assert refused(project) == ("TS803", f"the harness file {path} is missing")


def test_a_spec_that_changed_since(project: Project) -> None:
    project.spec.write_text(SPEC + "\n")
    assert lock.check_lock(project.out).ok
    assert refused(project, spec_folder=project.spec.parent)[0] == "TS805"
    project.spec.unlink()
    assert refused(project, spec_folder=project.spec.parent)[0] == "TS805"


def test_the_same_spec_gives_the_same_lock(project: Project) -> None:
    before = (project.out / "lock.json").read_bytes()
    project.compile()
    assert (project.out / "lock.json").read_bytes() == before


def test_the_lock_fits_its_published_schema(project: Project) -> None:
    found = lock.read_lock(project.out / "lock.json").value
    assert found is not None
    value = to_json(found)
    assert schema_errors("lock", value) == []
    assert schema_errors("lock", {**value, "plan": "x"})
    with pytest.raises(ValueError, match="plan"):
        lock.write_lock(lock.Lock(**{f: getattr(found, f) for f in found.__slots__} | {"plan": "x"}), project.out / "l")
