"""Three renderers of one model: the same words in the same order, and the same bytes each time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pypdf
from readers import read, squeezed

from torchspec.core.canon import canonical
from torchspec.model.codec import to_json
from torchspec.model.memo import Memo
from torchspec.report import markdown, render


def words_of(value: object) -> Iterator[str]:
    """Every text of a memo's JSON that a reader must find on the page."""
    if isinstance(value, dict):
        if value.get("kind") == "axis" or {"low", "high", "ticks"} <= set(value):
            return
        for key, inner in value.items():
            if key in {
                "schema",
                "language",
                "reference",
                "issued",
                "compiler",
                "labels",
                "href",
                "style",
                "kind",
                "key",
                "anchor",
                "align",
                "plot",
                "registration",
                "candidate",
                "unit",
                "name",
                "title",
                "running",
            }:
                continue
            yield from words_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_of(inner)
    elif isinstance(value, str) and value.strip():
        yield value


def unmarked(text: str) -> str:
    """Markdown back to words: without table lines, marks of style, and escapes."""
    text = re.sub(r"\]\([^)\s]*\)", "]", text)
    text = text.replace("&#64;", "@")
    out = re.sub(r"\\(.)", lambda m: f"\x00{ord(m[1])}\x00", text)
    out = re.sub(r"[*`|\[\]]", "", out)
    return re.sub(r"\x00(\d+)\x00", lambda m: chr(int(m[1])), out)


def test_all_words_are_in_all_three(memo: Memo, page: str, pdf: bytes) -> None:
    in_html = squeezed("".join(read(page).text))
    in_markdown = squeezed(unmarked(render.markdown_of(memo)))
    paged = squeezed("".join(read(render.html_of(memo, paged=True)).text))
    in_pdf = squeezed("".join(p.extract_text() for p in pypdf.PdfReader(io.BytesIO(pdf)).pages))
    checked = 0
    for text in words_of(to_json(memo)):
        word = squeezed(text)
        assert word in in_html, text
        assert word in paged, text
        bare = re.sub(r"[*`|\[\]]", "", word)
        assert bare in re.sub(r"[*`|\[\]]", "", in_markdown), text
        if len(word) <= 12:  # longer ones may be cut by a page's end
            assert word in in_pdf, text
        checked += 1
    assert checked > 500


def test_words_come_in_the_same_order(memo: Memo, page: str) -> None:
    headings = [memo.matrix_heading, memo.reasons_heading, memo.changes_heading, memo.rely_heading]
    headings += [s.heading for s in memo.sections]
    for text in ("".join(read(page).text), unmarked(render.markdown_of(memo))):
        at = [squeezed(text).index(squeezed(h)) for h in headings]
        assert at == sorted(at)


def test_the_same_memo_gives_the_same_bytes(memo: Memo, page: str) -> None:
    assert render.html_of(memo) == page
    short = replace(memo, sections=memo.sections[1:2])
    assert render.pdf_of(short, attachments={"a.json": b"1"}) == render.pdf_of(short, attachments={"a.json": b"1"})


def test_render_writes_four_whole_files(memo: Memo, tmp_path: Path) -> None:
    memo = replace(memo, sections=memo.sections[1:2])
    files = render.render(memo, tmp_path / "new" / "folder")
    assert sorted(files) == ["memo.html", "memo.json", "memo.md", "memo.pdf"]
    assert files["memo.json"].read_bytes() == canonical(to_json(memo))
    assert not [p for p in (tmp_path / "new" / "folder").iterdir() if p.name.startswith(".")]
    reader = pypdf.PdfReader(files["memo.pdf"])
    assert reader.attachments["memo.json"][0] == files["memo.json"].read_bytes()


def test_each_outcome_has_its_own_shape_in_text() -> None:
    shapes = [markdown.MARKS[k].format("")[0] for k in ("pass", "fail", "inconclusive", "error", "not_run")]
    assert len(set(shapes)) == 5
