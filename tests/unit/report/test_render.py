"""Three renderers of one model: the same words, nothing fetched, the same bytes, and a PDF that others can read."""

from __future__ import annotations

import html
import io
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pypdf
import pytest
from jinja2.exceptions import SecurityError

from torchspec.core.canon import canonical
from torchspec.model.codec import to_json
from torchspec.model.memo import Memo
from torchspec.report import markdown, render
from torchspec.report.pdf import Refused, fetch

ACCENTS = re.compile(r"[\s\u00a0\u202f\u00ad]+")


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


def unmarked(text: str) -> str:
    """Markdown back to words: without table lines, marks of style, and escapes."""
    text = re.sub(r"\]\([^)\s]*\)", "]", text)
    text = text.replace("&#64;", "@")
    out = re.sub(r"\\(.)", lambda m: f"\x00{ord(m[1])}\x00", text)
    out = re.sub(r"[*`|\[\]]", "", out)
    return re.sub(r"\x00(\d+)\x00", lambda m: chr(int(m[1])), out)


@pytest.fixture(scope="module")
def page(memo: Memo) -> str:
    return render.html_of(memo)


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


def test_the_page_is_one_file_that_loads_nothing(page: str) -> None:
    reader = read(page)
    assert reader.loads == []
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert style is not None
    addresses = re.findall(r"url\(\s*[\"']?([^\"')]{0,40})", style[1])
    assert addresses
    assert all(a.startswith("data:") for a in addresses)
    assert "@import" not in style[1]
    policy = next(a["content"] for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not [a for _, a in reader.tags if "style" in a or any(k.startswith("on") for k in a)]


def test_headings_skip_no_level_and_there_is_one_h1(page: str) -> None:
    levels = [int(t[1]) for t, _ in read(page).tags if re.fullmatch(r"h[1-6]", t)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_every_header_cell_has_a_scope_and_every_picture_a_title(page: str) -> None:
    tags = read(page).tags
    assert all("scope" in a for t, a in tags if t == "th")
    pictures = [i for i, (t, _) in enumerate(tags) if t == "svg"]
    assert pictures
    assert all(tags[i + 1][0] == "title" for i in pictures)
    anchors = [a["id"] for _, a in tags if "id" in a]
    assert len(anchors) == len(set(anchors))
    links = [a["href"] for t, a in tags if t == "a" and (a.get("href") or "").startswith("#")]
    assert links
    assert {link[1:] for link in links if link} <= set(anchors)


# ---- text from outside


def test_hostile_text_stays_text_in_html(evil: Memo) -> None:
    page = render.html_of(evil)
    reader = read(page)
    assert [t for t, _ in reader.tags if t in {"img", "b", "iframe", "link", "object"}] == []
    assert sum(t == "script" for t, _ in reader.tags) == 1
    assert reader.loads == []
    assert "49" not in re.findall(r"\{\{[^}]*\}\}|49(?= \{%)", page)
    assert "{{ 7*7 }}" in html.unescape(page)
    hrefs = [a["href"] for t, a in reader.tags if t == "a"]
    assert all(h is not None and (h.startswith(("#", "https://"))) for h in hrefs)
    assert "\u202e" not in page
    assert "<U+202E>" in html.unescape(page)


def test_hostile_text_stays_text_in_markdown(evil: Memo) -> None:
    text = render.markdown_of(evil)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", text))
    bare = re.sub(r"\\.", "", outside)
    assert not re.search(r"<[a-zA-Z/!]", bare)
    assert not re.search(r"!\[|\]\((?!#|https://|ledger\.jsonl)", bare)
    assert not re.search(r"(?i)\b(https?|file|javascript):(?!\\)", re.sub(r"\]\(https://[^)]*\)", "", bare))
    columns = {}
    for line in re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", text).split("\n"):
        if line.startswith("| "):
            pipes = len(re.findall(r"(?<!\\)\|", line))
            columns.setdefault(pipes, line)
            assert line.endswith(" |")
    starts = [line for line in outside.split("\n") if line.startswith("#")]
    assert all(re.match(r"#{1,3} ", s) for s in starts)


def test_a_hostile_pdf_fetches_nothing_and_stays_on_its_pages(evil: Memo) -> None:
    refused: list[str] = []
    made = render.pdf_of(evil, refused=refused)
    assert refused == []
    reader = pypdf.PdfReader(io.BytesIO(made))
    assert b"root:" not in made
    assert not reader.attachments
    for number, sheet in enumerate(reader.pages):
        width = float(sheet.mediabox.width)
        places: list[float] = []

        def seen(
            text: str, cm: list[float], tm: list[float], _font: object, _size: float, into: list[float] = places
        ) -> None:
            if text.strip():
                into.append(tm[4] * cm[0] + cm[4])

        sheet.extract_text(visitor_text=seen)
        assert all(0 <= x <= width for x in places), (number, min(places), max(places), width)


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "http://127.0.0.1/x.png",
        "https://a.example/",
        "ftp://a/",
        "/etc/passwd",
        "torchspec-font:x",
    ],
)
def test_the_fetcher_refuses_everything_but_the_package(address: str) -> None:
    refused: list[str] = []
    with pytest.raises(Refused):
        fetch(address, render.packaged_fonts(), refused)
    assert refused == [address]


