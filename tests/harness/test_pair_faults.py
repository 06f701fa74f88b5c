"""Faults in the middle of a pair, with mock workers: no sample is lost or counted twice; each cell ends as it should.

The workers here are mocks that answer at once; real ones that die, hang, stop or send garbage are in `test_supervise`
and `test_pair_torch`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mock_workers import BUDGET, WORK, Bench, Fault, MockWorker, never

from torchspec import ledger as tool_ledger
from torchspec.harness.noise import core_use, foreign_shares
from torchspec.harness.supervise import WorkerFailed
from torchspec.model.plan import Limit, Plan


@pytest.fixture
def bench(make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    def made(fault: Fault = never, **budget: Any) -> Bench:
        plan = make_plan(WORK, ["latency.p50"], budget=replace(BUDGET, **budget))
        return Bench(plan, tmp_path, fault, monkeypatch)

    return made


def unlike(bench: Bench) -> None:
    """No build of a pair and no time stands in the ledger twice."""
    builds = Counter((b["cell"], b["stage"], b["planted"], b["pair"], b["build"]) for b in bench.timings())
    assert set(builds.values()) == {1}
    for cell in bench.embedded.cells:
        kept = bench.kept(cell)
        assert len(kept) == len(set(kept))


def test_without_a_fault_every_block_is_kept_once(bench: Callable[..., Bench]) -> None:
    made = bench()
    assert set(made.go().values()) == {None}
    unlike(made)
    for cell in made.embedded.cells:
        assert len(made.kept(cell)) == 3 * 3 * 4 * 2  # pairs, builds, rounds, sides


@pytest.mark.parametrize("how", ["killed", "exited", "hung", "raised"])
@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_a_side_that_fails_once_in_a_build_loses_no_whole_round(
    bench: Callable[..., Bench], how: str, side: str
) -> None:
    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        measuring = made.run.past.timings.get((first, "baseline", "measure", None))
        third = worker.asked["block"] == 4 + 3  # the third round of the second build
        if do == "block" and worker.side == side and worker.cell == first and measuring and third and not failed:
            failed.append(len(made.blocks))
            worker.fail(how, do)

    failed: list[int] = []
    made = bench(fault)
    first, second = made.embedded.cells
    assert made.go() == {first: None, second: None}
    unlike(made)
    assert len(failed) == 1
    (failure,) = made.run.past.failures[first, side]
    assert (failure["how"], failure["attempt"]) == (how, 0)
    broken = [b for b in made.timings() if b["cell"] == first and b["stage"] == "measure" and len(b["rounds"]) < 4]
    assert [(b["pair"], b["build"], len(b["rounds"])) for b in broken] == [(0, 1, 2)]
    assert len(made.kept(second)) == 3 * 3 * 4 * 2  # the other cell in the pair went on in fresh workers


def test_a_pair_that_was_cut_short_is_taken_again(bench: Callable[..., Bench]) -> None:
    """By a side that dies in its second build; two whole pairs and that one are not three."""

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        measuring = worker.cell == first and made.run.past.timings.get((first, "baseline", "measure", None))
        third = worker.asked["block"] == 4 + 3  # the third round of the second build
        if do == "block" and worker.side == "candidate" and measuring and third and not failed:
            failed.append(do)
            worker.fail("killed", do)

    failed: list[str] = []
    made = bench(fault)
    first, _ = made.embedded.cells
    made.go()
    unlike(made)
    taken = Counter(b["pair"] for b in made.timings() if b["cell"] == first and b["stage"] == "measure")
    assert taken == {0: 2, 1: 3, 2: 3, 3: 3}
    assert len(made.run.past.pairs(first, "baseline", "measure")) == 3
    assert {tuple(b["of"].values()) for b in made.timings()} == {(3, 4)}


def test_what_one_cell_does_to_the_worker_is_not_held_against_the_next(bench: Callable[..., Bench]) -> None:
    """The first cell leaks, and the system kills the candidate's worker while the second is opened in it."""

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        leaked = worker.asked["open"] == 2 and worker.cell == second
        if do == "open" and worker.side == "candidate" and leaked:
            worker.fail("killed", do, "the worker was killed by SIGKILL")

    made = bench(fault)
    first, second = made.embedded.cells
    assert made.go() == {first: None, second: None}
    assert len(made.run.past.failures[second, "candidate"]) == 1
    for cell in (first, second):
        assert len(made.run.past.pairs(cell, "baseline", "measure")) == 3


