"""Properties of the judge: monotone, scale-free, antisymmetric, never a pass from nothing or from nonsense."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from evidence import Book, book, gate, plan_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchspec.core.canon import canonical
from torchspec.model.codec import to_json
from torchspec.model.plan import Gate
from torchspec.model.verdict import Judgement

RANK = {"pass": 0, "inconclusive": 1, "fail": 2}
P50 = gate("latency.p50", "growth", "<=", 0.03)
FEW = settings(max_examples=25, deadline=None)

logs = st.lists(st.floats(-0.3, 0.3), min_size=3, max_size=8, unique=True)
odd = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["nan", "inf", "-inf", 0, -1, 1e-300, 1e300, 5e-324, True, None, "x", ""]),
)


def timed(values: list[float], *, line: Gate = P50, scale: float = 1e6, swap: bool = False) -> Judgement:
    """The judgement of pairs with these log ratios, one round each, measured again as fresh pairs."""
    made = book(line)
    made.controls(line.metric)
    for stage in ("measure", "confirm"):
        for number, value in enumerate(values):
            a, b = [scale], [scale * math.exp(value)]
            made.pair(number, [[(b, a) if swap else (a, b)]], stage=stage)
    made.done()
    return made.only()


@FEW
@given(logs, st.floats(0.0, 0.5))
def test_slower_never_judges_better(values: list[float], more: float) -> None:
    before, after = timed(values), timed([v + more for v in values])
    assert RANK[after.outcome] >= RANK[before.outcome]


@FEW
@given(logs, st.floats(0.0, 0.2), st.floats(0.0, 0.2))
def test_a_stricter_limit_never_judges_better(values: list[float], limit: float, more: float) -> None:
    strict = gate("latency.p50", "growth", "<=", limit, sees=0.5)
    lax = gate("latency.p50", "growth", "<=", limit + more, sees=0.5)
    assert RANK[timed(values, line=strict).outcome] >= RANK[timed(values, line=lax).outcome]


@FEW
@given(logs, st.integers(-9, 9))
def test_the_scale_of_time_does_not_matter(values: list[float], power: int) -> None:
    one, two = timed(values), timed(values, scale=1e6 * 2.0**power)
    assert one.outcome == two.outcome
    assert one.estimate == pytest.approx(two.estimate, abs=1e-9)
    assert one.high == pytest.approx(two.high, rel=1e-6, abs=1e-9)


@FEW
@given(logs)
def test_swapping_the_sides_turns_the_change_around(values: list[float]) -> None:
    report = gate("latency.p50", "report")
    one, two = timed(values, line=report), timed(values, line=report, swap=True)
    for there, back in ((one.estimate, two.estimate), (one.low, two.high), (one.high, two.low)):
        assert there is not None
        assert back is not None
        assert math.log1p(there) == pytest.approx(-math.log1p(back), abs=1e-9)


@FEW
@given(logs, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter(values: list[float], random: Any) -> None:
    turned = list(values)
    random.shuffle(turned)
    one, two = timed(values), timed(turned)
    assert (one.outcome, one.low, one.high) == (two.outcome, two.low, two.high)


@FEW
@given(logs)
def test_taking_evidence_away_never_turns_anything_into_a_pass(values: list[float]) -> None:
    made = book(P50)
    made.controls()
    for number, value in enumerate(values):
        made.pair(number, [[([1e6], [1e6 * math.exp(value)])]])
    made.done()
    for away in ("timing", "measure", "same", "planted", "cell.done", "run.start"):
        lesser = Book(made.plan, started=False)
        lesser.records = [r for r in made.records if away not in (r.kind, r.body.get("stage"))]
        assert lesser.only().outcome != "pass", away


GATES = [
    gate("memory.driver_peak", "growth", "<=", 0.05),
    gate("memory.driver_peak", "absolute", "<=", 1e9),
    gate("memory.driver_peak", "increase", "<=", 1e6),
    gate("memory.driver_peak", "report"),
    gate("import.time", "speedup", ">=", 1.2),
    gate("compile.graph_breaks", "increase", "<=", 0.0),
    gate("compile.graph_breaks", "growth", "<=", 0.0),
    gate("compile.graph_breaks", "absolute", "<=", 3.0),
    gate("error.max_abs", "absolute", "<=", 1e-4, against="cpu.float64"),
    gate("error.max_abs", "growth", "<=", 0.5, against="cpu.float64"),
    gate("error.psnr", "absolute", ">=", 60.0, against="cpu.float64"),
    gate("loss.final", "growth", "<=", 0.001),
    gate("task.accuracy", "decrease", "<=", 0.002),
]


@pytest.mark.parametrize("line", GATES, ids=lambda g: g.id)
@settings(max_examples=40, deadline=None)
@given(st.lists(odd, max_size=5), st.lists(odd, max_size=5))
@example([], [1.0, 1.970403850160407e84])
@example([], [0.0, 1.8961503816218355e154])
def test_whatever_a_meter_sends_there_is_one_outcome_that_json_can_hold(
    line: Gate, baseline: list[Any], candidate: list[Any]
) -> None:
    made = book(line)
    against = line.against if line.metric.startswith("error.") else None
    for side, values in (("baseline", baseline), ("candidate", candidate)):
        for repeat, value in enumerate(values):
            made.sample(side, line.metric, value, "1", repeat, against=against)
    made.done()
    judged = made.judged()
    canonical(to_json(judged))
    (found,) = judged.judgements
    assert found.outcome in ("pass", "fail", "inconclusive", "not_run", "error")
    if not candidate:
        assert found.outcome == "not_run"
    if any(value in ("nan", "x", "", None) for value in candidate):
        assert found.outcome != "pass" or line.limit.form == "report"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(odd, max_size=4), min_size=4, max_size=12))
def test_whatever_a_clock_sends_there_is_one_outcome_that_json_can_hold(times: list[list[Any]]) -> None:
    lines = (P50, gate("latency.p95", "growth", "<=", 0.05), gate("throughput", "drop", "<=", 0.03))
    made = Book(plan_of(lines))
    for line in lines:
        made.controls(line.metric)
    for number in range(len(times) // 2):
        made.pair(number, [[(times[2 * number], times[2 * number + 1])]])
    made.done()
    judged = made.judged()
    canonical(to_json(judged))
    assert len(judged.judgements) == 3


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1.0, 1e9), min_size=3, max_size=6),
    st.lists(st.floats(1.0, 1e9), min_size=3, max_size=6),
    st.floats(1.0, 10.0),
)
def test_more_memory_never_judges_better(baseline: list[float], candidate: list[float], factor: float) -> None:
    def outcome(values: list[float]) -> int:
        made = book(gate("memory.driver_peak", "growth", "<=", 0.05))
        made.samples("memory.driver_peak", baseline, values)
        made.done()
        return RANK[made.only().outcome]

    assert outcome([v * factor for v in candidate]) >= outcome(candidate)


def test_a_plan_with_every_kind_of_gate_is_judged_whole() -> None:
    plan = plan_of([replace(g, id=f"{i} {g.id}") for i, g in enumerate(GATES)])
    assert len(Book(plan).judged().judgements) == len(GATES)
