"""The exhaustive walk of the algebra: every combination, through the functions that `decide` calls.

Two rows, three gates (two in the first row, one in the second), 5 outcomes x 3 `else` x waived or not for each gate,
3 requirements for each row, 5 outcomes of the rehearsal: 1,215,000 combinations. Not walked: `together`, several
candidates, and an off switch that failed.
"""

from __future__ import annotations

from itertools import product

import pytest

from torchspec.decide_algebra import (
    ELSES,
    OUTCOMES,
    RANK,
    REQUIREMENTS,
    fleet_decision,
    gate_contribution,
    row_decision,
    row_vote,
)

GATES = list(product(OUTCOMES, ELSES, (False, True)))
#: For each gate state, the one with the same `else` and waiver whose outcome is not_run.
UNRUN = [GATES.index(("not_run", otherwise, waived)) for _, otherwise, waived in GATES]
PASSES = [outcome == "pass" for outcome, _, _ in GATES]
TAILS = list(product(REQUIREMENTS, REQUIREMENTS, OUTCOMES))


@pytest.fixture(scope="module")
def decided() -> dict[tuple[int, int, int], list[int]]:
    """Gate states -> the fleet's rank for each (requirement, requirement, rehearsal), in the order of `product`."""
    found = {}
    for a, b, c in product(range(len(GATES)), repeat=3):
        first = (gate_contribution(*GATES[a]), gate_contribution(*GATES[b]))
        second = (gate_contribution(*GATES[c]),)
        ranks = []
        for one, two, rehearsal in TAILS:
            votes = (
                (one, row_vote(one, row_decision(first, one))),
                (two, row_vote(two, row_decision(second, two))),
            )
            ranks.append(RANK[fleet_decision(votes, rehearsal)])
        found[a, b, c] = ranks
    return found


def test_every_combination_has_exactly_one_decision(decided: dict[tuple[int, int, int], list[int]]) -> None:
    assert sum(len(ranks) for ranks in decided.values()) == 1_215_000
    assert {rank for ranks in decided.values() for rank in ranks} == set(RANK.values())


def test_adopt_means_that_all_that_votes_and_the_rehearsal_passed(
    decided: dict[tuple[int, int, int], list[int]],
) -> None:
    adopted = 0
    for (a, b, c), ranks in decided.items():
        for rank, (one, two, rehearsal) in zip(ranks, TAILS, strict=True):
            if rank != RANK["adopt"]:
                continue
            adopted += 1
            assert rehearsal == "pass"
            assert "required" in (one, two)
            assert one == "lane" or (PASSES[a] and PASSES[b])
            assert two == "lane" or PASSES[c]
    assert adopted > 0


def test_replacing_a_required_rows_outcome_by_not_run_never_leaves_better_than_defer(
    decided: dict[tuple[int, int, int], list[int]],
) -> None:
    for a, b, c in decided:
        without_a, without_c = decided[UNRUN[a], b, c], decided[a, b, UNRUN[c]]
        for index, (one, two, _) in enumerate(TAILS):
            assert one != "required" or without_a[index] >= RANK["defer"]
            assert two != "required" or without_c[index] >= RANK["defer"]


def test_replacing_a_pass_by_not_run_improves_nothing(decided: dict[tuple[int, int, int], list[int]]) -> None:
    for (a, b, c), ranks in decided.items():
        for changed, key in ((a, (UNRUN[a], b, c)), (b, (a, UNRUN[b], c)), (c, (a, b, UNRUN[c]))):
            if PASSES[changed]:
                assert all(new >= old for new, old in zip(decided[key], ranks, strict=True))
    with_rehearsal = {o: [i for i, (_, _, found) in enumerate(TAILS) if found == o] for o in ("pass", "not_run")}
    for ranks in decided.values():
        for passed, unrun in zip(with_rehearsal["pass"], with_rehearsal["not_run"], strict=True):
            assert ranks[unrun] >= ranks[passed]
