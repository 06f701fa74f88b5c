"""From bytes to text to tokens. What can hide or rewrite text is refused here, wherever it stands.

`decode` gives text of the same length as the source (CRLF apart), so that places stay true. Must not know any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from torchspec.core.diagnostics import Diagnostic, Span
from torchspec.syntax._tables import TERMINALS

MAX_BYTES = 4 * 1024 * 1024
_MAX_REPORTS = 20

_HIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_LINE_ENDS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


class Token(NamedTuple):
    """A token: `line` and `column` 1-based, in code points."""

    type: str
    text: str
    line: int
    column: int

    def span(self, file: str) -> Span:
        return Span(file, self.line, self.column, self.line, self.column + max(1, len(self.text)))


def decode(data: bytes, name: str) -> tuple[str, list[Diagnostic]]:
    """`data` as text that ends with a newline, and what was wrong with it. The text is "" where nothing can be read."""
    if len(data) > MAX_BYTES:
        return "", [Diagnostic("TS124", f"the file has {len(data)} bytes; the limit is {MAX_BYTES}", _at(name, 1, 1))]
    found: list[Diagnostic] = []
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
        found.append(
            Diagnostic(
                "TS122", "the file begins with a byte order mark", _at(name, 1, 1), hint="save it as UTF-8 without"
            )
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        byte = data[error.start]
        message = f"byte 0x{byte:02x} is not UTF-8"
        return "", [*found, Diagnostic("TS101", message, _at(name, line, column), hint="save the file as UTF-8")]
    text = text.replace("\r\n", "\n")
    if _HIDDEN.search(text):
        found += _hidden(text, name)
        text = _HIDDEN.sub(" ", text)
    if not text.endswith("\n"):
        text += "\n"
    return text, found


def _at(name: str, line: int, column: int, length: int = 1) -> Span:
    return Span(name, line, column, line, column + length)


def _hidden(text: str, name: str) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for number, line in enumerate(text.split("\n"), 1):
        for match in _HIDDEN.finditer(line):
            character, span = match.group(), _at(name, number, match.start() + 1)
            point = f"U+{ord(character):04X}"
            if character == "\t":
                found.append(Diagnostic("TS105", "a tab", span, hint="write spaces; `torchspec fmt` aligns"))
                break
            if character in _LINE_ENDS:
                message = f"{point} ends a line for some programs and not for others"
                found.append(Diagnostic("TS104", message, span, hint="end lines with a line feed"))
            else:
                message = f"{point} is invisible or changes the order in which text is shown"
                hint = f'leave it out; inside a string write "\\u{ord(character):04x}"'
                found.append(Diagnostic("TS103", message, span, hint=hint))
        if len(found) >= _MAX_REPORTS:
            return found[:_MAX_REPORTS]
    return found


def tokens(text: str, terminals: list[tuple[str, str]] = TERMINALS) -> Iterator[Token]:
    """Every token of `text`, spaces left out and comments kept; the last is `$END`."""
    line, start = 1, 0
    for match in scanner(tuple(terminals)).finditer(text):
        kind = match.lastgroup
        if kind == "SPACE" or kind is None:
            continue
        yield Token(kind, match.group(), line, match.start() - start + 1)
        if kind == "NEWLINE":
            line, start = line + 1, match.end()
    yield Token("$END", "", line, len(text) - start + 1)


_scanners: dict[tuple[tuple[str, str], ...], re.Pattern[str]] = {}


def scanner(terminals: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    """One expression for all terminals, in their order; a match's last group is the terminal."""
    made = _scanners.get(terminals)
    if made is None:
        made = _scanners[terminals] = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in terminals))
    return made
