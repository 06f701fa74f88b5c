"""The golden corpus of decisions: tests/cases/decide/*.toml, each a small plan, outcomes and the words expected."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from plans import make_judged, make_plan

from torchspec.decide import decide
from torchspec.model.plan import Waiver
from torchspec.model.verdict import Verdict

CASES = sorted((Path(__file__).resolve().parents[2] / "cases" / "decide").glob("*.toml"))


def render(verdict: Verdict, many: bool) -> list[str]:
    lines = []
    for row in verdict.rows:
        where = f"{row.workload} on {row.backend}" + (f" [{row.candidate}]" if many else "")
        lines.append(f"{where}: {row.outcome}, {row.decision} -> {row.vote or 'none'} | {row.rule} | {row.reason}")
    for use in verdict.waivers:
        lines.append(f"waiver: {use.status} | {use.reason}")
    for fleet in verdict.fleet:
        where = "fleet" + (f" [{fleet.candidate}]" if many else "")
        lines.append(f"{where}: {fleet.decision} | {fleet.rule} | {fleet.reason}")
    return lines


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    gates = {metric: None if decision == "report" else decision for metric, decision in case["gates"].items()}
    plan = make_plan(
        case["backends"],
        case["workloads"],
        gates,
        lanes=case.get("lanes"),
        together=case.get("together", ()),
        waivers=[Waiver(**w) for w in case.get("waive", ())],
        candidates=case.get("candidates", ("candidate",)),
        rollback=case.get("rollback", True),
        implicit=case.get("implicit", False),
    )
    outcomes = {tuple(place.split(" ")): outcome for place, outcome in case.get("outcomes", {}).items()}

    def told(key: str) -> str | None:
        value: str = case.get(key, "pass")
        return None if value == "missing" else value

    judged = make_judged(
        plan,
        outcomes,  # type: ignore[arg-type]
        rehearsal=told("rehearsal"),  # type: ignore[arg-type]
        switches=told("switches"),  # type: ignore[arg-type]
        default=told("default"),  # type: ignore[arg-type]
        at=case.get("at", "2026-12-10T12:00:00.000000Z"),
    )
    verdict = decide(plan, judged, "1" * 64)
    assert render(verdict, len(plan.candidates) > 1) == case["expect"].strip().split("\n")


def test_there_are_cases() -> None:
    assert len(CASES) >= 25
