"""The two bandwidths of a collective, from the same times: the size of the operation, and what crosses the bus."""

from __future__ import annotations

import pytest
from evidence import book, gate

from torchspec.harness.dist_collective import bus_factor, operation_bytes

MILLISECOND = 1e6  # ns, as the bench's calls last


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"])
def test_bandwidths_are_bytes_over_time(operation: str) -> None:
    size = operation_bytes(operation, 1_000_000, 4)
    moved = {"operation_bytes": float(size), "bus_bytes": size * bus_factor(operation, 4)}
    found = {}
    for metric in ("comm.algorithm_bandwidth", "comm.bus_bandwidth"):
        made = book(gate(metric, "report"))
        made.pairs([0.0, 0.001, -0.001], base_ns=MILLISECOND, **moved)
        made.done()
        found[metric] = made.only()
        assert (found[metric].outcome, found[metric].rule, found[metric].unit) == ("pass", "report", "B/s")
    algorithm, bus = (one.candidate_value for one in found.values())
    assert algorithm == pytest.approx(size / 1e-3, rel=0.01)
    assert bus == pytest.approx(size / 1e-3 * bus_factor(operation, 4), rel=0.01)


def test_what_moves_no_bytes_has_no_bandwidth() -> None:
    for metric in ("comm.algorithm_bandwidth", "comm.bus_bandwidth"):
        made = book(gate(metric, "report"))
        made.pairs([0.0, 0.001, -0.001])
        made.done()
        assert made.only().outcome == "not_run"
