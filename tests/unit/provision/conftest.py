"""Fixtures of provisioning: a package index of tiny wheels (stand-ins for torch and its requirements), and plans."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from torchspec.model.plan import Budget, Frozen, Place, Plan, Side, Upgrade


def write_fake_wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = (), payload: int = 0) -> Path:
    """A pure wheel that holds nothing but its metadata and `payload` bytes of filler."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"__version__ = {version!r}\n".encode() + b"#" * payload,
        f"{info}/METADATA": "\n".join(
            [
                "Metadata-Version: 2.1",
                f"Name: {name}",
                f"Version: {version}",
                *(f"Requires-Dist: {r}" for r in requires),
                "",
            ]
        ).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        archive.writestr(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
    return wheel


@pytest.fixture
def fake_wheel() -> Callable[..., Path]:
    return write_fake_wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fake wheels that pip is configured for by its own variables, and by nothing else."""
    folder = tmp_path / "secret-index"
    folder.mkdir()
    write_fake_wheel(folder, "torch", "2.13.0", ("dep>=1", "pinned==1.0"))
    write_fake_wheel(folder, "torch", "2.14.1", ("dep>=1", "pinned==2.0", "extra_dep"))
    write_fake_wheel(folder, "torch", "2.15.0", ("dep>=3", "pinned==2.0"))
    for name, version in [("dep", "1.0"), ("pinned", "1.0"), ("pinned", "2.0"), ("extra_dep", "1"), ("numpy", "2.4.0")]:
        write_fake_wheel(folder, name, version)
    for variable in [v for v in os.environ if v.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    def make(
        baseline: dict[str, str],
        candidate: dict[str, str] | None = None,
        packages: tuple[str, ...] = (),
        python: str | None = None,
    ) -> Plan:
        def side(name: str, words: dict[str, str], line: int) -> Side:
            role = "baseline" if name == "baseline" else "candidate"
            return Side(name, role, words.get("torch"), words.get("python"), None, (), Place("x.tspec", line, 11))

        nothing: tuple[()] = ()
        return Plan(
            "torchspec.plan/1", "x", "0", nothing, Upgrade("t", "o", "a", None, None), nothing,
            Frozen(python, packages, {}, {}, 0), side("baseline", baseline, 3),
            (side("candidate", candidate or {"torch": "2.14.1"}, 4),),
            *([nothing] * 10), None, Budget(), nothing, {},
        )  # fmt: skip

    return make
