"""The worked examples with an empty ledger, through the real judge: no evidence is never a pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchspec import catalog, lower
from torchspec.check import check_spec
from torchspec.core.resources import data_folder
from torchspec.decide import decide
from torchspec.decide_algebra import RULES
from torchspec.judge import judge

SPECS = sorted(data_folder("specs").glob("*.tspec"))


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_an_empty_ledger_defers_every_required_row(path: Path) -> None:
    spec = check_spec(path).spec
    assert spec is not None
    plan = lower.lower(spec, catalog.load(), "0").value
    assert plan is not None
    verdict = decide(plan, judge(plan, []), "1" * 64)
    assert [f.decision for f in verdict.fleet] == ["defer"] * len(plan.candidates)
    for row in verdict.rows:
        assert row.outcome == "not_run"
        assert row.decision == "defer"
        assert row.vote == {"required": "defer", "optional": "isolate", "lane": "defer"}[row.requirement]
        assert row.rule in RULES
    assert all(f.rule in RULES for f in verdict.fleet)
    assert {s.outcome for s in verdict.switches} <= {"not_run"}
    assert {w.status for w in verdict.waivers} <= {"void"}


def test_there_are_worked_examples() -> None:
    assert len(SPECS) >= 4
