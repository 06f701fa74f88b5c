"""One question whose answer is a fact, asked again where whoever was to answer was ended: once is nobody's fault.

An error that the work itself raised is told by the work, and is a fact at once. A worker that exits, is killed or hangs
may have been ended by something else (the system for want of memory, a person, a stall): that is recorded as
`side.failed`, and the question is put once more, to a new worker. The second time it is a fact, which says how often.

A fact of one side may depend on the other: the candidate's state is read by the baseline. What the baseline cannot do
with its own work either is not the candidate's fault, and no fact. Must not know what is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .run import Run
from .supervise import Unable, WorkerFailed

ATTEMPTS = 2


def fact_of_failure(failure: Any, attempts: int) -> dict[str, Any]:
    """What a fact says of a worker or job that failed at it (`how`, `error`, `doing`), after so many attempts."""
    found = {"holds": False, "error": failure.error, "how": failure.how, "stage": failure.doing}
    return {**found, "attempts": attempts} if attempts > 1 else found


def asked_twice(
    run: Run, cell: str, side: str, ask: Callable[[], dict[str, Any]], *, reads: tuple[str, ...],
    writes: tuple[str, ...] = (), alone: Callable[[], Any] | None = None, other_ran: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """What `ask()` finds for a fact of `side`, or that it does not hold because a worker failed at it.

    `reads` and `writes` name the requests that are the operation under test: a failure at one of `reads` is the fact's
    whichever side reads; at one of `writes` only where the side itself writes. `alone()` has the other side do its part
    with its own work; it raises WorkerFailed where it cannot. Raises Unable where nothing was learnt about `side`.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return ask()
        except WorkerFailed as failure:
            owner = failure.worker.side if failure.worker is not None else side
            its_own = failure.doing in reads or (failure.doing in writes and owner == side)
            told = failure.how == "raised" and its_own
            if not told:
                run.side_failed(cell, failure, owner, other_ran, "question")
                if attempt < ATTEMPTS:
                    continue
            if not its_own:
                why = f"{owner} {failure.how} while doing {failure.doing}: {failure.error}"
                raise Unable(why, "machine") from failure
            if owner != side and not told:
                _hold_alone(owner, failure, alone)
            return fact_of_failure(failure, attempt)
    raise AssertionError("the last attempt returns or raises")


def _hold_alone(owner: str, failure: WorkerFailed, alone: Callable[[], Any] | None) -> None:
    """Raises Unable where the other side fails at its own work too, or has none to be held against."""
    error = f"{owner} {failure.how} twice while doing {failure.doing}: {failure.error}"
    if alone is None:
        raise Unable(f"{error}; it has no work of its own to compare with", "machine") from failure
    try:
        alone()
    except (WorkerFailed, Unable) as own:
        raise Unable(f"{error}; with its own work too: {own}", "machine") from failure
