"""Jobs of ranks on two real versions of torch: they end whole, and each planted fault is caught by the right gate."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torchspec import ledger as tool_ledger
from torchspec.harness.dist_launch import Launch
from torchspec.harness.dist_peer import LaunchFailed
from torchspec.harness.dist_processes import LAUNCH_TOKEN, processes_with_token
from torchspec.judge import judge
from torchspec.model.codec import schema_errors
from torchspec.model.plan import Limit, Plan, Rollback

pytestmark = pytest.mark.torch

HOLDS = Limit("holds", None, None, None, "holds")
SMALL = {"layers": 2, "hidden": 32, "batch": 4, "dtype": "float32"}
OPERATIONS = ("reduce_scatter", "broadcast", "all_to_all")
PLANTING = """
import importlib.util, json, sys
from pathlib import Path
found = importlib.util.spec_from_file_location("harness", sys.argv[1])
harness = importlib.util.module_from_spec(found)
sys.modules["harness"] = harness
found.loader.exec_module(harness)
harness.RankRun.planted_faults = json.loads(sys.argv[2])
plan = harness.Embedded(json.loads(harness.PLAN_TEXT), harness.TEAM_FILES, harness.PLAN_DIGEST, Path(sys.argv[1]))
raise SystemExit(harness.main(sys.argv[3:], plan))
"""


def left(evidence: Path) -> list[int]:
    """Processes that still carry the token of one of this run's jobs."""
    tokens = [json.loads(path.read_text())["token"] for path in evidence.glob("logs/*/*/job.json")]
    return [pid for token in tokens for pid in processes_with_token(token)]


class Measured:
    """A finished run of `pair`: its records, and what the judge says of each gate."""

    def __init__(self, plan: Plan, evidence: Path) -> None:
        self.records = list(tool_ledger.read(evidence / "ledger.jsonl"))
        for record in self.records:
            assert schema_errors("evidence", record_as_json(record)) == []
        self.outcomes = {(j.metric, j.cell): j for j in judge(plan, self.records).judgements}

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        chosen = [r.body for r in self.records if r.kind == kind]
        return [body for body in chosen if all(body.get(name) == value for name, value in fields.items())]


def record_as_json(record: Any) -> dict[str, Any]:
    names = ("seq", "time", "run", "kind", "body", "prev", "hash")
    return {"v": 1, **{name: getattr(record, name) for name in names}}


@pytest.fixture
def measure(
    tmp_path: Path, harness_file: Callable[..., Path], baseline_python: Path, candidate_python: Path
) -> Callable[..., Measured]:
    """Runs a plan's harness with faults planted in the candidate's jobs, and judges it."""

    def run(plan: Plan, faults: list[dict[str, Any]] | None = None, code: int = 0) -> Measured:
        evidence = tmp_path / "evidence"
        planting = tmp_path / "planting.py"
        planting.write_text(PLANTING)
        harness = harness_file(plan)
        given = ["--baseline", str(baseline_python), "--candidate", str(candidate_python), "--evidence", str(evidence)]
        faults_of = {"candidate": faults} if faults else {}
        argv = [sys.executable, str(planting), str(harness), json.dumps(faults_of), "pair", *given]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=900)
        assert done.returncode == code, done.stdout + done.stderr
        assert left(evidence) == []
        return Measured(plan, evidence)

    return run


@pytest.fixture
def jobs(
    tmp_path: Path, ranks_plan: Callable[..., Plan], harness_file: Callable[..., Path], candidate_python: Path
) -> Iterator[Callable[..., Launch]]:
    """Starts jobs of the candidate's interpreter; whatever is left of them is an error."""
    plan = ranks_plan([("train", "fsdp2", "train", {**SMALL, "ranks": 2})], {})
    harness = harness_file(plan)
    started: list[Launch] = []

    def start(**settings: Any) -> Launch:
        job = Launch(
            str(candidate_python), [str(harness), "rank"], side="candidate", ranks=2,
            folder=str(tmp_path / f"job{len(started)}"), settings={"team": str(tmp_path), **settings},
            env=dict(os.environ),
        )  # fmt: skip
        started.append(job)
        job.launch()
        return job

    yield start
    for job in started:
        job.close()
        assert processes_with_token(job.token) == []


