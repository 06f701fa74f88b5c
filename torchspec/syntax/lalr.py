"""The LALR(1) automaton that runs the tables which Lark computed. Knows tokens and rules, not what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torchspec.syntax.lexical import Token

Reducer = Callable[[str, list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Tables:
    """`states[s][token]`: next state, or -1 - rule to reduce; `gotos[s][origin]`: state after a reduction."""

    states: list[dict[str, int]]
    gotos: list[dict[str, int]]
    rules: list[tuple[str, int]]
    start: int
    end: int


class Automaton:
    """A parse under way. `reduce(origin, values)` gives the value of a finished rule."""

    __slots__ = ("_reduce", "_tables", "stack", "values")

    def __init__(self, tables: Tables, reduce: Reducer) -> None:
        self._tables = tables
        self._reduce = reduce
        self.stack = [tables.start]
        self.values: list[Any] = []

    @property
    def state(self) -> int:
        return self.stack[-1]

    def accepts(self, kind: str) -> bool:
        """Whether a token of this kind could be next (without its reductions being tried out)."""
        return kind in self._tables.states[self.stack[-1]]

    def feed(self, token: Token) -> bool:
        """Takes one token; False, with nothing changed that matters, where it cannot be next."""
        tables = self._tables
        while True:
            action = tables.states[self.stack[-1]].get(token.type)
            if action is None:
                return False
            if action >= 0:
                self.stack.append(action)
                self.values.append(token)
                return True
            origin, length = tables.rules[-1 - action]
            if length:
                made = self._reduce(origin, self.values[-length:])
                del self.stack[-length:], self.values[-length:]
            else:
                made = self._reduce(origin, [])
            self.stack.append(tables.gotos[self.stack[-1]][origin])
            self.values.append(made)
            if self.stack[-1] == tables.end and token.type == "$END":
                return True

    def drop(self) -> bool:
        """Forgets the last symbol on the stack; False when there is none."""
        if len(self.stack) == 1:
            return False
        self.stack.pop()
        self.values.pop()
        return True


def first_failure(tables: Tables, stream: Iterable[Token]) -> tuple[int, str] | None:
    """State and kind of the first token that does not fit; None where all do."""
    automaton = Automaton(tables, lambda origin, values: None)
    for token in stream:
        if not automaton.feed(token):
            return automaton.state, token.type
    return None
