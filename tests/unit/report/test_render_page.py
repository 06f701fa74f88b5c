"""The HTML page: one file that loads nothing, in an order for screen readers, with contrast in both themes."""

from __future__ import annotations

import itertools
import re

import pytest
from readers import read

from torchspec.model.memo import Memo
from torchspec.report import render


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


def test_what_both_sides_share_stands_once_across_both_columns(memo: Memo) -> None:
    page = render.html_of(memo)
    table = page[page.index('class="t-environment') :]
    rows = re.findall(r'<tr class="row.*?</tr>', table[: table.index("</table>")], re.S)
    shared = [r for r in rows if 'colspan="2"' in r]
    assert shared
    assert all(r.count("<td") == 2 for r in shared)
    assert all(r.count("<td") == 3 for r in rows if r not in shared)


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
