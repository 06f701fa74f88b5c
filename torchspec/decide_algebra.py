"""The algebra of decisions: outcomes to contributions, rows, votes and the fleet, as total functions of small values.

Must not know the plan, the evidence or any wording beyond the fixed words of the rules: `decide` brings those. Each
function here is walked over every combination of its inputs in tests/property/test_decide.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:  # `check` uses the algebra too, and would pay for making every class of the model
    from torchspec.model.plan import Decision, Requirement
    from torchspec.model.verdict import Outcome

Else = Literal["isolate", "defer", "rollback"]

OUTCOMES: Final[tuple[Outcome, ...]] = ("pass", "fail", "inconclusive", "not_run", "error")
ELSES: Final[tuple[Else, ...]] = ("isolate", "defer", "rollback")
REQUIREMENTS: Final[tuple[Requirement, ...]] = ("required", "optional", "lane")

#: By how much of the candidate may run: everywhere, in named places, nowhere new, nowhere and undo.
RANK: Final[dict[Decision, int]] = {"adopt": 0, "isolate": 1, "defer": 2, "rollback": 3}

#: The worst outcome first, as a row shows it.
SEVERITY: Final[dict[Outcome, int]] = {"fail": 0, "error": 1, "inconclusive": 2, "not_run": 3, "pass": 4}

# The fixed words of every rule that can fire. The memo prints them; `explain decisions` explains them.
ALL_PASS = "every gate passes"
FAILED = "a gate fails: its else decides"
WAIVED = "a gate fails and is waived: isolate"
INCONCLUSIVE = "inconclusive: defer"
NOT_RUN = "not run: defer"
ERROR = "error: defer"
NO_CELL = "judged by no gate: defer"
LANE = "a lane is at best isolate"
TOGETHER = "together: the worst of them decides"
ADOPT = "every row and the rehearsal pass"
REQUIRED = "a required row decides"
OPTIONAL = "an optional row that does not pass isolates"
SWITCH = "a lane's off switch did not pass: defer"
REHEARSAL = "the rollback rehearsal did not pass: defer"
NO_REQUIRED = "no required row: defer"

RULES: Final[dict[str, str]] = {
    ALL_PASS: "Each gate on each cell of the row passed.",
    FAILED: "A measurement crossed its limit; the author decided before measuring what that means.",
    WAIVED: "Known and bounded until its date; still not a pass.",
    INCONCLUSIVE: "The data cannot tell. `else` is for evidence of harm, and there is none.",
    NOT_RUN: "No evidence is never a pass: not measured, not supported, or the metric never arrived.",
    ERROR: "The tool, the machine, the baseline or a control failed: nothing was learnt.",
    NO_CELL: "No gate with a vote judged any cell of the row.",
    LANE: "A prototype may run in named places at most, however good its figures are.",
    TOGETHER: "They share one image, so on each backend there is one decision: if one must stay behind, all do.",
    ADOPT: "Each required and optional row and the rehearsal of going back passed.",
    REQUIRED: "A required row votes with its own decision, and the fleet takes the worst vote.",
    OPTIONAL: "The rest may go ahead; this part stays on the baseline, and that is isolation.",
    SWITCH: "A lane has no vote only while its off switch is shown to work: thrown, and the work still ran.",
    REHEARSAL: "Nobody should go where the way back was not shown.",
    NO_REQUIRED: "Nothing that must pass was measured, so nothing can be decided.",
}


def worst(decisions: Iterable[Decision]) -> Decision:
    """The maximum: the decision that lets the least of the candidate run. Nothing at all is defer (no evidence)."""
    return max(decisions, key=RANK.__getitem__, default="defer")


def gate_contribution(outcome: Outcome, otherwise: Decision, waived: bool = False) -> Decision:
    """What one gate on one cell adds to its row. A waiver counts only for a fail whose `else` is defer."""
    if outcome == "pass":
        return "adopt"
    if outcome == "fail":
        return "isolate" if waived and otherwise == "defer" else otherwise
    return "defer"


def gate_rule(outcome: Outcome, otherwise: Decision, waived: bool = False) -> str:
    """The fixed words of the rule behind `gate_contribution`."""
    if outcome == "fail":
        return WAIVED if waived and otherwise == "defer" else FAILED
    return {"pass": ALL_PASS, "inconclusive": INCONCLUSIVE, "not_run": NOT_RUN, "error": ERROR}[outcome]


def row_decision(contributions: Iterable[Decision], requirement: Requirement) -> Decision:
    """Workload x backend: the worst over its gates and cells; a lane is never better than isolate."""
    decision = worst(contributions)
    return worst((decision, "isolate")) if requirement == "lane" else decision


def row_vote(requirement: Requirement, decision: Decision, switch_passed: bool = True) -> Decision | None:
    """What a row says in the fleet. None: it has no vote (a lane whose off switch works)."""
    if requirement == "required":
        return decision
    if requirement == "optional":
        return "adopt" if decision == "adopt" else "isolate"
    return None if switch_passed else "defer"


def rehearsal_contribution(outcome: Outcome) -> Decision:
    """The rehearsal of going back: it passes, or the fleet defers. It has no `else`."""
    return "adopt" if outcome == "pass" else "defer"


def fleet_decision(votes: Iterable[tuple[Requirement, Decision | None]], rehearsal: Outcome) -> Decision:
    """The worst over all votes and the rehearsal; without a required row at least defer."""
    found: list[Decision] = [rehearsal_contribution(rehearsal)]
    required = False
    for requirement, vote in votes:
        required = required or requirement == "required"
        if vote is not None:
            found.append(vote)
    if not required:
        found.append("defer")
    return worst(found)


def worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome a row shows: fail, error, inconclusive, not_run, pass, in this order. Nothing is not_run."""
    return min(outcomes, key=SEVERITY.__getitem__, default="not_run")
