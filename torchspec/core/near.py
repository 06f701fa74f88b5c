"""Did you mean: the known name that a misspelled one is nearest to."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name within a third of `name`'s length in edits (a swap is one), the first of the nearest; else None.

    A name that ends a known dotted name (`driver_peak` of `memory.driver_peak`) is near, too.
    """
    if len(name) > 60:
        return None
    best: tuple[int, str] | None = None
    ending: str | None = None
    for other in known:
        if other.endswith("." + name) and ending is None:
            ending = other
        limit = max(1, max(len(name), len(other)) // 3)
        if abs(len(name) - len(other)) > limit:
            continue
        distance = _distance(name.lower(), other.lower())
        if distance <= limit and (best is None or distance < best[0]):
            best = (distance, other)
    if ending is not None and (best is None or best[0] > 1):
        return ending
    return None if best is None else best[1]


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known names that `name` probably stands for, quoted, as "`this`" or "`this`, or `that`"; None without one."""
    from torchspec.core.elsewhere import called_here

    options = list(known)
    near = nearest(name, options)
    words = called_here(name, options) or ([near] if near else [])
    return ", or ".join(f"`{w}`" for w in words) or None


def _distance(a: str, b: str) -> int:
    """Edits from `a` to `b`: insert, remove, replace, swap neighbours."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
