"""Diagnostics as text: no line wider than the terminal, and the carets stand under what is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchspec.check import check_spec
from torchspec.core.diagnostics import Diagnostic, Label, Span, display_width, render_text

CASES = sorted((Path(__file__).resolve().parents[2] / "cases" / "policy").glob("*.tspec"))


@pytest.mark.parametrize("columns", [60, 80])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    seen = 0
    for path in CASES:
        result = check_spec(path)
        sources = {name.replace(str(path), "spec.tspec"): text for name, text in result.sources.items()}
        for found in result.diagnostics:
            lines = render_text(_renamed(found, str(path)), sources, columns=columns).split("\n")
            assert max(map(display_width, lines)) <= columns
            seen += 1
    assert seen > 50


def _renamed(found: Diagnostic, path: str) -> Diagnostic:
    def at(span: Span) -> Span:
        return Span(span.file.replace(path, "spec.tspec"), span.line, span.column, span.end_line, span.end_column)

    labels = tuple(Label(at(label.span), label.text) for label in found.labels)
    return Diagnostic(found.code, found.message, at(found.span) if found.span else None, labels, found.hint)


@pytest.mark.parametrize("before", ["", "x" * 20 + " ", "x" * 70 + " ", "x " * 100, "日本 " * 8])
@pytest.mark.parametrize("after", ["", " y", " y" * 100])
@pytest.mark.parametrize("columns", [None, 40, 80])
def test_carets_stand_under_what_is_meant(before: str, after: str, columns: int | None) -> None:
    text = f"{before}here{after}"
    found = Diagnostic("TS000", "m", Span("f", 1, len(before) + 1, 1, len(before) + 5))
    _, _, _, line, carets = render_text(found, {"f": text}, columns=columns).split("\n")
    start = display_width(carets.split("^")[0])
    assert carets.count("^") == 4
    shown, place = "", 0
    for character in line:
        if start <= place < start + 4:
            shown += character
        place += display_width(character)
    assert shown == "here"
    assert display_width(line) <= (columns or 105)
    whole = display_width(text) <= (columns or 105) - 5
    assert whole == ("…" not in line)


def test_a_label_that_does_not_fit_stands_on_a_line_of_its_own() -> None:
    span = Span("f", 1, 31, 1, 36)
    found = Diagnostic("TS000", "m", Span("f", 1, 1, 1, 3), (Label(span, "why this line is of importance here"),))
    lines = render_text(found, {"f": "ab" + " " * 28 + "label"}, columns=60).split("\n")
    assert lines[-2].endswith("-----")
    assert lines[-1].strip("| ") == "why this line is of importance here"


def test_help_is_broken_between_words_and_only_for_a_terminal() -> None:
    hint = "a hint of several words, which is longer than the terminal is wide by far"
    found = Diagnostic("TS000", "m", None, (), hint)
    assert render_text(found, {}).split("\n")[-1] == f"  = help: {hint}"
    narrow = render_text(found, {}, columns=40).split("\n")[1:]
    assert len(narrow) == 3
    assert " ".join(part.strip() for part in narrow) == f"= help: {hint}"
    assert narrow[1].startswith(" " * 10)
