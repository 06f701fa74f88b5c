"""HTML to PDF: tagged, PDF/A-3a and PDF/UA-1, with the memo's data attached, the same bytes for the same memo.

Nothing is fetched but the package's fonts and data: addresses, which only its own style sheet holds: every other
address is refused, whatever a text asks for. Must not read a clock: dates are the memo's own."""

from __future__ import annotations

import base64
import gc
import logging
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import SubElement, fromstring, tostring

from torchspec.core.diagnostics import Diagnostic, Severity

UA = "http://www.aiim.org/pdfua/ns/id/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

#: PDF/A allows properties of other standards only where their schema is described
EXTENSION = f"""<rdf:Description xmlns:rdf="{RDF}" rdf:about=""
 xmlns:pdfaExtension="http://www.aiim.org/pdfa/ns/extension/"
 xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#"
 xmlns:pdfaProperty="http://www.aiim.org/pdfa/ns/property#"><pdfaExtension:schemas><rdf:Bag>
<rdf:li rdf:parseType="Resource"><pdfaSchema:schema>PDF/UA Universal Accessibility Schema</pdfaSchema:schema>
<pdfaSchema:namespaceURI>{UA}</pdfaSchema:namespaceURI><pdfaSchema:prefix>pdfuaid</pdfaSchema:prefix>
<pdfaSchema:property><rdf:Seq><rdf:li rdf:parseType="Resource"><pdfaProperty:name>part</pdfaProperty:name>
<pdfaProperty:valueType>Integer</pdfaProperty:valueType><pdfaProperty:category>internal</pdfaProperty:category>
<pdfaProperty:description>Part of ISO 14289 that the file conforms to</pdfaProperty:description></rdf:li></rdf:Seq>
</pdfaSchema:property></rdf:li></rdf:Bag></pdfaExtension:schemas></rdf:Description>"""


class Refused(ValueError):
    """An address that the memo must not fetch."""


def fetch(url: str, resources: Mapping[str, bytes], refused: list[str] | None = None) -> tuple[bytes, str]:
    """(bytes, media type) of a package's resource by its exact address, or of a `data:` address, decoded here.

    Everything else raises Refused, and is noted in `refused`.
    """
    if url in resources:
        return resources[url], "font/ttf"
    if not url.startswith("data:"):
        if refused is not None:
            refused.append(url)
        raise Refused(f"a memo fetches nothing: {url[:80]}")
    head, _, body = url[5:].partition(",")
    raw = base64.b64decode(body) if head.endswith(";base64") else urllib.parse.unquote_to_bytes(body)
    return raw, head.split(";")[0] or "text/plain"


