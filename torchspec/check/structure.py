"""Which statements may stand in which block: unknown words, repeats, blocks missing or out of place.

Must not look at names or units; it hands on every statement that it knows, bound to its slots.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torchspec.catalog import Catalog
from torchspec.check.bind import Bound, bind
from torchspec.check.words import GATE, WORDS, Row
from torchspec.core.diagnostics import Diagnostic, Label, Span
from torchspec.core.near import meant, nearest
from torchspec.syntax.ast import Statement, Value


@dataclass(slots=True)
class Context:
    """What all checks of one spec share: the catalog and the mistakes found so far."""

    catalog: Catalog
    found: list[Diagnostic] = field(default_factory=list)
    meant: set[str] = field(default_factory=set)  # what misspelled words and names were probably meant to be
    silenced: set[str] = field(default_factory=set)  # codes of warnings, by a reason in the file
    misnamed: set[str] = field(default_factory=set)  # backends that are declared and that there are not

    def say(
        self,
        code: str,
        message: str,
        span: Span | None,
        hint: str | None = None,
        labels: tuple[Label, ...] = (),
    ) -> None:
        self.found.append(Diagnostic(code, message, span, labels, hint))

    def missing(self, word: str, message: str, span: Span | None, hint: str | None = None) -> None:
        """A statement that must be there and is not; silent where a misspelled word was probably meant to be it."""
        if word not in self.meant:
            self.say("TS207", message, span, hint)

    def unknown(
        self, code: str, what: str, name: str, span: Span, known: Iterable[str], declare: str | None = None
    ) -> None:
        """An unknown name, with the nearest known one, or all of them where they are few, or how to declare it."""
        options = list(known)
        near = meant(name, options)
        if near:
            self.meant.update(near.strip("`").split("`, or `"))
            hint: str | None = f"did you mean {near}?"
        elif 0 < len(options) <= 12:
            hint = "known: " + ", ".join(options)
        else:
            hint = None
        if declare and not near:
            hint = f"{hint}; or declare it: {declare}" if hint else f"declare it: {declare}"
        thing, of, whose = what.partition(" of ")
        owned = of and thing != "kind"
        self.say(code, f"{whose} has no {thing} `{name}`" if owned else f"there is no {what} `{name}`", span, hint)

    def unknown_metric(self, name: Value) -> None:
        """An unknown metric; where none is near, those of its family."""
        known = self.catalog.metrics
        family = [m for m in known if m.partition(".")[0] == name.text.partition(".")[0]]
        near = meant(name.text, known)
        hint = f"did you mean {near}?" if near else "`torchspec docs metrics` lists all"
        if not near and family:
            hint = "known: " + ", ".join(family)
        self.say("TS213", f"there is no metric `{name.text}`", name.span, hint)


def after(statement: Statement) -> Span:
    """The place right after a statement's last value."""
    end = statement.span
    return Span(end.file, end.end_line, end.end_column, end.end_line, end.end_column + 1)


def walk(
    context: Context, name: str, statements: Iterable[Statement], more: tuple[Row, ...] = ()
) -> dict[str, list[Bound]]:
    """The statements of a block of kind `name`, by word, each bound; gate lines are under "". `more`: more rows."""
    rows = {row.word: row for row in (*WORDS[name], *more)}
    bound: dict[str, list[Bound]] = {}
    for statement in statements:
        row = rows.get(statement.word)
        if row is None and name == "gates" and _is_gate(context, statement, rows):
            row = GATE
        certain = row is not None
        row = row or _unknown_word(context, name, statement, rows)
        if row is None:
            continue
        problems: list[Diagnostic] = []
        made = bind(statement, row, problems)
        before = bound.setdefault(row.word, [])
        if not certain:  # it is taken for the word that was probably meant, where it fits that word without mistake
            if not problems and (row.block is None) == (statement.block is None) and (row.repeat or not before):
                before.append(made)
            continue
        context.found += problems
        if before and not row.repeat and not statement.broken:
            first = before[0].statement.word_span
            message = f"`{statement.word}` stands twice"
            label = (Label(first, "it stands here first"),)
            context.say("TS206", message, statement.word_span, "keep one of them", label)
            continue
        if row.block is None and statement.block is not None:
            context.say("TS208", f"`{statement.word}` takes no block", statement.word_span, "remove the braces")
        if row.block is not None and statement.block is None and not made.broken:
            hint = f"for example: {row.example}" if row.example else None
            context.say("TS207", f"`{statement.word}` needs a block", after(statement), hint)
        before.append(made)
    return bound


def _is_gate(context: Context, statement: Statement, rows: dict[str, Row]) -> bool:
    if statement.word in context.catalog.metrics or "." in statement.word:
        return True
    first = statement.arguments[0][0] if statement.arguments else None
    if first is None or first.text in context.catalog.metrics:
        return False
    return first.kind == "relation" or first.text in context.catalog.relations or nearest(statement.word, rows) is None


def _unknown_word(context: Context, name: str, statement: Statement, rows: dict[str, Row]) -> Row | None:
    """Reports a word that the block does not know; the row that was meant, where there is one and only one."""
    word = statement.word
    if not word:  # a nameless statement of the parser's, reported there
        return None
    where = "at the top of a file" if name == "file" else f"in `{name}`"
    near = meant(word, rows)
    first = statement.arguments[0][0] if statement.arguments else None
    if name == "gates" and first is not None and first.text in context.catalog.metrics:
        row = context.catalog.metrics[first.text]
        hint = f"a gate begins with its metric: {first.text} ...  else {row.usual}"
    elif near:
        context.meant.update(near.strip("`").split("`, or `"))
        hint = f"did you mean {near}?"
    else:
        homes = [place for place, known in WORDS.items() if any(r.word == word for r in known)]
        inside = ", ".join(f"`{h}`" if h != "file" else "the top of a file" for h in homes)
        hint = f"it belongs in {inside}" if homes else "known: " + ", ".join(rows)
    context.say("TS201", f"there is no `{word}` {where}", statement.word_span, hint)
    return rows.get(near.strip("`")) if near else None
