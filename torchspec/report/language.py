"""The memo's words in its language: sentence templates in, spans or text out.

A template is an English sentence. `{name}` takes a value; `*strong*`, `` `code` `` and `~soft~` set the style of what
they enclose. The markers are read in the template before any value is put in, so that a value can never set a style,
add a link or open a template: it stays text. Other languages are tables from English template to their own; a
language without its sentence is a bug, and a test holds the tables complete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache

from torchspec.core.resources import data_folder
from torchspec.model.memo import Span, Style, Words
from torchspec.report.numbers import Locale, count

Value = str | int | Words

LANGUAGES = {"en": Locale("."), "es": Locale(","), "pt": Locale(",")}
_TOKEN = re.compile(r"\{(\w+)\}|([*`~])")
_STYLES: Mapping[str, Style] = {"*": "strong", "`": "code", "~": "soft"}


@cache
def _table(language: str) -> dict[str, str]:
    if language == "en":
        return {}
    path = data_folder("templates") / "lang" / f"{language}.json"
    loaded: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


class Language:
    """One language: its numbers and its sentences. Raises KeyError for a sentence that a table lacks."""

    def __init__(self, code: str = "en") -> None:
        if code not in LANGUAGES:
            raise ValueError(f"no memo in {code}; there is {', '.join(LANGUAGES)}")
        self.code = code
        self.locale = LANGUAGES[code]

    def template(self, english: str) -> str:
        """The language's own template for an English one."""
        return english if self.code == "en" else _table(self.code)[english]

    def text(self, english: str, **values: str | int) -> str:
        """A sentence as plain text (style markers are not read)."""
        parts = re.split(r"\{(\w+)\}", self.template(english))
        return "".join(p if i % 2 == 0 else _plain(values[p]) for i, p in enumerate(parts))

    def words(self, english: str, **values: Value) -> Words:
        """A sentence as spans."""
        spans: list[Span] = []
        style: Style = "plain"
        template = self.template(english)
        at = 0
        for token in _TOKEN.finditer(template):
            spans += _span(template[at : token.start()], style)
            at = token.end()
            if token[2]:
                style = "plain" if style == _STYLES[token[2]] else _STYLES[token[2]]
                continue
            value = values[token[1]]
            if isinstance(value, tuple):
                spans += [Span(s.text, style, s.href) if s.style == "plain" and not s.href else s for s in value]
            else:
                spans += _span(_plain(value), style)
        spans += _span(template[at:], style)
        return merge(spans)

    def plural(self, number: int, one: str, many: str, **values: Value) -> Words:
        """`one` for 1 and `many` otherwise, with `{n}` the number (grouped thousands)."""
        return self.words(one if number == 1 else many, n=number, **values)

    def counted(self, number: int, one: str, many: str, **values: str | int) -> str:
        """As `plural`, as plain text."""
        return self.text(one if number == 1 else many, n=number, **values)

    def listed(self, items: Iterable[Words], most: int = 4, last: str = " and ") -> Words:
        """ "a, b and c" (or " or "); of a longer list the first ones "and 7 more"."""
        every = list(items)
        shown = every if len(every) <= most else every[: most - 1]
        rest = len(every) - len(shown)
        parts = [*shown, *([self.words("{n} more", n=rest)] if rest else [])]
        if not parts:
            return ()
        spans: list[Span] = list(parts[0])
        for index, part in enumerate(parts[1:], start=2):
            spans += self.words(last) if index == len(parts) else (Span(", "),)
            spans += part
        return merge(spans)


def _plain(value: str | int | Words) -> str:
    if isinstance(value, tuple):
        return "".join(s.text for s in value)
    return count(value) if isinstance(value, int) else value


def _span(text: str, style: Style) -> list[Span]:
    return [Span(text, style)] if text else []


def merge(spans: Iterable[Span]) -> Words:
    """Spans with neighbours of one style joined and empty ones left out."""
    out: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if out and (out[-1].style, out[-1].href) == (span.style, span.href):
            out[-1] = Span(out[-1].text + span.text, span.style, span.href)
        else:
            out.append(span)
    return tuple(out)


def plain(text: str) -> Words:
    """Text as words."""
    return (Span(text),) if text else ()


def code(text: str) -> Words:
    """A name from the spec or the machine, in the fixed pitch."""
    return (Span(text, "code"),) if text else ()


def strong(text: str) -> Words:
    return (Span(text, "strong"),) if text else ()


def soft(text: str) -> Words:
    return (Span(text, "soft"),) if text else ()


def link(text: str, href: str) -> Words:
    """A link, where `href` is http(s) or an anchor; everything else stays text."""
    safe = href.startswith("#") or re.match(r"https?://[^\s]+\Z", href)
    return (Span(text, "link", href),) if safe else (Span(text),)


def join(parts: Iterable[Words], between: str = " · ") -> Words:
    """Words one after the other, with `between` between those that are not empty."""
    out: list[Span] = []
    for part in parts:
        if not part:
            continue
        if out:
            out.append(Span(between, out[-1].style if out[-1].style == part[0].style == "soft" else "plain"))
        out += part
    return merge(out)


def clip(text: str, most: int) -> str:
    """Text on one line, cut at `most` characters with a mark of omission; the ledger and the verdict hold it whole."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def text_of(words: Words) -> str:
    """The characters of words alone."""
    return "".join(s.text for s in words)
