"""Characters that no font has are told, with the fonts that have them; the stamp and its words."""

from __future__ import annotations

import io

from pypdf import PdfReader

from torchspec.core.resources import data_folder
from torchspec.report import stamp
from torchspec.report.pdf import without_glyph, write_pdf
from torchspec.report.render import FONTS

NOBODYS = "\U000f1234"  # a private place that no font fills


def test_a_character_without_a_glyph_is_told() -> None:
    lacking: set[str] = set()
    page = f"<html lang=en><title>x</title><body><p>plain Latin, {NOBODYS}</p></body></html>"
    write_pdf(page, issued="2026-11-10T06:20:00Z", identifier="x", lacking=lacking)
    assert lacking == {NOBODYS}
    again: set[str] = set()
    write_pdf("<html lang=en><title>x</title><p>plain", issued="2026-11-10T06:20:00Z", identifier="x", lacking=again)
    assert again == set()


def test_the_fonts_that_have_it_are_named() -> None:
    found = without_glyph({"中", "🙈", "\u0531"})
    assert (found.code, found.is_error) == ("TS826", False)
    assert "U+4E2D 中" in found.message
    assert found.hint is not None
    for name in ("fonts-noto-cjk", "fonts-noto-color-emoji", "fonts-noto-core"):
        assert name in found.hint
    many = without_glyph({chr(0x4E00 + i) for i in range(40)})
    assert "and 34 more" in many.message
    assert many.hint is not None
    assert "emoji" not in many.hint


def test_the_stamp_says_who_and_when_on_one_small_page() -> None:
    data, words = stamp.pdf("Ana Ruiz <b>", "ECDSA P-256 13e61e12f9ee7d9a", "2026-11-30T14:30:11Z", "en")
    pages = PdfReader(io.BytesIO(data)).pages
    assert len(pages) == 1
    assert [round(float(v)) for v in pages[0].mediabox[2:]] == [stamp.WIDTH, stamp.HEIGHT]
    assert words.startswith("Signed by Ana Ruiz <b>, 2026-11-30 14:30 UTC")
    assert "Ana Ruiz <b>" in pages[0].extract_text()
    assert stamp.words("Ana", "k", "2026-11-30T14:30:11Z", "es")[0].startswith("Firmado por Ana")
    assert stamp.signer("Ana", "k", True, "en").startswith("Ana (k, self-signed, unknown to you")
    assert stamp.signer("Ana", "k", True, "pt").startswith("Ana (k, autoassinado")
    assert stamp.signer("Ana", "k", False, "es") == "Ana (k, certificado)"
    long, _ = stamp.words("x" * 64, "k", "2026-11-30T14:30:11Z", "en")
    assert len(long) < 80


def test_the_unpacked_fonts_are_the_packed_ones() -> None:
    from fontTools.ttLib import TTFont

    folder = data_folder("templates") / "fonts"
    for _, _, name in FONTS:
        packed, plain = TTFont(folder / f"{name}.woff2"), TTFont(folder / f"{name}.ttf")
        assert plain.flavor is None
        assert packed.getGlyphOrder() == plain.getGlyphOrder()
        assert packed.getBestCmap() == plain.getBestCmap()
        assert packed["hmtx"].metrics == plain["hmtx"].metrics
        assert packed["name"].getDebugName(5) == plain["name"].getDebugName(5)
