"""The signature inside memo.pdf: PAdES baseline B, one certification signature that allows no change.

Made and read offline with pyHanko, which is imported inside the functions. `read_pdf` says whether the signature covers
the whole file and is intact, never whether the signer is known: that is `trust`'s. Must not render or touch files.
"""

from __future__ import annotations

import io
import logging
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.provenance import timestamp as timestamps
from torchspec.provenance.keys import SigningKey, certificate_der

if TYPE_CHECKING:
    from cryptography import x509

FIELD = "Signature"
_DIGESTS = frozenset({"sha256", "sha384", "sha512"})
_HEX = re.compile(rb"<[0-9A-F]*>\Z")  # in one case, so that no letter of it can change unseen

# pyHanko reports through the root logger's last resort on standard error; what it finds is returned as values here.
for _name in ("pyhanko", "pyhanko_certvalidator"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class PdfSignature:
    """The one signature of a PDF. `problem` is the first thing that does not hold, in words; None when it is intact.

    `signed_at` is what the signer's clock said (ISO, UTC); an intact one says it. `stamp` is the authority's timestamp
    where there is one.
    """

    problem: str | None
    certificate: x509.Certificate | None = None
    chain: tuple[x509.Certificate, ...] = ()
    signed_at: str | None = None
    stamp: timestamps.Stamp | None = None

    @property
    def timestamp(self) -> str | None:
        """When the authority says that the signature was there; None without one."""
        return self.stamp.at if self.stamp else None


@dataclass(frozen=True, slots=True)
class VisibleStamp:
    """What a reader sees of the signature: a small PDF of one page, drawn near the top right corner of the first page.

    All sizes are points; `right` and `top` are the distances from the page's edges. `words` is the same in text.
    """

    pdf: bytes
    words: str
    width: int
    height: int
    right: int
    top: int


def sign_pdf(
    data: bytes, key: SigningKey, *, reason: str, timestamper: Any = None, stamp: VisibleStamp | None = None
) -> Result[bytes]:
    """`data` with one certification signature (no changes allowed) over the whole file.

    `timestamper` is a `pyhanko.sign.timestamps.TimeStamper`, for an RFC 3161 timestamp beside the signature. `stamp` is
    what is seen of the signature on the first page; without it nothing is.
    Diagnostics: TS814 (the key cannot sign PDFs), TS820 (the PDF cannot be signed), TS824 (no timestamp).
    """
    if not key.info.algorithm.startswith(("ECDSA", "RSA")):
        hint = "sign memos with an ECDSA key (`torchspec key new`); an Ed25519 key can sign an envelope as a reviewer"
        return Result(None, (Diagnostic("TS814", f"an {key.info.algorithm} key cannot sign a PDF", hint=hint),))
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.pdf_utils.misc import PdfError
    from pyhanko.sign import fields, signers
    from pyhanko.sign.general import SigningError
    from pyhanko.sign.timestamps.common_utils import TimestampRequestError

    meta = signers.PdfSignatureMetadata(
        field_name=FIELD,
        md_algorithm="sha256",
        reason=reason,
        name=key.info.subject,
        certify=True,
        subfilter=fields.SigSeedSubFilter.PADES,
        docmdp_permissions=fields.MDPPerm.NO_CHANGES,
    )
    try:
        writer = IncrementalPdfFileWriter(io.BytesIO(data))
        if writer.prev.encrypted:
            return Result(None, (Diagnostic("TS820", "the PDF is encrypted", hint="sign an unencrypted PDF"),))
        if any(True for _ in fields.enumerate_sig_fields(writer.prev)):
            return Result(None, (Diagnostic("TS820", "the PDF is signed already", hint="render it anew"),))
        with _style(stamp) as style:
            signing = signers.PdfSigner(
                meta,
                signer=_signer(key),
                timestamper=timestamper,
                stamp_style=style,
                new_field_spec=_field(stamp, writer),
            )
            signed = signing.sign_pdf(writer).getvalue()
    except (timestamps.Refused, TimestampRequestError) as error:
        return Result(None, (timestamps.gave_none(error),))
    except (PdfError, SigningError, ValueError) as error:
        return Result(None, (Diagnostic("TS820", f"the PDF cannot be signed: {error}", hint="render it anew"),))
    return Result(bytes(signed))


def _field(stamp: VisibleStamp | None, writer: Any) -> Any:
    """The field of the signature: a box on the first page, or none that is seen."""
    from pyhanko.pdf_utils.rw_common import find_inherited_value_in_tree
    from pyhanko.sign.fields import SigFieldSpec

    if stamp is None:
        return SigFieldSpec(FIELD)
    page = writer.find_page_for_modification(0)[0].get_object()
    inherited: Any = find_inherited_value_in_tree
    _, _, right, top = (round(float(v)) for v in inherited(page, "/MediaBox", "/Parent"))
    right, top = right - stamp.right, top - stamp.top
    box = (right - stamp.width, top - stamp.height, right, top)
    return SigFieldSpec(FIELD, on_page=0, box=box, readable_field_name=stamp.words)


@contextmanager
def _style(stamp: VisibleStamp | None) -> Iterator[Any]:
    """The look of the signature; pyHanko reads it from a file."""
    if stamp is None:
        yield None
        return
    from pyhanko.pdf_utils import layout
    from pyhanko.stamp import StaticStampStyle

    middle = layout.AxisAlignment.ALIGN_MID
    whole = layout.SimpleBoxLayoutRule(middle, middle, margins=layout.Margins(0, 0, 0, 0))
    with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
        file.write(stamp.pdf)
        file.flush()
        yield StaticStampStyle.from_pdf_file(file.name, border_width=0, background_layout=whole)


def _signer(key: SigningKey) -> Any:
    from asn1crypto import keys as asn1_keys
    from asn1crypto import x509 as asn1_x509
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from pyhanko.sign.signers import SimpleSigner
    from pyhanko_certvalidator.registry import SimpleCertificateStore

    private = key.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    store: Any = SimpleCertificateStore()  # type: ignore[no-untyped-call]
    store.register_multiple(asn1_x509.Certificate.load(certificate_der(c)) for c in key.chain)
    return SimpleSigner(
        signing_cert=asn1_x509.Certificate.load(certificate_der(key.certificate)),
        signing_key=asn1_keys.PrivateKeyInfo.load(private),
        cert_registry=store,
    )


def read_pdf(data: bytes) -> PdfSignature:
    """Reads the signature of a PDF and says the first thing that does not hold. Never raises on a hostile file."""
    try:
        return _read(data)
    except Exception as error:  # a parser fed with hostile bytes can raise anything, and each of it means: not intact
        said = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        return PdfSignature(f"the PDF or its signature cannot be read: {said}")


def _read(data: bytes) -> PdfSignature:
    from cryptography import x509
    from pyhanko.pdf_utils.reader import PdfFileReader
    from pyhanko.sign.validation import validate_pdf_signature
    from pyhanko.sign.validation.status import SignatureCoverageLevel
    from pyhanko_certvalidator import ValidationContext

    reader = PdfFileReader(io.BytesIO(data))
    found = reader.embedded_signatures
    if not found:
        return PdfSignature("the PDF carries no signature")
    embedded = found[0]
    certificate = x509.load_der_x509_certificate(embedded.signer_cert.dump())
    chain = tuple(x509.load_der_x509_certificate(c.dump()) for c in embedded.other_embedded_certs)
    reported = embedded.self_reported_timestamp
    signed_at = _utc(reported) if reported else None

    def result(problem: str | None, stamp: timestamps.Stamp | None = None) -> PdfSignature:
        return PdfSignature(problem, certificate, chain, signed_at, stamp)

    if len(found) != 1:
        return result(f"the PDF carries {len(found)} signatures; a memo has exactly one")
    if embedded.sig_object_type != "/Sig":
        return result("the PDF carries a timestamp where its signature should be")
    uncovered = _uncovered(data, [int(n) for n in embedded.byte_range], embedded.pkcs7_content)
    if uncovered:
        return result(uncovered)
    context = ValidationContext(trust_roots=[embedded.signer_cert], allow_fetching=False)
    status = validate_pdf_signature(embedded, context)
    if not status.intact:
        return result("the PDF was changed after it was signed: its digest is not the one that was signed")
    if not status.valid:
        return result("the PDF's signature does not belong to its certificate")
    if status.md_algorithm not in _DIGESTS:
        return result(f"the PDF's signature uses the digest {status.md_algorithm}, which is not accepted")
    if status.coverage is not SignatureCoverageLevel.ENTIRE_FILE:
        return result("the signature does not cover the whole PDF")
    permissions = embedded.docmdp_level
    if permissions is None or permissions.name != "NO_CHANGES":
        return result("the signature is not a certification that allows no change")
    if signed_at is None:
        return result("the signature does not say when it was made")
    stamped = status.timestamp_validity
    if stamped is not None and not (stamped.intact and stamped.valid):
        return result("the timestamp beside the signature does not hold")
    if stamped is None:
        return result(None)
    token = _token(embedded.signer_info)
    return result(None, timestamps.stamped(stamped.timestamp, stamped.signing_cert, token))


def _token(signer: Any) -> Any:
    """The signed data of the timestamp beside a signature that has one."""
    found = (a["values"][0] for a in signer["unsigned_attrs"] if a["type"].native == "signature_time_stamp_token")
    return next(found)["content"]


def _utc(moment: datetime) -> str:
    from datetime import UTC

    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _uncovered(data: bytes, ranges: list[int], contents: bytes) -> str | None:
    """Whether the byte range leaves out anything but the signature itself and zeros that fill its place."""
    if len(ranges) != 4 or ranges[0] != 0:
        return "the signature's byte range is not one that covers a whole file"
    _, first, second, length = ranges
    if not 0 < first < second or second + length != len(data):
        return "the signature does not cover the whole PDF: bytes were added or taken away after it"
    gap = data[first:second]
    if not _HEX.match(gap):
        return "the place of the signature in the PDF holds something else than a signature"
    raw = bytes.fromhex(gap[1:-1].decode("ascii"))
    if contents != raw:
        return "the place of the signature in the PDF holds something else than a signature"
    if not any(raw[: len(form)] == form and not raw[len(form) :].strip(b"\0") for form in _forms(raw)):
        return "the signature was changed where it does not sign itself"
    return None


def _forms(raw: bytes) -> list[bytes]:
    """The bytes that a signature with these signed parts can have.

    A CMS signature does not cover its own frame (versions, the list of digests, the name of the signer beside the
    certificate). What stands there must be what follows from the signed parts; the digest's parameters may be left out.
    """
    from asn1crypto import algos, cms, core

    found = cms.ContentInfo.load(raw)["content"]
    signer = found["signer_infos"][0]
    certificate = found["certificates"][0].chosen
    forms = []
    for parameters in (core.Null(), None):
        digest = {"algorithm": signer["digest_algorithm"]["algorithm"].native}
        algorithm = algos.DigestAlgorithm(digest | ({"parameters": parameters} if parameters else {}))
        rebuilt = {
            "version": "v1",
            "sid": {
                "issuer_and_serial_number": {"issuer": certificate.issuer, "serial_number": certificate.serial_number}
            },
            "digest_algorithm": algorithm,
            "signed_attrs": signer["signed_attrs"],
            "signature_algorithm": signer["signature_algorithm"],
            "signature": signer["signature"],
        }
        if signer["unsigned_attrs"]:
            rebuilt["unsigned_attrs"] = signer["unsigned_attrs"]
        signed = {
            "version": "v1",
            "digest_algorithms": [algorithm],
            "encap_content_info": {"content_type": "data"},
            "certificates": found["certificates"],
            "signer_infos": [rebuilt],
        }
        forms.append(cms.ContentInfo({"content_type": "signed_data", "content": cms.SignedData(signed)}).dump())
    return forms
