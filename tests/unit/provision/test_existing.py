"""Interpreters that are there already, and the differences between two environments."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchspec import provision
from torchspec.core.diagnostics import render_text
from torchspec.provision.interpreters import find_python, matches, probe
from torchspec.provision.lock import make_lock, torch_brings
from torchspec.provision.pip import nearest, redact


def ensure(plan, tmp_path, side=None):
    return provision.ensure(
        plan, side or plan.baseline, spec_folder=tmp_path, cache=tmp_path / "cache", on_event=lambda _: None
    )


def only(result):
    (found,) = result.diagnostics
    assert found.hint
    assert (found.span.file, found.span.line) == ("x.tspec", 3)
    return found


def write(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_an_interpreter_that_is_gone(tmp_path, make_plan):
    found = only(ensure(make_plan({"python": "env/bin/python"}), tmp_path))
    assert found.code == "TS601"
    assert str(tmp_path / "env/bin/python") in found.message
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert "link to something that is gone" in only(ensure(make_plan({"python": "link"}), tmp_path)).message


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("#!/bin/sh\nexit 0\n", 0o644, "may not be executed"),
        ("#!/bin/sh\nexit 3\n", 0o755, "it ended with status 3"),
        ("#!/bin/sh\necho torchspec-answer{}\n", 0o755, "cannot be run"),
        ("#!/bin/sh\necho 'torchspec-answer[1'\n", 0o755, "cannot be run"),
        ("no format\x00\x01", 0o755, "Exec format error"),
        ("#!/bin/sh\nkill -9 $$\n", 0o755, "signal 9"),
    ],
)
def test_what_is_no_python(tmp_path, make_plan, text, mode, words):
    write(tmp_path / "python", text, mode)
    found = only(ensure(make_plan({"python": "python"}), tmp_path))
    assert found.code == "TS602"
    assert words in found.message


def test_an_interpreter_that_hangs(tmp_path):
    write(tmp_path / "python", "#!/bin/sh\nsleep 60 & wait\n")
    (found,) = probe(tmp_path / "python", limit_s=0.3).diagnostics
    assert "did not answer in time" in found.message


def test_a_folder_is_no_interpreter(tmp_path, make_plan):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    write(tmp_path / "env" / "bin" / "python", "")
    found = only(ensure(make_plan({"python": "env"}), tmp_path))
    assert found.code == "TS602"
    assert "env/bin/python" in (found.hint or "")


def test_an_interpreter_without_torch(tmp_path, make_plan):
    found = only(ensure(make_plan({"python": sys.executable}), tmp_path))
    assert found.code == "TS603"


def answering(tmp_path: Path, **packages: str) -> Path:
    """An interpreter with stand-in packages: this Python with a path file of its own, in a venv without pip."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = next(home.glob("lib/python*/site-packages"))
    for name, version in packages.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    broken = site / "broken-1.dist-info"
    broken.mkdir()
    (site / "noisy.pth").write_text("import sys; sys.stdout.write('noise on the way in\\n')\n")
    return home / "bin" / "python"


@pytest.mark.parametrize(
    ("named", "frozen", "packages", "codes"),
    [
        ({"torch": "2.13.0"}, None, (), []),
        ({"torch": "2.13.0+cpu"}, None, (), []),
        ({}, None, (), []),
        ({"torch": "2.13.0+cu130"}, None, (), ["TS604"]),
        ({"torch": "2.14.1"}, None, (), ["TS604"]),
        ({}, "3.99", (), ["TS605"]),
        ({}, None, ("numpy==2.4.0",), []),
        ({}, None, ("numpy==2.5.0", "absent"), ["TS606", "TS606"]),
    ],
)
def test_what_an_interpreter_holds_is_held_against_the_spec(tmp_path, make_plan, named, frozen, packages, codes):
    python = answering(tmp_path, torch="2.13.0+cpu", numpy="2.4.0")
    plan = make_plan({**named, "python": str(python.relative_to(tmp_path))}, None, packages, frozen)
    made = ensure(plan, tmp_path)
    assert made.value is not None
    assert [d.code for d in made.diagnostics] == codes
    assert set(codes) <= provision.BROKEN_CONTROLS
    assert made.value.python == python
    assert made.value.lock["torch"] == "2.13.0+cpu"
    assert made.value.lock["packages"]["numpy"]["version"] == "2.4.0"
    assert str(tmp_path) not in str(made.value.lock)
    for diagnostic in made.diagnostics:
        assert "help:" in render_text(diagnostic, {})


