"""What the ledger already holds: which runs count, what is tried again, and which pairs are owed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness.needs import Comparison
from torchspec.harness.pairs import Pairs
from torchspec.harness.past import Past
from torchspec.harness.sides import Timed


def record(kind: str, run: str, seq: int, **body: Any) -> dict[str, Any]:
    return {"kind": kind, "run": run, "seq": seq, "body": body}


HOST = {"os": "Linux", "architecture": "x86_64", "cpu": "one", "cores": 2, "memory_bytes": 1 << 33, "kernel": "6"}


def start(
    run: str, seq: int, plan: str = "p", harness: str = "h", candidate: str = "candidate", **odd: Any
) -> dict[str, Any]:
    told = {"plan": plan, "harness": {"sha256": harness}, "candidate": candidate, "host": {**HOST, **odd}}
    return record("run.start", run, seq, **told)


def timing(run: str, seq: int, pair: int, build: int) -> dict[str, Any]:
    held = {"cell": "c", "against": "baseline", "stage": "measure", "planted": None, "items": 1}
    return record("timing", run, seq, pair=pair, build=build, rounds=[{"a_ns": [1], "b_ns": [seq]}], **held)


def sample(run: str, seq: int, repeat: int = 0) -> dict[str, Any]:
    return record("sample", run, seq, cell="c", side="baseline", metric="m", against=None, repeat=repeat)


def done(run: str, seq: int, status: str) -> dict[str, Any]:
    return record("cell.done", run, seq, cell="c", status=status)


def test_only_runs_of_the_same_plan_harness_candidate_and_machine_count() -> None:
    for odd in ({"plan": "x"}, {"harness": "x"}, {"candidate": "x"}, {"cores": 4}, {"memory_bytes": 1 << 34}):
        past = Past([start("r", 0, **odd), sample("r", 1), done("r", 2, "measured")], "p", "h", "candidate", HOST)
        assert not past.figures
        assert not past.ended("c")
        assert past.last_run is None
    past = Past([start("r", 0, kernel="7"), sample("r", 1), done("r", 2, "measured")], "p", "h", "candidate", HOST)
    assert past.ended("c")
    assert past.last_run == "r"
    assert past.has("sample", cell="c", side="baseline", metric="m", against=None, repeat=0)
    assert not past.has("sample", cell="c", side="baseline", metric="m", against=None, repeat=1)


@pytest.mark.parametrize(
    ("status", "ended"), [("measured", True), ("failed", True), ("not_run", True), ("error", False)]
)
def test_a_cell_that_ended_in_an_error_is_tried_again(status: str, ended: bool) -> None:
    failed = record("side.failed", "r", 1, cell="c", side="candidate", attempt=0)
    past = Past([start("r", 0), failed, done("r", 2, status)], "p", "h", "candidate", HOST)
    assert past.ended("c") is ended
    assert bool(past.failures) is ended


def test_a_control_that_could_not_be_measured_is_tried_again() -> None:
    told = {"cell": "c", "metric": "latency.p50", "what": "planted", "planted": 0.1}
    held = [start("r", 0), record("control", "r", 1, **told, error="no time")]
    assert not Past(held, "p", "h", "candidate", HOST).controls
    held.append(record("control", "r", 2, **told, error=None))
    assert Past(held, "p", "h", "candidate", HOST).controls == {("c", "latency.p50", "planted", 0.1)}


@pytest.mark.parametrize(("metric", "whole"), [("latency.p50", 3), ("latency.p95", 2), ("latency.p99", 1)])
def test_a_pair_that_ended_early_is_none_of_the_tail(metric: str, whole: int) -> None:
    held = [start("r", 0)]
    for seq, (pair, samples) in enumerate([(0, 10), (1, 50), (1, 50), (2, 30)], 1):
        one = timing("r", seq, pair, seq)
        one["body"]["rounds"] = [{"order": "ab", "a_ns": [1e6] * samples, "b_ns": [1e6] * (samples + 1)}]
        held.append(one)
    past = Past(held, "p", "h", "candidate", HOST)
    assert len(past.pairs("c", "baseline", "measure", metric=metric)) == whole
    assert past.next_pair("c", "baseline", "measure") == 3, "its number is taken all the same"


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ([30] * 2, "continue"),
        ([10] * 2, "continue"),  # before the first look
        ([10] * 3, "budget"),  # three pairs and none that tells anything: a fourth would not either
        ([10, 30, 30, 30], "pass"),
        ([10, 30, 10, 30], "continue"),  # one more is owed for each that was cut short
        ([30] * 2 + [10] * 6, "budget"),  # but not without an end
    ],
)
def test_what_a_pair_cut_short_owes_is_taken_again_and_not_for_ever(samples: list[int], said: str) -> None:
    held = [start("r", 0)]
    for number, count in enumerate(samples):
        one = timing("r", number + 1, number, 0)
        own = [1e6 * (1 + 1e-4 * ((k * 7 + number) % 11)) for k in range(count)]
        one["body"]["rounds"] = [{"order": "ab", "a_ns": own, "b_ns": [v * (1 + 1e-4 * number) for v in own]}]
        held.append(one)
    pairs = object.__new__(Pairs)
    pairs.run = SimpleNamespace(past=Past(held, "p", "h", "candidate", HOST))  # type: ignore[assignment]
    pairs.budget = {"min_pairs": 3, "max_pairs": 4}
    gate = {"metric": "latency.p95", "limit": {"form": "growth", "op": "<=", "value": 0.05}, "sees": None}
    timed = Timed(Comparison("c", "baseline", "candidate", [gate]))
    assert pairs._decisions(timed) == [said]


def test_pairs_of_several_runs_are_numbered_on() -> None:
    held = [
        start("r", 0),
        timing("r", 1, 0, 0),
        timing("r", 2, 0, 1),
        timing("r", 3, 1, 0),
        start("s", 4),
        timing("s", 5, 2, 0),
    ]
    past = Past(held, "p", "h", "candidate", HOST)
    assert [len(builds) for builds in past.pairs("c", "baseline", "measure")] == [2, 1, 1]
    assert past.next_pair("c", "baseline", "measure") == 3
    assert past.next_pair("c", "baseline", "confirm") == 0
    assert past.seqs("c", "baseline", "measure") == [1, 2, 3, 5]
