"""Codes of the command line and the pipeline, whatever their range: places, names and revisions that are not there."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = (
    Code(
        "TS690",
        "the output cannot be written",
        "A compiled spec and its verdict are written whole or not at all; the disk or the folder refused.",
        "torchspec compile my.tspec --out /full",
        "torchspec compile my.tspec --out out",
    ),
    Code(
        "TS691",
        "--only names nothing that is there",
        "A name that selects no cell would measure nothing, and no evidence is never a pass.",
        "torchspec run --only atention",
        "torchspec run --only attention",
    ),
    Code(
        "TS692",
        "the folder holds another benchmark",
        "A benchmark that was stopped goes on where it stopped, with the same options only: its figures are one run's.",
        "torchspec bench quality --pairs 90",
        "torchspec bench quality --pairs 90 --out out/bench90",
    ),
    Code(
        "TS700",
        "the ledger does not hold",
        "A verdict is only as good as its evidence: a broken chain, a changed or a missing record ends judging.",
        good="torchspec ledger verify",
    ),
    Code(
        "TS830",
        "neither a spec nor a revision",
        "`diff` compares two spec files, or a spec of a repository at two of its revisions.",
        "torchspec diff nosuch my.tspec",
        "torchspec diff main...HEAD my.tspec",
    ),
)
