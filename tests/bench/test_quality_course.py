"""A benchmark of decision quality in its course: in pieces, resumed, mixed with no other. Pools and peers are mocks."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchspec.bench import asking, course, peers, plan, quality
from torchspec.bench.course import Options
from torchspec.bench.pool import PairOf


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
