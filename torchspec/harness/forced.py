"""Bits of repeats: the facts that follow from digests, and the repeats under torch.use_deterministic_algorithms(True).

These take fresh processes of their own, in which the switch is on before any work is built; everything else of a cell
is measured as the spec freezes it. An operator that torch refuses with the switch on is a fact that does not hold, in
torch's own words. Must not judge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .supervise import Unable, WorkerFailed
from .twice import asked_twice, fact_of_failure

#: Requests at which a failure is the fact itself: the work, built and run with the switch on.
UNDER_THE_SWITCH = ("force_determinism", "open", "compile", "repeats")


def same_bits(processes: list[list[str]]) -> dict[str, Any]:
    """The fact that all repeats of all processes gave one digest; `processes` holds the digests of each."""
    distinct = {digest for digests in processes for digest in digests}
    return {
        "holds": len(distinct) == 1,
        "error": None,
        "repeats": sum(len(digests) for digests in processes),
        "distinct": len(distinct),
        "across_processes": len(processes),
        "distinct_within": max(len(set(digests)) for digests in processes),
    }


def write_same_bits(cell: Any, kept: str, metrics: dict[str, str], wanted: int = 1) -> None:
    """Writes the facts of `metrics` (part of a result -> metric) from what the samples `kept` of both sides hold.

    Fewer processes than `wanted` say nothing where they agree; where their bits differ, they do.
    """
    for part, metric in metrics.items():
        for side in cell.run.sides:
            held = cell.run.past.digests.get((cell.cell, side, kept), {})
            processes = [repeat[part] for repeat in held.values() if part in repeat]
            if processes:
                found = same_bits(processes)
                if len(processes) >= wanted or not found["holds"]:
                    cell.run.write(*cell._fact(side, metric, found))


@dataclass
class Answers:
    """What one process of a side has said so far, part by part; `asking` is the part that it is asked for."""

    digests: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)
    lacking: dict[str, Unable] = field(default_factory=dict)
    switches: dict[str, Any] = field(default_factory=dict)
    asking: str | None = None

    def left(self, parts: Iterable[str]) -> list[str]:
        return [part for part in parts if not (part in self.digests or part in self.refused or part in self.lacking)]


def forced(cell: Any) -> None:
    """Takes and writes what the gates of `cell` (a FreshCell) on bits under deterministic algorithms need."""
    needs, run = cell.needs, cell.run
    for repeat in range(needs.forced_processes):
        what = f"deterministic algorithms, fresh process {repeat + 1} of {needs.forced_processes}"
        run.progress.event("doing", what=what, side=None)
        cell.each_side(partial(_forced_turn, cell, repeat))
        cell.estimate.done(1.0)
    write_same_bits(cell, "process.digests_forced", needs.forced, needs.forced_processes)


def _forced_turn(cell: Any, repeat: int, side: str) -> None:
    """One process of a side, unless it is there already or the facts are settled without it.

    A process that is ended at one part says nothing about another: what it had said stands, and what is left is asked
    of the next.
    """
    run = cell.run
    marks = {"cell": cell.cell, "side": side, "against": None}
    wanted = {p: m for p, m in cell.needs.forced.items() if not run.past.has("fact", metric=m, repeat=None, **marks)}
    if not wanted or run.past.has("sample", metric="process.digests_forced", repeat=repeat, **marks):
        return
    said = Answers()
    while left := said.left(wanted):
        if run.out_of_time():
            why = Unable("the time for the whole run was spent before it", "machine")
            said.lacking.update(dict.fromkeys(left, why))
            break
        ask = partial(_forced_process, cell, repeat, side, wanted, said)
        try:
            ended = asked_twice(run, cell.cell, side, ask, reads=UNDER_THE_SWITCH, other_ran=bool(cell.ran))
        except Unable as reason:
            said.lacking.update(dict.fromkeys(said.left(wanted), reason))
            break
        if ended:  # at one part, or before any was asked for
            said.refused.update(dict.fromkeys(said.left(wanted) if said.asking is None else [said.asking], ended))
    for part, lack in said.lacking.items():
        run.unsupported(cell.cell, side, wanted[part], lack)
    records = [cell._fact(side, wanted[part], fact) for part, fact in said.refused.items()]
    if said.digests:
        detail = {"digests": said.digests, "switches": said.switches}
        meter = "sha256, deterministic algorithms"
        records.append(("sample", cell._sample(side, "process.digests_forced", 0, "1", repeat, meter, None, detail)))
    run.write_all(records)


def _forced_process(cell: Any, repeat: int, side: str, wanted: dict[str, str], said: Answers) -> dict[str, Any]:
    """Repeats in one fresh process with the switch on, of the parts that are left; what comes of it is put into `said`.

    Each part is asked for by itself, since a backward pass may be refused whose forward pass is not. Returns nothing.
    Raises WorkerFailed where the process is gone, or the work cannot be built or compiled.
    """
    run, limit = cell.run, cell.run.timeout_s
    said.asking = None
    worker = run.start(side, f"forced{repeat}")
    try:
        worker.ask("hello", run.start_timeout_s)
        said.switches = worker.ask("force_determinism", limit)["switches"]
        opened = worker.ask("open", limit, name="own", cell=cell.cell, frozen=str(run.frozen_file(cell.cell)))
        cell._seen(side, opened)
        if opened["compiles"]:
            worker.ask("compile", limit, name="own")
        for part in said.left(wanted):
            said.asking = part
            gradients = part == "gradient"
            try:
                again = worker.ask("repeats", limit, name="own", count=cell.needs.forced_each, gradients=gradients)
                said.digests[part] = again["digests"][part]
            except Unable as reason:
                said.lacking[part] = reason
            except WorkerFailed as failure:
                if failure.how != "raised":
                    raise
                said.refused[part] = fact_of_failure(failure, 1)
        return {}
    finally:
        worker.close()
