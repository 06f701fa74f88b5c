"""Pages read back: the words, addresses and attributes of HTML, and words however a layout breaks their lines."""

from __future__ import annotations

import re
from html.parser import HTMLParser

ACCENTS = re.compile(r"[\s\u00a0\u202f\u00ad]+")


def squeezed(text: str) -> str:
    """Without white space, so that line breaks of a layout do not matter."""
    return ACCENTS.sub("", text)


class Reader(HTMLParser):
    """The text of an HTML page, its addresses and its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.loads: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.quiet = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        self.loads += [v or "" for k, v in attrs if k in {"src", "srcset", "data", "poster", "background", "action"}]
        if tag == "link":
            self.loads.append(found.get("href") or "")
        self.quiet += tag in {"script", "style", "title"}

    def handle_endtag(self, tag: str) -> None:
        self.quiet -= tag in {"script", "style", "title"}

    def handle_data(self, data: str) -> None:
        if not self.quiet:
            self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader
