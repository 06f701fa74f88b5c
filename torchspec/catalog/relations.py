"""Relations: how a limit is put to a metric."""

from __future__ import annotations

from torchspec.catalog.rows import Relation

RELATIONS: tuple[Relation, ...] = (
    Relation("absolute", "the candidate's own figure, at most (<=) or at least (>=)", True, "metric", False, None),
    Relation("growth", "by how much the figure rises, as a share of the reference", True, "ratio", True, "up"),
    Relation("drop", "by how much the figure falls, as a share of the reference", True, "ratio", True, "down"),
    Relation("increase", "candidate less reference, in the metric's own unit", True, "metric", True, "up"),
    Relation("decrease", "reference less candidate, in the metric's own unit", True, "metric", True, "down"),
    Relation("speedup", "how many times faster than the reference", True, "factor", True, None),
    Relation("identical", "bit for bit the same in every repeat", False, None, False, None),
    Relation("holds", "true", False, None, False, None),
    Relation("report", "shown, never judged", False, None, False, None),
)
