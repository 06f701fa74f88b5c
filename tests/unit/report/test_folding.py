"""Facts that hold in many cells are one row; whatever needs to be seen has its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.report.forest import FEW, _alike


def gate(form: str, implicit: bool = False) -> Any:
    return SimpleNamespace(implicit=implicit, limit=SimpleNamespace(form=form))


def ended(*outcomes: str) -> list[Any]:
    return [SimpleNamespace(outcome=outcome) for outcome in outcomes]


@pytest.mark.parametrize(
    ("held", "group", "one_row"),
    [
        (gate("holds"), ended(*["pass"] * (FEW + 1)), True),
        (gate("holds"), ended(*["pass"] * FEW), False),
        (gate("holds"), ended(*["pass"] * FEW, "fail"), False),
        (gate("holds"), ended(*["pass"] * FEW, "not_run"), False),
        (gate("growth"), ended(*["pass"] * 12), False),  # each has a figure of its own
        (gate("holds", implicit=True), ended("pass", "pass"), True),
        (gate("holds", implicit=True), ended("pass"), False),
    ],
)
def test_what_is_told_in_one_row(held: Any, group: list[Any], one_row: bool) -> None:
    assert _alike(held, group) is one_row