def _laid_out(html: str, resources: Mapping[str, bytes], refused: list[str] | None) -> Any:
    from weasyprint import HTML
    from weasyprint.urls import URLFetcher, URLFetcherResponse

    class OnlyData(URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Any:
            data, kind = fetch(url, resources, refused)
            return URLFetcherResponse("data:", data, {"Content-Type": kind})

    return HTML(string=html, base_url=None, url_fetcher=OnlyData()).render(pdf_variant="pdf/a-3a")


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles: a layout is a million objects that live until the page is written, and looking
    through them again and again took a sixth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def pages(html: str, resources: Mapping[str, bytes]) -> int:
    """On how many pages `html` holds."""
    return len(_laid_out(html, resources, None).pages)


def _associated_once(_document: Any, pdf: Any) -> None:
    """WeasyPrint 70 names each attachment twice among the associated files; once is right."""
    if "AF" in pdf.catalog:
        found = dict.fromkeys(bytes(r) if isinstance(r, bytes) else r for r in pdf.catalog["AF"])
        pdf.catalog["AF"][:] = list(found)


def drawn_by(generator: str) -> str:
    """`generator` with the libraries that a PDF's bytes depend on: PDFs of the same libraries can be compared."""
    import zlib
    from importlib.metadata import version

    from weasyprint.text.ffi import pango

    number = pango.pango_version()  # 15012 is 1.50.12
    text = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    names = ("weasyprint", "pydyf", "fonttools")
    parts = [*(f"{n} {version(n)}" for n in names), f"Pango {text}", f"zlib {zlib.ZLIB_RUNTIME_VERSION}"]
    return f"{generator} ({', '.join(parts)})"


def write_pdf(
    html: str,
    *,
    issued: str,
    identifier: str,
    attachments: Sequence[tuple[str, str, bytes]] = (),
    resources: Mapping[str, bytes] | None = None,
    refused: list[str] | None = None,
    lacking: set[str] | None = None,
) -> bytes:
    """The PDF of `html`.

    `attachments` are (name, description, bytes); `resources` are the only addresses beside data: that can be fetched;
    `refused` collects those that were not, `lacking` the characters that no font of this machine has.
    """
    from weasyprint import Attachment
    from weasyprint.document import DocumentMetadata

    class BothStandards(DocumentMetadata):  # type: ignore[misc]
        """PDF/A's metadata with PDF/UA's identification beside it."""

        def generate_rdf_metadata(self, variant: str, version: int, conformance: str) -> bytes:
            rdf = fromstring(super().generate_rdf_metadata(variant, version, conformance))
            SubElement(rdf, f"{{{RDF}}}Description", {f"{{{RDF}}}about": "", f"{{{UA}}}part": "1"})
            rdf.append(fromstring(EXTENSION))
            return bytes(tostring(rdf, encoding="utf-8"))

    when = datetime.fromisoformat(issued.replace("Z", "+00:00"))
    files = [
        Attachment(string=data, name=name, description=about, created=when, modified=when, relationship="Data")
        for name, about, data in attachments
    ]
    document = _laid_out(html, resources or {}, refused)
    known = {k: v for k, v in vars(document.metadata).items() if k != "attachments"}
    known["generator"] = drawn_by(document.metadata.generator or "torchspec")
    document.metadata = BothStandards(**known)
    with _listening(lacking):
        made = document.write_pdf(
            pdf_variant="pdf/a-3a",
            pdf_tags=True,
            pdf_identifier=identifier.encode(),
            attachments=files or None,
            finisher=_associated_once,
        )
    return bytes(made)


class _Lacking(logging.Handler):
    """Takes the characters without a glyph out of what WeasyPrint reports while it draws."""

    def __init__(self, found: set[str]) -> None:
        super().__init__(logging.WARNING)
        self.found = found

    def emit(self, record: logging.LogRecord) -> None:
        told = re.search(r"\(U\+([0-9A-Fa-f]{4,6})\)", record.getMessage())
        if ".notdef" in record.getMessage() and told:
            self.found.add(chr(int(told[1], 16)))


@contextmanager
def _listening(found: set[str] | None) -> Iterator[None]:
    logger = logging.getLogger("weasyprint")
    handler = _Lacking(found if found is not None else set())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


#: Who has the characters, by where they stand: Debian's package names.
_FONTS = (
    ("fonts-noto-color-emoji", r"[\u2600-\u27bf\U0001f000-\U0001faff]"),
    ("fonts-noto-cjk", r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"),
    ("fonts-noto-core", r"."),
)


def without_glyph(lacking: set[str]) -> Diagnostic:
    """TS826, a warning: which characters the PDF shows as boxes, and which fonts have them."""
    ordered = sorted(lacking)
    shown = ", ".join(f"U+{ord(c):04X}" + (f" {c}" if c.isprintable() else "") for c in ordered[:6])
    more = f" and {len(ordered) - 6} more" if len(ordered) > 6 else ""
    wanted = dict.fromkeys(next(p for p, kind in _FONTS if re.match(kind, c, re.S)) for c in ordered)
    fonts = " ".join(wanted)
    hint = f"install a font that has them (Debian: {fonts}), then `torchspec memo`; memo.html and memo.md lack nothing"
    message = f"no font on this machine has {shown}{more}: memo.pdf shows a box there"
    return Diagnostic("TS826", message, hint=hint, severity=Severity.WARNING)


def addresses(html: str) -> list[str]:
    """Every address that `html` would load (not the links that a reader may follow); for tests."""
    return [
        a or b for a, b in re.findall(r"""(?:src|poster|data|action)\s*=\s*["']([^"']*)|url\(\s*["']?([^"')]*)""", html)
    ]