def test_a_failure_at_something_else_is_not_the_first_of_two(bench: Callable[..., Bench]) -> None:
    """A stray kill at one fact's question, and one at a block: neither is a worker that fails repeatably."""

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "block" and worker.side == "candidate" and worker.cell == first and not failed:
            failed.append(do)
            worker.fail("killed", do)

    failed: list[str] = []
    made = bench(fault)
    first, second = made.embedded.cells
    stray = WorkerFailed("killed", "checkpoint.read", "gone", None, "SIGKILL")
    assert made.run.side_failed(first, stray, "candidate", True, "question") == 1
    assert made.run.side_failed(first, stray, "candidate", True) == 1
    assert made.go() == {first: None, second: None}
    assert [(f["at"], f["attempt"]) for f in made.run.past.failures[first, "candidate"]] == [
        ("question", 0), ("figures", 0), ("timing", 0),
    ]  # fmt: skip


def test_a_build_that_leaks_until_it_is_killed_ends_its_own_cell_only(bench: Callable[..., Bench]) -> None:
    """The system kills the candidate's process at its third build, every time, as it does where memory runs out."""

    def fault(worker: MockWorker, do: str, given: dict[str, Any]) -> None:
        if do == "relayout" and worker.side == "candidate" and worker.cell == first and worker.asked["relayout"] == 3:
            worker.fail("killed", do, "the worker was killed by SIGKILL")

    made = bench(fault)
    first, second = made.embedded.cells
    ended = made.go()
    assert ended[second] is None
    assert ended[first] == "candidate killed twice while doing relayout: the worker was killed by SIGKILL"
    unlike(made)
    mine = [(b["pair"], b["build"]) for b in made.timings() if b["cell"] == first and b["stage"] == "measure"]
    assert mine == [(0, 0), (0, 1), (1, 0), (1, 1)]  # what was measured before each end is there, once
    assert [f["attempt"] for f in made.run.past.failures[first, "candidate"]] == [0, 1]
    assert len(made.kept(second)) == 3 * 3 * 4 * 2


def test_a_budget_that_ends_in_a_pair_lets_it_end(bench: Callable[..., Bench]) -> None:
    """Each block takes a second here, and the run's time is over in the second pair of the first cell."""
    probe = bench()
    controls = 3 * 2 * 3 * 4 * 4  # pairs, cells, builds, rounds, blocks
    probe.ledger.close()
    probe.path.unlink()
    made = bench(run_s=float(controls + 2 * 3 * 4 * 2 + 10))
    first, second = made.embedded.cells
    assert made.go() == {first: None, second: None}
    unlike(made)
    for cell in (first, second):
        pairs_of = Counter(b["pair"] for b in made.timings() if b["cell"] == cell and b["stage"] == "measure")
        assert pairs_of == {0: 3, 1: 3}  # whole pairs, one fewer than asked for
        assert len(made.kept(cell)) == 2 * 3 * 4 * 2


def test_controls_ask_both_workers_alike(bench: Callable[..., Bench]) -> None:
    """Who is asked more often comes more often right behind himself, and looks faster by what a switch costs; whose
    calls have planted work behind them finds cooler caches at the next one."""
    made = bench()
    made.go()
    (_, a), (_, b) = made.started[:2]
    assert a.asked["block"] == b.asked["block"] == 2 * 3 * 4 * 2  # cells, builds, rounds, plain and planted
    assert a.plants == b.plants
    assert [sorted(asked)[:1] for asked in sorted(a.plants)] == [[], [0.0]]


