"""An environment made again from its lock: from archives that were kept, without an index, and from scratch."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from torchspec import provision
from torchspec.model.plan import Rollback
from torchspec.provision import archives


def made_by(plan, tmp_path: Path) -> provision.Environment:
    result = provision.ensure(
        plan, plan.baseline, spec_folder=tmp_path, cache=tmp_path / "cache", on_event=lambda _: None
    )
    assert result.ok, result.diagnostics
    return result.value


def rehearsed(environment: provision.Environment, tmp_path: Path):
    return provision.rehearse(
        environment.lock, environment.python, tmp_path / "cache", wheels=None, on_event=lambda _: None
    )


def torch_of(python: Path) -> str:
    says = [str(python), "-c", "import torch; print(torch.__version__)"]
    return subprocess.run(says, capture_output=True, text=True, check=True).stdout.strip()


def test_the_baseline_is_rebuilt_without_an_index_from_what_was_kept(tmp_path, index, make_plan):
    plan = replace(make_plan({"torch": "2.13.0"}), rollback=Rollback("baseline", 60.0, ()))
    environment = made_by(plan, tmp_path)
    cache = tmp_path / "cache"
    assert archives.missing(environment.lock, cache) == []
    left_behind = cache / "rebuilt" / "of-a-killed-run"
    left_behind.mkdir(parents=True)
    (left_behind / "in-use").touch()
    for wheel in index.iterdir():
        wheel.unlink()  # the index is gone, and nothing of it can be fetched again
    with rehearsed(environment, tmp_path) as rebuilt:
        first, second = rebuilt.steps
        assert (first["step"], first["ok"], first["error"]) == ("rebuild.cache", True, None)
        assert first["detail"] == {"archives": 3, "index": "not used"}
        assert (second["step"], second["ok"]) == ("rebuild.scratch", False)
        assert "no torch 2.13.0" in second["error"] or "no version of" in second["error"]
        assert all(step["seconds"] > 0 for step in rebuilt.steps)
        assert rebuilt.python is not None
        assert rebuilt.python != environment.python
        assert torch_of(rebuilt.python) == "2.13.0"
    assert list((cache / "rebuilt").iterdir()) == []

    damaged = archives.place(cache, environment.lock["packages"]["pinned"]["sha256"]) / "pinned-1.0-py3-none-any.whl"
    damaged.write_bytes(damaged.read_bytes() + b"x")
    made = provision.restore(environment.lock, tmp_path / "again", from_scratch=False, cache=cache)
    assert [d.code for d in made.diagnostics] == ["TS617"]


def test_an_older_environment_has_its_archives_fetched_first(tmp_path, index, make_plan, fake_wheel):
    environment = made_by(make_plan({"torch": "2.13.0"}, packages=("numpy==2.4.0",)), tmp_path)  # nothing to go back to
    assert len(archives.missing(environment.lock, tmp_path / "cache")) == 4
    fake_wheel(index, "dep", "9.0")  # time goes by, and a newer version appears
    with rehearsed(environment, tmp_path) as rebuilt:
        assert [(step["step"], step["ok"]) for step in rebuilt.steps] == [
            ("rebuild.cache", True),
            ("rebuild.scratch", True),
        ]
        assert rebuilt.steps[0]["detail"]["fetched_before"] == 4
        assert torch_of(rebuilt.python) == "2.13.0"


def test_an_interpreter_that_the_spec_names_is_not_rebuilt(tmp_path):
    with provision.rehearse(
        {"origin": "interpreter"}, tmp_path, tmp_path, wheels=None, on_event=lambda _: None
    ) as rebuilt:
        assert (rebuilt.steps, rebuilt.python) == ((), None)


def test_nothing_is_restored_into_a_folder_that_holds_something(tmp_path):
    (tmp_path / "mine").write_text("here already")
    made = provision.restore({"python": "3.11"}, tmp_path, from_scratch=True)
    assert [d.code for d in made.diagnostics] == ["TS618"]
