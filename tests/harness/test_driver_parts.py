"""The driver's pure parts: what gates need, what the ledger already holds, what a control plants, how it is said."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mock_workers import Bench, never

from torchspec import ledger as tool_ledger
from torchspec.emit.data import backend_plan
from torchspec.harness.embedded import Embedded
from torchspec.harness.needs import Comparison, Needs
from torchspec.harness.numerics import numbers_apart
from torchspec.harness.pairs import Pairs
from torchspec.harness.past import Past
from torchspec.harness.progress import Estimate, Progress, seconds_in_words
from torchspec.harness.rehearsal import NO_WEIGHTS, Rehearsal, StepFailed
from torchspec.harness.restored import restored_problem
from torchspec.harness.sides import Timed, planted_change
from torchspec.judge.records import read as evidence_of
from torchspec.judge.rehearsal_steps import wanted
from torchspec.model.plan import Claim, Gate, Lane, Limit, Plan, Rollback, Statement

ATTENTION = [("attention", "attention", "infer", {"seq": 16})]


def embedded(plan: Plan, tmp_path: Path, files: dict[str, str] | None = None) -> Embedded:
    return Embedded(
        json.loads(json.dumps(backend_plan(plan, plan.backends[0]))), files or {}, "d" * 64, tmp_path / "h.py"
    )


def needs(plan: Plan, tmp_path: Path) -> Needs:
    held = embedded(plan, tmp_path)
    return Needs(held, next(iter(held.cells)), "candidate")


def test_a_cell_with_one_truth_needs_one_process(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    found = needs(make_plan(ATTENTION, ["runs"]), tmp_path)
    assert (found.processes, found.comparisons, found.errors, found.memory) == (1, [], False, [])


def test_what_is_counted_needs_three_processes_and_enough_repeats(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    plan = make_plan(ATTENTION, ["memory.driver_peak", "determinism.output"])
    for repeats, each in ((4, 1), (20, 6), (21, 6), (22, 7), (1, 1)):
        gates = tuple(dataclasses.replace(gate, repeats=repeats) for gate in plan.gates)
        found = needs(dataclasses.replace(plan, gates=gates), tmp_path)
        assert (found.processes, found.repeats, found.repeats_each) == (3, repeats, each)


@pytest.mark.parametrize(
    ("metrics", "processes", "repeats", "forced", "forced_processes"),
    [
        (["determinism.output"], 3, 4, {}, 0),
        (["determinism.output_forced"], 1, 0, {"output": "determinism.output_forced"}, 3),
        (["determinism.output", "determinism.gradient_forced"], 3, 4, {"gradient": "determinism.gradient_forced"}, 3),
        (["runs"], 1, 0, {}, 0),
    ],
)
def test_bits_under_deterministic_algorithms_take_processes_of_their_own_and_leave_the_others(
    make_plan: Callable[..., Plan], tmp_path: Path, metrics: list[str], processes: int, repeats: int,
    forced: dict[str, str], forced_processes: int,
) -> None:  # fmt: skip
    found = needs(make_plan(ATTENTION, metrics), tmp_path)
    assert (found.processes, found.repeats) == (processes, repeats)
    assert (found.forced, found.forced_processes) == (forced, forced_processes)
    assert found.unknown == set()


def test_forced_processes_give_the_repeats_asked_for_together(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan(ATTENTION, ["determinism.output_forced"])
    for repeats, each in ((2, 2), (6, 2), (7, 3), (20, 7), (None, 2)):
        gates = tuple(dataclasses.replace(gate, repeats=repeats) for gate in plan.gates)
        assert needs(dataclasses.replace(plan, gates=gates), tmp_path).forced_each == each


def test_a_determinism_that_nobody_knows_is_not_passed_over(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    assert needs(make_plan(ATTENTION, ["determinism.of_everything"]), tmp_path).unknown == {"determinism.of_everything"}


def test_relative_to_another_path_is_timed_within_the_candidate(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan(ATTENTION, ["latency.p50", "throughput"])
    speedup = Limit("speedup", ">=", 1.2, "x", "speedup >= 1.2 x")
    other = Gate("b", "all", "latency.p50", speedup, "beside", None, None, "isolate", None, plan.gates[0].cells, "")
    found = needs(dataclasses.replace(plan, gates=(*plan.gates, other)), tmp_path)
    assert [(c.against, c.a, c.b, len(c.gates)) for c in found.comparisons] == [
        ("baseline", ("baseline", "own"), ("candidate", "own"), 2),
        ("beside", ("candidate", "beside"), ("candidate", "own"), 1),
    ]


def test_a_claims_metric_is_measured_too(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    state = Statement("memory.allocated_peak", "drop", 0.5, "%", None, None, {}, "drop 50 %")
    plan = dataclasses.replace(
        make_plan(ATTENTION, ["runs"]), claims=(Claim("c", "s", {}, (state,), "attention", ("cpu",)),)
    )
    assert needs(plan, tmp_path).memory == ["memory.allocated_peak"]


def test_what_the_harness_does_not_measure_is_known_as_such(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    assert needs(make_plan(ATTENTION, ["task.invented", "latency.p50"]), tmp_path).unknown == {"task.invented"}


@pytest.mark.parametrize(
    ("form", "value", "sees", "metric", "ratio"),
    [
        ("growth", 0.03, 0.05, "latency.p50", 0.05),
        ("growth", 0.03, None, "latency.p50", 0.08),
        ("growth", 0.25, None, "latency.p95", 0.5),
        ("growth", 0.0, None, "latency.p50", 0.05),
        ("drop", 0.05, 0.1, "throughput", 1 / 0.9 - 1),
        ("drop", 0.9, None, "throughput", 19.0),
        ("drop", 0.97, None, "throughput", 1 / 0.015 - 1),
        ("speedup", 1.2, None, "latency.p50", None),
        ("absolute", 0.01, None, "latency.p50", None),
        ("growth", 0.1, None, "throughput", None),
        ("report", None, None, "latency.p50", None),
    ],
)
def test_what_a_control_plants(form: str, value: float | None, sees: float | None, metric: str, ratio: Any) -> None:
    gate = {"metric": metric, "limit": {"form": form, "op": "<=", "value": value}, "sees": sees}
    assert planted_change(gate) == (None if ratio is None else pytest.approx(ratio))


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


@pytest.mark.parametrize(
    ("form", "known"), [("growth", True), ("drop", True), ("speedup", True), ("increase", False), ("absolute", False)]
)
def test_the_spread_of_ratios_serves_limits_on_ratios_alone(form: str, known: bool) -> None:
    gate = {"metric": "latency.p50", "limit": {"form": form, "op": "<=", "value": 0.1}, "sees": None}
    one = Timed(Comparison("c", "baseline", "candidate", [gate]))
    one.spreads["latency.p50"] = (0.01, 3)
    assert one.spread_for(gate) == ((0.01, 3) if known else (None, 0))


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


def test_team_files_are_written_whole_and_never_outside(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    held = embedded(make_plan(ATTENTION), tmp_path, {"a/b.py": "x = 'é'\r\n", "c.py": ""})
    digests = held.team_files(tmp_path / "team")
    assert (tmp_path / "team/a/b.py").read_bytes() == "x = 'é'\r\n".encode()
    assert sorted(digests) == ["a/b.py", "c.py"]
    assert held.team_files(tmp_path / "team") == digests
    outside = embedded(make_plan(ATTENTION), tmp_path, {"../../escape.py": "x"})
    with pytest.raises(ValueError, match="outside"):
        outside.team_files(tmp_path / "team")
    assert not (tmp_path.parent / "escape.py").exists()


def test_data_slices_are_linked_and_stay_where_they_are(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    held = embedded(make_plan(ATTENTION), tmp_path, {})
    (row,) = held.workloads.values()
    row["options"]["data"] = {"file": "slices/a.jsonl", "rows": None, "digest": "sha256:00000000"}
    team, spec = tmp_path / "team", tmp_path / "spec"
    held.data_slices(team, str(spec))
    assert not team.exists()
    for folder, text in ((held.source.parent, "beside the harness"), (spec, "of the spec")):
        (folder / "slices").mkdir(parents=True)
        (folder / "slices/a.jsonl").write_text(text)
        held.data_slices(team, str(spec))
        assert (team / "slices/a.jsonl").is_symlink()
        assert (team / "slices/a.jsonl").read_text() == text
    row["options"]["data"]["file"] = "../../spec/slices/a.jsonl"
    held.data_slices(team / "deep", str(spec))
    assert not (team / "deep").exists()


def test_progress_speaks_to_programs_and_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    Progress("json").event("cell", cell="c", label="é", index=1, of=2)
    Estimate(Progress("json"), 10).done(5)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {"event": "cell", "cell": "c", "label": "é", "index": 1, "of": 2}
    assert lines[1]["event"] == "left"
    words = Progress("text")
    words.event("cell", cell="c", label="attention", index=1, of=2)
    words.left(75)
    words.event("doing", what="latency pair 2 of up to 8", side="baseline")
    assert capsys.readouterr().out == "[1/2] attention\n  latency pair 2 of up to 8 (baseline), about 1 min 15 s left\n"
    words.event("end", status="completed", reason=None, seconds=200.0, timed_s=80.0, pairs_s=100.0)
    said = "completed; 40 % of 200 s inside timed work, 80 % of the 100 s of pairs\n"
    assert capsys.readouterr().out == said
    words.event("end", status="completed", reason=None, seconds=200.0, timed_s=80.0, pairs_s=140.0, compiling_s=40.0)
    assert capsys.readouterr().out == said.replace("pairs", "pairs beside 40 s of compiling")
    words.event("end", status="failed", reason="why", seconds=2.0, timed_s=0.0, pairs_s=0.0)
    assert capsys.readouterr().out == "failed: why\n"
    assert [seconds_in_words(s) for s in (-3, 0.4, 59.4, 60, 3600)] == ["0 s", "0 s", "59 s", "1 min 0 s", "60 min 0 s"]


@pytest.mark.parametrize("odd", [math.nan, "nan"])
def test_losses_that_are_no_numbers_are_apart_wherever_they_stand(odd: Any) -> None:
    """A largest value that is sought past a NaN loses it, and frames carry NaN as a word."""
    plain = [1.0, 2.0, 4.0]
    assert numbers_apart(plain, plain) == 0.0
    assert numbers_apart(plain, [1.0, 2.5, 4.0]) == pytest.approx(0.2)
    for place in range(3):
        broken: list[Any] = list(plain)
        broken[place] = odd
        assert math.isnan(numbers_apart(broken, plain))
        assert math.isnan(numbers_apart(plain, broken))
        assert math.isnan(numbers_apart(broken, broken))
    assert numbers_apart(["inf"], [1.0]) == math.inf


def measured_bench(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare: Collection[str] = ()) -> Bench:
    """A bench on which every cell was measured; the workloads in `bare` have no weights."""
    bench = Bench(plan, tmp_path, never, monkeypatch)
    for cell, body in bench.embedded.cells.items():
        if body["workload"] in bare:
            bench.run.write("frozen.made", {"cell": cell, "inputs": "i", "weights": NO_WEIGHTS})
        bench.run.cell_done(cell, "measured", None)
    return bench


def steps_of(bench: Bench) -> list[tuple[str, str | None]]:
    return [(step, cell) for step, cell, _ in Rehearsal(bench.run).steps()]


def test_going_back_reads_no_checkpoint_of_what_keeps_no_state(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = [("talk", "collective", "infer", {"ranks": 2}), ("learn", "fsdp2", "train", {"ranks": 2})]
    plan = make_plan(work, ["runs"], reload=("checkpoint",))
    bench = measured_bench(plan, tmp_path, monkeypatch, bare={"talk"})
    talk, learn = bench.embedded.cells
    assert steps_of(bench) == [("restore", None), ("smoke", talk), ("smoke", learn), ("reload.checkpoint", learn)]
    bench.ledger.close()


def test_ranks_are_never_asked_for_a_program_and_go_back_in_their_largest_number(
    ranks_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ranks_plan([("learn", "fsdp2", "train", {"ranks": count}) for count in (1, 4, 2)], {})
    plan = dataclasses.replace(plan, rollback=Rollback("baseline", 600.0, ("checkpoint", "export")))
    bench = measured_bench(plan, tmp_path, monkeypatch)
    _, four, _ = bench.embedded.cells
    assert steps_of(bench) == [("restore", None), ("smoke", four), ("reload.checkpoint", four)]
    bench.ledger.close()


def test_a_checkpoint_is_of_what_trains(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = {"dtype": "float32"}
    work = [("loss", "linear_cross_entropy", mode, axes) for mode in ("infer", "train")]
    bench = measured_bench(make_plan(work, ["runs"], reload=("checkpoint",)), tmp_path, monkeypatch)
    infer, train = bench.embedded.cells
    assert steps_of(bench) == [("restore", None), ("smoke", infer), ("reload.checkpoint", train)]
    bench.ledger.close()


@pytest.mark.parametrize("backend", ["cpu", "distributed"])
def test_what_is_rehearsed_is_what_the_judge_wants(
    backend: str, make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"dtype": "float32"}
    modes = [("all", "export"), ("all", "infer"), ("all", "train"), ("late", "export"), ("late", "compile")]
    work = [(name, "python", mode, axes) for name, mode in modes for axes in (one, {**one, "ranks": 2})]
    plan = make_plan([*work, ("bare", "attention", "train", one)], reload=("checkpoint", "export"), backends=(backend,))
    lane = Lane("prototype", "kernels", (), {"FUSED": "0"})
    workloads = tuple(dataclasses.replace(w, lane="prototype" if w.name == "late" else None) for w in plan.workloads)
    plan = dataclasses.replace(plan, workloads=workloads, lanes=(lane,))
    bench = measured_bench(plan, tmp_path, monkeypatch, bare={"bare"})
    bench.ledger.close()
    told = [dataclasses.replace(r, body={**r.body, "plan": "p", "backend": backend}) if r.kind == "run.start" else r
            for r in tool_ledger.read(bench.path)]  # fmt: skip
    found = wanted(plan, evidence_of(told, "p"), "candidate")
    assert {(one.step, one.cell.id if one.cell else None) for one in found} == set(steps_of(bench))
    assert {one.backend for one in found} == {backend}
    assert len(found) == 1 + 3 + 2 + 2 + 1


def asked_of_ranks(read: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What a rehearsal's workers are asked about a checkpoint of ranks; they have `read` it, or raise StepFailed."""
    asked: list[tuple[str, dict[str, Any]]] = []

    class Worker:
        def ask(self, do: str, timeout_s: float, **given: Any) -> dict[str, Any]:
            asked.append((do, given))
            digests = {"model": "m", "optimizer": "o"}
            answer = {"digests": digests, "losses": [1.0, 0.5], "path": "there", "bytes": 3}
            return {**answer, **read} if do == "checkpoint.read" else answer

    run = SimpleNamespace(candidate="candidate", timeout_s=1.0, scratch=Path("scratch"))
    run.embedded = SimpleNamespace(cells={"c": {"axes": {"ranks": 2}}})
    rehearsal = object.__new__(Rehearsal)
    rehearsal.run = run  # type: ignore[assignment]
    rehearsal._opened = lambda side, cell: Worker()  # type: ignore[method-assign,assignment,return-value]
    assert rehearsal._ranks_checkpoint("c")["ranks"] == 2
    return asked


