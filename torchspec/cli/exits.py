"""Exit codes, for scripts. `torchspec explain exits` prints this table."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the process's exit status means."""

    ADOPT = 0
    SPEC = 2
    MACHINE = 3
    BROKEN = 4
    ISOLATE = 10
    DEFER = 20
    ROLLBACK = 30
    EXPLORATORY = 40
    BUG = 70
    INTERRUPTED = 130


OK = Exit.ADOPT

MEANING = {
    Exit.ADOPT: "adopted; or, for commands that decide nothing, all is well",
    Exit.SPEC: "the spec or the command line is wrong; a `fmt --check` or `diff --exit-code` found something",
    Exit.MACHINE: "the tool or a machine failed: an environment, a disk, a missing file; nothing was decided",
    Exit.BROKEN: "verify: something does not hold",
    Exit.ISOLATE: "isolated: the candidate may run in the named places only",
    Exit.DEFER: "deferred: nothing new may run it",
    Exit.ROLLBACK: "rolled back: undo what runs it",
    Exit.EXPLORATORY: "would be adopted, but the run is exploratory (spec not committed, or a limit changed after its "
    "first evidence): not a decision to adopt",
    Exit.BUG: "a bug of torchspec's own; a report is asked for",
    Exit.INTERRUPTED: "interrupted; `torchspec run` again resumes",
}

BY_DECISION = {
    "adopt": Exit.ADOPT,
    "isolate": Exit.ISOLATE,
    "defer": Exit.DEFER,
    "rollback": Exit.ROLLBACK,
}


def for_decision(decision: str, confirmatory: bool) -> Exit:
    """The exit code of a decision; an exploratory run never ends with the code for adopted."""
    code = BY_DECISION[decision]
    return Exit.EXPLORATORY if code is Exit.ADOPT and not confirmatory else code
