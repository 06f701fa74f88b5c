"""What a run says at its end, below the matrix: each row that is not all pass, its worst gates and their figures."""

from __future__ import annotations

import re
from dataclasses import replace
from types import ModuleType

import invented as verdicts
import pytest

from torchspec.cli.findings import MOST, findings, wrapped
from torchspec.core.diagnostics import display_width


@pytest.fixture(scope="module")
def invented() -> ModuleType:
    """The invented verdicts of the memo's tests."""
    return verdicts


def test_what_is_not_a_pass_is_named_with_its_figures(invented: ModuleType) -> None:
    plan = invented.plan()
    verdict = invented.verdict(plan)
    text = findings(plan, verdict, verdict.fleet[0].candidate)
    wrong = [r for r in verdict.rows if r.outcome != "pass"]
    assert wrong
    for row in wrong:
        assert f"{row.workload} on {row.backend}: {row.decision}; " in text
    failing = next(j for j in verdict.judgements if j.outcome == "fail")
    assert f"✗ {failing.metric}" in text
    assert "and the first one imports 818 → 888 modules" in " ".join(text.split()), "what of the peak is loading"
    assert all(display_width(line) <= 80 for line in text.splitlines())
    assert "\x1b" not in text


def test_colour_changes_nothing_but_colour(invented: ModuleType) -> None:
    plan = invented.plan()
    verdict = invented.verdict(plan)
    candidate = verdict.fleet[0].candidate
    painted = findings(plan, verdict, candidate, color=True)
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == findings(plan, verdict, candidate)


def test_many_findings_are_counted(invented: ModuleType) -> None:
    plan, verdict = invented.scaled(20)
    text = findings(plan, verdict, verdict.fleet[0].candidate)
    most = max(text.split("\n\n"), key=lambda part: part.count("\n  "))
    marks = sum(line.startswith(("  ✗", "  ◆", "  △", "  ○")) for line in most.splitlines())
    assert marks <= MOST


def test_one_reason_of_many_gates_is_said_once(invented: ModuleType) -> None:
    plan = invented.plan()
    verdict = invented.verdict(plan)
    text = findings(plan, verdict, verdict.fleet[0].candidate)
    (part,) = [p for p in text.split("\n\n") if p.startswith("attention on cuda")]
    assert part.splitlines()[1:] == ["  ○ 9 gates", "    the ledger holds no evidence of it"]


def test_an_adopted_upgrade_has_no_findings(invented: ModuleType) -> None:
    plan, verdict = invented.adopted()
    assert not any(mark in findings(plan, verdict, verdict.fleet[0].candidate) for mark in "✗◆△○")


def test_a_number_stays_with_its_percent() -> None:
    assert wrapped("growth 10 % of it", 9) == "growth\n10 % of\nit"


def test_a_report_that_was_not_measured_is_no_finding(invented: ModuleType) -> None:
    plan, verdict = invented.adopted()
    one = next(j for j in verdict.judgements if j.outcome == "pass")
    lacking = replace(one, outcome="not_run", reason="there is none here")
    judged = replace(verdict, judgements=tuple(lacking if j is one else j for j in verdict.judgements))
    candidate = verdict.fleet[0].candidate
    assert "○" in findings(plan, judged, candidate)
    reports = tuple(replace(gate, decision=None) if gate.id == one.gate else gate for gate in plan.gates)
    assert "○" not in findings(replace(plan, gates=reports), judged, candidate)
