"""Calibration in the harness: whose it is, what of it is used, equal pairs with nothing planted (mock workers)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mock_workers import BUDGET, WORK, Bench, MockWorker, never

from torchspec import calibration
from torchspec import ledger as tool_ledger
from torchspec.emit.data import backend_plan
from torchspec.harness.calibrate import calibrate, fit_here, identity, take_calibration
from torchspec.harness.embedded import Embedded
from torchspec.model.plan import Plan
from torchspec.pipeline_calibrate import keep, timed

HOST = {"node": "n", "os": "Linux", "architecture": "x86_64", "cpu": "c", "cores": 2, "memory_bytes": 1, "kernel": "6"}
SIDE = {
    "python": "3.11.7",
    "torch": {"version": "2.13.0"},
    "packages": {"numpy": "2.4.0"},
    "threads": {"torch": 1},
    "settings": {},
    "malloc": {},
    "glibc": "glibc 2.36",
    "env": {"OMP_NUM_THREADS": "1", "PATH": "/bin", "TRITON_CACHE_DIR": "x"},
}


@pytest.fixture
def embedded(make_plan: Callable[..., Plan], tmp_path: Path) -> Embedded:
    plan = make_plan(WORK, ["latency.p50"], budget=BUDGET)
    held = json.loads(json.dumps(backend_plan(plan, plan.backends[0])))
    return Embedded(held, {}, "d" * 64, tmp_path / "h.py")


def test_machine_and_setting_make_an_identity(embedded: Embedded) -> None:
    here = identity(embedded, HOST, SIDE)
    same = identity(embedded, {**HOST, "kernel": "7"}, {**SIDE, "env": {**SIDE["env"], "PATH": "/usr/bin"}})  # type: ignore[dict-item]
    assert same == here
    assert identity(embedded, {**HOST, "node": "other"}, SIDE)["machine"] != here["machine"]
    for part, value in (
        ("packages", {"numpy": "2.4.1"}),
        ("threads", {"torch": 2}),
        ("env", {"OMP_NUM_THREADS": "2"}),
        ("torch", {"version": "2.14.1"}),
    ):
        other = identity(embedded, HOST, {**SIDE, part: value})
        assert other["environment"] != here["environment"], part
        assert other["machine"] == here["machine"]
    embedded.budget["builds"] += 1
    assert identity(embedded, HOST, SIDE)["shape"] != here["shape"]


@pytest.mark.parametrize("part", ["machine", "environment", "shape", None])
def test_a_foreign_one_is_refused_with_its_reason(embedded: Embedded, part: str | None) -> None:
    here = identity(embedded, HOST, SIDE)
    theirs = {name: ("other" if name == part else value) for name, value in here.items()}
    cell = next(iter(embedded.cells))
    held = {"identity": theirs, "metrics": {"latency.p50": [0.004, 10]}, "at": "2026-11-30T12:00:00+00:00"}
    used, refused = fit_here({cell: [held], "not ours": [held]}, here, list(embedded.cells))
    assert (list(used), list(refused)) == (([cell], []) if part is None else ([], [cell]))
    for why in refused.values():
        assert {"machine": "another machine", "environment": "threads", "shape": "shape"}[str(part)] in why


def test_of_several_the_newest_that_fits_is_used_and_the_nearest_is_told_of(embedded: Embedded) -> None:
    here = identity(embedded, HOST, SIDE)
    cell = next(iter(embedded.cells))

    def held(at: str, **differs: str) -> dict[str, Any]:
        return {"identity": here | differs, "metrics": {}, "at": at}

    newest, newer, older = held("3", environment="other"), held("2"), held("1")
    assert fit_here({cell: [newest, newer, older]}, here, [cell]) == ({cell: newer}, {})
    used, refused = fit_here({cell: [held("2", machine="other"), newest]}, here, [cell])
    assert (used, "other packages" in refused[cell]) == ({}, True)


@pytest.fixture
def bench(make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    def made(fault: Any = never) -> Bench:
        return Bench(make_plan(WORK, ["latency.p50"], budget=BUDGET), tmp_path, fault, monkeypatch)

    return made


def test_what_is_used_goes_into_the_ledger_and_into_the_stopping_rule(bench: Callable[..., Bench]) -> None:
    made = bench()
    made.run.environments["baseline"] = dict(SIDE)
    here = identity(made.embedded, HOST, SIDE)
    first, second = made.embedded.cells
    good = {"identity": here, "metrics": {"latency.p50": [0.004, 10]}, "at": "2026-11-30T12:00:00+00:00"}
    bad = {**good, "identity": {**here, "machine": "other"}}
    take_calibration(made.run, {first: [good], second: [bad]}, list(made.embedded.cells), HOST)
    assert made.run.calibration == {(first, "latency.p50"): (0.004, 10)}
    made.ledger.close()
    (note,) = [r.body for r in tool_ledger.read(made.path) if r.kind == "note"]
    assert (note["what"], note["cells"]) == ("calibration", {first: {"latency.p50": [0.004, 10]}})
    assert list(note["refused"]) == [second]


def test_equal_pairs_alone_are_taken_as_many_as_asked_for(bench: Callable[..., Bench]) -> None:
    made = bench()
    first, second = made.embedded.cells
    for cell in (first, second):
        made.run.frozen_file(cell).write_bytes(b"mock")
    made.run.environments["baseline"] = dict(SIDE)
    calibrate(made.run, list(made.embedded.cells), 5, HOST)
    made.ledger.close()
    timings = made.timings()
    assert {(b["stage"], b["planted"], b["a"], b["b"]) for b in timings} == {("same", None, "baseline", "baseline")}
    assert Counter((b["cell"], b["pair"]) for b in timings) == {(c, p): 3 for c in (first, second) for p in range(5)}
    ended = {r.body["cell"]: r.body["status"] for r in tool_ledger.read(made.path) if r.kind == "cell.done"}
    assert ended == {first: "measured", second: "measured"}
    (note,) = [r.body for r in tool_ledger.read(made.path) if r.kind == "note"]
    assert (note["what"], note["machine"]) == ("calibrated", identity(made.embedded, HOST, SIDE)["machine"])


def test_a_baseline_that_dies_ends_its_own_calibration_only(bench: Callable[..., Bench]) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "relayout" and worker.cell == first:
            worker.fail("killed", do, "gone")

    made = bench(fault)
    first, second = made.embedded.cells
    for cell in (first, second):
        made.run.frozen_file(cell).write_bytes(b"mock")
    made.run.environments["baseline"] = dict(SIDE)
    calibrate(made.run, list(made.embedded.cells), 4, HOST)
    made.ledger.close()
    ended = {r.body["cell"]: r.body["status"] for r in tool_ledger.read(made.path) if r.kind == "cell.done"}
    assert ended == {first: "error", second: "measured"}


def test_the_tool_keeps_the_spread_of_what_was_measured_even_where_it_was_stopped(
    bench: Callable[..., Bench], make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "open" and worker.cell == second and len(made.run.past.pairs(second, "baseline", "same")) == 2:
            raise KeyboardInterrupt

    made = bench(fault)
    first, second = made.embedded.cells
    for cell in (first, second):
        made.run.frozen_file(cell).write_bytes(b"mock")
    made.run.environments["baseline"] = dict(SIDE)
    with pytest.raises(KeyboardInterrupt):
        calibrate(made.run, list(made.embedded.cells), 5, HOST)
    made.ledger.close()
    plan = make_plan(WORK, ["latency.p50", "throughput", "runs"], budget=BUDGET)
    assert {cell: [g.metric for g in gates] for cell, gates in timed(plan, "cpu").items()} == {
        cell: ["latency.p50", "throughput"] for cell in (first, second)
    }
    few, why = keep(plan, made.path, [first, second], tmp_path / "cache")
    assert not few
    assert why == dict.fromkeys((first, second), "3 equal pairs were measured, and 4 are the fewest") | {
        second: "2 equal pairs were measured, and 4 are the fewest"
    }
    made.path.unlink()
    whole = bench()
    whole.run.environments["baseline"] = dict(SIDE)
    for cell in (first, second):
        whole.run.frozen_file(cell).write_bytes(b"mock")
    calibrate(whole.run, list(whole.embedded.cells), 5, HOST)
    whole.ledger.close()
    seen, why = keep(plan, whole.path, [first, second], tmp_path / "cache")
    assert not why
    assert [(one.cell, one.metric, one.wanted) for one in seen] == [
        (cell, metric, 0.5) for cell in (first, second) for metric in ("latency.p50", "throughput")
    ]
    for one in seen:
        assert 0 < one.last <= one.first
        (held,), said = calibration.read(tmp_path / "cache", one.cell)
        assert not said
        assert held.metrics[one.metric] == (one.spread, one.pairs)
        assert held.identity == identity(whole.embedded, HOST, SIDE)
        assert (calibration.folder(tmp_path / "cache") / "ledgers" / f"{held.ledger[:16]}.jsonl").exists()
