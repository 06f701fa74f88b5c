"""One difference between two specs, and how alike things are matched. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Severity = Literal["weaker", "stronger", "neutral"]


@dataclass(frozen=True, slots=True)
class Change:
    """What a reviewer must know: `text` is one sentence in the author's names.

    `severity`: weaker lets more pass or covers less, stronger the opposite, neutral neither. `before` and `after` are
    the two texts, None where there was or is nothing. `kind` is a fixed word: limit, answer, gate, scope, control,
    workload, axis, coverage, backend, version, frozen, waiver, together, lane, rollback, claim, code, question, budget,
    deviation.
    """

    kind: str
    severity: Severity
    subject: str
    before: str | None
    after: str | None
    text: str


def listed(values: Iterable[Any]) -> str:
    """`a, b`; `nothing` for no values."""
    return ", ".join(str(v) for v in values) or "nothing"


def by_name(things: Iterable[T], key: str = "name") -> dict[str, T]:
    """Things by their name, in their order."""
    return {str(getattr(thing, key)): thing for thing in things}


def changed_keys(old: Mapping[str, T], new: Mapping[str, T]) -> list[str]:
    """Keys whose values differ or that one side lacks, in order of first appearance."""
    return [k for k in dict.fromkeys([*old, *new]) if old.get(k) != new.get(k)]


def time_text(seconds: float) -> str:
    """A time as an author writes it: the largest unit that needs no fraction."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1e3:g} ms"
