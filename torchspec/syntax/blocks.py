"""Braces, before the parse: every block closed once, `{` at the end of its line, `}` alone on its own.

Where a `}` is missing, indentation tells which block lacks it. Knows braces and lines only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torchspec.core.diagnostics import Diagnostic, Label, Span
from torchspec.syntax.lexical import Token

MAX_DEPTH = 12
MAX_ERRORS = 100  # in the form of one file; reading stops there, since what follows would be guesses


@dataclass(slots=True)
class _Open:
    """An open block: its brace, and the column where its line begins."""

    brace: Token
    head: Token


@dataclass(slots=True)
class _Blocks:
    name: str
    missing: int
    out: list[Token] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    said: set[int] = field(default_factory=set)

    def say(self, code: str, message: str, span: Span, hint: str, labels: tuple[Label, ...] = ()) -> None:
        if len(self.found) <= MAX_ERRORS:
            self.found.append(Diagnostic(code, message, span, labels, hint))

    def shape(self, token: Token, message: str, hint: str) -> None:
        if token.line not in self.said:
            self.said.add(token.line)
            self.say("TS119", message, token.span(self.name), hint)

    def newline(self, token: Token) -> None:
        self.out.append(Token("NEWLINE", "\n", token.line, token.column))

    def close_for(self, token: Token) -> None:
        """Closes the innermost block, which lacks its brace before `token`."""
        lacking = self.stack.pop()
        self.missing -= 1
        where = Label(Span(self.name, token.line, 1, token.line, 2), "it should end before this line")
        message = f"the block of `{lacking.head.text}` has no `}}`"
        hint = "a `}` on a line of its own closes a block"
        self.say("TS117", message, lacking.brace.span(self.name), hint, (where,))
        self.out.append(Token("RBRACE", "}", token.line, token.column))
        self.newline(token)


def balance(stream: list[Token], name: str) -> tuple[list[Token], list[Diagnostic], bool]:
    """The same tokens with balanced braces, each at its place; what was wrong; whether the rest can be read at all."""
    stream = _braces_in_open_strings(stream)
    opened = sum(t.type == "LBRACE" for t in stream)
    state = _Blocks(name, opened - sum(t.type == "RBRACE" for t in stream))
    previous = Token("NEWLINE", "\n", 0, 0)
    head = previous
    for token in stream:
        if len(state.found) > MAX_ERRORS:
            return [], state.found, False
        kind = token.type
        starts = previous.type == "NEWLINE"
        if starts and kind != "NEWLINE":
            while state.missing > 0 and state.stack and _lacks(state.stack, token):
                state.close_for(token)
        if kind == "LBRACE":
            if previous.type in ("LBRACE", "RBRACE"):
                state.shape(token, "a line begins before `{`", "`{` ends the line of a word")
                state.newline(token)
                head = token
            if starts and len(state.out) > 1 and state.out[-1].type == "NEWLINE" and state.out[-2].type not in _ENDS:
                state.shape(token, "`{` stands at the end of the line that it belongs to", f"write `{head.text} … {{`")
                state.out.pop()
            elif starts:
                head = token
            state.stack.append(_Open(token, head))
            if len(state.stack) > MAX_DEPTH:
                message = f"blocks are nested more than {MAX_DEPTH} deep"
                return [], [*state.found, Diagnostic("TS120", message, token.span(name))], False
            state.out.append(token)
        elif kind == "RBRACE":
            if not state.stack:
                state.say("TS118", "this `}` closes nothing", token.span(name), "remove it")
                continue
            if not starts:
                state.shape(token, "`}` stands alone on its line", "begin a new line before `}`")
                state.newline(token)
            state.stack.pop()
            state.out.append(token)
        elif kind == "$END":
            while state.stack:
                state.close_for(token)
            state.out.append(token)
        else:
            if kind != "NEWLINE" and previous.type == "LBRACE":
                state.shape(previous, "`{` ends its line", "begin a new line after `{`")
                state.newline(token)
                head = token
            elif kind != "NEWLINE" and previous.type == "RBRACE":
                state.shape(previous, "`}` stands alone on its line", "begin a new line after `}`")
                state.newline(token)
                head = token
            elif starts and kind != "NEWLINE":
                head = token
            state.out.append(token)
        previous = token
    return state.out, state.found, True


_ENDS = ("NEWLINE", "LBRACE", "RBRACE")


def _lacks(stack: list[_Open], token: Token) -> bool:
    """Whether a line that begins with `token` shows that the innermost block should have ended."""
    column = stack[-1].head.column
    if token.type == "RBRACE":
        return column > token.column and any(o.head.column == token.column for o in stack)
    return token.type != "$END" and token.column <= column


def _braces_in_open_strings(stream: list[Token]) -> list[Token]:
    """A string that is not closed hides the `{` at the end of its line: it is a brace again."""
    out: list[Token] = []
    for token in stream:
        out.append(token)
        body = token.text.rstrip()
        if token.type == "UNCLOSED" and body.endswith("{"):
            out.append(Token("LBRACE", "{", token.line, token.column + len(body) - 1))
    return out
