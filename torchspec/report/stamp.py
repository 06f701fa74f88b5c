"""What is seen of the signature on the memo's first page: who signed, when, with which key. Proves nothing by itself.

A PDF of one small page with the memo's own fonts; `provenance.pades` draws it into the signature's box.
"""

from __future__ import annotations

from torchspec.report.context import minute
from torchspec.report.language import Language, clip
from torchspec.report.pdf import write_pdf
from torchspec.report.render import packaged_fonts, stamp_html

WIDTH, HEIGHT = 200, 22  # points
RIGHT, TOP = 45, 8  # from the page's edges: above the first line, on the right margin


def signer(name: str, key: str, self_signed: bool, language: str) -> str:
    """Who signs, plainly: a self-signed key is unknown to a reader who was not given its certificate."""
    t = Language(language)
    if self_signed:
        return t.text(
            "{name} ({key}, self-signed, unknown to you unless you were given the certificate)", name=name, key=key
        )
    return t.text("{name} ({key}, certified)", name=name, key=key)


def words(name: str, key: str, signed: str, language: str) -> tuple[str, str]:
    """The stamp's two lines. `key` names algorithm and fingerprint; `signed` is an ISO time in UTC."""
    t = Language(language)
    first = t.text("Signed by {name}, {time} UTC", name=clip(name, 44), time=minute(signed))
    return first, t.text("{key} · to check it: torchspec verify", key=key)


def pdf(name: str, key: str, signed: str, language: str) -> tuple[bytes, str]:
    """The stamp as a PDF, and its words."""
    lines = words(name, key, signed, language)
    html = stamp_html(lines, language, WIDTH, HEIGHT)
    made = write_pdf(html, issued=signed, identifier="stamp", resources=packaged_fonts())
    return made, " ".join(lines)
