"""HTML to PDF: tagged, PDF/A-3a and PDF/UA-1, with the memo's data attached, the same bytes for the same memo.

Nothing is fetched but the package's fonts and data: addresses, which only its own style sheet holds: every other
address is refused, whatever a text asks for. Must not read a clock: dates are the memo's own."""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import SubElement, fromstring, tostring

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
        return resources[url], "font/woff2"
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


def pages(html: str, resources: Mapping[str, bytes]) -> int:
    """On how many pages `html` holds."""
    return len(_laid_out(html, resources, None).pages)


def _associated_once(_document: Any, pdf: Any) -> None:
    """WeasyPrint 70 names each attachment twice among the associated files; once is right."""
    if "AF" in pdf.catalog:
        found = dict.fromkeys(bytes(r) if isinstance(r, bytes) else r for r in pdf.catalog["AF"])
        pdf.catalog["AF"][:] = list(found)


def write_pdf(
    html: str,
    *,
    issued: str,
    identifier: str,
    attachments: Sequence[tuple[str, str, bytes]] = (),
    resources: Mapping[str, bytes] | None = None,
    refused: list[str] | None = None,
) -> bytes:
    """The PDF of `html`.

    `attachments` are (name, description, bytes); `resources` are the only addresses beside data: that can be fetched;
    `refused` collects those that were not.
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
    document.metadata = BothStandards(**known)
    made = document.write_pdf(
        pdf_variant="pdf/a-3a",
        pdf_tags=True,
        pdf_identifier=identifier.encode(),
        attachments=files or None,
        finisher=_associated_once,
    )
    return bytes(made)


def addresses(html: str) -> list[str]:
    """Every address that `html` would load (not the links that a reader may follow); for tests."""
    return [
        a or b for a, b in re.findall(r"""(?:src|poster|data|action)\s*=\s*["']([^"']*)|url\(\s*["']?([^"')]*)""", html)
    ]
