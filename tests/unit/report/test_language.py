"""Every sentence of the memo exists in every language, with the same places and styles."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from torchspec import catalog
from torchspec.core.resources import data_folder
from torchspec.model.codec import to_json
from torchspec.model.memo import Span
from torchspec.report import language, names
from torchspec.report.language import Language, clip, link, merge, text_of
from torchspec.report.view import view

SOURCES = Path(language.__file__).parent
METHODS = {"text", "words", "plural", "counted", "listed"}


def sentences() -> set[str]:
    """Every template that the report's sources ask a language for."""
    found: set[str] = {" and ", " or "}
    for path in SOURCES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
                continue
            for argument in node.args:
                inner = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
                found |= {n.value for n in inner if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    tables = (names.METRICS, names.FAMILIES, names.OUTCOMES, names.OUTCOME_MEANINGS, names.DECISIONS)
    for table in (*tables, names.DECISION_MEANINGS, names.STATUSES, names.RUNS, names.WAIVERS, names.STEPS):
        found |= set(table.values())
    found |= {w for pair in names.METERS.values() for w in pair} | {w for _, w in names.CLAIMS.values()}
    found |= {w for pairs in (names.SAMPLES, names.FOUND) for pair in pairs.values() for w in pair}
    return found | set(names.RULES)


def table(code: str) -> dict[str, str]:
    loaded: dict[str, str] = json.loads((data_folder("templates") / "lang" / f"{code}.json").read_text("utf-8"))
    return loaded


@pytest.mark.parametrize("code", ["es", "pt"])
def test_a_table_has_every_sentence_and_no_other(code: str) -> None:
    assert set(table(code)) == sentences()


@pytest.mark.parametrize("code", ["es", "pt"])
def test_a_translation_keeps_places_and_styles(code: str) -> None:
    for english, own in table(code).items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", own)), english
        marks = [sorted(c for c in re.sub(r"\{\w+\}", "", s) if c in "*`~") for s in (english, own)]
        assert marks[0] == marks[1], english
        assert own.strip(), english
        assert (english[0] == " ") == (own[0] == " "), english


@pytest.mark.parametrize(("code", "decision", "number"), [("es", "aplazar", "+70,2"), ("pt", "adiar", "+70,2")])
def test_a_page_is_translated_as_a_whole(invented: ModuleType, code: str, decision: str, number: str) -> None:
    plan = invented.plan()
    memo = view(plan, invented.verdict(plan), **invented.arguments(), language=code)
    assert memo.answers[0].decision.text == decision
    assert memo.language == code
    assert number in text_of(memo.reasons[0].words)
    english = view(plan, invented.verdict(plan), **invented.arguments())
    same = set(_texts(to_json(memo))) & set(_texts(to_json(english)))
    translated = {k for k, v in table(code).items() if k != v and len(k) > 12}
    assert not same & translated


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [t for v in value.values() for t in _texts(v)]
    if isinstance(value, list):
        return [t for v in value for t in _texts(v)]
    return [value] if isinstance(value, str) else []


def test_a_value_never_sets_a_style_or_opens_a_place() -> None:
    words = Language().words("*{a}* of `{b}`", a="*x* {b}", b="`y`")
    assert words == (Span("*x* {b}", "strong"), Span(" of "), Span("`y`", "code"))


def test_a_list_is_cut_where_it_would_be_too_long() -> None:
    t = Language()
    assert text_of(t.listed([(Span(c),) for c in "abc"])) == "a, b and c"
    assert text_of(t.listed([(Span(c),) for c in "abcdef"])) == "a, b, c and 3 more"
    assert text_of(t.listed([(Span(c),) for c in "ab"], last=" or ")) == "a or b"
    assert t.listed([]) == ()


@pytest.mark.parametrize(
    "href", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://a b", "//a"]
)
def test_only_web_addresses_and_anchors_become_links(href: str) -> None:
    assert link("x", href) == (Span("x"),)
    assert link("x", "https://a.example/b")[0].href == "https://a.example/b"


def test_clip_and_merge() -> None:
    assert clip("a\n b  c", 9) == "a b c"
    assert clip("x" * 20, 8) == "xxxxxxx…"
    assert merge([Span("a"), Span(""), Span("b"), Span("c", "code")]) == (Span("ab"), Span("c", "code"))


def test_every_metric_of_the_catalog_has_a_name_in_words() -> None:
    """A memo for those who decide does not say `export.onnx`."""
    assert [metric for metric in catalog.load().metrics if metric not in names.METRICS and metric != "runs"] == []
