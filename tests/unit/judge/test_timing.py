"""Timing gates: the way from pairs to outcomes, and its edges."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import RUN, Book, book, gate

from torchspec.harness import measure as harness_measure
from torchspec.judge import timing
from torchspec.model.verdict import Judgement

GROWTH = gate("latency.p50", "growth", "<=", 0.03)


def judged(logs: list[float], fresh: list[float] | None = None, line=GROWTH, **more):  # type: ignore[no-untyped-def]
    made = book(line)
    made.controls(line.metric)
    made.pairs(logs, **more)
    if fresh is not None:
        made.pairs(fresh, stage="confirm", seed=77, **more)
    made.done()
    return made.only()


def test_equal_versions_pass_with_estimate_interval_and_counts() -> None:
    found = judged([0.001, -0.002, 0.0005])
    assert (found.outcome, found.rule, found.contribution) == ("pass", "upper bound below limit", "adopt")
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.estimate < found.high <= 0.03  # type: ignore[operator]
    assert found.n == {"pairs": 3, "builds": 6, "rounds": 30, "iterations": 960}
    assert found.baseline == pytest.approx(1e-3, rel=0.01)
    assert found.candidate_value == pytest.approx(1e-3, rel=0.01)
    assert found.unit == "s"
    assert found.confidence == pytest.approx(0.9)
    assert len(found.evidence) == 6
    assert found.measured_at is not None
    assert "inside the limit" in found.reason


def test_a_failure_needs_fresh_pairs() -> None:
    alone = judged([0.10, 0.101, 0.099])
    assert (alone.outcome, alone.rule, alone.contribution) == ("inconclusive", "not confirmed on fresh pairs", "defer")
    confirmed = judged([0.10, 0.101, 0.099], [0.10, 0.102, 0.098])
    assert (confirmed.outcome, confirmed.contribution) == ("fail", "isolate")
    assert confirmed.rule == "lower bound above limit, confirmed on fresh pairs"
    assert confirmed.low is not None
    assert confirmed.low > 0.03
    assert confirmed.n is not None
    assert confirmed.n["confirming_pairs"] == 3
    assert confirmed.detail is not None
    assert confirmed.detail["first_stage"]["estimate"] == pytest.approx(math.expm1(0.1), abs=0.01)
    assert confirmed.detail["p_holm"] >= confirmed.detail["p"] > 0
    refuted = judged([0.10, 0.101, 0.099], [0.0, 0.002, -0.002])
    assert (refuted.outcome, refuted.rule) == ("inconclusive", "not confirmed on fresh pairs")


def exactly(measured: list[float], fresh: list[float]) -> str:
    """The outcome of pairs whose log ratios are exactly these."""
    made = book(GROWTH)
    made.controls()
    for stage, values in (("measure", measured), ("confirm", fresh)):
        for number, value in enumerate(values):
            made.pair(number, [[([1e6], [1e6 * math.exp(value)])]], stage=stage)
    made.done()
    return made.only().outcome


def test_fresh_pairs_must_confirm_at_one_percent_and_not_at_five() -> None:
    first = [0.10, 0.101, 0.099]
    weak = [0.0320, 0.0331, 0.0339]  # beyond the limit at 5 %
    assert exactly(weak, first) == "fail"
    assert exactly(first, weak) == "inconclusive"
    assert exactly(first, [0.060, 0.061, 0.0605]) == "fail"


def test_an_interval_across_the_limit_is_inconclusive_and_says_what_it_would_take() -> None:
    found = judged([0.0, 0.05, 0.02])
    assert (found.outcome, found.rule, found.contribution) == ("inconclusive", "interval crosses limit", "defer")
    assert found.detail is not None
    assert found.detail["pairs_needed"] > 3
    assert "pairs would tell" in found.reason
    assert found.visible is not None
    assert found.visible > 0.03


def test_fresh_pairs_taken_for_another_gate_help_a_pass_and_cannot_fail_alone() -> None:
    helped = judged([0.0, 0.02, 0.015], [0.001, 0.0, 0.002, 0.001, 0.0, 0.001, 0.0, 0.001])
    assert helped.outcome == "pass"
    not_alone = judged([0.0, 0.09, 0.1], [0.09, 0.091, 0.092, 0.09, 0.091, 0.09, 0.092, 0.09])
    assert not_alone.outcome == "inconclusive"


def test_a_real_improvement_is_named() -> None:
    found = judged([-0.69, -0.70, -0.695])
    assert found.outcome == "pass"
    assert found.improvement
    assert "for the better" in found.reason
    assert found.estimate == pytest.approx(-0.5, abs=0.01)
    assert not judged([0.001, -0.002, 0.0005]).improvement


def test_an_improvement_of_99_percent() -> None:
    found = judged([math.log(0.01), math.log(0.0101), math.log(0.0099)])
    assert (found.outcome, found.improvement) == ("pass", True)
    assert found.estimate == pytest.approx(-0.99, abs=0.001)


@pytest.mark.parametrize("base_ns", [1.0, 1e13])
def test_samples_of_a_nanosecond_and_of_hours(base_ns: float) -> None:
    assert judged([0.001, -0.002, 0.0005], base_ns=base_ns).outcome == "pass"
    failing = judged([0.1, 0.101, 0.099], [0.1, 0.101, 0.099], base_ns=base_ns)
    assert failing.outcome == "fail"
    assert failing.baseline == pytest.approx(base_ns * 1e-9, rel=0.01)


def test_a_limit_of_zero_percent_passes_only_what_is_clearly_not_slower() -> None:
    line = gate("latency.p50", "growth", "<=", 0.0)
    assert judged([0.001, -0.001, 0.0], line=line).outcome == "inconclusive"
    assert judged([-0.05, -0.051, -0.049], line=line).outcome == "pass"
    assert judged([0.05, 0.051, 0.049], [0.05, 0.052, 0.048], line=line).outcome == "fail"


def test_all_samples_equal_is_a_clock_that_cannot_be_trusted() -> None:
    made = book(GROWTH)
    made.controls()
    for number in range(5):
        made.pair(number, [[([1000.0] * 9, [1000.0] * 9)] * 5] * 2)
    made.done()
    found = made.only()
    assert (found.outcome, found.rule) == ("inconclusive", "no spread")


@pytest.mark.parametrize("pairs", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("time_ns", [1e5, 123456.7, 1.1e6])
def test_equal_times_have_no_spread_under_an_absolute_limit_either(pairs: int, time_ns: float) -> None:
    """Their mean may differ from each of them by one in the last place."""
    line = gate("latency.p50", "absolute", "<=", 2e-3)
    made = book(line)
    for number in range(pairs):
        made.pair(number, [[([time_ns] * 9, [time_ns] * 9)] * 5] * 2)
    made.done()
    found = made.only()
    assert (found.outcome, found.rule) == ("inconclusive", "no spread")


def test_a_call_without_items_has_no_rate() -> None:
    line = gate("throughput", "absolute", ">=", 10.0)
    for items in (-1, -8):
        made = book(line)
        made.pairs([0.001, -0.002, 0.0005], items=items)
        made.done()
        found = made.only()
        assert (found.outcome, found.rule) == ("error", "negative figure")


def test_a_pair_that_was_cut_short_is_no_pair_where_there_are_whole_ones() -> None:
    """The driver takes another in its place: both go by the same pairs."""

    def found(*cut: list[int], whole: int = 3) -> Judgement:
        made = book(GROWTH)
        made.controls()
        made.pairs([0.001, -0.002, 0.0005][:whole], of={"builds": 2, "rounds": 5})
        for number, rounds in enumerate(cut, whole):
            slow = ([1e6] * 9, [1.5e6] * 9)
            made.pair(number, [[slow] * count for count in rounds], of={"builds": 2, "rounds": 5})
        made.done()
        return made.only()

    plain = found()
    for cut in ([5], [5, 4]):  # died behind the first build, in the second
        left = found(cut)
        assert (left.outcome, left.estimate, left.low, left.n) == ("pass", plain.estimate, plain.low, plain.n)
        assert left.detail is not None
        assert left.detail["pairs_cut_short"] == [{"run": "r-1", "pair": 3}]
    assert found([5, 5]).n["pairs"] == 4  # type: ignore[index]
    few = found([5], whole=1)  # nothing is thrown away that could be told from
    assert few.n["pairs"] == 2  # type: ignore[index]
    assert few.outcome == "inconclusive"


def test_one_pair_and_two() -> None:
    assert (judged([0.0]).outcome, judged([0.0]).rule) == ("inconclusive", "too few pairs")
    assert judged([0.0, 0.0001], noise=0.0001).outcome == "pass"


def _with_bad(rounds_bad: int, bad: object) -> Book:
    made = book(GROWTH)
    made.controls()
    good = ([1e6, 1.01e6], [1e6, 1.011e6])
    for number in range(3):
        spread = 1 + 0.001 * number
        made.pair(number, [[([1e6, 1e6], [1e6 * spread, bad])] * rounds_bad + [good] * (20 - rounds_bad)])
    made.done()
    return made


@pytest.mark.parametrize("bad", [0, -100, "nan", "inf", 1e-311, 1e300])
def test_a_clock_that_goes_backwards(bad: object) -> None:
    few = _with_bad(1, bad).only()
    assert few.outcome != "error"
    assert few.detail is not None
    assert few.detail["rounds_without_a_time"] == 3
    many = _with_bad(10, bad).only()
    assert (many.outcome, many.rule) == ("error", "clock")
    none = _with_bad(20, bad).only()
    assert (none.outcome, none.rule) == ("error", "no usable time")
    whole = book(GROWTH)  # pairs that are left out altogether are counted, too
    whole.controls()
    whole.pairs([0.001, -0.002, 0.0005])
    for number in range(3, 6):
        whole.pair(number, [[([1e6], [bad])] * 20])
    whole.done()
    found = whole.only()
    assert (found.outcome, found.rule) == ("error", "clock")
    assert "60 of 90 rounds" in found.reason


def test_one_side_missing() -> None:
    made = book(GROWTH)
    made.controls()
    made.pair(0, [[([1e6] * 5, [])] * 5])
    made.done()
    assert (made.only().outcome, made.only().rule) == ("error", "no usable time")


def test_a_record_written_twice_counts_once_and_by_its_later_form() -> None:
    made = book(GROWTH)
    made.controls()
    made.pairs([0.5, 0.5, 0.5])
    once = made.only if made.done() is not None else None
    assert once is not None
    wrong = once()
    made.pairs([0.001, -0.002, 0.0005])
    right = once()
    assert wrong.outcome == "inconclusive"
    assert right.outcome == "pass"
    assert right.n == wrong.n


def test_sides_in_the_other_order_are_turned() -> None:
    made = book(GROWTH)
    made.controls()
    slow = [([1e6 * (1.2 + 0.001 * k) for k in range(9)], [1e6 + k for k in range(9)])] * 5
    for number in range(3):
        made.pair(number, [[(a, [v * (1 + number * 1e-3) for v in b]) for a, b in slow]], a="candidate", b="baseline")
    made.done()
    assert made.only().estimate == pytest.approx(0.2, abs=0.01)


def test_throughput_drop_and_its_absolute_values() -> None:
    line = gate("throughput", "drop", "<=", 0.03)
    found = judged([0.10, 0.101, 0.099], [0.1, 0.102, 0.098], line=line, items=64)
    assert found.outcome == "fail"
    assert found.rule == "upper bound below limit, confirmed on fresh pairs"
    assert found.estimate == pytest.approx(1 - math.exp(-0.1), abs=0.005)
    assert found.baseline == pytest.approx(64_000, rel=0.01)
    assert found.unit == "calls/s"
    assert "calls/s, −9.6" in found.reason
    assert judged([0.001, -0.002, 0.0005], line=line).outcome == "pass"
    faster = judged([-0.1, -0.101, -0.102], line=line)
    assert (faster.outcome, faster.improvement) == ("pass", True)


def test_speedup_against_the_old_path_uses_its_own_pairs() -> None:
    line = gate("latency.p50", "speedup", ">=", 1.2, against="beside")
    made = book(line)
    made.pairs([0.0, 0.001, -0.001])
    logs = [-math.log(1.5), -math.log(1.51), -math.log(1.49)]
    made.pairs(logs, against="beside", seed=5)
    made.done()
    found = made.only()
    assert (found.outcome, found.improvement) == ("pass", False)  # faster than its own old path, not than the baseline
    assert found.estimate == pytest.approx(1.5, abs=0.02)
    lacking = book(line)
    lacking.pairs([0.0, 0.001, -0.001])
    lacking.done()
    assert lacking.only().outcome == "not_run"
    assert "against beside" in lacking.only().reason


def test_an_absolute_limit_judges_the_candidate_alone() -> None:
    line = gate("latency.p50", "absolute", "<=", 1.05e-3)
    assert judged([0.0, 0.001, 0.002], line=line).outcome == "pass"
    slow = judged([0.2, 0.201, 0.199], [0.2, 0.201, 0.202], line=line)
    assert slow.outcome == "fail"
    assert slow.estimate == pytest.approx(1e-3 * math.exp(0.2), rel=0.01)
    both = judged([0.0, 0.001, 0.002], [0.0, 0.001, 0.002], line=gate("latency.p50", "absolute", "<=", 1e-4))
    assert (both.outcome, both.rule) == ("inconclusive", "baseline fails too")
    assert "the limit is wrong, not the candidate" in both.reason


def test_an_increase_in_seconds() -> None:
    line = gate("latency.p50", "increase", "<=", 5e-5)
    assert judged([0.001, 0.002, 0.003], line=line).outcome == "pass"
    found = judged([0.2, 0.201, 0.199], [0.2, 0.201, 0.202], line=line)
    assert found.outcome == "fail"
    assert found.estimate == pytest.approx(1e-3 * math.expm1(0.2), rel=0.05)


@pytest.mark.parametrize(("quantile", "share"), [("p95", 0.95), ("p99", 0.99)])
def test_a_tail_needs_samples_that_reach_beyond_its_quantile(quantile: str, share: float) -> None:
    in_all, of_a_pair = timing.TAIL_SAMPLES[quantile]
    assert 1 - share**in_all >= 0.95 > 1 - share ** (in_all - 1)
    assert of_a_pair * (1 - share) == pytest.approx(1.0)
    assert harness_measure.TAIL_SAMPLES == timing.TAIL_SAMPLES, "the harness takes what the judge asks for"


def test_a_p99_is_not_judged_by_what_a_p95_takes() -> None:
    line = gate("latency.p99", "growth", "<=", 0.05)
    logs = [0.0, 0.001, -0.001]
    few = judged(logs, line=line, samples=8)  # ten rounds a pair: 80 in each, which is plenty for a p95
    assert (few.outcome, few.rule) == ("inconclusive", "too few samples for a tail")
    assert "240 samples a side in all and 80 in one pair" in few.reason
    assert "a p99 cannot be told from fewer than 299 in all and 100 in each pair" in few.reason
    assert judged(logs, line=gate("latency.p95", "growth", "<=", 0.05), samples=8).outcome == "pass"
    assert judged(logs, line=line, samples=60).outcome == "pass"


def test_a_pair_that_ended_early_is_left_out_of_the_tail_and_named() -> None:
    lines = (GROWTH, gate("latency.p95", "growth", "<=", 0.05))
    made = book(*lines)
    for line in lines:
        made.controls(line.metric)
    made.pairs([0.0, 0.001, -0.001], samples=60)
    made.pair(3, [[([1e6] * 19, [5e6] * 19)]])  # a worker died behind the first round of the first build
    made.done()
    centre, tail = made.judged().judgements
    assert centre.n is not None
    assert centre.n["pairs"] == 4
    assert (tail.outcome, tail.n["pairs"] if tail.n else None) == ("pass", 3)
    assert tail.detail is not None
    assert [(one["pair"], one["samples"]) for one in tail.detail["pairs_too_short_for_a_tail"]] == [(3, 19)]
    assert tail.candidate_value == pytest.approx(1e-3, rel=0.1), "its times are not in the figures either"


def test_a_tail_needs_59_samples_a_side() -> None:
    line = gate("latency.p95", "growth", "<=", 0.05)
    few = judged([0.0, 0.001], line=line, samples=2)  # ten rounds a pair: 40 in all
    assert (few.outcome, few.rule) == ("inconclusive", "too few samples for a tail")
    thin = judged([0.0, 0.001, -0.001, 0.002, 0.0, 0.001, 0.0], line=line, samples=1)
    assert (thin.outcome, thin.rule) == ("inconclusive", "too few samples for a tail")
    assert judged([0.0, 0.001, -0.001], line=line, samples=60).outcome == "pass"


def test_a_regression_of_the_tail_alone_is_caught_by_p95_only() -> None:
    made = book(GROWTH, gate("latency.p95", "growth", "<=", 0.05))
    made.controls()
    made.controls("latency.p95")
    for stage in ("measure", "confirm"):
        for number in range(3):
            jitter = [1 + 0.001 * ((k * 7 + number) % 5) for k in range(24)]
            plain = [1e6 * j for j in jitter]
            tail = [1e6 * j * (3.0 if k % 12 == 3 else 1.0) for k, j in enumerate(jitter)]
            builds = [[(plain, [v * (1 + 0.0003 * number) for v in tail])] * 10] * 2
            made.pair(number, builds, stage=stage)
    made.done()
    centre, tail_found = made.judged().judgements
    assert centre.outcome == "pass"
    assert tail_found.outcome == "fail"
    assert tail_found.estimate == pytest.approx(2.0, abs=0.1)


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


def test_a_report_has_figures_and_no_vote() -> None:
    found = judged([0.001, -0.002, 0.0005], line=gate("latency.p50", "report"))
    assert (found.outcome, found.contribution, found.rule) == ("pass", None, "report")
    assert found.estimate == pytest.approx(0.0, abs=0.005)
    assert found.low is not None


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


def test_too_few_samples_of_a_tail_are_the_reason_even_where_the_control_saw_nothing() -> None:
    made = book(gate("latency.p95", "growth", "<=", 0.05))
    made.pairs([0.0, 0.001], samples=2)
    made.done()
    assert made.only().rule == "too few samples for a tail"
