"""The parser runs the tables that Lark made, agrees with Lark, and goes on after mistakes."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from lark import Lark, Token, Tree

from torchspec.core.resources import data_folder
from torchspec.syntax import _tables, generate
from torchspec.syntax.ast import File, Statement
from torchspec.syntax.parse import parse_source

SPECS = sorted(data_folder("specs").rglob("*.tspec"))


def test_the_committed_tables_are_those_of_the_grammar() -> None:
    assert Path(_tables.__file__).read_text(encoding="utf-8") == generate.generated()


def test_the_grammar_is_lalr_without_conflicts_and_names_every_terminal() -> None:
    text = (data_folder("grammar") / "tspec.lark").read_text(encoding="utf-8")
    lark = Lark(text, start="file", parser="lalr", lexer="basic")
    assert all(not t.name.startswith("__") for t in lark.terminals)
    assert {t.name for t in lark.terminals} == {name for name, _ in _tables.TERMINALS}


def _by_lark(tree: Tree) -> list:
    """Lark's tree as nested lists of token texts: [word, [arguments], block or None]."""
    made = []
    for statement in tree.children:
        if isinstance(statement, Token):
            continue
        word, arguments, block = None, [], None
        for child in statement.children:
            if isinstance(child, Token):
                if word is None:
                    word = str(child)
                if child.type == "LBRACE":
                    block = []
            elif child.data == "argument":
                arguments.append(_flat(child))
            elif child.data == "statement":
                block += _by_lark(Tree("file", [child]))
        made.append([word, arguments, block])
    return made


def _flat(tree: Tree) -> list[str]:
    out: list[str] = []
    for child in tree.children:
        if isinstance(child, Tree) and child.data == "argument":
            out += _flat(child)
        elif isinstance(child, Tree):
            out.append(" ".join(child.children))
    return out


def _ours(statements: tuple[Statement, ...]) -> list:
    return [
        [s.word, [[_raw(v) for v in group] for group in s.arguments], None if s.block is None else _ours(s.block)]
        for s in statements
    ]


def _raw(value) -> str:
    if value.kind == "param":
        return "$" + value.text
    return value.written


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.name)
def test_agrees_with_lark(path: Path) -> None:
    grammar = (data_folder("grammar") / "tspec.lark").read_text(encoding="utf-8")
    lark = Lark(grammar.replace("_line*", "(statement | NEWLINE)*"), start="file", parser="lalr", lexer="basic")
    text = path.read_text(encoding="utf-8")
    result = parse_source(text.encode(), path.name)
    assert result.diagnostics == ()
    assert result.value is not None
    assert _ours(result.value.statements) == _by_lark(lark.parse(text))


def parsed(text: str) -> File:
    result = parse_source(text.encode(), "t.tspec")
    assert result.diagnostics == ()
    assert result.value is not None
    return result.value


def test_places_are_those_of_the_text() -> None:
    text = 'a\n  b "x"  2026-12-01, $p # c\n  größe {\n'
    result = parse_source(text.encode(), "t.tspec")
    statement = result.value.statements[1]
    string, date, parameter = statement.arguments[0][0], statement.arguments[1][0], statement.arguments[1][1]
    assert (string.span.line, string.span.column, string.span.end_column) == (2, 5, 8)
    assert (date.span.column, parameter.span.column, statement.span.end_column) == (10, 22, 24)


def test_values_know_their_kind() -> None:
    (statement,) = parsed('a b.c "s\\n\\u00e9" 3 -2.5e-3 64 KiB 45 tokens/s 3% <= 2026-12-01 $p\n').statements
    kinds = [(v.kind, v.text, v.number, v.unit) for group in statement.arguments for v in group]
    assert kinds == [
        ("name", "b.c", None, None),
        ("string", "s\né", None, None),
        ("number", "3", 3, None),
        ("number", "-2.5e-3", -0.0025, None),
        ("number", "64", 64, "KiB"),
        ("number", "45", 45, "tokens/s"),
        ("number", "3", 3, "%"),
        ("relation", "<=", None, None),
        ("date", "2026-12-01", None, None),
        ("param", "p", None, None),
    ]


def test_names_may_be_words_of_the_language() -> None:
    (statement,) = parsed("workload cpu {\n  on until\n}\n").statements
    assert statement.arguments[0][0].text == "cpu"
    assert statement.block[0].arguments[0][0].text == "until"


def test_carriage_returns_before_line_feeds_are_line_ends() -> None:
    assert parsed("a 1\r\nb 2\r\n") == parsed("a 1\nb 2\n")


def test_a_file_needs_no_last_newline() -> None:
    assert parsed("a 1") == parsed("a 1\n")


def test_mistakes_of_one_file_come_together_in_order() -> None:
    text = 'a = 1\nb "open\nc 2.13.0\nd {\ne 1,000\n'
    found = parse_source(text.encode(), "t").diagnostics
    assert [(d.code, d.span.line) for d in found] == [
        ("TS107", 1), ("TS109", 2), ("TS108", 3), ("TS117", 4), ("TS111", 5),
    ]  # fmt: skip


def test_a_mistake_of_one_meaning_is_read_that_way() -> None:
    result = parse_source("a ≤ 3 % “x” 2.13.0\n".encode(), "t")
    (statement,) = result.value.statements
    assert [v.text for g in statement.arguments for v in g] == ["<=", "3", "x", "2.13.0"]
    assert not statement.broken


@pytest.mark.parametrize(
    "line",
    ['"' * 100_000, "(" * 100_000, "a" * 100_000, "1" * 100_000, "," * 100_000, "a." * 50_000, "1," * 50_000,
     '"\\' * 50_000, "-1e" * 33_000, "{" * 100_000, "}" * 100_000, "x{\n" * 30_000, "\u2028" * 33_000, "\n" * 100_000,
     "a b, " * 20_000, "a 1\n" * 25_000, "'" * 100_000, "1.1.1-" * 16_000, "Aa/s" * 25_000, "# \n" * 33_000],
    ids=lambda t: repr(t[:6]),
)  # fmt: skip
def test_no_text_takes_long(line: str) -> None:
    start = time.process_time()
    parse_source(line.encode(), "t")
    assert time.process_time() - start < 2


@pytest.mark.parametrize("line", ["x {\n", "{\n", "1\n", "a { b }\n"])
def test_reading_stops_after_a_hundred_mistakes_of_form(line: str) -> None:
    for lines in (200, 30_000):
        result = parse_source((line * lines).encode(), "t")
        assert [len(result.diagnostics), result.diagnostics[-1].code, result.value] == [101, "TS125", None]


def test_units_of_grammar_and_catalog_are_the_same() -> None:
    from torchspec.catalog import load

    unit = re.compile(dict(_tables.TERMINALS)["UNIT"])
    assert all(unit.match(name + " ") and unit.match(name + " ")[0] == name for name in load().units)
