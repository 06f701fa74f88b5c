"""One row of the table of codes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A diagnostic code: `title` in a few words, `why` it is refused, and an example of `bad` and `good` text."""

    code: str
    title: str
    why: str
    bad: str = ""
    good: str = ""
