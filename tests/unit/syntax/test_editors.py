"""Editors show specs as the parser reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pygments.token import Error, Keyword, Name, Token

from torchspec.core.resources import data_folder
from torchspec.syntax import _tables, editors
from torchspec.syntax.lexical import tokens
from torchspec.syntax.pygments_lexer import TspecLexer

SPECS = sorted(data_folder("specs").rglob("*.tspec"))


def test_the_committed_textmate_grammar_is_that_of_the_terminals() -> None:
    path = data_folder("grammar") / "tspec.tmLanguage.json"
    assert path.read_text(encoding="utf-8") == editors.textmate()


def test_every_terminal_has_a_class_or_is_a_mistake() -> None:
    lines = (data_folder("grammar") / "tspec.lark").read_text(encoding="utf-8")
    mistakes = re.findall(r"^([A-Z_]+)\.", lines.split("// Mistakes known by sight.")[1], re.MULTILINE)
    assert {name for name, _ in _tables.TERMINALS} == set(editors.CLASSES) | set(mistakes)


def test_the_textmate_patterns_are_expressions() -> None:
    for pattern in json.loads(editors.textmate())["patterns"]:
        re.compile(pattern["match"])


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.name)
def test_pygments_loses_nothing_and_sees_no_mistake(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = list(TspecLexer().get_tokens_unprocessed(text))
    assert "".join(part for _, _, part in found) == text
    assert not [part for _, kind, part in found if kind in Error]
    names = [t.text for t in tokens(text) if t.type == "NAME"]
    assert [
        part
        for _, kind, part in found
        if (kind in Name and kind not in Name.Variable) or kind in (Keyword, Keyword.Constant)
    ] == names


def test_pygments_knows_words_decisions_and_mistakes() -> None:
    found = {part: kind for _, kind, part in TspecLexer().get_tokens_unprocessed("on cpu = 2.13.0 else defer ≤\n")}
    assert found["on"] is Keyword
    assert found["defer"] is Keyword.Constant
    assert found["cpu"] is Name
    assert {found[part] for part in ("=", "2.13.0", "≤")} == {Token.Error}
