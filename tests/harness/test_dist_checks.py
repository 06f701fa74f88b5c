"""Checkpoints of ranks: what is weighed behind a reading, and what is timed. Jobs are mocks that answer as ranks do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness.dist_checks import CheckpointFacts
from torchspec.harness.supervise import Unable

SIDES = ("baseline", "candidate")
DIGESTS = {"model": "m", "optimizer": "o"}
WRITTEN = {"path": "p", "earlier_path": "q", "digests": DIGESTS, "earlier": DIGESTS, "bytes": 1, "seconds": 0.1,
           "losses": [1.0]}  # fmt: skip
READ = {"digests": DIGESTS, "seconds": 0.1, "losses": [1.0]}
ACROSS = ("checkpoint.candidate_to_baseline", "checkpoint.baseline_to_candidate", "checkpoint.reshard")


class MockRun:
    """Keeps what is written."""

    sides, candidate = SIDES, "candidate"
    timeout_s = start_timeout_s = 1.0
    progress = SimpleNamespace(event=lambda *given, **more: None)
    scratch = Path()

    def __init__(self, options: dict[str, Any]) -> None:
        self.embedded = SimpleNamespace(workloads={"w": {"options": options}}, cells={"c": {"workload": "w"}})
        self.past = SimpleNamespace(has=lambda *given, **more: False)
        self.wrote: list[dict[str, Any]] = []
        self.lacks: list[tuple[str, str, str]] = []

    def unsupported(self, cell: str, side: str, metric: str, reason: Unable) -> None:
        self.lacks.append((side, metric, str(reason)))

    def write(self, kind: str, body: dict[str, Any]) -> None:
        self.wrote.append(body)

    def frozen_file(self, cell: str) -> Path:
        return Path(f"{cell}.pt")


class MockRanks:
    """Both sides' jobs of two ranks; `answers` {command: what each rank says} in place of the usual."""

    def __init__(self, answers: dict[str, list[Any]] | None = None) -> None:
        usual = {"checkpoint.write": [WRITTEN] * 2, "checkpoint.write_alone": [WRITTEN] * 2,
                 "checkpoint.read": [READ] * 2}  # fmt: skip
        self.answers = {**usual, **(answers or {})}
        self.asked: list[tuple[str, str]] = []

    def worker(self, side: str) -> Any:
        def each(do: str, timeout_s: float, given: dict[str, Any]) -> list[Any]:
            self.asked.append((side, do))
            return self.answers[do]

        def ask(do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
            self.asked.append((side, do))
            return {}

        return SimpleNamespace(open_names=lambda: ["checkpoint"], each=each, ask=ask)


def cell_of(run: MockRun, ranks: MockRanks, *metrics: str) -> Any:
    def fact(side: str, metric: str, found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        detail = {key: value for key, value in found.items() if key not in ("holds", "error")}
        return "fact", {"side": side, "metric": metric, "holds": found["holds"], "error": found["error"],
                        "detail": detail}  # fmt: skip

    needs = SimpleNamespace(wants=lambda metric: metric in metrics)
    return SimpleNamespace(cell="c", count=2, ran=set(SIDES), needs=needs, fact=fact, run=run, ranks=run, pool=ranks)


def facts_of(metric: str, ranks: MockRanks, **options: Any) -> dict[str, Any]:
    run = MockRun(options)
    CheckpointFacts(cell_of(run, ranks, metric)).all()
    return {body["side"]: body for body in run.wrote}


@pytest.mark.parametrize("metric", ACROSS)
def test_losses_that_drift_apart_behind_equal_bits_fail_beyond_the_declared_tolerance(metric: str) -> None:
    drifted = {"checkpoint.read": [{**READ, "losses": [1.001]}] * 2}
    found = facts_of(metric, MockRanks(drifted), resume_tolerance=1e-5)["candidate"]
    assert found["holds"] is False
    assert "the losses behind it are 0.001 apart (relative), and 1e-05 is allowed" in found["error"]
    for options in ({"resume_tolerance": 1e-2}, {}):
        found = facts_of(metric, MockRanks(drifted), **options)["candidate"]
        assert found["holds"] is True
        assert found["detail"]["tolerance"] == options.get("resume_tolerance")


def test_a_tolerance_of_nothing_is_to_the_last_bit_and_no_tolerance_loosens_what_is_exact() -> None:
    drifted = {"checkpoint.read": [{**READ, "losses": [1.001]}] * 2}
    assert facts_of(ACROSS[0], MockRanks(drifted), resume_tolerance=0)["candidate"]["holds"] is False
    assert facts_of("checkpoint.resume", MockRanks(drifted), resume_tolerance=1e-2)["candidate"]["holds"] is False


@pytest.mark.parametrize("odd", ["nan", "inf"])
@pytest.mark.parametrize("metric", ACROSS)
def test_a_run_whose_losses_are_no_longer_numbers_does_not_go_on(metric: str, odd: str) -> None:
    found = facts_of(metric, MockRanks({"checkpoint.read": [{**READ, "losses": [odd]}] * 2}))["candidate"]
    assert found["holds"] is False
    assert "no longer finite" in found["error"]
