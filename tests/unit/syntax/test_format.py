"""The canonical form: golden pairs, refusals, and the shipped quickstart in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchspec.core.resources import data_folder
from torchspec.syntax.format import format_source

CASES = Path(__file__).resolve().parents[2] / "cases" / "format"


@pytest.mark.parametrize("path", sorted(CASES.glob("*.in.tspec")), ids=lambda p: p.name)
def test_golden(path: Path) -> None:
    expected = path.with_name(path.name.replace(".in.", ".out.")).read_text(encoding="utf-8")
    assert format_source(path.read_text(encoding="utf-8"), path.name).value == expected


def test_the_quickstart_is_in_canonical_form() -> None:
    text = (data_folder("specs") / "quickstart.tspec").read_text(encoding="utf-8")
    assert format_source(text, "quickstart.tspec").value == text


def test_editing_a_gate_does_not_move_its_neighbours() -> None:
    text = (data_folder("specs") / "quickstart.tspec").read_text(encoding="utf-8")
    edited = text.replace("determinism.gradient ", "determinism.of_everything_there_is ")
    before, after = text.split("\n"), format_source(edited, "t").value.split("\n")
    changed = [a for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) == 1


@pytest.mark.parametrize("text", ["a = 1\n", 'a "open\n', "a {\n", "\tb\n", "\x00"])
def test_what_has_mistakes_of_form_is_left_alone(text: str) -> None:
    result = format_source(text, "t")
    assert result.value is None
    assert result.diagnostics


@pytest.mark.parametrize(("text", "formatted"), [("", ""), ("\n\n", ""), ("# only\n\n\n", "# only\n"), ("a", "a\n")])
def test_small_files(text: str, formatted: str) -> None:
    assert format_source(text, "t").value == formatted
