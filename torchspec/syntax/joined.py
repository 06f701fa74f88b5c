"""Lines that were meant to be one: a list that goes on after a comma, a string with a line break in it.

Each is one mistake, reported where it begins, and what follows is read as part of it. Knows tokens, not words.
"""

from __future__ import annotations

from torchspec.core.diagnostics import Diagnostic
from torchspec.syntax.lexical import Token

_MOST_LINES = 5  # that a string is looked for


def join(stream: list[Token], name: str) -> tuple[list[Token], list[Diagnostic]]:
    """The same tokens without the line ends inside of lists and strings, and a diagnostic for each such list."""
    kinds = {token.type for token in stream}
    if "UNCLOSED" in kinds:
        stream = _strings(stream)
    return _lists(stream, name) if "COMMA" in kinds else (stream, [])


def _lists(stream: list[Token], name: str) -> tuple[list[Token], list[Diagnostic]]:
    out: list[Token] = []
    found: list[Diagnostic] = []
    head = stream[0]
    for at, token in enumerate(stream):
        last = out[-1] if out else None
        if token.type == "NEWLINE" and last is not None and last.type == "COMMA":
            after = stream[at + 1]
            if after.line == token.line + 1 and after.column > head.column and after.type not in _NO_VALUE:
                hint = "write all of the list on this line; a line may be as long as it needs to be"
                found.append(Diagnostic("TS112", "a list stands on one line", last.span(name), hint=hint))
                continue
        if last is None or last.type == "NEWLINE":
            head = token
        out.append(token)
    return out, found


_NO_VALUE = ("NEWLINE", "LBRACE", "RBRACE", "COMMA", "$END")


def _strings(stream: list[Token]) -> list[Token]:
    """Without what stands between the open quote of a string and the quote at the end of a later line that ends it."""
    out: list[Token] = []
    at = 0
    while at < len(stream):
        token = stream[at]
        out.append(token)
        at += 1
        if token.type != "UNCLOSED" or token.text.strip() == '"':
            continue
        end = at
        while stream[end].type not in ("UNCLOSED", "LBRACE", "RBRACE", "$END") and _near(token, stream[end]):
            end += 1
        if stream[end].type == "UNCLOSED" and stream[end].text.strip() == '"' and _near(token, stream[end]):
            at = end + 1
    return out


def _near(start: Token, token: Token) -> bool:
    return token.line - start.line <= _MOST_LINES
