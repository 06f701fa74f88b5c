"""A package of a team's own, installed for real by pip, brings a kind of work as far as the emitted harness."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from user import ROOT, bodies, pair, small_spec, torchspec

PACKAGE = ROOT / "tests" / "plugins" / "norms"
SPEC = small_spec("""backend cpu
workload norm {
  kind rms_norm
  shape {
    tokens 64, 128
  }
  on cpu
  gates service
}""")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip has installed the package into."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source")
    for file in sorted(PACKAGE.rglob("*")):  # pip builds in the source's folder, which stays clean
        if file.is_file() and file.suffix in (".py", ".toml"):
            place = source / file.relative_to(PACKAGE)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    arguments = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *arguments, str(source)], check=True, timeout=300)
    return folder


def test_without_the_package_the_kind_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "norms.tspec").write_text(SPEC)
    given = torchspec("check", "norms.tspec", cwd=tmp_path)
    assert given.returncode != 0
    assert "TS214" in given.stdout + given.stderr


def test_the_kind_goes_from_the_package_into_plan_harness_and_lock(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "norms.tspec").write_text(SPEC)
    given = torchspec("compile", "norms.tspec", "--out", "out", cwd=tmp_path, packages=[installed])
    assert given.returncode == 0, given.stdout + given.stderr
    plan = json.loads((tmp_path / "out/norms/plan.json").read_text())
    assert [cell["axes"]["tokens"] for cell in plan["cells"]] == [64, 128]
    harness = (tmp_path / "out/norms/harness/cpu.py").read_text()
    assert "class RmsNorm(Work):" in harness
    assert "norms" in json.loads((tmp_path / "out/norms/lock.json").read_text())["plugins"]


FAULTS: list[tuple[str, str, str, int, str]] = [
    # what, from, to, the line that is named, words of the reason
    (
        "torch at the top",
        "from .work import Work",
        "import torch\nfrom .work import Work",
        7,
        "imports torch at the top",
    ),
    ("a package", "from .work import Work", "import requests\nfrom .work import Work", 7, "it imports requests"),
    ("a module that is none", "from .work import", "from .works import", 1, "no harness module `works`"),
    ("an `if`", "class RmsNorm", "if 1:\n    pass\n\n\nclass RmsNorm", 10, "no statement `if` at the top level"),
    ("no Python", "class RmsNorm(Work):", "class RmsNorm(Work:", 10, "Python 3.10"),
    ("another kind", 'kind = "rms_norm"', 'kind = "norm"', 1, 'no class in it says `kind = "rms_norm"`'),
    ("a name that is taken", "class RmsNorm", "class Run", 1, "both define Run"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_in_the_package_s_file_is_its_author_s(
    installed: Path, tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    site = tmp_path / "site"
    shutil.copytree(installed, site)
    file = site / "torchspec_norms" / "work_rms_norm.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    (tmp_path / "norms.tspec").write_text(SPEC)
    given = torchspec("compile", "norms.tspec", "--out", "out", "--format", "json", cwd=tmp_path, packages=[site])
    assert given.returncode == 3, given.stdout + given.stderr
    assert not (tmp_path / "out").exists()
    (found,) = [d for d in json.loads(given.stdout)["diagnostics"] if d["code"] == "TS903"]
    assert words in found["message"]
    assert found["span"]["file"].endswith("work_rms_norm.py")
    assert found["span"]["line"] == line


@pytest.mark.torch
@pytest.mark.slow
def test_the_kind_is_measured(installed: Path, tmp_path: Path, baseline_python: Path, candidate_python: Path) -> None:
    (tmp_path / "norms.tspec").write_text(SPEC)
    assert torchspec("compile", "norms.tspec", "--out", "out", cwd=tmp_path, packages=[installed]).returncode == 0
    harness = tmp_path / "out" / "norms" / "harness" / "cpu.py"
    records = pair(harness, baseline_python, candidate_python, tmp_path / "evidence")
    assert [one["status"] for one in bodies(records, "cell.done")] == ["measured", "measured"]
