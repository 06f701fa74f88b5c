"""Plugins: rows by entry point, refused where they are not sound, and never able to take the tool down.

The packages here are metadata written by hand into a folder on the path, in an interpreter of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchspec import catalog
from torchspec.catalog.plugins import Plugin, any_installed
from torchspec.catalog.tables import with_plugins

ROOT = Path(__file__).resolve().parents[3]
GOOD = """
from pathlib import Path
from torchspec.catalog import Axis, Metric, Plugin, WorkloadKind

HERE = Path(__file__).parent
PLUGIN = Plugin(
    metrics=(
        Metric("norm.drift", "How far", "number", "lower",
               ("cpu",), ("infer",), ("absolute",), "defer", "counted", "numeric"),
    ),
    workloads=(
        WorkloadKind("rms_norm", "RMS norm", ("infer",), ("infer",), (Axis("rows", "count", 8, "rows"),), ("cpu",)),
    ),
    works={"rms_norm": HERE / "work_rms_norm.py"},
)
"""
SPEC = """tspec 1
upgrade "norms" {
  owner "a"
  caveat "b"
}
baseline torch "2.13.0"
candidate torch "2.14.1"
backend cpu
workload norm {
  kind rms_norm
  on cpu
  gates g
}
gates g {
  error.max_abs <= 1e-4 against cpu.float64 else rollback
  norm.drift <= 3 else defer
}
rollback {
  rehearse baseline within 10 min
}
"""
ASK = """
import sys, pathlib
from torchspec import catalog
from torchspec.check import check_spec
c = catalog.load()
print("rms_norm" in c.workloads, sorted(catalog.plugins()), sorted(c.works), [p.code for p in c.problems])
r = check_spec(pathlib.Path(sys.argv[1]))
print([d.code for d in r.diagnostics], r.spec is not None)
"""


def package(folder: Path, source: str) -> None:
    (folder / "our_norms.py").write_text(source)
    (folder / "work_rms_norm.py").write_text("kind = 'rms_norm'\n")
    info = folder / "our_norms-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-norms\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[torchspec.catalog]\nnorms = our_norms:PLUGIN\n")


def ask(folder: Path) -> list[str]:
    spec = folder / "norms.tspec"
    spec.write_text(SPEC)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    done = subprocess.run([sys.executable, "-c", ASK, str(spec)], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_rows_of_a_plugin_are_rows(tmp_path: Path) -> None:
    package(tmp_path, GOOD)
    assert ask(tmp_path) == ["True ['norms'] ['rms_norm'] []", "[] True"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("raise SystemExit('broken')", "TS901"),
        ("PLUGIN = 3", "TS902"),
        (GOOD.replace('"rms_norm", "RMS', '"attention", "RMS'), "TS902"),
        (GOOD.replace('"work_rms_norm.py"', '"nothing.py"'), "TS902"),
        (GOOD.replace('"counted", "numeric"', '"counted", "magic"'), "TS902"),
        (GOOD.replace('"norm.drift"', '"drift"'), "TS902"),
    ],
)
def test_a_plugin_that_is_not_sound_is_said_and_left_out(tmp_path: Path, source: str, code: str) -> None:
    package(tmp_path, source)
    there, found = ask(tmp_path)
    assert there == f"False [] [] ['{code}']"
    assert found == f"['{code}', 'TS214', 'TS213'] False"


def test_a_name_that_is_taken_is_refused() -> None:
    shipped = catalog.load()
    from torchspec.catalog.plugins import Installed

    again = Plugin(metrics=(shipped.metrics["runs"],))
    made = with_plugins(shipped, [Installed("again", "1", again, None)])
    assert made.metrics == shipped.metrics
    assert [d.code for d in made.problems] == ["TS902"]
    assert "runs" in made.problems[0].message


def test_without_a_plugin_no_metadata_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "nothing")])
    assert not any_installed()
