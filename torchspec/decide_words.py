"""The reasons of rows and fleets: one sentence each, in the user's own names.

Must not decide anything: it is told the rule that fired and the records that made it fire.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torchspec import decide_algebra as algebra
from torchspec.model.plan import Cell, Decision, Exclusion, Gate
from torchspec.model.verdict import Judgement, Outcome, Rehearsal, Row, Switch

VERB: dict[Outcome, str] = {
    "pass": "passes",
    "fail": "fails",
    "inconclusive": "is inconclusive",
    "not_run": "was not run",
    "error": "ended in an error",
}


def counted(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def gate_name(gate: Gate) -> str:
    """A gate in the author's words: metric, limit and reference; without what goes without saying.

    That it holds or is identical is not said again, and neither is that a growth is against the baseline.
    """
    if gate.limit.form in ("holds", "identical", "report"):
        return gate.metric
    limit = gate.limit.text.strip()
    if gate.against is not None and (gate.against != "baseline" or gate.limit.form == "absolute"):
        limit += f" against {gate.against}"
    return limit if limit.startswith(gate.metric) else f"{gate.metric} {limit}"


def excluded(exclusion: Exclusion) -> str:
    """What an `except` takes out, without its reason and its end."""
    text = exclusion.text.strip().removeprefix("except").strip()
    return re.split(r"\s(?:because|until)\s", f"{text} ", maxsplit=1)[0].strip()


def _says(gate: Gate, outcome: Outcome) -> str:
    """`latency.p50 growth <= 3 % fails`, `export.roundtrip does not hold`."""
    form = gate.limit.form
    verb = VERB[outcome]
    if outcome == "fail" and form in ("holds", "identical"):
        verb = "does not hold" if form == "holds" else "is not identical"
    return f"{gate_name(gate)} {verb}"


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def row_reason(
    rule: str, decisive: Sequence[tuple[Gate, Cell, Judgement]], *, gates: int, cells: int, waiver: str | None = None
) -> str:
    """Why a row decides as it does; `decisive` are the gates on cells that made it so, the worst first.

    `waiver` says why a waiver that names the first of them is void, where there is one.
    """
    if not decisive:
        if rule == algebra.NO_CELL:
            return "no gate with a vote judges it"
        passed = f"{counted(gates, 'gate')} pass{'es' if gates == 1 else ''} in {counted(cells, 'cell')}"
        return f"{passed}, and a lane is at best isolate" if rule == algebra.LANE else passed
    gate, cell, judgement = decisive[0]
    reason = f"{_says(gate, judgement.outcome)} in {cell.label}: {_sentence(judgement.reason)}"
    if (said := judgement.waived or waiver) is not None:
        reason += f" ({_sentence(said)})"
    more = len(decisive) - 1
    return f"{reason} (and {more} more)" if more else reason


def fleet_reason(
    rule: str,
    decision: Decision,
    decisive: Sequence[Row],
    rows: Sequence[Row],
    rehearsal: Rehearsal,
    switches: Mapping[tuple[str, str], Switch],
) -> str:
    """Why the fleet decides as it does. A rollback whose rehearsal did not pass says so first.

    `switches` holds, by workload and backend of a decisive lane row, the off switch that did not pass.
    """
    going_back = f"the rehearsal of going back {VERB[rehearsal.outcome]} ({_sentence(rehearsal.reason)})"
    if rule == algebra.ADOPT:
        lanes = sum(r.requirement == "lane" for r in rows)
        beside = f"; {counted(lanes, 'lane row')} beside it, isolated" if lanes else ""
        return f"{counted(len(rows) - lanes, 'row')} and the rehearsal of going back pass{beside}"
    if rule == algebra.NO_REQUIRED:
        return "no required workload on a required backend was part of it, so nothing that must pass was shown"
    if rule == algebra.REHEARSAL:
        return going_back
    first = decisive[0]
    if rule == algebra.SWITCH:
        switch = switches[first.workload, first.backend]
        reason = f"the off switch of lane {switch.lane} on {switch.backend} {VERB[switch.outcome]}"
        reason += f": {_sentence(switch.reason)}"
    else:
        kind = "optional, " if first.requirement == "optional" else ""
        reason = f"{first.workload} on {first.backend} ({kind}{first.decision}): {first.reason}"
    if len(decisive) > 1:
        reason += f"; and {counted(len(decisive) - 1, 'more row')}"
    if rehearsal.outcome == "pass":
        return reason
    if decision == "rollback":
        return f"go back, although {going_back}: {reason}"
    return f"{reason}; and {going_back}"
