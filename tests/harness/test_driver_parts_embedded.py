"""What a harness file holds in itself: what its gates need, what a control plants, and the team's files and data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchspec.emit.data import backend_plan
from torchspec.harness.embedded import Embedded
from torchspec.harness.needs import Comparison, Needs
from torchspec.harness.sides import Timed, planted_change
from torchspec.model.plan import Claim, Gate, Limit, Plan, Statement

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


@pytest.mark.parametrize(
    ("form", "known"), [("growth", True), ("drop", True), ("speedup", True), ("increase", False), ("absolute", False)]
)
def test_the_spread_of_ratios_serves_limits_on_ratios_alone(form: str, known: bool) -> None:
    gate = {"metric": "latency.p50", "limit": {"form": form, "op": "<=", "value": 0.1}, "sees": None}
    one = Timed(Comparison("c", "baseline", "candidate", [gate]))
    one.spreads["latency.p50"] = (0.01, 3)
    assert one.spread_for(gate) == ((0.01, 3) if known else (None, 0))


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
