"""`init` writes specs that pass `check`, whatever the answers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from torchspec import catalog
from torchspec.check import check_spec
from torchspec.core.diagnostics import render_text
from torchspec.starter import quoted, starting_spec
from torchspec.syntax.format import format_source

BACKENDS = tuple(catalog.load().backends)
CHOICES = [c for size in range(len(BACKENDS) + 1) for c in combinations(BACKENDS, size)]
NASTY = "a \"quoted\" \\ name {\n}\t\r\0 \u202e \u2028 ‘x’ \ud7ff 😀 {{ }} </script> '''"


def checked(text: str, folder: Path) -> list[str]:
    path = folder / "start.tspec"
    path.write_text(text, encoding="utf-8")
    result = check_spec(path)
    assert result.ok, "\n".join(render_text(d, result.sources) for d in result.diagnostics)
    return [d.code for d in result.diagnostics]


@pytest.mark.parametrize("backends", CHOICES, ids="-".join)
@pytest.mark.parametrize("own", [False, True])
def test_passes_check(backends: tuple[str, ...], own: bool, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("def build():\n    return None\n", encoding="utf-8")
    made = starting_spec(
        baseline="2.13.0", candidate="2.14.1", owner="team", backends=backends, entry="work.py:build" if own else ""
    )
    assert made.value is not None
    assert checked(made.value, tmp_path) == []


def test_without_an_owner_only_the_owner_is_missing(tmp_path: Path) -> None:
    made = starting_spec(baseline="2.13.0", candidate="2.14.1")
    assert made.value is not None
    assert checked(made.value, tmp_path) == ["TS234"]


def test_an_owner_of_any_characters_arrives_as_written(tmp_path: Path) -> None:
    made = starting_spec(baseline="2.13.0", candidate="2.14.1", owner=NASTY)
    assert made.value is not None
    assert checked(made.value, tmp_path) == []
    spec = check_spec(tmp_path / "start.tspec").spec
    assert spec is not None
    assert spec.upgrade.owner is not None
    assert spec.upgrade.owner.text == NASTY


def test_quoted_stays_on_one_line() -> None:
    assert "\n" not in quoted(NASTY)


def test_usual_answers(tmp_path: Path) -> None:
    made = starting_spec(baseline="2.13.0", candidate="2.14.1", owner="t", backends=("cpu", "distributed"))
    assert made.value is not None
    checked(made.value, tmp_path)
    spec = check_spec(tmp_path / "start.tspec").spec
    assert spec is not None
    metrics = catalog.load().metrics
    for gate in spec.gates:
        assert gate.line.decision is not None
        assert gate.line.decision.text == metrics[gate.line.metric.text].usual


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"candidate": "nightly"}, "TS518"),
        ({"baseline": ">=2.13"}, "TS518"),
        ({"candidate": "2.13.0"}, "TS517"),
        ({"backends": ("cdua",)}, "TS211"),
        ({"entry": "work.py"}, "TS226"),
        ({"entry": "work.txt:build"}, "TS226"),
        ({"entry": "work.py:not a name"}, "TS226"),
    ],
)
def test_refuses(answers: dict[str, object], code: str) -> None:
    made = starting_spec(**{"baseline": "2.13.0", "candidate": "2.14.1", **answers})  # type: ignore[arg-type]
    assert made.value is None
    assert [d.code for d in made.diagnostics] == [code]
    assert made.diagnostics[0].hint


@pytest.mark.parametrize("backends", [(), ("cpu", "distributed"), BACKENDS], ids="-".join)
def test_is_in_canonical_form(backends: tuple[str, ...]) -> None:
    made = starting_spec(baseline="2.13.0", candidate="2.14.1", owner="t", backends=backends)
    assert made.value is not None
    assert format_source(made.value, "start.tspec").value == made.value
