"""Codes TS90x (plugins)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = (
    Code(
        "TS901",
        "a plugin that cannot be loaded",
        "An installed package has an entry point in the group torchspec.catalog, and importing it raised an error. "
        "The rest of the catalog stands; a spec that needs its rows is told that they are unknown.",
    ),
    Code(
        "TS902",
        "a plugin whose rows are not sound",
        "Rows of a plugin go through the same checks as the catalog's own: sound values, a harness file for each kind "
        "of work, and no name that is taken.",
    ),
    Code(
        "TS903",
        "a plugin's harness file breaks a rule",
        "A plugin's file of work is joined with the harness into one file that runs with the standard library and "
        "torch alone, on Python 3.10 and later. So it imports torch inside its methods, other modules of the harness "
        "at the top, nothing else, and defines no name that the harness has.",
        'import torch\n\nclass Norm(Work):\n    kind = "norm"',
        'from .work import Work\n\nclass Norm(Work):\n    kind = "norm"',
    ),
)
