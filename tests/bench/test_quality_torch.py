"""Decision quality for real, on torch: one pair with planted changes, two peers, and the cost of timing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchspec.bench import asking, overhead, peers
from torchspec.bench.pool import Pool


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
