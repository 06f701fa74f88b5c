"""The section on ranks, from invented figures: scaling, waiting, bandwidth, bad peers and recovery."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from torchspec.model.evidence import GENESIS, Record
from torchspec.model.memo import Memo, Section
from torchspec.report.language import text_of
from torchspec.report.view import view

NARROW = "\u202f"


def memo_of(invented: ModuleType, bodies: list[tuple[str, dict[str, Any]]], language: str = "en") -> Memo:
    plan = invented.plan()
    plan = replace(plan, cells=tuple(replace(cell, axes={**cell.axes, "ranks": 2}) for cell in plan.cells))
    records = [
        Record(n, "2026-11-09T21:04:10Z", "r-20261109-2107", kind, body, GENESIS, f"{n:064x}")
        for n, (kind, body) in enumerate(bodies)
    ]
    given = invented.arguments(lock=invented.lock(plan), records=records, language=language)
    return view(plan, invented.verdict(plan), **given)


def words(section: Section) -> str:
    lines = [section.heading]
    for block in section.blocks:
        assert block.table is not None
        lines.append(block.table.title)
        for row in block.table.rows:
            cells = [f"{c.mark.text if c.mark else ''} {text_of(c.words)} {text_of(c.sub)}".strip() for c in row.cells]
            lines.append(" | ".join(cells))
    return "\n".join(lines)


def figures(cell: str, recovered: bool = True) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []

    def add(kind: str, side: str, metric: str, detail: dict[str, Any], **more: Any) -> None:
        body = {
            "cell": cell,
            "candidate": "candidate",
            "side": side,
            "metric": metric,
            "detail": {"world": 2, **detail},
        }
        found.append((kind, {**body, **more}))

    for side, slower in (("baseline", 1.0), ("candidate", 2.0)):
        for repeat in range(3):
            waited = {"waited_least": 1 if side == "candidate" else repeat % 2}
            add("sample", side, "comm.wait", waited, value=0.004 * slower, unit="s", repeat=repeat, against=None)
            add("sample", side, "comm.overlap", {}, value=0.25, unit="1", repeat=repeat, against=None)
            steps = {"step_ns": 10e6 * slower, "one_rank_step_ns": 8e6}
            add("sample", side, "scaling.efficiency", steps, value=0.8 / slower, unit="1", repeat=repeat, against=None)
        heard = {"heard": [{"seconds": 2.1, "error": "timed out"}], "timeout_s": 2.0}
        add("fact", side, "collective.rank_missing", heard, holds=True, error=None)
        back = {"restarted_s": 6.5 * slower, "seconds": 7.25 * slower, "resumed_at": 4, "died_at": 5}
        bad = side == "candidate" and not recovered
        error = "the losses behind the restart are not those of a run without a fault" if bad else None
        add("fact", side, "recovery.rank_killed", back, holds=not bad, error=error)
    rounds = [{"order": "ab", "a_ns": [2e6, 2e6], "b_ns": [4e6, 4e6]}]
    timing = {"cell": cell, "candidate": "candidate", "stage": "measure", "a": "baseline", "b": "candidate"}
    return [
        *found,
        ("timing", {**timing, "pair": 0, "build": 0, "rounds": rounds, "bus_bytes": 1e6, "operation_bytes": 2e6}),
    ]


def test_it_says_how_ranks_scale_wait_fail_and_recover(invented: ModuleType) -> None:
    cell = next(c for c in invented.plan().cells if c.backend == "cpu")
    (section,) = [s for s in memo_of(invented, figures(cell.id)).sections if s.anchor.startswith("ranks-")]
    said = words(section).replace(NARROW, " ")
    assert "From 1 to 2 ranks on cpu: back 14.5 s after a rank was killed" in said
    assert "8.00 → 8.00 ms | 10.0 → 20.0 ms | 80 → 40 %" in said
    assert "4.00 → 8.00 ms | 25 → 25 % | 0, 1 → 1" in said
    assert "2.00 → 4.00 ms | 1.000 → 0.500 GB/s | 500 → 250 MB/s" in said
    assert "pass an error after 2.1 s | pass an error after 2.1 s" in said
    assert "pass | 13.0 s | 14.5 s | died in step 5, went on at step 4" in said


def test_a_recovery_that_did_not_hold_is_not_told_as_one(invented: ModuleType) -> None:
    cell = next(c for c in invented.plan().cells if c.backend == "cpu")
    memo = memo_of(invented, figures(cell.id, recovered=False))
    (section,) = [s for s in memo.sections if s.anchor.startswith("ranks-")]
    said = words(section)
    assert "scaling and waiting" in said
    assert "the losses behind the restart are not those of a run without a fault; died in step 5" in said


@pytest.mark.parametrize(("language", "said"), [("es", "De 1 a 2 rangos"), ("pt", "De 1 a 2 ranks")])
def test_it_is_said_in_other_languages(invented: ModuleType, language: str, said: str) -> None:
    cell = next(c for c in invented.plan().cells if c.backend == "cpu")
    sections = memo_of(invented, figures(cell.id), language).sections
    assert any(said in s.heading for s in sections if s.anchor.startswith("ranks-"))


def test_without_ranks_there_is_no_such_section(memo: Memo) -> None:
    assert not any(s.anchor.startswith("ranks-") for s in memo.sections)