def test_the_fetcher_gives_the_packages_fonts() -> None:
    data, kind = fetch("torchspec-font:inter-400", render.packaged_fonts())
    assert data[:4] == b"\0\1\0\0"
    assert kind == "font/ttf"


def test_an_image_in_a_teams_template_is_refused(memo: Memo, tmp_path: Path) -> None:
    (tmp_path / "memo.html.j2").write_text(
        '<html lang="en"><title>t</title><style>{{ css }}</style><img alt="a" src="file:///etc/passwd">'
        '<img alt="b" src="http://127.0.0.1:1/x.png"></html>'
    )
    refused: list[str] = []
    render.pdf_of(memo, templates=tmp_path, refused=refused)
    assert set(refused) == {"file:///etc/passwd", "http://127.0.0.1:1/x.png"}


def test_a_teams_template_runs_in_a_sandbox(memo: Memo, tmp_path: Path) -> None:
    (tmp_path / "memo.md.j2").write_text("{{ memo.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(SecurityError):
        render.markdown_of(memo, tmp_path)


def test_a_teams_template_cannot_read_outside_its_folder(memo: Memo, tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "team" / "memo.md.j2").write_text("{% include '../secret.txt' %}")
    with pytest.raises(Exception, match=r"secret\.txt"):
        render.markdown_of(memo, tmp_path / "team")


def test_a_teams_logo_is_inside(memo: Memo, tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    page = render.html_of(memo, templates=tmp_path)
    assert [load[:26] for load in read(page).loads] == ["data:image/svg+xml;base64,"]


# ---- the PDF


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


def test_what_both_sides_share_stands_once_across_both_columns(memo: Memo) -> None:
    page = render.html_of(memo)
    table = page[page.index('class="t-environment') :]
    rows = re.findall(r'<tr class="row.*?</tr>', table[: table.index("</table>")], re.S)
    shared = [r for r in rows if 'colspan="2"' in r]
    assert shared
    assert all(r.count("<td") == 2 for r in shared)
    assert all(r.count("<td") == 3 for r in rows if r not in shared)


# ---- colours


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast_in_both_themes(theme: str) -> None:
    css = render.style()
    blocks = re.findall(r":root \{(.*?)\}", css, re.S)
    block = blocks[0] if theme == "light" else blocks[1]
    colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    pairs = [
        ("ink", "ground"),
        ("soft", "ground"),
        ("pass-ink", "pass-ground"),
        ("pass-ink", "ground"),
        ("fail-ink", "fail-ground"),
        ("fail-word", "ground"),
        ("wait-ink", "wait-ground"),
        ("wait-ink", "ground"),
        ("error-ink", "error-ground"),
        ("none-ink", "ground"),
        ("ink", "panel"),
    ]
    for text, ground in pairs:
        assert contrast(colour[text], colour[ground]) >= 5.5, (text, ground)


def test_each_outcome_has_its_own_shape_in_text() -> None:
    shapes = [markdown.MARKS[k].format("")[0] for k in ("pass", "fail", "inconclusive", "error", "not_run")]
    assert len(set(shapes)) == 5
