"""The corpus tests/cases/policy: whole specs, each with the codes and places it must get on its first line.

`# expect TS506 26:16` or `# expect nothing`. File names begin with the number of the contradiction that they show.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from torchspec.check import check_spec
from torchspec.core.codes import policy as table
from torchspec.core.diagnostics import render_text

CASES = sorted((Path(__file__).resolve().parents[2] / "cases" / "policy").glob("*.tspec"))
CONTRADICTIONS = 20


def expected(path: Path) -> list[str]:
    words = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# expect ").split()
    return (
        [] if words == ["nothing"] else [f"{code} {place}" for code, place in zip(words[::2], words[1::2], strict=True)]
    )


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path: Path) -> None:
    result = check_spec(path)
    got = [f"{d.code} {d.span.line}:{d.span.column}" if d.span else d.code for d in result.diagnostics]
    assert got == expected(path), "\n".join(render_text(d, result.sources) for d in result.diagnostics)
    assert result.ok is not any(d.is_error for d in result.diagnostics)
    assert all(d.hint for d in result.diagnostics)


@pytest.mark.parametrize("number", range(1, CONTRADICTIONS + 1))
def test_each_contradiction_is_refused_by_some_case(number: int) -> None:
    own = [p for p in CASES if p.stem.startswith(f"{number:02d}_")]
    assert any(expected(p) for p in own)


@pytest.mark.parametrize("code", [row.code for row in table.TABLE if row.code != "TS590"])
def test_each_code_of_policy_has_a_case(code: str) -> None:
    assert any(found.startswith(code) for path in CASES for found in expected(path))


def test_each_code_of_policy_is_explained_with_a_bad_and_a_good_example() -> None:
    for row in table.TABLE:
        assert row.title
        assert row.why
        assert row.bad
        assert row.good
