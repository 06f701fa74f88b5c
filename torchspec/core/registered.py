"""The part of a spec that was registered: everything but the `deviations` block at its end, which may grow.

A deviation is written down after the evidence began; it must not look like a changed limit. So the plan names the
digest of the registered part, and only a block that holds nothing but deviations and comments, as the last thing in its
file, is left out of it. Works on bytes, without the parser, because git hands out bytes of any age.
"""

from __future__ import annotations

import re

_LINE = rb"[ \t]*(?:deviation[ \t][^\r\n]*|#[^\r\n]*)?\r?\n"
_REST = rb"[ \t]*(?:#[^\r\n]*)?"
_BLOCK = re.compile(
    rb"(?:\A|(?<=\n))deviations[ \t]*\{[ \t]*(?:#[^\r\n]*)?\r?\n(?P<lines>(?:" + _LINE + rb")*)[ \t]*\}"
    rb"(?:" + _REST + rb"\r?\n)*" + _REST + rb"\Z"
)


def registered(data: bytes) -> bytes:
    """`data` without the `deviations` block at its end, ending as if the block had never been written."""
    found = _BLOCK.search(data)
    return data[: found.start()].rstrip(b" \t\r\n") + b"\n" if found else data


def deviation_lines(data: bytes) -> tuple[bytes, ...]:
    """The lines of the `deviations` block at the end of `data` that hold a deviation, one space between words: setting
    them out anew (`torchspec fmt`) is no edit."""
    found = _BLOCK.search(data)
    lines = found["lines"].splitlines() if found else []
    return tuple(b" ".join(line.split()) for line in lines if line.strip().startswith(b"deviation"))
