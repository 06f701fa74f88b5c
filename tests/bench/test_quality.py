"""The benchmark of decision quality: rates, comparisons from a pool, the report; for real, one pair and two peers."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from torchspec.bench import ours, peers, report
from torchspec.bench.pool import PairOf, Pool
from torchspec.bench.rates import Answer, interval, rates
from torchspec.harness.sequential import pair_ratio


def test_exact_binomial_intervals() -> None:
    assert interval(0, 300) == (0.0, pytest.approx(0.01222, abs=1e-5))
    assert interval(300, 300) == (pytest.approx(0.98778, abs=1e-5), 1.0)
    assert interval(5, 20) == (pytest.approx(0.08657, abs=1e-5), pytest.approx(0.49105, abs=1e-5))


def _simulated_pool(log: float, pairs: int, spread: float = 0.005, seed: int = 3) -> list[PairOf]:
    """Pairs of one work with this true log ratio, simulated."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(pairs):
        value = math.exp(log + spread * rng.standard_normal())
        builds = [[{"a_ns": [1e6], "b_ns": [1e6 * value]} for _ in range(2)]]
        found.append(PairOf({"attention": {0.0: builds}}, 2.0, 1.0))
    return found


def _asked(log: float, **more: object) -> list[Answer]:
    return ours.comparisons(
        _simulated_pool(log, 120, **more),  # type: ignore[arg-type]
        "attention",
        "latency.p50",
        0.0,
        0.03,
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


def test_rates_count_by_design_and_truth() -> None:
    answers = [Answer("d", "w", "m", "quiet", 1.0, v, 1.02, 3.0, 4) for v in ("pass", "pass", "fail", "inconclusive")]
    answers.append(Answer("d", "w", "m", "quiet", 1.05, "fail", None, 5.0))
    equal, slower = rates(answers)
    assert (equal.n, equal.shares["pass"][0], equal.pairs, equal.seconds) == (4, 0.5, 4.0, 3.0)
    assert equal.error == pytest.approx(math.log(1.02))
    assert (slower.n, slower.error, slower.pairs) == (1, None, None)
    assert slower.shares["fail"][1] > 0


def test_the_report_names_everything_and_its_picture_is_well_formed() -> None:
    found = rates([Answer("a < b", "w", "m", "quiet", 1.0, "pass", 1.0, 3.0, 4)])
    text = report.table(found, {"asv": "not there"}, {"limit": "3 %"}, peers.HOW)
    assert "| a < b | w | m | quiet | equal | 1 | 100 % [" in text
    assert "- asv: not there" in text
    for name in peers.PEERS:
        assert f"- {name}: " in text
    ElementTree.fromstring(report.picture(found))


def test_a_peer_that_is_not_installed_is_unavailable_with_its_name(tmp_path: Path) -> None:
    import sys

    ask = peers.Ask(sys.executable, str(tmp_path), "attention", 0.0, 0.03, 1.0)
    with pytest.raises(peers.Unavailable, match="pyperf is not installed"):
        peers.run("pyperf", ask)


@pytest.mark.torch
@pytest.mark.slow
def test_a_real_pair_shows_what_was_planted(candidate_python: Path) -> None:
    pool = Pool(str(candidate_python), builds=2, rounds=4, block_ms=5.0, seed=1)
    try:
        found = pool.pair([0.25, 0.5])
    finally:
        pool.close()
    assert not pool.folder.exists()
    for work, held in found.rounds.items():
        assert pair_ratio("latency.p50", held[0.0]) is not None
        times = {
            ratio: [v for rounds in builds for one in rounds for v in one["b_ns"]] for ratio, builds in held.items()
        }
        stretched = [more / less for less, more in zip(times[0.25], times[0.5], strict=True)]
        assert np.median(stretched) == pytest.approx(1.5 / 1.25, abs=0.02), work  # both are of the same calls


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", ["a then b", "torch.utils.benchmark"])
def test_a_real_peer_sees_a_doubled_time(name: str, candidate_python: Path) -> None:
    told = peers.run(name, peers.Ask(str(candidate_python), None, "attention", 1.0, 0.03, 3.0))
    assert told.verdict == "fail"
    assert told.ratio is not None
    assert told.ratio > 1.3
