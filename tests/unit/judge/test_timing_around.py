"""What lies around the pairs of a timing gate: its controls, what the machine was doing, and calibrations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import RUN, book, gate
from timings import GROWTH

from torchspec.model.verdict import Judgement


@pytest.mark.parametrize(("planted", "expected"), [(0.10, ["pass", "pass"]), (0.50, ["inconclusive", "pass"])])
def test_of_two_gates_of_one_metric_the_smaller_planted_change_serves_both(planted: float, expected: list[str]) -> None:
    strict = gate("latency.p50", "growth", "<=", 0.03, sees=0.10)
    lax = gate("latency.p50", "growth", "<=", 0.05, sees=0.5)
    made = book(strict, lax)
    made.pairs([0.001, -0.001, 0.002], stage="same", seed=11)
    log = math.log1p(planted)
    made.pairs([log, log + 0.002, log - 0.002], stage="planted", planted=planted, seed=12)
    made.pairs([0.001, -0.002, 0.0005])
    made.done()
    assert [j.outcome for j in made.judged().judgements] == expected


def test_what_the_machine_was_doing_in_these_pairs_is_said() -> None:
    def noise(load: float, steal: float) -> int:
        return made.add("noise", {"cell": None, "load": [load, 1.0, 1.0], "steal": steal, "throttled": None})

    made = book(GROWTH)
    made.controls()
    noise(99.0, 0.9)  # of the controls
    made.pairs([0.001, -0.002])
    first = noise(0.5, 0.0)
    made.pairs([0.0005], first=2)
    second = noise(3.25, 0.125)
    noise(88.0, 0.8)  # of another cell's pair
    made.done()
    detail = made.only().detail
    assert detail is not None
    assert detail["noise"] == {"load": 3.25, "steal": 0.125, "throttled": None, "records": [first, second]}


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        ({"others": {"pinned_share": 0.31}}, "other processes took up to 31\u202f% of the measuring core"),
        ({"others": {"pinned_share": 0.04}}, ""),
        ({"others": {"pinned_share": None}}, ""),
        ({"steal": 0.12}, "the host gave up to 12\u202f% of the time to others"),
        ({"others": {"pinned_steal": 0.12}}, "the host gave up to 12\u202f% of the time to others"),
        ({"throttled": True}, "the processor or the device slowed down from heat or power"),
        ({"memory_pressure": 40.0}, "work waited for memory up to 40\u202f% of the time"),
        ({}, ""),
    ],
)
def test_what_may_have_kept_a_comparison_from_being_decided_is_named(noise: dict[str, object], says: str) -> None:
    made = book(GROWTH)
    made.controls()
    made.pairs([0.01, 0.05, 0.03])
    made.add("noise", {"cell": None, "load": [1.0, 1.0, 1.0], "steal": 0.0, "throttled": None, **noise})
    made.done()
    found = made.only()
    assert found.outcome == "inconclusive"
    assert found.reason.partition("; meanwhile ")[2] == says


def test_a_calibration_in_the_ledger_counts_while_it_agrees() -> None:
    def found(s0: float | None, metric: str = "latency.p50", unit: float = 0.003) -> Judgement:
        made = book(GROWTH)
        made.controls()
        if s0 is not None:
            cells = {"c": {metric: [s0, 10]}}
            made.add("note", {"by": "harness", "what": "calibration", "text": "", "cells": cells})
        made.pairs([unit, -unit, 0.3 * unit], seed=2)  # no more apart than the controls
        made.done()
        return made.only()

    def calibration(judgement: Judgement) -> dict[str, object]:
        assert judgement.detail is not None
        held: dict[str, object] = judgement.detail["calibration"]
        return held

    spread = float(calibration(found(None))["spread"])  # type: ignore[arg-type]
    alone = found(None, unit=spread / 4)
    assert calibration(alone)["before"] == 0
    agreeing = found(spread, unit=spread / 4)
    assert (calibration(agreeing)["before"], calibration(agreeing)["df"]) == (10, calibration(alone)["df"] + 10)  # type: ignore[operator]
    assert agreeing.high < alone.high  # type: ignore[operator]
    for other in (spread / 100, spread * 100):  # this run is noisier or quieter than that: only its own controls count
        apart = found(other, unit=spread / 4)
        assert calibration(apart) == calibration(alone)
        assert (apart.low, apart.high) == (alone.low, alone.high)
    assert calibration(found(spread, "latency.p95", spread / 4)) == calibration(alone)  # another metric's
    assert len(calibration(agreeing)["records"]) == len(calibration(alone)["records"]) + 1  # type: ignore[arg-type]


def test_a_calibration_counts_for_its_own_machine_and_for_the_baseline_against_itself() -> None:
    def found(*, elsewhere: bool = False, against: str = "baseline") -> Judgement:
        made = book(replace(GROWTH, against=against))
        made.controls()
        cells = {"c": {"latency.p50": [0.002, 10]}}
        note = {"by": "harness", "what": "calibration", "text": "", "cells": cells}
        if elsewhere:
            made.start("r-2", cpu="cpu-2")
        made.add("note", note, "r-2" if elsewhere else RUN)
        made.pairs([0.001, -0.002, 0.0005], against=against)
        made.done()
        return made.only()

    known = found().detail["calibration"]  # type: ignore[index]
    assert known["before"] == 10
    assert found(elsewhere=True).detail["calibration"]["before"] == 0  # type: ignore[index]
    assert "calibration" not in found(against="eager").detail  # type: ignore[operator]


def test_a_control_of_two_pairs_is_held_to_one_look() -> None:
    line = gate("latency.p50", "growth", "<=", 0.05, sees=0.10)
    made = book(line)
    made.pairs([0.002, -0.003], stage="same", seed=11)
    made.pairs([math.log(1.10), math.log(1.11)], stage="planted", planted=0.10, seed=12)
    made.pairs([0.001, -0.002, 0.0005])
    made.done()
    assert made.only().outcome == "pass"
    blind = book(line)
    blind.pairs([0.2, -0.3], stage="same", seed=11)
    blind.pairs([math.log(1.10), math.log(0.8)], stage="planted", planted=0.10, seed=12)
    blind.pairs([0.001, -0.002, 0.0005])
    blind.done()
    found = blind.only()
    assert found.rule == "control failed"
    assert "it could not have told even twice the time from none" in found.reason or "could have told" in found.reason