# Overlap options.


OVERLAPS = ("none", "prefetch", "separate_reduce_scatter", "reduce_scatter_buffers")


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_each_overlap_option_trains_as_without_it(side, request, tmp_path, ranks_plan, harness_file):
    rows = [(name, "fsdp2", "train", {**SMALL, "ranks": 2}) for name in OVERLAPS]
    plan = ranks_plan(rows, {})
    works = tuple(dataclasses.replace(work, options={"overlap": work.name}) for work in plan.workloads)
    harness = harness_file(dataclasses.replace(plan, workloads=works))
    launch = Launch(
        str(request.getfixturevalue(f"{side}_python")), [str(harness), "rank"], side=side, ranks=2,
        folder=str(tmp_path / "job"), settings={"team": str(tmp_path)}, env=dict(os.environ),
    )  # fmt: skip
    found = {}
    with launch as job:
        job.ready(400)
        cells = {cell.workload: cell.id for cell in plan.cells}
        frozen = str(tmp_path / "frozen")
        job.ask("freeze", 60, cell=cells["none"], path=frozen)
        for name in OVERLAPS:
            job.ask("open", 60, name=name, cell=cells[name], frozen=frozen)
            for _ in range(2):  # one rank alone in between, and again
                curve = job.ask("train.curve", 60, name=name, steps=3)[0]
                assert curve["curve_max_rel"] < 1e-5
                job.ask("relayout", 60, name=name, padding=64)
            assert all(one["flight_s"] > 0 for one in job.ask("train.wait", 60, name=name, steps=2))
            found[name] = curve["losses"]
    assert len({tuple(losses) for losses in found.values()}) == 1


# A job ends whole.


def test_a_job_says_what_its_ranks_are_names_a_killed_one_and_ends_with_its_ports(jobs, ports_of):
    job = jobs()
    ready = job.ready(400)
    assert [peer.rank for peer in job.current()] == [0, 1]
    environments = [one["environment"] for one in ready]
    assert environments[0] == environments[1]
    assert environments[0]["ranks"]["transports"]["gloo"] == {"available": True}
    assert environments[0]["ranks"]["transports"]["nccl"]["available"] is False
    assert environments[0]["ranks"]["transports"]["torchcomms"]["error"]
    # a transport that is not there is not tried over another one
    for transport in ("nccl", "torchcomms"):
        answers = job.ask("fault.late", 60, transport=transport, timeout_s=1.0, late_s=0.1)
        assert all(one["unsupported"]["error"].startswith(f"{transport}: ") for one in answers)
    held = ports_of(processes_with_token(job.token))
    assert held
    victim = job.current()[1]
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(LaunchFailed) as failed:
        job.ask("block", 60, name="absent", calls=1, samples=1, plants=[])
    assert (failed.value.how, failed.value.signal_name, failed.value.rank) == ("killed", "SIGKILL", 1)
    job.close()
    assert not held & ports_of()


def test_ranks_that_disagree_on_the_environment_are_a_broken_control(ranks_plan, measure):
    axes = {"operation": "all_reduce", "bytes": 4096, "dtype": "float32", "ranks": 2}
    plan = ranks_plan([("reduce", "collective", "infer", axes)], {"collective.correct": HOLDS})
    odd = {"fault": "other_environment", "rank": 1, "name": "MALLOC_ARENA_MAX", "value": "1"}
    found = measure(plan, [odd], code=3)
    broken = found.of("control.broken")
    assert {one["what"] for one in broken} == {"ranks of candidate: env", "ranks of candidate: malloc"}
    (env, *_) = (one for one in broken if one["what"].endswith("env"))
    assert "MALLOC_ARENA_MAX" not in env["baseline"]  # rank 0's, and then the odd rank's
    assert env["candidate_value"]["MALLOC_ARENA_MAX"] == "1"
    assert {metric: one.outcome for (metric, _), one in found.outcomes.items()} == {
        "runs": "error",
        "collective.correct": "error",
    }
    assert all(one.reason.startswith("broken control") for one in found.outcomes.values())