def test_ranks_read_shards_and_whole_and_go_on() -> None:
    asked = asked_of_ranks({})
    assert [do for do, _ in asked] == ["checkpoint.write", "close", "checkpoint.read", "checkpoint.read", "close"]
    assert [given["form"] for do, given in asked if do == "checkpoint.read"] == ["sharded", "whole"]


@pytest.mark.parametrize(
    ("read", "says"),
    [
        ({"digests": {"model": "m", "optimizer": "other"}}, "sharded: the optimizer that the baseline loaded"),
        ({"digests": {"model": "other", "optimizer": "o"}}, "sharded: the model that the baseline loaded"),
        ({"losses": [0.5, "nan"]}, "sharded: the losses behind the candidate's checkpoint are not finite"),
    ],
)
def test_ranks_that_read_something_else_do_not_go_back(read: dict[str, Any], says: str) -> None:
    with pytest.raises(StepFailed, match=says):
        asked_of_ranks(read)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"weights": "other"}, "the weights that were loaded are not those that were saved"),
        ({"optimizer": "other"}, "the optimizer's state that was loaded is not what was saved"),
        ({"optimizer": None}, "nothing is told of the optimizer's state"),
        ({"next": ["nan", 1.0]}, "does not go on"),
        ({"next": [float("inf")]}, "does not go on"),
    ],
)
def test_state_is_held_where_weights_and_optimizer_are_and_it_goes_on(
    changed: dict[str, Any], says: str | None
) -> None:
    told = {"weights": "w", "expected": "w", "optimizer": "o", "expected_optimizer": "o", "next": [0.5, 1.0]}
    found = restored_problem({**told, **changed}, ["module", "optimizer"])
    assert (found is None) == (says is None)
    assert says is None or says in str(found)
    assert restored_problem({"weights": "w", "expected": "w"}, ["module"]) is None


