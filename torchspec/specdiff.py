"""What a reviewer must know about a changed spec: the differences of two plans, in words and as values.

Places, comments and order do not count. Must not read files or git; `pipeline` brings the two plans.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchspec import catalog as catalog_tables
from torchspec.catalog import Catalog
from torchspec.model.plan import Plan
from torchspec.model.registration import Deviation
from torchspec.specdiff_change import Change, Severity
from torchspec.specdiff_frame import deviation_changes, frame_changes
from torchspec.specdiff_gates import gate_changes
from torchspec.specdiff_work import work_changes

__all__ = ["Change", "diff", "render"]

_ORDER: tuple[Severity, ...] = ("weaker", "stronger", "neutral")
_HEADS: dict[Severity, str] = {
    "weaker": "Weaker: lets more pass, or covers less",
    "stronger": "Stronger: lets less pass, or covers more",
    "neutral": "Other changes",
}
_COLORS: dict[Severity, str] = {"weaker": "\x1b[1;31m", "stronger": "\x1b[1;32m", "neutral": "\x1b[1m"}


def diff(
    old: Plan,
    new: Plan,
    catalog: Catalog | None = None,
    deviations: tuple[Sequence[Deviation], Sequence[Deviation]] = ((), ()),
) -> tuple[Change, ...]:
    """The differences, the weakening ones first; empty where the two say the same. `deviations`: the two blocks."""
    tables = catalog if catalog is not None else catalog_tables.load()
    found = [*gate_changes(old, new, tables), *work_changes(old, new), *frame_changes(old, new)]
    found += deviation_changes(*deviations)
    return tuple(sorted(found, key=lambda change: _ORDER.index(change.severity)))


def render(changes: Sequence[Change], color: bool = False) -> str:
    """The changes as text for a terminal or a pull request."""
    if not changes:
        return "no difference that matters"
    parts = []
    for severity in _ORDER:
        own = [c for c in changes if c.severity == severity]
        if own:
            head = f"{_COLORS[severity]}{_HEADS[severity]}\x1b[0m" if color else _HEADS[severity]
            parts.append("\n".join([head, *(f"  {c.text}  [{c.subject}]" for c in own)]))
    return "\n\n".join(parts)
