"""The benchmark of decision quality: rates, comparisons from a pool, the report; for real, one pair and two peers."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from torchspec.bench import asking, course, ours, overhead, peers, plan, quality, report
from torchspec.bench.course import Options
from torchspec.bench.pool import PairOf, Pool
from torchspec.bench.rates import Answer, interval, rates
from torchspec.bench.targets import targets


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"), [(0, 300, 0.0, 0.01222), (300, 300, 0.98778, 1.0), (5, 20, 0.08657, 0.49105)]
)
def test_exact_binomial_intervals(hits: int, n: int, low: float, high: float) -> None:
    found = interval(hits, n)
    assert found[0] == pytest.approx(low, abs=1e-5)
    assert found[1] == pytest.approx(high, abs=1e-5)


def _simulated_pool(log: float, pairs: int, spread: float = 0.005, seed: int = 3) -> list[PairOf]:
    """Pairs of one work with this true log ratio, simulated."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(pairs):
        value = math.exp(log + spread * rng.standard_normal())
        found.append(PairOf({"attention": {"latency.p50": {0.0: math.log(value)}}}, 2.0, 1.0))
    return found


def _asked(log: float, **more: object) -> list[Answer]:
    return ours.comparisons(
        _simulated_pool(log, 120, **more),  # type: ignore[arg-type]
        "attention",
        "latency.p50",
        0.0,
        0.03,
        design="torchspec",
        condition="quiet",
        truth=math.exp(log),
        min_pairs=3,
        max_pairs=8,
    )


def test_comparisons_use_each_pair_once_and_follow_the_truth() -> None:
    equal = _asked(0.0)
    assert {a.verdict for a in equal} == {"pass"}
    assert sum(a.pairs or 0 for a in equal) <= 120
    assert len(equal) >= 30
    slower = _asked(math.log(1.10))
    assert {a.verdict for a in slower} == {"fail"}
    assert all((a.pairs or 0) >= 6 for a in slower)  # three, and three fresh ones
    assert slower[0].ratio == pytest.approx(1.10, abs=0.02)
    noisy = _asked(0.0, spread=0.5)
    assert {a.verdict for a in noisy} == {"inconclusive"}
    assert all((a.pairs or 0) >= 8 for a in noisy)


def test_controls_of_a_runs_own_come_first_and_cost_their_time() -> None:
    pool = _simulated_pool(0.0, 120)
    common: dict[str, Any] = {"condition": "quiet", "truth": 1.0, "min_pairs": 2, "max_pairs": 8}
    alone = ours.comparisons(pool, "attention", "latency.p50", 0.0, 0.03, design="own", controls=3, **common)
    assert all((a.pairs or 0) >= 5 and a.together_s == 2.0 * (a.pairs or 0) for a in alone)
    as_run = ours.comparisons(
        pool, "attention", "latency.p50", 0.0, 0.03, design="own", controls=3, pair_s=1.5, control_s=4.0, **common
    )
    assert [a.together_s for a in as_run] == [3 * 4.0 + 1.5 * ((a.pairs or 0) - 3) for a in alone]
    known = ours.spread(pool, "attention", "latency.p50")
    assert known is not None
    assert (round(known[0], 4), known[1]) == (0.0054, 120)
    quick = ours.comparisons(
        pool, "attention", "latency.p50", 0.0, 0.03, design="known", known=known, pair_s=1.5, **common
    )
    assert {a.verdict for a in quick} == {"pass"}
    assert all(a.together_s == 1.5 * (a.pairs or 0) for a in quick)
    assert min(a.pairs or 0 for a in quick) == 2
    assert len(quick) > len(alone)
    assert ours.usual_seconds(pool) == 2.0
    assert ours.usual_seconds(pool[:1]) is None


def test_rates_count_by_design_and_truth() -> None:
    answers = [Answer("d", "w", "m", "quiet", 1.0, v, 1.02, 3.0, 4) for v in ("pass", "pass", "fail", "inconclusive")]
    answers.append(Answer("d", "w", "m", "quiet", 1.05, "fail", None, 5.0))
    equal, slower = rates(answers)
    assert (equal.n, equal.shares["pass"][0], equal.pairs, equal.seconds) == (4, 0.5, 4.0, 3.0)
    assert equal.error == pytest.approx(math.log(1.02))
    assert (slower.n, slower.error, slower.pairs) == (1, None, None)
    assert slower.shares["fail"][1] > 0


