"""From bytes to AST. Goes on after a mistake, one a line, so that a file's mistakes are reported together.

A mistake that can be read in one way only (a typographic quote, `≤`, an unquoted version) is reported and read that
way; any other leaves its statement marked as broken. Must not know what any word means.
"""

from __future__ import annotations

from typing import Any

from torchspec.core.diagnostics import Diagnostic, Result, Span, sort_diagnostics
from torchspec.syntax import _tables
from torchspec.syntax.ast import File, Statement
from torchspec.syntax.blocks import MAX_ERRORS, balance
from torchspec.syntax.joined import join
from torchspec.syntax.lalr import Automaton, Tables
from torchspec.syntax.lexical import Token, decode, tokens
from torchspec.syntax.messages import hyphenless, syntax_error
from torchspec.syntax.values import make_value

TABLES = Tables(_tables.STATES, _tables.GOTOS, _tables.RULES, _tables.START, _tables.END)


def parse_source(data: bytes, name: str) -> Result[File]:
    """The AST of `data`, and every mistake of form in it.

    `value` is None only where nothing can be read (not UTF-8, nested too deeply, a hundred lines that are no
    statements); else it holds what could be read.
    """
    text, found = decode(data, name)
    if not text:
        return Result(None, sort_diagnostics(found))
    return parse_text(text, name, found)


def parse_text(text: str, name: str, found: list[Diagnostic] | None = None) -> Result[File]:
    """As `parse_source`, from text that `decode` gave."""
    joined, lists = join([t for t in tokens(text) if t.type != "COMMENT"], name)
    stream, problems, readable = balance(joined, name)
    parser = _Parser(name, [*(found or ()), *lists, *problems])
    statements = parser.run(stream) if readable else None
    value = None if statements is None else File(name, tuple(statements))
    return Result(value, _limited(parser.found))


def _limited(found: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    ordered = sort_diagnostics(found)
    if len(ordered) <= MAX_ERRORS:
        return ordered
    more = Diagnostic("TS125", "there are more mistakes of form", ordered[MAX_ERRORS - 1].span, hint="mend these first")
    return (*ordered[:MAX_ERRORS], more)


class _Parser:
    def __init__(self, name: str, found: list[Diagnostic]) -> None:
        self.name = name
        self.found = found
        self._broken: set[int] = set()  # lines
        self._reported: set[int] = {d.span.line for d in found if d.span is not None}

    def run(self, stream: list[Token]) -> list[Statement] | None:
        automaton = Automaton(TABLES, self._reduce)
        position, recovered = 0, -1
        while True:
            token = stream[position]
            if automaton.feed(token):
                if token.type == "$END":
                    return [s for s in automaton.values[0] if isinstance(s, Statement)]
                position += 1
                continue
            self._report(syntax_error(automaton.state, token, self.name), token.line)
            name = hyphenless(token)
            if name is not None and automaton.accepts("NAME"):
                automaton.feed(token._replace(type="NAME", text=name))
                position += 1
                continue
            if len(self._broken) > MAX_ERRORS:
                return None
            if position == recovered:  # recovery did not help: the token goes, so that every step is a step on
                position += 1
                if position == len(stream):
                    return []
            else:
                position = recovered = self._recover(automaton, stream, position)

    def _recover(self, automaton: Automaton, stream: list[Token], position: int) -> int:
        """Brings automaton and stream to the end of the line; the position to go on from.

        An opening brace keeps its block, with a nameless statement where the line has no word.
        """
        line = stream[position].line
        self._broken.add(line)
        end = position
        while stream[end].type not in ("NEWLINE", "LBRACE", "$END"):
            end += 1
        while not automaton.accepts("NEWLINE") and automaton.drop():
            pass
        if stream[end].type == "LBRACE" and not automaton.accepts("LBRACE"):
            automaton.feed(Token("NAME", "", line, stream[position].column))
        return end

    def _report(self, diagnostic: Diagnostic, line: int) -> None:
        if line not in self._reported and len(self._reported) <= MAX_ERRORS:
            self._reported.add(line)
            self.found.append(diagnostic)

    def _reduce(self, origin: str, values: list[Any]) -> Any:
        if origin == "value":
            made, problem, certain = make_value(values, self.name)
            if problem is not None:
                line = values[0].line
                if certain:
                    self.found.append(problem)
                    self._reported.add(line)
                else:
                    self._report(problem, line)
                    self._broken.add(line)
            return made
        if origin == "argument":
            if len(values) == 1:
                return [values[0]]
            if values[1].type == "TIGHT_COMMA":
                span = values[1].span(self.name)
                self.found.append(Diagnostic("TS112", "a list's comma has a space after it", span, hint="write `, `"))
            values[0].append(values[2])
            return values[0]
        if origin == "statement":
            return self._statement(values)
        if origin == "file":
            return values[0] if values else []
        if origin == "_line":
            return values[0]
        if len(values) == 1:  # Lark's helper rules of `*`: the list grows in place, so that time stays linear
            return [values[0]]
        values[0].append(values[1])
        return values[0]

    def _statement(self, values: list[Any]) -> Statement:
        head: Token = values[0]
        lists: list[list[Any]] = [[], []]  # arguments, lines of the block
        braces = 0
        for item in values[1:]:
            if not isinstance(item, Token):
                lists[braces] = item
            elif item.type == "LBRACE":
                braces = 1
        groups = (tuple(v for v in group if v is not None) for group in lists[0])
        arguments = tuple(group for group in groups if group)
        block = tuple(s for s in lists[1] if isinstance(s, Statement)) if braces else None
        start = head.span(self.name)
        last = arguments[-1][-1].span if arguments else start
        span = Span(self.name, start.line, start.column, last.end_line, last.end_column)
        return Statement(head.text, start, arguments, block, span, head.line in self._broken)