def test_work_that_is_only_compiled_or_exported_is_rehearsed_too(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = {"dtype": "float32"}
    work = [("both", "attention", "compile", axes), ("both", "attention", "infer", axes),
            ("compiled", "attention", "export", axes), ("compiled", "attention", "compile", axes),
            ("exported", "attention", "export", axes)]  # fmt: skip
    bench = Bench(make_plan(work, ["runs"], reload=("checkpoint", "export")), tmp_path, never, monkeypatch)
    for cell in bench.embedded.cells:
        bench.run.cell_done(cell, "measured", None)
    rehearsal = Rehearsal(bench.run)
    cells = {cell: (body["workload"], body["mode"]) for cell, body in bench.embedded.cells.items()}
    found: dict[str, list[tuple[str, str]]] = {}
    for step, cell, _ in rehearsal.steps():
        if cell is not None:
            found.setdefault(step, []).append(cells[cell])
    smoked = [("both", "infer"), ("compiled", "compile"), ("exported", "export")]
    assert sorted(found["smoke"]) == sorted(found["reload.checkpoint"]) == smoked
    assert sorted(found["reload.export"]) == [("compiled", "export"), ("exported", "export")]

    asked: list[str] = []

    class Asked:
        def ask(self, do: str, *timeout: float, **more: Any) -> dict[str, Any]:
            asked.append(do)
            return {"same": True, "bit_identical": True, "max_rel": 0.0}

    for cell, (_, mode) in cells.items():
        with pytest.raises(StepFailed, match="gave no output of this cell"):
            rehearsal._same_output(Asked(), cell, "smoke")  # type: ignore[arg-type]
        output = bench.run.output_file(cell, "baseline")
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
        asked.clear()
        rehearsal._same_output(Asked(), cell, "smoke")  # type: ignore[arg-type]
        first = {"compile": ["compile"], "export": ["exported"]}.get(mode, [])
        assert asked == [*first, "outputs", "same", "close"], "as it was measured"
    bench.ledger.close()