def test_torch_without_metadata_is_found_without_importing_it(tmp_path, make_plan):
    python = answering(tmp_path)
    package = next((tmp_path / "venv").glob("lib/python*/site-packages")) / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "version.py").write_text("__version__ = '2.16.0a0+git12'\n")
    probed = probe(python).value
    assert probed is not None
    assert probed.torch == "2.16.0a0+git12"


def test_matching_versions_by_their_parts():
    assert matches("3.12.4", "3.12")
    assert not matches("3.12.4", "3.1")
    assert matches("3.12.4", "3.12.4")


def test_a_python_on_path_that_only_pretends(tmp_path, monkeypatch):
    write(tmp_path / "python3.97", "#!/bin/sh\necho not here >&2; exit 127\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (found,) = find_python("3.97").diagnostics
    assert found.code == "TS610"
    assert any("python3.97: cannot be run" in note for note in found.notes)
    own = find_python(f"{sys.version_info.major}.{sys.version_info.minor}").value
    assert own is not None
    assert own.version.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")


def probed_with(tmp_path, **requires: list[str]):
    probed = probe(Path(sys.executable)).value
    assert probed is not None
    object.__setattr__(
        probed,
        "packages",
        {name.replace("_", "-"): {"version": "1.0", "requires": list(r)} for name, r in requires.items()},
    )
    return probed


def test_what_torch_brings(tmp_path):
    probed = probed_with(
        tmp_path,
        torch=["dep>=1", "kit[a]==1.*", 'old; python_version < "3"', 'opt; extra == "opt"', "not installed ==", "gone"],
        dep=["deep!=2"],
        kit=['part==1.0; extra == "a"', 'other; extra == "b"'],
        part=[],
        deep=["torch"],
        old=[],
        opt=[],
        other=[],
        alone=[],
    )
    assert torch_brings(probed) == {
        "deep": {"specifiers": ["!=2"], "pinned": False},
        "dep": {"specifiers": [">=1"], "pinned": False},
        "kit": {"specifiers": ["==1.*"], "pinned": True},
        "part": {"specifiers": ["==1.0"], "pinned": True},
    }


@pytest.fixture
def lock(tmp_path):
    probed = probed_with(
        tmp_path, torch=["dep>=1,<3", "pinned==1.0"], dep=[], pinned=[], numpy=[], pip=[], my_kernels=[]
    )
    return make_lock(probed, "interpreter", {})


def changed(lock, version, brings=None, **other):
    new = copy.deepcopy(lock)
    for name, value in version.items():
        if value is None:
            new["packages"].pop(name)
        else:
            new["packages"][name] = {"version": value, "file": None, "sha256": None}
    new["torch_brings"].update(brings or {})
    return {**new, **other}


@pytest.mark.parametrize(
    ("version", "brings", "expected"),
    [
        ({}, {}, []),
        ({"torch": "2.14.1", "pip": "26.0", "pinned": "2.0"}, {}, []),
        ({"numpy": "2.5.0"}, {}, ["numpy"]),
        ({"numpy": None}, {}, ["numpy"]),
        ({"extra": "1.0"}, {}, ["extra"]),
        ({"triton": "3.5"}, {"triton": {"specifiers": [], "pinned": False}}, []),
        ({"dep": "2.0"}, {}, ["dep"]),
        ({"dep": "3.0"}, {}, []),
        ({"dep": "2.0"}, {"dep": {"specifiers": [">=2"], "pinned": False}}, []),
        ({"my-kernels": "2.0", "numpy": "3"}, {}, ["my-kernels", "numpy"]),
    ],
    ids=[
        "same",
        "torch and its pin",
        "version",
        "gone",
        "added",
        "torch's own",
        "unforced",
        "forced",
        "forced there",
        "two",
    ],
)
def test_differences(lock, version, brings, expected):
    found = provision.differences(lock, changed(lock, version, brings))
    assert [one.what for one in found] == expected
    names = [one.what for one in provision.differences(changed(lock, version, brings), lock)]
    assert names == expected
    declared = provision.differences(lock, changed(lock, version, brings), ("num*", "extra", "dep", "My_Kernels"))
    assert declared == ()


def test_differences_of_the_interpreter(lock):
    assert [d.what for d in provision.differences(lock, changed(lock, {}, python="3.10.1"))] == ["python"]
    built = changed(lock, {}, executable="0" * 64)
    assert [d.what for d in provision.differences(lock, built)] == ["python executable"]
    assert provision.differences(lock, built, ("python",)) == ()


def test_differences_as_broken_controls(lock, make_plan):
    place = make_plan({"torch": "1"}).candidates[0].place
    (found,) = provision.diff_environments(lock, changed(lock, {"numpy": "2.5.0"}), (), place)
    assert found.code == "TS607"
    assert "numpy is 1.0 on the baseline, 2.5.0 on the candidate" in found.message
    assert found.span.line == 4
    assert 'may_differ "numpy"' in found.hint


def test_nearest_versions():
    known = ["2.4.0", "2.13.0", "2.14.0rc1", "2.14.1", "junk", "2.5.1"]
    assert nearest("2.13.5", known) == ["2.5.1", "2.13.0", "2.14.1"]
    assert nearest("2.14.0", known) == ["2.5.1", "2.13.0", "2.14.1"]
    assert nearest("9.9.9", known) == ["2.13.0", "2.14.1"]
    assert nearest("2.14.0rc2", known) == ["2.13.0", "2.14.0rc1", "2.14.1"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Looking in indexes: https://u:p@x.invalid/simple, https://y", "Looking in indexes: (not recorded)"),
        ("Processing /srv/wheels/torch-2.13.0-cp311.whl (from foo)", "Processing torch-2.13.0-cp311.whl (from foo)"),
        ("Processing ./torch-2.13.0-cp311.whl", "Processing torch-2.13.0-cp311.whl"),
        ("  Downloading https://u:p@x.invalid/a%2Bb.whl (3 MB)", "  Downloading …/a+b.whl (3 MB)"),
        ("ERROR: 404 for url: https://u:p@x.invalid/", "ERROR: 404 for url: …/…"),
        ("OSError: [Errno 13] Permission denied: '/a/b'", "OSError: [Errno 13] Permission denied: '/a/b'"),
    ],
)
def test_redaction(line, expected):
    assert redact(line) == expected


@pytest.mark.torch
def test_the_real_environments(tmp_path, make_plan, baseline_python, candidate_python):
    plan = make_plan({"python": str(baseline_python)}, {"python": str(candidate_python)})
    baseline, candidate = ensure(plan, tmp_path), ensure(plan, tmp_path, plan.candidates[0])
    assert baseline.ok, baseline.diagnostics
    assert candidate.ok, candidate.diagnostics
    assert baseline.value.lock["torch"].startswith("2.13.0")
    assert candidate.value.lock["torch"].startswith("2.14.1")
    assert baseline.value.seconds < 10
    assert "sympy" in baseline.value.lock["torch_brings"]
    found = provision.differences(baseline.value.lock, candidate.value.lock)
    assert found == ()
