"""Which steps the rehearsal of going back must hold, from the plan and what was measured. Must not judge them.

Each backend where a cell of the candidate was measured has steps of its own; the cells are those that the harness
chooses, and a test holds the two choices against each other. Making the baseline's environment again is torchspec's:
it is wanted where torchspec made the environment and drove a run, and not where the spec names an interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchspec.core.canon import sha256_hex
from torchspec.judge.records import Evidence
from torchspec.model.plan import Cell, Plan

#: Two ways to the same environment: whoever goes back takes one of them.
REBUILDING = ("rebuild.cache", "rebuild.scratch")
STEPPING, COMPILED, EXPORTED = ("infer", "train"), ("compile", "train_compiled"), ("export",)
#: In which of its modes a workload saves its state: where it has an optimizer, before others.
STATES = (("train",), ("train_compiled",), ("infer",), ("compile",), EXPORTED)
#: The digest of no weights at all: there is nothing that a checkpoint could hold.
NO_WEIGHTS = sha256_hex(b"")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One step. `backend` None: on whichever backend; `cell` None: of no cell, or of whichever."""

    step: str
    backend: str | None = None
    cell: Cell | None = None


def measured(plan: Plan, evidence: Evidence, candidate: str) -> list[Cell]:
    """The cells that a harness measured for a candidate, in the order of the plan."""
    found = []
    for cell in plan.cells:
        done = evidence.of(cell.id, candidate, "cell.done")
        if cell.id not in plan.served and done and done[-1].body.get("status") == "measured":
            found.append(cell)
    return found


def chosen(cells: Sequence[Cell], *preferred: tuple[str, ...]) -> list[Cell]:
    """One cell of each workload: in the first group of modes that it has any of, the one with the most ranks."""
    found: dict[str, Cell] = {}
    for modes in preferred:
        fitting = [cell for cell in cells if cell.mode in modes and cell.workload not in found]
        for cell in sorted(fitting, key=lambda c: -int(c.axes.get("ranks", 1))):
            found.setdefault(cell.workload, cell)
    return [cell for cell in cells if found.get(cell.workload) is cell]


def wanted(plan: Plan, evidence: Evidence, candidate: str) -> list[Wanted]:
    """Every step that a rehearsal which passes holds: those of each backend, and what must occur at least once."""
    reload = plan.rollback.reload if plan.rollback is not None else ()
    lanes = {w.name for w in plan.workloads if w.lane is not None}
    here = measured(plan, evidence, candidate)
    found = [Wanted(step) for step in REBUILDING] if _rebuilt(plan, evidence, candidate) else []
    for backend in dict.fromkeys(cell.backend for cell in here):
        cells = [cell for cell in here if cell.backend == backend]
        smoke = chosen(cells, STEPPING, COMPILED, EXPORTED)
        found.append(Wanted("restore", backend))
        found += [Wanted("smoke", backend, cell) for cell in smoke]
        if "checkpoint" in reload:
            states = chosen(cells, *STATES)
            found += [Wanted("reload.checkpoint", backend, cell) for cell in states if _keeps_state(evidence, cell)]
        if "export" in reload:
            found += [Wanted("reload.export", backend, cell) for cell in chosen(cells, EXPORTED)]
        found += [Wanted("switch", backend, cell) for cell in smoke if cell.workload in lanes]
    own = ("restore", "smoke") if any(cell.id not in plan.served for cell in plan.cells) else ()
    held = {one.step for one in found}
    return [*found, *(Wanted(step) for step in (*own, *(f"reload.{what}" for what in reload)) if step not in held)]


def _keeps_state(evidence: Evidence, cell: Cell) -> bool:
    """Whether the frozen work of a cell has weights, which a checkpoint holds."""
    made = evidence.frozen.get(cell.id)
    return not made or made[-1].body.get("weights") != NO_WEIGHTS


def _rebuilt(plan: Plan, evidence: Evidence, candidate: str) -> bool:
    """Whether torchspec made the baseline's environment and drove a run of the candidate: it can rebuild it."""
    starts = [run.start.body for run in evidence.runs if run.used and run.start is not None and not run.canary]
    driven = any(body.get("candidate") == candidate and body.get("tool") is not None for body in starts)
    return plan.baseline.python is None and driven