def test_right_verdicts_in_time_are_counted_by_what_all_works_took() -> None:
    made = [Answer("d", "w", "m", "quiet", 1.0, "pass", 1.0, 3.0, 3, seconds) for seconds in (20.0, 29.0, 31.0, 61.0)]
    made.append(Answer("d", "w", "m", "quiet", 1.0, "fail", 1.1, 3.0, 3, 20.0))
    (equal,) = rates(made)
    assert equal.within == {30.0: 0.4, 60.0: 0.6}
    (slower,) = rates([Answer("d", "w", "m", "quiet", 1.05, "fail", 1.1, 3.0, 3, 20.0)])
    assert slower.within[30.0] == 1.0
    (edge,) = rates([Answer("d", "w", "m", "quiet", 1.03, "fail", 1.1, 3.0, 3, 20.0)], 0.03)
    assert edge.within == {30.0: None, 60.0: None}  # at the limit nothing is right or wrong
    (unknown,) = rates([Answer("d", "w", "m", "quiet", 1.05, "fail", 1.1, 3.0)])
    assert unknown.within == {30.0: None, 60.0: None}


def test_equal_pairs_are_called_different_as_often_as_the_interval_says() -> None:
    hits, n = ours.called_different(_simulated_pool(0.0, 3000), "attention", "latency.p50", 3)
    assert n == 1000
    assert 0.03 <= hits / n <= 0.07
    assert ours.off_by(_simulated_pool(0.0, 3000), "attention", "latency.p50") == pytest.approx(0.005, rel=0.05)
    assert ours.called_different(_simulated_pool(0.2, 30), "attention", "latency.p50", 3) == (10, 10)


def test_the_report_names_everything_and_its_picture_is_well_formed() -> None:
    found = rates([Answer("a < b", "w", "m", "quiet", 1.0, "pass", 1.0, 3.0, 4, 9.0)])
    text = report.table(
        found, {"asv, best": "not there"}, {"limit": "3 %"}, peers.HOW, {"w": (1, 20)}, 3, {("busy", "w"): (8, 0.012)}
    )
    assert "| a < b | w | m | quiet | equal | 1 | 100 % [" in text
    assert "- asv, best: not there" in text
    assert "of 3 equal pairs each: w 1 of 20" in text
    assert "- w, busy: 1.20 % (8 pairs)" in text
    for name in peers.PEERS:
        assert f"- {name}: " in text
    ElementTree.fromstring(report.picture(found))


CONDITIONS = {"alone": "quiet", "busy": "busy", "tail": "tail"}


def _told(
    truth: float,
    verdicts: dict[str, int],
    condition: str = "quiet",
    work: str = "attention",
    metric: str = "latency.p50",
) -> list[Answer]:
    return [
        Answer("d", work, metric, condition, truth, verdict, truth, 5.0, 2, 20.0)
        for verdict, count in verdicts.items()
        for _ in range(count)
    ]


def _held(answers: list[Answer], different: dict[str, tuple[int, int]] | None = None) -> dict[str, tuple[str, str]]:
    rows = targets(rates(answers, 0.03), "d", CONDITIONS, 0.03, different or {})
    return {what.rsplit(": ", 1)[0]: (figure, verdict) for what, figure, verdict in rows}


def test_what_was_found_is_held_against_what_is_wanted() -> None:
    answers = _told(1.0, {"pass": 97, "fail": 3}) + _told(1.03, {"pass": 5, "inconclusive": 95})
    answers += _told(1.05, {"fail": 96, "inconclusive": 4}) + _told(1.10, {"fail": 98, "pass": 2})
    answers += _told(1.0, {"pass": 300}, "busy") + _told(1.0, {"pass": 300}, work="training_step")
    answers += _told(3.0, {"fail": 20}, "tail", metric="latency.p95") + _told(1.0, {"pass": 20}, "tail")
    found = _held(answers, {"attention": (5, 100), "training_step": (1, 20)})
    assert found["equal versions called a failure"] == ("3 of 400: 0.8 % [0.2, 2.2]", "reached")
    assert found["a truth at the limit passed"][1] == "reached"
    assert found["a truth at the limit called a failure"][0].startswith("0 of 100")
    assert found["attention, 5 % slower"] == ("96 % of 100", "reached")
    assert found["attention, 10 % slower"] == ("98 % of 100", "missed")
    assert found["attention, equal"][1] == found["training_step, equal"][1] == "reached"
    assert found["equal versions called a failure beside two busy processes"][1] == "reached"
    assert found["equal versions"] == ("2.00 in 400", "reached")
    assert found['equal pairs called "different" at 95 %'] == ("5.0 % of 120 [1.9, 10.6]", "reached")
    assert found["a slow tail: p95 called a failure"][1] == found["a slow tail: p50 passed"][1] == "reached"
    text = report.table([], {}, {}, {}, {}, 4, {}, targets(rates(answers, 0.03), "d", CONDITIONS, 0.03, {}))
    assert "| attention, 10 % slower: right within 30 s in at least 99 % | 98 % of 100 | missed |" in text


