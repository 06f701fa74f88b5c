"""A Pygments lexer for specs, by the entry point group `pygments.lexers`. Needs Pygments, which torchspec does not.

It colours the tokens that the parser's own scanner finds, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pygments.lexer import Lexer
from pygments.token import Token, _TokenType, string_to_tokentype

from torchspec.syntax import editors
from torchspec.syntax._tables import TERMINALS
from torchspec.syntax.lexical import scanner


class TspecLexer(Lexer):  # type: ignore[misc]  # Pygments has no types
    """torchspec's `.tspec` files."""

    name = "torchspec"
    aliases: ClassVar[list[str]] = ["tspec"]
    filenames: ClassVar[list[str]] = ["*.tspec"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """(position, token, text) of everything in `text`, white space included; nothing is left out."""
        starts, decides, last = True, False, 0
        for match in scanner(tuple(TERMINALS)).finditer(text):
            kind, found = match.lastgroup or "UNKNOWN", match.group()
            if match.start() > last:
                yield last, Token.Error, text[last : match.start()]
            last = match.end()
            shown = editors.CLASSES.get(kind, editors.MISTAKE)[1]
            if kind == "NAME" and starts:
                shown = editors.WORD[1]
            elif kind == "NAME" and decides and found in editors.DECISIONS:
                shown = editors.DECISION[1]
            yield match.start(), string_to_tokentype(shown), found
            if kind != "SPACE":
                starts, decides = kind == "NEWLINE", found == "else"
        if last < len(text):
            yield last, Token.Error, text[last:]
