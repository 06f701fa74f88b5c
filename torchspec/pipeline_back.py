"""The part of a run that rehearses making the old environment again, before anything is measured.

Whether that is still to be shown is read from the ledger, so that a run that goes on does not do it twice. What came of
it travels to the harness, which writes it down as the first steps of the rehearsal and then goes back on the
environment that was rebuilt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torchspec.pipeline import Compiled
from torchspec.pipeline_environments import first_backend

if TYPE_CHECKING:
    from torchspec.provision import Environment

OnEvent = Callable[[dict[str, Any]], None]
STEPS = frozenset({"rebuild.cache", "rebuild.scratch"})


def rebuilding_open(compiled: Compiled) -> bool:
    """Whether the ledger lacks a rebuilding, or the last one in some backend's runs did not hold, for any candidate."""
    from torchspec import ledger

    if compiled.plan.rollback is None:
        return False
    whose: dict[str, tuple[str, str]] = {}  # run -> candidate and backend
    held: dict[tuple[str, str], dict[str, bool]] = {}  # (candidate, step) -> backend -> whether its last one held
    try:
        for record in ledger.read(compiled.ledger):
            if record.kind == "run.start" and record.body.get("plan") == compiled.plan_digest:
                whose[record.run] = str(record.body.get("candidate")), str(record.body.get("backend"))
            elif record.kind == "rehearsal.step" and record.run in whose:
                candidate, backend = whose[record.run]
                by_backend = held.setdefault((candidate, str(record.body.get("step"))), {})
                by_backend[backend] = record.body.get("ok") is True
    except ledger.LedgerError:
        return True  # executing says what is wrong with it
    wanted = [held.get((side.id, step), {}) for side in compiled.plan.candidates for step in STEPS]
    return not all(by_backend and all(by_backend.values()) for by_backend in wanted)


@contextlib.contextmanager
def rebuilt_baseline(
    compiled: Compiled, environments: Mapping[str, Environment], on_event: OnEvent
) -> Iterator[dict[str, Any] | None]:
    """What the harness is told of rebuilding the baseline: {"python", "steps"}; None where nothing was rebuilt.

    What was rebuilt is there until the end of the `with`.
    """
    from torchspec import provision

    if not rebuilding_open(compiled):
        yield None
        return
    baseline = environments["baseline"]
    with provision.rehearse(
        baseline.lock,
        baseline.python,
        provision.cache_folder(),
        wheels=provision.wheels_of(compiled.plan, first_backend(compiled.plan, environments)),
        on_event=on_event,
    ) as rebuilt:
        if not rebuilt.steps:
            yield None
            return
        yield {"python": str(rebuilt.python) if rebuilt.python else None, "steps": list(rebuilt.steps)}
