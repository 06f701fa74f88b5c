"""Text, templates and addresses from outside: nothing becomes markup, nothing is fetched, no folder is left."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

import pypdf
import pytest
from jinja2.exceptions import SecurityError
from readers import read

from torchspec.model.memo import Memo
from torchspec.report import render
from torchspec.report.pdf import Refused, fetch


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
