"""Takes in what a team's own service measured: the files of workloads of kind `ingested`, before anything is run.

Returns words and diagnostics; printing and exit codes are `cli`'s. A refused file stops nothing else: its row is not
run, says why, and defers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from torchspec import catalog
from torchspec.core.diagnostics import Result
from torchspec.model.plan import Plan
from torchspec.pipeline import Compiled
from torchspec.pipeline_run import context_of, driven, new_run_id

if TYPE_CHECKING:
    from torchspec.ledger.canary_take import Took


def nothing_else(plan: Plan, only: Sequence[str]) -> bool:
    """Whether nothing of what was chosen (all cells where `only` is empty) is measured by a harness."""
    measured = {cell for backend in plan.backends for cell in driven(plan, backend.name)}
    return not (measured & set(only) if only else measured)


def take(compiled: Compiled, only: Sequence[str] = (), stage: str | None = None) -> Result[tuple[str, ...]]:
    """Holds the files against the plan and writes what they give to the ledger; a line for each cell that is new."""
    from torchspec.ledger import LedgerError, canary, canary_take

    plan = compiled.plan
    cells = [c.id for c in plan.cells if (not only or c.id in only) and (stage is None or c.stage == stage)]
    if not any(workload.kind == canary.KIND for workload in plan.workloads) or not cells:
        return Result(())
    tables = catalog.load()
    found, said = canary.examine(
        plan, compiled.plan_digest, tables, compiled.spec.parent, datetime.now(UTC), only=cells
    )
    context = {**context_of(compiled), "argv": ["torchspec", *sys.argv[1:]]}
    try:
        took = canary_take.take(found, compiled.evidence, compiled.plan_digest, new_run_id, context)
    except LedgerError as error:
        return Result(None, (*said, error.diagnostic))
    return Result(tuple(_line(one) for one in took if one.status == "measured"), tuple(said))


def _line(took: Took) -> str:
    one = took.canary
    return (
        f"{one.cell.label}: {len(one.samples)} figures for {one.candidate} from {', '.join(f.path for f in one.files)}"
    )