def test_what_was_not_measured_is_said_of_every_row_that_is_wanted() -> None:
    found = _held([])
    assert set(found.values()) == {("not measured", "not measured")}
    assert len(found) == len(_held(_told(1.0, {"pass": 300}))) == 17
    assert _held(_told(1.0, {"pass": 300}))["a slow tail: p95 called a failure"] == ("not measured", "not measured")


def test_a_few_comparisons_reach_nothing() -> None:
    """None of two is no rate: its interval goes up to 84 %."""
    answers = _told(1.0, {"pass": 2}, "busy") + _told(1.0, {"pass": 2}) + _told(1.03, {"inconclusive": 13})
    answers += _told(1.05, {"fail": 19}) + _told(1.0, {"pass": 3}, "tail")
    found = _held(answers, {"attention": (1, 30)})
    assert found["equal versions called a failure beside two busy processes"] == (
        "0 of 2: 0.0 % [0.0, 84.2]",
        "2 of 300 comparisons",
    )
    assert found["a truth at the limit passed"][1] == "13 of 50 comparisons"
    assert found["attention, 5 % slower"][1] == "19 of 20 comparisons"
    assert found["equal versions"][1] == found["attention, equal"][1] == "2 of 20 comparisons"
    assert found["a slow tail: p50 passed"][1] == "3 of 20 comparisons"
    assert found['equal pairs called "different" at 95 %'][1] == "30 of 100 comparisons"


def test_a_few_comparisons_miss_where_no_luck_explains_them() -> None:
    answers = _told(1.0, {"fail": 2}, "busy") + _told(1.03, {"pass": 4, "inconclusive": 9}) + _told(1.03, {"fail": 1})
    answers += _told(1.05, {"inconclusive": 5}) + _told(3.0, {"pass": 5}, "tail", metric="latency.p95")
    found = _held(answers, {"attention": (9, 30)})
    assert found["equal versions called a failure beside two busy processes"][1] == "missed"
    assert found["a truth at the limit passed"][1] == "missed"
    assert found["a truth at the limit called a failure"][1] == "14 of 50 comparisons"  # one of fourteen may be luck
    assert found["attention, 5 % slower"] == ("0 % of 5", "missed")
    assert found["a slow tail: p95 called a failure"][1] == "missed"
    assert found['equal pairs called "different" at 95 %'][1] == "missed"


def test_a_peer_that_is_not_installed_is_unavailable_with_its_name(tmp_path: Path) -> None:
    ask = asking.Ask(sys.executable, str(tmp_path), ("attention",), 0.0, 0.03, 1.0)
    with pytest.raises(asking.Unavailable, match="pyperf is not installed"):
        peers.run("pyperf", ask)


class FakePool:
    """Gives pairs that are equal but for what is planted, without measuring; a mock of `Pool`."""

    made = 0

    def __init__(self, python: str, **asked: object) -> None:
        self.python = python

    def pair(self, plants: tuple[float, ...], tail: int = 0, more: bool = False) -> PairOf:
        FakePool.made += 1
        wave = 0.002 * math.sin(FakePool.made)
        p50 = {planted: math.log1p(planted) + wave for planted in (0.0, *plants)}
        p95 = {0.0: math.log(3.0) + wave} if tail else p50
        return PairOf({work: {"latency.p50": p50, "latency.p95": p95} for work in plan.WORKS}, 8.0, 5.0, 0.5)

    def close(self) -> None: ...


