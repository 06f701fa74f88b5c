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
)
