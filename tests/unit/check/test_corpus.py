"""Each faulty spec of the corpus gives exactly its mistakes, at their places; each code has a case and a reason."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchspec.check import check_spec
from torchspec.core.codes import CODES

_spec = importlib.util.spec_from_file_location("check_cases", Path(__file__).with_name("cases.py"))
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
sys.modules["check_cases"] = cases
_spec.loader.exec_module(cases)
ALL = cases.everything()
ROOT = Path(__file__).resolve().parents[3]


def write(case, folder: Path) -> Path:
    for name, data in case.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder / "spec.tspec"


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_case(case, tmp_path: Path) -> None:
    spec = write(case, tmp_path)
    result = check_spec(spec, case.params)
    found = [
        (
            d.code,
            d.span.file.replace(str(spec), "spec.tspec") if d.span else "spec.tspec",
            *((d.span.line, d.span.column) if d.span else (0, 0)),
        )
        for d in result.diagnostics
    ]
    assert sorted(found) == sorted(case.expected)
    assert all(d.message and not d.message.endswith(".") for d in result.diagnostics)
    assert (result.spec is None) == any(d.is_error for d in result.diagnostics)


def test_the_sound_spec_is_sound(tmp_path: Path) -> None:
    text = (cases.CORPUS / "sound.tspec").read_text()
    (tmp_path / "spec.tspec").write_text("\n".join(p for p in text.split("\n") if "[[" not in p))
    (tmp_path / "code.py").write_text("def build():\n    return None\n")
    result = check_spec(tmp_path / "spec.tspec")
    assert result.diagnostics == ()
    assert result.spec is not None


def _no_file(folder: Path) -> Path:
    return folder / "nothing.tspec"


def _large(folder: Path) -> Path:
    path = folder / "large.tspec"
    path.write_bytes(b"tspec 1\n" + b"#" * (4 * 1024 * 1024))
    return path


def _many(folder: Path) -> Path:
    path = folder / "many.tspec"
    path.write_text("tspec 1\n" + "seed ; 1\n" * 150)
    return path


def _cells(folder: Path) -> Path:
    text = (cases.CORPUS / "sound.tspec").read_text().replace("    seq 256\n", "    seq " + _list(700) + "\n")
    text = text.replace("[[shape]]", "heads " + _list(700))
    path = folder / "cells.tspec"
    path.write_text("\n".join(p for p in text.split("\n") if "[[" not in p))
    (folder / "code.py").write_text("def build():\n    return None\n")
    return path


def _list(n: int) -> str:
    return ", ".join(str(i) for i in range(1, n + 1))


#: Cases that a text file cannot hold: code -> what makes its spec.
MADE: dict[str, Callable[[Path], Path]] = {"TS100": _no_file, "TS124": _large, "TS125": _many, "TS243": _cells}


@pytest.mark.parametrize("code", MADE)
def test_made_case(code: str, tmp_path: Path) -> None:
    found = [d.code for d in check_spec(MADE[code](tmp_path)).diagnostics]
    assert code in found
    assert sum(c < "TS200" for c in found) <= 101


def _used() -> set[str]:
    """Every code of the language that some module says."""
    sources = [*(ROOT / "torchspec" / "syntax").glob("*.py"), *(ROOT / "torchspec" / "check").glob("*.py")]
    return {c for path in sources for c in re.findall(r'"(TS[1-4]\d\d)"', path.read_text())}


def test_every_code_has_a_case() -> None:
    known = {c for c in CODES if "TS100" <= c < "TS500"}
    marked = {place[0] for case in ALL for place in case.expected} | set(MADE)
    assert known - marked == set()


def test_every_code_is_explained_and_used() -> None:
    known = {c for c in CODES if "TS100" <= c < "TS500"}
    assert _used() == known
    assert all(CODES[c].title and len(CODES[c].why) > 20 for c in known)


def test_there_are_enough_cases() -> None:
    assert len(ALL) >= 80