def test_each_gate_of_one_metric_has_its_own_planted_change(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strict and a loose limit, and one that plants nothing: in whatever order, none takes the others' control."""
    plan = make_plan(WORK, ["latency.p50"], budget=BUDGET)
    (gate,) = plan.gates
    limits = [Limit("growth", "<=", share, "%", f"growth <= {share:.0%}") for share in (0.02, 0.2)]
    limits += [Limit("absolute", "<=", 10.0, "s", "<= 10 s"), Limit("report", None, None, None, "")]
    for place, order in enumerate((limits, limits[::-1])):
        gates = tuple(replace(gate, id=str(number), limit=limit) for number, limit in enumerate(order))
        folder = tmp_path / str(place)
        folder.mkdir()
        made = Bench(replace(plan, gates=gates), folder, never, monkeypatch)
        assert set(made.go().values()) == {None}
        told = [r.body for r in tool_ledger.read(made.path) if r.kind == "control"]
        for cell in made.embedded.cells:
            mine = [(one["what"], one["planted"]) for one in told if one["cell"] == cell and one["error"] is None]
            planted = [("planted", 0.02 + 0.05), ("planted", 0.4)]
            assert sorted(mine, key=str) == sorted([("same", None), *planted], key=str)
            measured = {one["planted"] for one in made.timings() if one["cell"] == cell and one["stage"] == "planted"}
            assert measured == {0.02 + 0.05, 0.4}


def test_no_time_for_any_pair_is_said(bench: Callable[..., Bench]) -> None:
    made = bench(run_s=0.0)
    assert set(made.go().values()) == {"the time for the whole run was spent before this cell was timed"}
    assert made.timings() == []


def test_noise_is_recorded_for_each_pair_of_controls_and_of_measuring(bench: Callable[..., Bench]) -> None:
    made = bench()
    made.go()
    noise = [r.body for r in tool_ledger.read(made.path) if r.kind == "noise"]
    assert len(noise) == 3 + 3
    for body in noise:
        told = {"cell", "load", "steal", "frequency_mhz", "throttled", "memory_pressure", "others", "device"}
        assert set(body) == told
        assert set(body["others"]) == {"busy_share", "pinned_share", "pinned_steal"}


def test_another_process_on_the_pinned_core_is_seen() -> None:
    """This process sleeps while the child of another one keeps the core busy; then the two are a worker of ours."""
    if not hasattr(os, "sched_getaffinity") or not Path("/proc/stat").exists():
        pytest.skip("this system does not tell what its cores do")
    core = max(os.sched_getaffinity(0))
    child = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile os.getppid() == {{}}: pass"
    code = f"import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}.format(os.getpid())])"
    busy = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.4)
        apart = [core_use([core], [os.getpid()], [])]
        ours = [core_use([core], [os.getpid()], [busy.pid])]
        time.sleep(0.8)
        apart.append(core_use([core], [os.getpid()], []))
        ours.append(core_use([core], [os.getpid()], [busy.pid]))
    finally:
        busy.kill()
        busy.wait()
    theirs, rest = (foreign_shares(*told)["pinned_share"] for told in (apart, ours))
    assert theirs is not None
    assert rest is not None
    assert theirs > 0.2  # other work on the machine may have shared the core with it
    assert rest < theirs - 0.1


def test_a_share_that_cannot_be_told_is_none() -> None:
    assert core_use([0], [2**30], []) is None
    assert core_use([0], [], [2**30]) is None
    assert core_use([100_000], [], []) is None
    unknown = {"pinned_share": None, "pinned_steal": None}
    assert foreign_shares(None, (2, 1, 1, 0)) == unknown
    assert foreign_shares((5, 2, 1, 0), (5, 2, 1, 0)) == unknown
    assert foreign_shares((0, 0, 0, 0), (100, 60, 45, 20)) == {"pinned_share": 0.15, "pinned_steal": 0.2}
    assert foreign_shares((0, 0, 0, 0), (100, 40, 45, 0)) == {"pinned_share": 0.0, "pinned_steal": 0.0}
