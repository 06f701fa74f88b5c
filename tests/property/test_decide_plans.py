"""Properties of `decide` on whole small plans: lanes and switches, `together`, waivers, several candidates.

What the exhaustive walk of the algebra does not cover is drawn here.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import make_judged, make_plan

from torchspec.decide import decide
from torchspec.decide_algebra import OUTCOMES, RANK
from torchspec.model.plan import Plan, Waiver
from torchspec.model.verdict import Judged, Verdict

METRICS = ("error.max_abs", "latency.p50", "memory.driver_peak")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Plan, Judged]:
    backends = {b: draw(st.sampled_from(("required", "optional"))) for b in ("cpu", "mps")}
    names = ("a", "b", "c", "d")
    workloads = {n: draw(st.lists(st.sampled_from(("cpu", "mps")), min_size=1, unique=True)) for n in names}
    elses = st.sampled_from((None, "isolate", "defer", "rollback"))
    gates = {m: draw(elses) for m in METRICS}
    waivers = draw(
        st.lists(
            st.builds(
                Waiver,
                st.sampled_from(METRICS),
                st.sampled_from(names),
                st.sampled_from(("cpu", "mps")),
                st.sampled_from(("2026-12-09", "2026-12-10")),
                st.just("x"),
                st.just("y"),
            ),
            max_size=2,
        )
    )
    plan = make_plan(
        backends,
        workloads,
        gates,
        lanes={"proto": ["d"]} if draw(st.booleans()) else None,
        together=draw(st.sampled_from(((), (("a", "b"),), (("a", "b"), ("b", "c"))))),
        waivers=waivers,
        candidates=("candidate", "candidate-2") if draw(st.booleans()) else ("candidate",),
        implicit=draw(st.booleans()),
    )
    likely = st.one_of(st.just("pass"), st.sampled_from((*OUTCOMES, None)))
    judged = make_judged(plan, rehearsal=draw(likely), switches=draw(likely))
    kept = []
    for j in judged.judgements:
        outcome = draw(likely)
        if outcome is not None:
            kept.append(replace(j, outcome=outcome))
    return plan, replace(judged, judgements=tuple(kept))


def ranks(verdict: Verdict) -> dict[str, int]:
    return {f.candidate: RANK[f.decision] for f in verdict.fleet}


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_one_decision_a_candidate_with_rule_and_reason(world: tuple[Plan, Judged]) -> None:
    plan, judged = world
    verdict = decide(plan, judged, "1" * 64)
    assert [f.candidate for f in verdict.fleet] == [s.id for s in plan.candidates]
    assert all(f.rule and f.reason for f in verdict.fleet)
    assert all(r.rule and r.reason and "\n" not in r.reason for r in verdict.rows)
    pairs = {(c.workload, c.backend) for c in plan.cells}
    assert len(verdict.rows) == len(pairs) * len(plan.candidates)
    assert len(verdict.judgements) == sum(len(g.cells) for g in plan.gates) * len(plan.candidates)


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_adopt_only_where_everything_that_votes_passed(world: tuple[Plan, Judged]) -> None:
    plan, judged = world
    verdict = decide(plan, judged, "1" * 64)
    lane = {w.name for w in plan.workloads if w.lane}
    cells = {c.id: c for c in plan.cells}
    votes = {g.id for g in plan.gates if g.decision is not None}
    for fleet in verdict.fleet:
        if fleet.decision != "adopt":
            continue
        assert verdict.rehearsals[fleet.candidate].outcome == "pass"
        assert all(s.outcome == "pass" for s in verdict.switches if s.candidate == fleet.candidate)
        for j in verdict.judgements:
            if j.candidate == fleet.candidate and j.gate in votes and cells[j.cell].workload not in lane:
                assert j.outcome == "pass"


@settings(max_examples=100, deadline=None)
@given(worlds(), st.data())
def test_losing_a_pass_never_improves_any_row_or_the_fleet(world: tuple[Plan, Judged], data: st.DataObject) -> None:
    plan, judged = world
    passes = [j for j in judged.judgements if j.outcome == "pass"]
    if not passes:
        return
    lost = data.draw(st.sampled_from(passes))
    before = decide(plan, judged, "1" * 64)
    without = replace(judged, judgements=tuple(j for j in judged.judgements if j is not lost))
    after = decide(plan, without, "1" * 64)
    assert all(ranks(after)[c] >= ranks(before)[c] for c in ranks(before))
    for old, new in zip(before.rows, after.rows, strict=True):
        assert RANK[new.decision] >= RANK[old.decision]


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_rows_that_share_an_image_have_one_decision_a_backend(world: tuple[Plan, Judged]) -> None:
    plan, judged = world
    verdict = decide(plan, judged, "1" * 64)
    for line in plan.together:
        for side in plan.candidates:
            for backend in ("cpu", "mps"):
                bound = {
                    r.decision
                    for r in verdict.rows
                    if r.workload in line.workloads and r.backend == backend and r.candidate == side.id
                }
                assert len(bound) <= 1


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_a_waiver_that_ended_before_the_evidence_changes_nothing(world: tuple[Plan, Judged]) -> None:
    plan, judged = world
    late = replace(plan, waivers=tuple(replace(w, until="2026-12-09") for w in plan.waivers))
    with_late, bare = decide(late, judged, "1" * 64), decide(replace(plan, waivers=()), judged, "1" * 64)
    assert [(r.decision, r.vote) for r in with_late.rows] == [(r.decision, r.vote) for r in bare.rows]
    assert ranks(with_late) == ranks(bare)
    assert not any(use.status == "in effect" for use in with_late.waivers)


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_order_of_the_judgements_does_not_matter(world: tuple[Plan, Judged]) -> None:
    plan, judged = world
    turned = replace(judged, judgements=tuple(reversed(judged.judgements)))
    assert decide(plan, judged, "1" * 64) == decide(plan, turned, "1" * 64)


def test_a_judgement_that_the_plan_does_not_ask_for_is_our_bug() -> None:
    plan = make_plan({"cpu": "required"}, {"a": ["cpu"]}, {"error.max_abs": "rollback"})
    judged = make_judged(plan)
    stranger = replace(judged.judgements[0], gate="other")
    with pytest.raises(ValueError, match="does not ask"):
        decide(plan, replace(judged, judgements=(stranger,)), "1" * 64)
    with pytest.raises(ValueError, match="two judgements"):
        decide(plan, replace(judged, judgements=judged.judgements * 2), "1" * 64)
