"""The PDF that others can read: tags, standards, attachments, fonts, bookmarks, and all that page one owes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from types import ModuleType

import pypdf
import pytest
from readers import squeezed

from torchspec.model.memo import Memo
from torchspec.report import render


def test_the_pdf_is_tagged_titled_and_says_its_language(pdf: bytes, memo: Memo) -> None:
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"] is True or str(root["/MarkInfo"]["/Marked"]) == "True"
    assert root["/Lang"] == "en"
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert reader.metadata is not None
    assert reader.metadata.title == memo.question
    assert reader.metadata["/CreationDate"] == "D:20261110062000Z"


def test_the_pdf_claims_both_standards_and_describes_the_second(pdf: bytes) -> None:
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    xmp = reader.trailer["/Root"]["/Metadata"].get_data().decode()
    assert re.search(r'pdfaid:part="3"', xmp)
    assert re.search(r'pdfaid:conformance="A"', xmp)
    assert re.search(r'pdfuaid:part="1"', xmp)
    assert "PDF/UA Universal Accessibility Schema" in xmp
    assert xmp.count("<rdf:RDF") == 1


def test_attachments_are_associated_data_with_the_memos_date(pdf: bytes) -> None:
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    assert sorted(reader.attachments) == ["memo.json", "verdict.json"]
    assert json.loads(reader.attachments["memo.json"][0]) == {"a": 1}
    files = [f.get_object() for f in reader.trailer["/Root"]["/AF"]]
    assert [f["/AFRelationship"] for f in files] == ["/Data", "/Data"]
    dates = {f["/EF"]["/F"]["/Params"]["/CreationDate"] for f in files}
    assert {str(d)[:10] for d in dates} == {"D:20261110"}


def test_every_figure_has_words_and_headings_are_tagged(pdf: bytes, memo: Memo) -> None:
    root = pypdf.PdfReader(io.BytesIO(pdf)).trailer["/Root"]["/StructTreeRoot"]
    seen: dict[str, int] = {}
    unsaid = []
    todo = [root["/K"]]
    while todo:
        item = todo.pop()
        item = item.get_object() if hasattr(item, "get_object") else item
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            kind = str(item.get("/S", ""))
            seen[kind] = seen.get(kind, 0) + 1
            if kind == "/Figure" and not item.get("/Alt"):
                unsaid.append(item)
            if "/K" in item:
                todo.append(item["/K"])
    assert not unsaid
    assert seen["/H1"] == 1
    assert seen["/H2"] >= len(memo.sections) + 3
    assert min(seen[k] for k in ("/Figure", "/Table", "/TH", "/TD", "/L", "/Link", "/P")) > 0


def test_all_fonts_are_embedded(pdf: bytes) -> None:
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    names = set()
    for sheet in reader.pages:
        for font in sheet["/Resources"]["/Font"].values():
            font = font.get_object()
            inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
            assert {"/FontFile", "/FontFile2", "/FontFile3"} & set(inner["/FontDescriptor"].get_object())
            names.add(str(font["/BaseFont"]).split("+")[-1])
    assert {"Memo-Sans", "Memo-Mono"} <= names


def test_page_one_is_page_one_and_carries_no_running_head(pdf: bytes, memo: Memo) -> None:
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    first, second = (reader.pages[i].extract_text() for i in (0, 1))
    assert squeezed(memo.rely[-1].label) in squeezed(first)
    assert squeezed(memo.running) not in squeezed(first)
    assert squeezed(memo.running) in squeezed(second)
    assert squeezed(memo.sections[0].heading) in squeezed(second)
    assert f"Page 2 of {len(reader.pages)}" in second


def test_bookmarks_name_every_section(pdf: bytes, memo: Memo) -> None:
    def titles(items: list[object]) -> Iterator[str]:
        for item in items:
            if isinstance(item, list):
                yield from titles(item)
            else:
                yield item.title  # type: ignore[attr-defined]

    found = [squeezed(x) for x in titles(pypdf.PdfReader(io.BytesIO(pdf)).outline)]
    for section in memo.sections:
        assert any(x.endswith(squeezed(section.heading)) for x in found), section.heading


@pytest.mark.slow
def test_page_one_holds_for_many_places_and_two_candidates(invented: ModuleType) -> None:
    from torchspec.report.view import view

    for plan, verdict in (invented.scaled(20), invented.scaled(200), invented.twice()):
        memo = view(plan, verdict, **invented.arguments(lock=invented.lock(plan), records=[]))
        sheets = pypdf.PdfReader(io.BytesIO(render.pdf_of(memo))).pages
        assert squeezed(memo.rely[-1].label) in squeezed(sheets[0].extract_text())
        assert squeezed(memo.sections[0].heading) in squeezed(sheets[1].extract_text())


@pytest.mark.parametrize("what", ["three candidates", "ten by three"])
def test_page_one_shows_every_place_of_ten_by_three_and_of_three_candidates(invented: ModuleType, what: str) -> None:
    """No place is folded away, and everything that page one owes holds on one page."""
    from torchspec.report.pdf import pages
    from torchspec.report.view import view

    three = what == "three candidates"
    plan, verdict = (
        invented.several("2.15.0", "2.16.0.dev20261120") if three else invented.scaled(10, ("cpu", "cuda", "mps"))
    )
    memo = view(plan, verdict, **invented.arguments(lock=invented.lock(plan), records=[]))
    shown = [row for table in memo.matrices for row in table.rows if row.kind == "row"]
    assert len(shown) == (3 * 3 if three else 10)
    assert all(cell.mark and cell.decision for row in shown for cell in row.cells[1:])
    fonts = render.packaged_fonts()
    held = [pages(render.html_of(memo, paged=True, density=d, alone=True), fonts) for d in render.DENSITIES]
    assert held[-1] == 1, held