@pytest.fixture
def mocked(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(name: str, ask: asking.Ask) -> peers.Told:
        if name == "pyperf":
            raise asking.Unavailable("pyperf is not installed")
        return peers.Told(dict.fromkeys(ask.works, ("fail" if ask.tail else "pass", 1.0)), 12.0)

    monkeypatch.setattr(quality, "Pool", FakePool)
    monkeypatch.setattr(peers, "run", told)
    monkeypatch.setattr(peers, "versions", lambda *_: {"torch": "0"})


SMALL: dict[str, Any] = {"equal_pairs": 12, "pairs": 12, "calibration_pairs": 12, "tail_pairs": 12, "busy_pairs": 0}


def test_a_run_in_pieces_is_one_run(mocked: None, tmp_path: Path) -> None:
    options = Options("python", tmp_path, **SMALL, for_s=0.0)
    wanted = course.steps(options)
    assert len({step.key for step in wanted}) == len(wanted) == 12 + 12 + 12 + 6 + 12 + 4 * len(peers.PEERS)
    assert [step.pool for step in wanted[:12]] == ["calibration"] * 12
    said: list[str] = []
    assert quality.run(options, said.append) is None  # no time at all: nothing measured, and it says so
    assert said == [f"{len(wanted)} of {len(wanted)} steps are left: the same command goes on"]
    kept = course.Kept(options)
    kept.step(wanted[0].key, {"ratios": {}, "seconds": 1.0, "timed_s": 0.5, "load": None})
    again = course.Kept(options)
    assert list(again.steps) == [wanted[0].key]
    whole = again.path.read_text(encoding="utf-8")
    again.path.write_text(f'{whole}{{"key": "equal 0", "rat', encoding="utf-8")  # killed while it wrote
    assert list(course.Kept(options).steps) == [wanted[0].key]
    assert again.path.read_text(encoding="utf-8") == whole
    (tmp_path / course.KEPT).unlink()
    before = FakePool.made
    text = quality.run(Options("python", tmp_path, **SMALL), said.append)
    assert FakePool.made == before + 54
    assert text is not None
    assert "- pyperf: pyperf is not installed" in text
    assert "- pyperf, two busy neighbours: pyperf is not installed" in text
    slower = (
        "| latency.p50 | as the machine was | +5 % | {n} | 0 % [0, {high}] | 0 % [0, {high}] | 100 % [{low}, 100] |"
    )
    assert f"| torchspec | attention {slower.format(n=1, high=98, low=3)}" in text
    assert f"| torchspec, calibrated | attention {slower.format(n=3, high=71, low=29)}" in text
    tail = "| latency.p95 | one call in 12 three times as long | +200 % | 3 | 0 % [0, 71] | 0 % [0, 71] | 100 %"
    assert f"| torchspec, calibrated | attention {tail}" in text
    assert "| torchspec | attention | latency.p95 | as the machine was | equal | 1 | 100 % [" in text
    assert "| a then b | attention | its own | one call in 12 three times as long | +200 % | 1 | 0 %" in text
    assert "| a then b | attention | its own | two busy neighbours | equal | 1 | 100 %" in text
    assert "- peers: 9, each asked 1 times about equal, +5 %; busy; tail: 32 of 36 answered" in text
    assert "| equal versions called a failure beside two busy processes: at most 1 %, of at least 300 | not m" in text
    assert {p.name for p in tmp_path.iterdir()} == {"quality.jsonl", "quality.md", "quality.svg", "quality.json"}
    told = json.loads((tmp_path / "quality.json").read_text(encoding="utf-8"))["missing"]
    places = ("pyperf", "pyperf, two busy neighbours", "pyperf, one call in 12 three times as long")
    assert told == dict.fromkeys(places, "pyperf is not installed")
    made = FakePool.made  # nothing is measured again: the same words from what was kept
    assert quality.run(Options("python", tmp_path, **SMALL), said.append) == text
    assert FakePool.made == made


def test_a_part_of_a_run_holds_a_part_of_every_pool_and_question() -> None:
    options = Options("python", Path("out"), asked=2, peer_truths=(0.0, 0.03, 0.05, 0.1))
    wanted = course.steps(options)[12:]
    half = wanted[: len(wanted) // 2]
    for pool in {step.pool for step in wanted}:
        share = sum(step.pool == pool for step in half) / sum(step.pool == pool for step in wanted)
        assert 0.4 <= share <= 0.6, pool
    questions = [step for step in wanted if step.peer is not None]
    about = {(step.condition, step.planted, step.tail) for step in questions}
    quiet = {(course.ALONE, planted, 0) for planted in options.peer_truths}
    assert about == quiet | {(course.BUSY, 0.0, 0), (course.TAILED, 0.0, course.TAIL)}
    assert len(questions) == 2 * 6 * len(peers.PEERS)


def test_a_peer_that_fails_beside_busy_neighbours_is_still_asked_on_a_quiet_machine(
    mocked: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def neighbours(count: int) -> Iterator[None]:
        seen.append("busy" if count else "alone")
        yield

    def told(name: str, ask: asking.Ask) -> peers.Told:
        if seen[-1] == "busy":
            raise asking.Unavailable("no answer within 150 s")
        return peers.Told(dict.fromkeys(ask.works, ("pass", 1.0)), 12.0)

    monkeypatch.setattr(peers, "run", told)
    monkeypatch.setattr(quality, "neighbours", neighbours)
    few = {"equal_pairs": 0, "pairs": 0, "calibration_pairs": 0, "tail_pairs": 0, "busy_pairs": 0}
    options = Options("python", tmp_path, **few, asked=2, peers=("a then b",))  # type: ignore[arg-type]
    text = quality.run(options, print)
    assert text is not None
    assert "| a then b | attention | its own | as the machine was | equal | 2 | 100 %" in text
    assert "- a then b, two busy neighbours: no answer within 150 s" in text
    assert seen.count("busy") == 1  # and it is not waited for again


def test_figures_of_two_runs_are_not_mixed(mocked: None, tmp_path: Path) -> None:
    few = SMALL | {"asked": 0}
    quality.run(Options("python", tmp_path, **few), print)
    for other in ({"pairs": 4}, {"equal_pairs": 4}, {"asked": 1}, {"peer_truths": (0.0,)}, {"peer_conditions": ()}):
        with pytest.raises(course.OtherRun):
            quality.run(Options("python", tmp_path, **few | other), print)


def test_the_cost_of_timing_is_held_against_its_targets() -> None:
    shape = {"calls": 1, "bare_ns": [50.0, 60.0], "around_ns": [250.0, 900.0], "told_ns": [150.0, 700.0]}
    rows = overhead.summed({"call": [shape], "medians": {"w": [[102.0, 100.0]] * 3}})
    assert [(figure, good) for _, figure, good in rows][:2] == [("100 ns", True), ("200 ns", True)]
    assert rows[2][1].startswith("+2.00 %")
    assert not rows[2][2]
    slow = overhead.summed({"call": [shape | {"told_ns": [1500.0] * 3}], "medians": {}})
    assert not slow[0][2]


@pytest.mark.torch
@pytest.mark.slow
def test_a_real_pair_shows_what_was_planted(candidate_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(str(candidate_python), builds=2, rounds=4, block_ms=5.0, seed=1)
    seen: list[dict[float, Any]] = []
    figures = Pool._figures

    def kept(metric: str, held: dict[float, Any]) -> dict[float, float]:
        seen.append(held)
        return figures(metric, held)

    monkeypatch.setattr(pool, "_figures", kept)
    try:
        found = pool.pair([0.25, 0.5])
    finally:
        pool.close()
    assert not pool.folder.exists()
    for metrics in found.ratios.values():
        for figures_of in metrics.values():
            assert set(figures_of) == {0.0, 0.25, 0.5}
    for held in seen:
        times = {
            ratio: [v for rounds in builds for one in rounds for v in one["b_ns"]] for ratio, builds in held.items()
        }
        stretched = [more / less for less, more in zip(times[0.25], times[0.5], strict=True)]
        assert np.median(stretched) == pytest.approx(1.5 / 1.25, abs=0.02)  # both are of the same calls


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", ["a then b", "torch.utils.benchmark, default"])
def test_a_real_peer_sees_a_doubled_time(name: str, candidate_python: Path) -> None:
    told = peers.run(name, asking.Ask(str(candidate_python), None, ("attention",), 1.0, 0.03, 16.0))
    verdict, ratio = told.answers["attention"]
    assert verdict == "fail"
    assert ratio is not None
    assert ratio > 1.3


@pytest.mark.torch
@pytest.mark.slow
def test_the_cost_of_timing_can_be_measured(candidate_python: Path, tmp_path: Path) -> None:
    text = overhead.run(str(candidate_python), tmp_path, print, repeats=2)
    assert "| a call's figure above a bare loop, 1 call a sample |" in text
    assert text.count("median against torch.utils.benchmark") == 3
    assert (tmp_path / "overhead.md").read_text(encoding="utf-8") == text


def test_a_peer_that_takes_too_long_gives_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_CALLS", "import time; time.sleep(600)")
    ask = asking.Ask(sys.executable, None, ("attention",), 0.0, 0.03, 0.2)
    with pytest.raises(asking.Unavailable, match="no answer within 1 s, 5 times the time that it was given"):
        peers.run("a then b", ask)
