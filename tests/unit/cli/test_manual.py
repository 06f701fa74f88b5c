"""`torchspec docs`: the page of the language is in step with the tables, and what it shows holds."""

from __future__ import annotations

import re
from pathlib import Path

from torchspec.check import check_spec
from torchspec.check.words import WORDS
from torchspec.cli import manual
from torchspec.core.codes import CODES

PAGE = manual.PAGES / "language.md"


def test_the_page_holds_what_the_tables_say() -> None:
    """To accept a change: python -m torchspec.cli.manual"""
    assert PAGE.read_text(encoding="utf-8") == manual.language()


def test_every_block_of_the_language_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert {name for name in WORDS if f"<!-- tables: words {name} -->" in text} == set(WORDS)


def test_its_example_is_sound(tmp_path: Path) -> None:
    (example,) = re.findall(r"```tspec\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "spec.tspec").write_text(example, encoding="utf-8")
    result = check_spec(tmp_path / "spec.tspec")
    assert result.diagnostics == ()
    assert result.spec is not None


def test_its_codes_are_those_that_there_are() -> None:
    assert set(re.findall(r"TS[0-9]{3}", PAGE.read_text(encoding="utf-8"))) <= set(CODES)


def test_topics_are_the_tables_and_the_pages() -> None:
    topics = manual.topics()
    assert list(topics)[:2] == ["language", "metrics"]
    assert {p.stem for p in manual.PAGES.glob("*.md")} <= set(topics)
    for make in topics.values():
        text = make()
        assert text.startswith("#")
        assert "<!--" not in text


def test_every_word_of_the_language_is_explained() -> None:
    texts = manual.word_texts()
    words = {row.word for rows in WORDS.values() for row in rows}
    named = {name for rows in WORDS.values() for row in rows for name, _ in row.named}
    assert set(texts) == words | named | {"sees", "repeats", "else"}
    assert set(manual.NAMED) <= set(texts)
    assert "isolate, defer or rollback" in texts["else"]
