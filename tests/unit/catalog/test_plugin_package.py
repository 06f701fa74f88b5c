"""A package of a team's own, installed for real by pip, brings a kind of work as far as the emitted harness."""

from __future__ import annotations

import json
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


@pytest.mark.torch
@pytest.mark.slow
def test_the_kind_is_measured(installed: Path, tmp_path: Path, baseline_python: Path, candidate_python: Path) -> None:
    (tmp_path / "norms.tspec").write_text(SPEC)
    assert torchspec("compile", "norms.tspec", "--out", "out", cwd=tmp_path, packages=[installed]).returncode == 0
    harness = tmp_path / "out" / "norms" / "harness" / "cpu.py"
    records = pair(harness, baseline_python, candidate_python, tmp_path / "evidence")
    assert [one["status"] for one in bodies(records, "cell.done")] == ["measured", "measured"]