def test_a_killed_launcher_takes_its_ranks_along(jobs):
    job = jobs()
    job.ready(400)
    pids = processes_with_token(job.token)
    assert len(pids) == 3
    os.kill(job._agent.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while processes_with_token(job.token) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes_with_token(job.token) == []
    with pytest.raises(LaunchFailed, match="torchrun was killed"):
        job.ask("block", 60, name="absent", calls=1, samples=1, plants=[])


def test_a_killed_driver_takes_everything_along(tmp_path, ranks_plan, harness_file, baseline_python, candidate_python):
    plan = ranks_plan([("train", "fsdp2", "train", {**SMALL, "ranks": 2})], {})
    evidence = tmp_path / "evidence"
    argv = [sys.executable, str(harness_file(plan)), "pair", "--baseline", str(baseline_python)]
    argv += ["--candidate", str(candidate_python), "--evidence", str(evidence)]
    driver = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 180
    while len(left(evidence)) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    assert left(evidence)
    driver.kill()
    driver.wait()
    end = time.monotonic() + 10
    while left(evidence) and time.monotonic() < end:
        time.sleep(0.05)
    assert left(evidence) == []


# Planted faults, each caught by the right gate.


@pytest.mark.slow
def test_a_wrong_sum_and_a_dropped_barrier_are_caught(ranks_plan, measure):
    axes = {"bytes": 4096, "dtype": "float32", "ranks": 2}
    rows = [(op, "collective", "infer", {**axes, "operation": op}) for op in ("all_reduce", "all_gather", "barrier")]
    plan = ranks_plan(rows, {"collective.correct": HOLDS})
    faults = [{"fault": "wrong_sum", "rank": 1}, {"fault": "barrier_dropped", "one_in": 3, "seed": 5}]
    found = measure(plan, faults)
    cells = {cell.workload: cell.id for cell in plan.cells}
    outcomes = {name: found.outcomes["collective.correct", cell] for name, cell in cells.items()}
    assert {name: one.outcome for name, one in outcomes.items()} == {
        "all_reduce": "fail",
        "all_gather": "pass",
        "barrier": "fail",
    }
    assert "rank 1" in outcomes["all_reduce"].reason
    assert "elements differ" in outcomes["all_reduce"].reason
    assert "barriers before rank" in outcomes["barrier"].reason
    assert all(one["holds"] for one in found.of("fact", side="baseline"))


@pytest.mark.slow
def test_a_sleeping_rank_and_a_checkpoint_that_the_baseline_cannot_read_are_caught(ranks_plan, measure):
    limits = {f"checkpoint.{name}": HOLDS for name in ("candidate_to_baseline", "baseline_to_candidate")}
    limits["comm.wait"] = Limit("growth", "<=", 0.5, "%", "growth <= 50 %")
    limits["memory.driver_peak"] = Limit("increase", "<=", 64e6, "MB", "increase <= 64 MB")
    plan = ranks_plan([("train", "fsdp2", "train", {**SMALL, "ranks": 2})], limits)
    found = measure(plan, [{"fault": "foreign_checkpoint"}, {"fault": "rank_sleeps", "rank": 1, "seconds": 0.3}])
    assert {metric: one.outcome for (metric, _), one in found.outcomes.items()} == {
        "runs": "pass",
        "comm.wait": "fail",
        "checkpoint.candidate_to_baseline": "fail",
        "checkpoint.baseline_to_candidate": "pass",
        "memory.driver_peak": "pass",
    }
    (control,) = found.of("control")  # of memory: every rank held so much more, and the meter saw it
    assert control["bytes"] == 128_000_000
    assert 128e6 <= control["value"] < 192e6
    waits = found.of("sample", metric="comm.wait", side="candidate")
    assert len(waits) == 3
    for wait in waits:
        assert wait["value"] == pytest.approx(0.3, abs=0.2)
        assert wait["detail"]["waited_least"] == 1


@pytest.mark.slow
def test_a_rank_that_dies_fails_the_cell_by_name(ranks_plan, measure):
    plan = ranks_plan([("train", "ddp", "train", {**SMALL, "ranks": 2})], {})
    found = measure(plan, [{"fault": "rank_dies", "rank": 1, "step": 1}])
    (cell,) = [cell.id for cell in plan.cells]
    failures = found.of("side.failed", cell=cell)
    assert {(one["side"], one["how"], one["signal"], one["other_side_ran"]) for one in failures} == {
        ("candidate", "killed", "SIGKILL", True)
    }
    assert all(one["error"].startswith("rank 1: ") for one in failures)
    assert found.outcomes["runs", cell].outcome == "fail"


# What both versions really do.


@pytest.mark.slow
def test_bad_peers_checkpoints_and_recovery_of_both_versions(ranks_plan, measure):
    peers = ("rank_missing", "rank_late", "rank_dead", "slow_rank_named")
    checkpoints = ("candidate_to_baseline", "baseline_to_candidate", "reshard", "resume", "truncated")
    limits = {f"collective.{name}": HOLDS for name in peers}
    limits |= {f"checkpoint.{name}": HOLDS for name in checkpoints} | {"recovery.rank_killed": HOLDS}
    limits |= {
        "loss.one_rank": Limit("absolute", "<=", 1e-5, "1", "<= 1e-5"),
        "loss.optimizer_one_rank": Limit("absolute", "<=", 1e-2, "1", "<= 1e-2"),
    }
    reduce = {"operation": "all_reduce", "bytes": 4096, "dtype": "float32", "ranks": 2}
    rows = [("reduce", "collective", "infer", reduce)]
    rows += [(kind, kind, "train", {**SMALL, "ranks": 2}) for kind in ("fsdp2", "ddp")]
    plan = ranks_plan(rows, limits, {"resume_tolerance": 1e-5})
    plan = dataclasses.replace(plan, rollback=Rollback("baseline", 600.0, ("checkpoint",)))
    found = measure(plan)
    steps = found.of("rehearsal.step")  # a collective has no checkpoint to read back
    assert [step["step"] for step in steps] == ["restore"] + ["smoke"] * 3 + ["reload.checkpoint"] * 2
    assert [step["error"] for step in steps] == [None] * 6
    wanted = {(gate.metric, cell) for gate in plan.gates for cell in gate.cells}
    assert len(wanted) == 3 + 4 + 2 * 8
    assert {place: (one.outcome, one.reason) for place, one in found.outcomes.items() if one.outcome != "pass"} == {}
    assert set(found.outcomes) == wanted
    for metric in (f"collective.{name}" for name in peers):
        assert len(found.of("fact", metric=metric, error=None)) == 2
    for one in found.of("fact"):
        for heard in one["detail"].get("heard", []):
            assert heard["seconds"] < one["detail"]["timeout_s"] + 5
    recoveries = found.of("fact", metric="recovery.rank_killed")
    assert len(recoveries) == 4
    for recovery in recoveries:
        assert recovery["detail"]["resumed_at"] == 4
        assert 0 < recovery["detail"]["restarted_s"] < recovery["detail"]["seconds"]
    for name, tolerance in (("candidate_to_baseline", 1e-5), ("reshard", 1e-5), ("resume", 0.0)):
        for one in found.of("fact", metric=f"checkpoint.{name}"):
            assert one["detail"]["tolerance"] == tolerance
    for damaged in found.of("fact", metric="checkpoint.truncated"):
        assert len(damaged["detail"]["refused"]) == 4
        assert all(damaged["detail"]["refused"].values())
        assert damaged["detail"]["previous_loads"] is True


@pytest.mark.slow
def test_precisions_operations_rank_counts_scaling_and_times_of_both_versions(ranks_plan, measure):
    """In one run: what the other tests leave out. The candidate's checkpoints are planted to be slow to write."""
    limits = {
        "collective.correct": HOLDS,
        "loss.one_rank": Limit("absolute", "<=", 0.05, "1", "<= 0.05"),
        "error.max_abs": Limit("absolute", "<=", 0.1, "1", "<= 0.1"),
        "scaling.efficiency": Limit("absolute", ">=", 0.02, "1", ">= 0.02"),
        "checkpoint.resume": HOLDS,
        "checkpoint.save_time": Limit("growth", "<=", 1.0, "%", "growth <= 100 %"),
        "checkpoint.load_time": Limit("growth", "<=", 20.0, "%", "growth <= 2000 %"),
    }
    axes = {"bytes": 4096, "dtype": "float32"}
    rows = [(name, "collective", "infer", {**axes, "operation": name, "ranks": 2}) for name in OPERATIONS]
    rows += [("alone", "collective", "infer", {**axes, "operation": "all_reduce", "ranks": 1})]
    rows += [(kind, kind, "train", {**SMALL, "dtype": "bfloat16", "ranks": 2}) for kind in ("fsdp2", "ddp")]
    plan = ranks_plan(rows, limits)
    against = {"error.max_abs": "cpu.float64"}
    gates = tuple(dataclasses.replace(gate, against=against.get(gate.metric)) for gate in plan.gates)
    plan = dataclasses.replace(plan, gates=gates)
    found = measure(plan, [{"fault": "slow_checkpoint", "seconds": 1.0}])
    cells = {cell.workload: cell.id for cell in plan.cells}
    missed = {
        (metric, cell): (one.outcome, one.reason)
        for (metric, cell), one in found.outcomes.items()
        if one.outcome != ("fail" if metric == "checkpoint.save_time" else "pass")
    }
    assert missed == {}
    for name in (*OPERATIONS, "alone"):
        facts = found.of("fact", metric="collective.correct", cell=cells[name])
        assert [fact["detail"]["world"] for fact in facts] == [1 if name == "alone" else 2] * 2
    for kind in ("fsdp2", "ddp"):
        own = {"cell": cells[kind], "side": "candidate"}
        (error,) = found.of("sample", metric="error.max_abs", against="cpu.float64", **own)
        assert error["value"] > 1e-4  # it computed in bfloat16 indeed
        for metric in ("scaling.efficiency", "checkpoint.save_time", "checkpoint.load_time"):
            figures = found.of("sample", metric=metric, **own)
            assert sorted(figure["repeat"] for figure in figures) == [0, 1, 2]
            assert all(figure["value"] > 0 for figure in figures)
        assert min(one["value"] for one in found.of("sample", metric="checkpoint.save_time", **own)) > 1.0
        own["side"] = "baseline"
        assert all(len(one["detail"]["turns"]) == 3 for one in found.of("sample", metric="checkpoint.save_time", **own))
    sharded, replicated = (
        found.of("fact", metric="checkpoint.resume", cell=cells[kind])[0] for kind in ("fsdp2", "ddp")
    )
    assert sharded["detail"]["losses"] != replicated["detail"]["losses"]  # each of its own cell's model


@pytest.mark.slow
def test_ranks_that_do_not_fit_leave_the_other_rank_counts_to_be_measured(ranks_plan, measure):
    axes = {"operation": "all_reduce", "bytes": 4096, "dtype": "float32"}
    rows = [(f"ranks{count}", "collective", "infer", {**axes, "ranks": count}) for count in (1, 2)]
    plan = ranks_plan(rows, {"collective.correct": HOLDS})
    found = measure(plan, [{"fault": "few_devices", "count": 1}])
    cells = {cell.workload: cell.id for cell in plan.cells}
    assert found.outcomes["collective.correct", cells["ranks1"]].outcome == "pass"
    assert found.outcomes["collective.correct", cells["ranks2"]].outcome == "not_run"
    (lacking,) = found.of("unsupported", cell=cells["ranks2"])
    assert (lacking["side"], lacking["metric"], lacking["where"]) == ("candidate", None, "machine")
    assert lacking["error"] == "2 ranks on this machine need a device each, and torch finds 1 here"


@pytest.mark.slow
def test_what_a_version_or_machine_lacks_is_unsupported_with_its_error(ranks_plan, measure):
    axes = {"operation": "all_reduce", "bytes": 4096, "dtype": "float32", "ranks": 2}
    limits = {"collective.correct": HOLDS}
    plan = ranks_plan([("reduce", "collective", "infer", axes)], limits, {"transport": "nccl"})
    found = measure(plan)
    (cell,) = [cell.id for cell in plan.cells]
    assert found.outcomes["collective.correct", cell].outcome == "not_run"
    (lacking,) = found.of("unsupported", cell=cell, side="baseline")
    assert "NCCL" in lacking["error"]
    assert lacking["where"] in ("version", "machine")
    assert LAUNCH_TOKEN not in json.dumps(lacking)
