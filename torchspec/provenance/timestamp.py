"""RFC 3161 timestamps: asked of an authority over HTTP, read offline. What they stamp is a SHA-256 and nothing more.

A plan is stamped by its digest, before anything is measured; a PDF's signature is stamped by `pades`. Says who stamped
and when and whether the token holds, never whether the authority is one to believe: that is the reader's, and `trust`
says whether it is in the reader's trust file.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchspec.core.diagnostics import Diagnostic, Result

if TYPE_CHECKING:
    from cryptography import x509

SUFFIX = ".tsr"
_LONGEST = 1 << 20  # bytes of an answer


class Refused(Exception):
    """The authority gave no timestamp; the message says why, in words."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A token as read. `problem` is what does not hold, in words; else `at` (ISO, UTC) and `authority` are set.

    `certificate` is the authority's, `chain` the others in the token: claims until `trust` has looked at them.
    """

    problem: str | None
    at: str | None = None
    authority: str | None = None
    certificate: x509.Certificate | None = None
    chain: tuple[x509.Certificate, ...] = ()


def client(url: str, timeout_s: float = 20.0) -> Any:
    """pyHanko's client for the authority at `url` (http or https), over the standard library. Raises Refused in use."""
    from asn1crypto import tsp
    from pyhanko.sign.timestamps import TimeStamper

    class Client(TimeStamper):
        async def async_request_tsa_response(self, req: Any) -> Any:
            raw = await asyncio.to_thread(_post, url, req.dump(), timeout_s)
            try:
                answer = tsp.TimeStampResp.load(raw)
                answer["status"]["status"].native  # noqa: B018 (parses it)
            except (ValueError, TypeError) as error:
                raise Refused(f"{url} answered something else than a timestamp") from error
            return answer

    made: Any = Client
    return made()


def _post(url: str, data: bytes, timeout_s: float) -> bytes:
    import urllib.error
    import urllib.request

    if not url.startswith(("http://", "https://")):
        raise Refused(f"{url!r} is no http or https address")
    head = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
    try:
        asked = urllib.request.Request(url, data=data, headers=head, method="POST")
        with urllib.request.urlopen(asked, timeout=timeout_s) as answer:
            raw: bytes = answer.read(_LONGEST + 1)
    except urllib.error.HTTPError as error:
        raise Refused(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Refused(f"{url} cannot be reached: {reason}") from error
    if len(raw) > _LONGEST:
        raise Refused(f"{url} answered with more than a timestamp can hold")
    return raw


def gave_none(error: Exception) -> Diagnostic:
    """TS824 for an authority that gave no timestamp."""
    said = " ".join(str(error).split())[:200] or type(error).__name__
    hint = "try again later, or name another authority; without --timestamp everything else works"
    return Diagnostic("TS824", f"no timestamp was given: {said}", hint=hint)


def errors() -> tuple[type[Exception], ...]:
    """What asking an authority can raise."""
    from pyhanko.sign.general import SigningError
    from pyhanko.sign.timestamps.common_utils import TimestampRequestError

    return (Refused, TimestampRequestError, SigningError, OSError)


def stamp_plan(history: Path, plan_digest: str, timestamper: Any) -> Result[Stamp]:
    """Has `plan_digest` stamped and keeps the token beside the remembered plan. An earlier one that holds stays.

    Diagnostics: TS824 (no timestamp, or it cannot be kept).
    """
    place = history / f"{plan_digest}{SUFFIX}"
    earlier = of_plan(history, plan_digest)
    if earlier is not None and earlier.problem is None:
        return Result(earlier)
    from torchspec.core.files import write_whole

    try:
        token = asyncio.run(timestamper.async_timestamp(bytes.fromhex(plan_digest), "sha256"))
        data: bytes = token.dump()
        stamp = read(data, plan_digest)
        if stamp.problem:
            raise Refused(stamp.problem)
        write_whole(place, data)
    except errors() as error:
        return Result(None, (gave_none(error),))
    return Result(stamp)


def of_plan(history: Path, plan_digest: str) -> Stamp | None:
    """The timestamp of a remembered plan; None where there is none."""
    try:
        data = (history / f"{plan_digest}{SUFFIX}").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return Stamp(f"it cannot be read: {error.strerror}")
    return read(data, plan_digest)


def read(data: bytes, digest: str) -> Stamp:
    """Reads a token over the SHA-256 `digest` (hex). Never raises on hostile bytes."""
    try:
        return _read(data, bytes.fromhex(digest))
    except Exception as error:  # a parser fed with hostile bytes can raise anything, and each of it means: no timestamp
        return Stamp(f"it is no timestamp: {str(error).splitlines()[0][:120] if str(error) else type(error).__name__}")


def _read(data: bytes, expected: bytes) -> Stamp:
    from asn1crypto import cms
    from pyhanko.sign.validation.generic_cms import validate_tst_signed_data
    from pyhanko_certvalidator import ValidationContext

    content = cms.ContentInfo.load(data)
    if content.dump(force=True) != data:
        return Stamp("it holds more than a timestamp")
    signed = content["content"]
    info = signed["encap_content_info"]["content"].parsed
    if info["message_imprint"]["hash_algorithm"]["algorithm"].native != "sha256":
        return Stamp("it stamps another kind of digest")
    context = ValidationContext(trust_roots=[], allow_fetching=False)  # not even this machine's own
    status = asyncio.run(validate_tst_signed_data(signed, context, lambda _: expected))
    if not status["intact"]:
        return Stamp("it stamps something else, or was changed")
    if not status["valid"]:
        return Stamp("its signature does not belong to its certificate")
    return stamped(info["gen_time"].native, status["signing_cert"], signed)


def stamped(at: datetime, certificate: Any, signed: Any) -> Stamp:
    """A token that holds: when, by whom (asn1crypto's certificate), and the other certificates of its signed data."""
    from cryptography import x509

    from torchspec.provenance import keys

    own = x509.load_der_x509_certificate(certificate.dump())
    others = tuple(x509.load_der_x509_certificate(c.chosen.dump()) for c in signed["certificates"] or ())
    chain = tuple(c for c in others if c != own)
    moment = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Stamp(None, moment, keys.subject_name(own), own, chain)
