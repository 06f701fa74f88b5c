"""What `diff` says of two plans: one small change each, its kind, severity and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from plans import make_plan

from torchspec.model.codec import to_json
from torchspec.model.plan import (
    Backend,
    Cell,
    Claim,
    Exclusion,
    Gate,
    Limit,
    Plan,
    Rollback,
    Statement,
    TeamFile,
    Together,
    Waiver,
    Workload,
)
from torchspec.specdiff import diff, render


def growth(percent: float) -> Limit:
    return Limit("growth", "<=", percent / 100, "%", f"growth <= {percent:g} %")


def base() -> Plan:
    plan = make_plan(
        {"cpu": "required", "mps": "required"},
        {"attention": ["cpu", "mps"], "loss": ["cpu"]},
        {"error.max_abs": "rollback", "latency.p50": "isolate", "determinism.output": "defer"},
    )
    cells = []
    for cell in plan.cells:
        for seq in (512, 4096):
            cells.append(replace(cell, id=f"{cell.id}-{seq}", axes={"dtype": "float32", "seq": seq}))
    gates = []
    for gate in plan.gates:
        limit = growth(3) if gate.metric == "latency.p50" else gate.limit
        repeats = 20 if gate.metric == "determinism.output" else None
        gates.append(replace(gate, cells=tuple(c.id for c in cells), limit=limit, repeats=repeats, sees=None))
    workloads = tuple(replace(w, gate_sets=("service",)) for w in plan.workloads)
    return replace(plan, cells=tuple(cells), gates=tuple(gates), workloads=workloads)


def gate(plan: Plan, metric: str, change: Callable[[Gate], Gate]) -> Plan:
    return replace(plan, gates=tuple(change(g) if g.metric == metric else g for g in plan.gates))


def cells(plan: Plan, keep: Callable[[Cell], bool]) -> Plan:
    left = tuple(c for c in plan.cells if keep(c))
    ids = {c.id for c in left}
    return replace(
        plan, cells=left, gates=tuple(replace(g, cells=tuple(c for c in g.cells if c in ids)) for g in plan.gates)
    )


def backend(plan: Plan, name: str, change: Callable[[Backend], Backend]) -> Plan:
    return replace(plan, backends=tuple(change(b) if b.name == name else b for b in plan.backends))


def workload(plan: Plan, name: str, change: Callable[[Workload], Workload]) -> Plan:
    return replace(plan, workloads=tuple(change(w) if w.name == name else w for w in plan.workloads))


LEFT_OUT = Exclusion("loss", 'except mode train because "no backward"', "no backward", None, 2)
WAIVER = Waiver("memory.driver_peak", "loss", "cpu", "2026-12-31", "ml", "ticket 4711")
CLAIM = Claim(
    "faster", "blog", {"device": "H100"},
    (Statement("latency.p50", "speedup", 1.2, "x", None, None, {}, "speedup 1.2 x"),), "loss", ("cpu",),
)  # fmt: skip
CASES: dict[str, tuple[Callable[[Plan], Plan], str, str, str]] = {
    "loosened": (
        lambda p: gate(p, "latency.p50", lambda g: replace(g, limit=growth(10))),
        "limit", "weaker", "limit of latency.p50 loosened: growth <= 3 % to growth <= 10 %",
    ),
    "tightened": (
        lambda p: gate(p, "latency.p50", lambda g: replace(g, limit=growth(1))),
        "limit", "stronger", "limit of latency.p50 tightened: growth <= 3 % to growth <= 1 %",
    ),
    "reported": (
        lambda p: gate(p, "latency.p50", lambda g: replace(g, limit=Limit("report", None, None, None, "report"))),
        "limit", "weaker", "latency.p50: only reported now, no gate any more",
    ),
    "other scale": (
        lambda p: gate(p, "latency.p50", lambda g: replace(g, limit=Limit("absolute", "<=", 0.01, "ms", "<= 10 ms"))),
        "limit", "weaker", "cannot be compared: growth <= 3 % to <= 10 ms",
    ),
    "gate dropped": (
        lambda p: replace(p, gates=tuple(g for g in p.gates if g.metric != "error.max_abs")),
        "gate", "weaker", "gate dropped: error.max_abs <= 1, else rollback",
    ),
    "else weakened": (
        lambda p: gate(p, "error.max_abs", lambda g: replace(g, decision="defer")),
        "answer", "weaker", "error.max_abs <= 1 means is weakened: rollback to defer",
    ),
    "else strengthened": (
        lambda p: gate(p, "latency.p50", lambda g: replace(g, decision="rollback")),
        "answer", "stronger", "strengthened: isolate to rollback",
    ),
    "narrowed": (
        lambda p: gate(
            p, "latency.p50",
            lambda g: replace(g, only={"backend": ("cpu",)}, cells=tuple(c for c in g.cells if "cpu" in c)),
        ),
        "scope", "weaker", "latency.p50 growth <= 3 % judges less: on cpu, before everywhere",
    ),
    "fewer repeats": (
        lambda p: gate(p, "determinism.output", lambda g: replace(g, repeats=2)),
        "control", "weaker", "determinism.output is repeated 2 times, before 20",
    ),
    "control gained": (
        lambda p: gate(p, "latency.p50", lambda g: replace(g, sees=0.05)),
        "control", "stronger", "plants 5 %, before nothing",
    ),
    "other reference": (
        lambda p: gate(p, "error.max_abs", lambda g: replace(g, against="cpu.float64")),
        "limit", "weaker", "is compared with cpu.float64, before nothing",
    ),
    "shorter sequence": (
        lambda p: cells(p, lambda c: c.axes["seq"] == 512),
        "axis", "weaker", "attention shrunk: largest seq 512, before 4096",
    ),
    "backend of a workload": (
        lambda p: cells(p, lambda c: c.backend == "cpu"),
        "axis", "weaker", "attention no longer covers backend mps",
    ),
    "workload dropped": (
        lambda p: replace(cells(p, lambda c: c.workload != "loss"), workloads=p.workloads[:1]),
        "workload", "weaker", "workload dropped: loss",
    ),
    "tolerance of losses": (
        lambda p: workload(p, "loss", lambda w: replace(w, options={"resume_tolerance": 1e-3})),
        "workload", "stronger", "resume_tolerance of loss: 0.001, before none",
    ),
    "into a lane": (
        lambda p: workload(p, "loss", lambda w: replace(w, lane="prototype")),
        "lane", "weaker", "loss is in lane prototype now",
    ),
    "old path gone": (
        lambda p: workload(p, "loss", lambda w: replace(w, beside="unfused")),
        "workload", "neutral", "loss is compared with unfused, before none",
    ),
    "gate set": (
        lambda p: workload(p, "loss", lambda w: replace(w, gate_sets=())),
        "gate", "weaker", "loss is judged by nothing, before by service",
    ),
    "optional": (
        lambda p: backend(p, "mps", lambda b: replace(b, requirement="optional", because="two left")),
        "backend", "weaker", "backend mps is optional now, before required (two left)",
    ),
    "threads": (
        lambda p: backend(p, "cpu", lambda b: replace(b, threads=2)),
        "backend", "neutral", "threads of cpu: 2, before the default",
    ),
    "not covered": (
        lambda p: replace(p, exclusions=(LEFT_OUT,)),
        "coverage", "weaker", "not covered any more: loss mode train, because no backward",
    ),
    "waived": (
        lambda p: replace(p, waivers=(WAIVER,)),
        "waiver", "weaker", "waived: memory.driver_peak of loss on cpu until 2026-12-31, by ml: ticket 4711",
    ),
    "bound": (
        lambda p: replace(p, together=(Together(("loss", "attention"), "one image"),)),
        "together", "stronger", "bound together: attention, loss",
    ),
    "slower rollback": (
        lambda p: replace(p, rollback=Rollback("baseline", 3600.0, ("checkpoint",))),
        "rollback", "weaker", "going back may take 1 h, before 1 min",
    ),
    "reload less": (
        lambda p: replace(p, rollback=Rollback("baseline", 60.0, ())),
        "rollback", "weaker", "need not read the candidate's checkpoint any more",
    ),
    "version": (
        lambda p: replace(p, candidates=(replace(p.candidates[0], torch="2.15.0"),)),
        "version", "neutral", "candidate: torch 2.15.0, before torch 2.14.1",
    ),
    "may differ": (
        lambda p: replace(p, candidates=(replace(p.candidates[0], may_differ=("triton",)),)),
        "version", "weaker", "what may differ beside torch in candidate: triton, before nothing",
    ),
    "package": (
        lambda p: replace(p, frozen=replace(p.frozen, packages=("numpy==2.4.0",))),
        "frozen", "stronger", "frozen package numpy: numpy==2.4.0, new",
    ),
    "env": (
        lambda p: replace(p, frozen=replace(p.frozen, env={"A": "1"})),
        "frozen", "neutral", "frozen env A: 1, before not set",
    ),
    "seed": (
        lambda p: replace(p, frozen=replace(p.frozen, seed=7)),
        "frozen", "neutral", "frozen seed: 7, before 0",
    ),
    "claim": (lambda p: replace(p, claims=(CLAIM,)), "claim", "neutral", "claim added: faster"),
    "code": (
        lambda p: replace(p, files=(TeamFile("a.py", "0" * 64, ""),)),
        "code", "neutral", "the team's file a.py is new",
    ),
    "caveat": (
        lambda p: replace(p, upgrade=replace(p.upgrade, caveats=("cpu only",))),
        "question", "neutral", "caveat added: cpu only",
    ),
    "budget": (
        lambda p: replace(p, budget=replace(p.budget, max_pairs=4)),
        "budget", "neutral", "measuring, pairs: 2 to 4, before 2 to 8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_change(name: str) -> None:
    change, kind, severity, words = CASES[name]
    old = base()
    found = diff(old, change(old))
    assert [(c.kind, c.severity) for c in found] == [(kind, severity)] * len(found)
    assert any(words in c.text for c in found), found


@pytest.mark.parametrize("name", CASES)
def test_the_way_back_is_never_as_weak(name: str) -> None:
    change, _, severity, _ = CASES[name]
    old = base()
    back = diff(change(old), old)
    assert back
    opposite = {"weaker": {"stronger"}, "stronger": {"weaker"}, "neutral": {"neutral", "weaker"}}[severity]
    if name in ("other scale", "other reference"):  # cannot be compared: weaker both ways
        opposite = {"weaker"}
    assert {c.severity for c in back} <= opposite, back


@pytest.mark.parametrize(("a", "b", "severity"), [(1e-5, 1e-3, "weaker"), (1e-3, 0, "stronger"), (0, 0.5, "weaker")])
def test_a_looser_tolerance_of_losses_is_weaker(a: float, b: float, severity: str) -> None:
    one, two = (workload(base(), "loss", lambda w, x=x: replace(w, options={"resume_tolerance": x})) for x in (a, b))
    assert [c.severity for c in diff(one, two)] == [severity]


def test_the_same_spec_has_no_difference() -> None:
    assert diff(base(), base()) == ()
    assert render(()) == "no difference that matters"


def test_places_and_order_do_not_count() -> None:
    old = base()
    new = replace(
        old,
        gates=tuple(reversed(old.gates)),
        workloads=tuple(reversed(old.workloads)),
        backends=tuple(reversed(old.backends)),
        cells=tuple(reversed(old.cells)),
    )
    assert [c for c in diff(old, new) if c.severity != "neutral"] == []


def test_a_change_in_a_set_and_in_its_heir_is_said_once() -> None:
    old = base()
    twins = tuple(replace(g, gate_set="training", id=f"{g.id}-t") for g in old.gates)
    old = replace(old, gates=(*old.gates, *twins))
    new = gate(old, "latency.p50", lambda g: replace(g, limit=growth(10)))
    found = diff(old, new)
    assert [c.subject for c in found] == ["service, training: latency.p50"]


def test_two_limits_of_one_metric_are_matched_by_likeness() -> None:
    old = base()
    hard = next(g for g in old.gates if g.metric == "latency.p50")
    old = replace(old, gates=(*old.gates, replace(hard, id="hard", limit=growth(10), decision="rollback")))
    gates = [replace(g, limit=growth(20)) if g.id == "hard" else g for g in old.gates]
    new = replace(old, gates=tuple(reversed(gates)))
    found = diff(old, new)
    assert [c.text for c in found] == ["limit of latency.p50 loosened: growth <= 10 % to growth <= 20 %"]


def test_an_absolute_limit_is_matched_with_the_absolute_one() -> None:
    old = base()
    relative = next(g for g in old.gates if g.metric == "latency.p50")
    fixed = replace(relative, id="fixed", limit=Limit("absolute", "<=", 0.01, "ms", "<= 10 ms"))
    old = replace(old, gates=(*old.gates, fixed))
    wider = replace(fixed, limit=Limit("absolute", "<=", 0.02, "ms", "<= 20 ms"))
    others = [g for g in old.gates if g.metric != "latency.p50"]
    new = replace(old, gates=(wider, replace(relative, limit=growth(4)), *others))
    assert {c.text for c in diff(old, new)} == {
        "limit of latency.p50 loosened: <= 10 ms to <= 20 ms",
        "limit of latency.p50 loosened: growth <= 3 % to growth <= 4 %",
    }


def test_limits_against_other_references_are_not_mixed_up() -> None:
    old = base()
    error = next(g for g in old.gates if g.metric == "error.max_abs")
    exact = replace(error, id="exact", against="cpu.float64", limit=Limit("absolute", "<=", 1e-4, None, "<= 1e-4"))
    loose = replace(error, id="loose", against="baseline", limit=Limit("absolute", "<=", 1e-2, None, "<= 1e-2"))
    old = replace(old, gates=(*(g for g in old.gates if g is not error), exact, loose))
    wider = replace(loose, limit=Limit("absolute", "<=", 1e-1, None, "<= 1e-1"))
    new = replace(old, gates=(*(g for g in old.gates if g.metric != "error.max_abs"), wider, exact))
    assert [c.text for c in diff(old, new)] == ["limit of error.max_abs loosened: <= 1e-2 to <= 1e-1"]


def test_weaker_comes_first_and_json_holds_the_same() -> None:
    old = base()
    new = gate(CASES["env"][0](old), "latency.p50", lambda g: replace(g, limit=growth(10)))
    found = diff(old, new)
    assert [c.severity for c in found] == ["weaker", "neutral"]
    assert to_json(found)[0]["text"] in render(found)
    assert "\x1b[" in render(found, color=True)
    assert "\x1b[" not in render(found)
