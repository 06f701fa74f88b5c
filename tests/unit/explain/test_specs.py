"""Explanations and differences of the worked examples, from their files to text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchspec import catalog, lower
from torchspec.check import check_spec
from torchspec.core.resources import data_folder
from torchspec.explain import explain_decisions, explain_gates
from torchspec.model.plan import Plan
from torchspec.specdiff import diff, render

SPECS = sorted(data_folder("specs").glob("*.tspec"))


def plan_of(path: Path) -> Plan:
    checked = check_spec(path)
    assert checked.spec is not None, checked.diagnostics
    plan = lower.lower(checked.spec, catalog.load(), "0").value
    assert plan is not None
    return plan


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_hole_has_its_reason(path: Path) -> None:
    plan = plan_of(path)
    text = explain_gates(plan)
    assert "another line of the set takes its place" not in text
    assert all(f"\n{w.name} (" in text for w in plan.workloads)
    marks = "".join(re.findall(r"^  ([+.]+)  ", text, flags=re.MULTILINE))
    assert "+" in marks or "of" in text


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_row_is_in_the_decision_table(path: Path) -> None:
    plan = plan_of(path)
    text = explain_decisions(plan)
    for cell in plan.cells:
        assert f"\n{cell.workload} on {cell.backend} (" in text


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_both_fit_the_terminal_and_say_the_same(path: Path) -> None:
    plan = plan_of(path)
    for explain in (explain_decisions, explain_gates):
        narrow, wide = explain(plan, columns=80), explain(plan, columns=200)
        assert max(map(len, narrow.split("\n"))) <= 80
        assert sorted(narrow.split()) == sorted(wide.split())


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_worked_examples_are_without_warnings(path: Path) -> None:
    assert check_spec(path).diagnostics == ()


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_spec_does_not_differ_from_itself(path: Path) -> None:
    assert diff(plan_of(path), plan_of(path)) == ()


def test_what_a_reviewer_reads(tmp_path: Path) -> None:
    source = (data_folder("specs") / "laptops.tspec").read_text(encoding="utf-8")
    edited = source.replace("4096, 32768", "4096").replace("growth <= 10 %", "growth <= 20 %")
    assert edited != source
    old, new = tmp_path / "old.tspec", tmp_path / "new.tspec"
    old.write_text(source, encoding="utf-8")
    new.write_text(edited, encoding="utf-8")
    text = render(diff(plan_of(old), plan_of(new)))
    assert text.split("\n")[0] == "Weaker: lets more pass, or covers less"
    assert "limit of memory.driver_peak loosened: growth <= 10 % to growth <= 20 %" in text
    assert "long_context shrunk: largest seq 4096, before 32768" in text
    assert "Other changes" not in text
