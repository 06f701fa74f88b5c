"""Whether a signer is known: a pinned certificate, or a path to an authority that the reader pinned. Offline.

Says nothing about whether what was signed is intact. Certificates come from PEM files that the reader chose: one for
signers, another for timestamp authorities. Who is believed about time is not thereby believed about names.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.provenance import keys

if TYPE_CHECKING:
    from cryptography import x509


@dataclass(frozen=True, slots=True)
class TrustFiles:
    """The reader's PEM files: of signers (and those who certify them), and of timestamp authorities; None: none."""

    signers: Path | None = None
    authorities: Path | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """`known` is None where the reader pinned nothing. `words` is one sentence for the memo and the terminal."""

    known: bool | None
    words: str


def read_trust(path: Path) -> Result[tuple[x509.Certificate, ...]]:
    """The PEM certificates of a trust file. Diagnostics: TS823."""
    found = keys.read_certificates(path)
    if found:
        return Result(found)
    what = "holds no PEM certificate" if path.is_file() else "is not a file"
    hint = "name a file with the certificates (-----BEGIN CERTIFICATE-----) that you accept"
    return Result(None, (Diagnostic("TS823", f"the trust file {path} {what}", hint=hint),))


def assess(
    certificate: x509.Certificate,
    chain: tuple[x509.Certificate, ...],
    pinned: tuple[x509.Certificate, ...],
    at: datetime,
) -> Trust:
    """Whether the signer is one whom the reader pinned. `at` is when it signed, by its own clock or a timestamp's.

    A certificate that is made for timestamps and nothing else is no signer's, and vouches for none.
    """
    name, own = keys.subject_name(certificate), keys.is_self_signed(certificate)
    who = f"{name} (key {keys.fingerprint(certificate)[:16]})"
    vouched = "self-signed" if own else f"certified by {keys.issuer_name(certificate)}"
    if not pinned:
        return Trust(None, f"{who}: {vouched} and unknown to you; no trust file was given, so the name is a claim")
    if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
        return Trust(False, f"{who}: signed outside the dates of its certificate")
    if _only_stamps(certificate):
        return Trust(False, f"{who}: its certificate is made for timestamps, so it cannot sign a memo")
    if certificate in pinned:
        return Trust(True, f"{who}: its certificate is in your trust file")
    reason = None if own else _path_problem(certificate, chain, pinned, at)
    if own or reason:
        return Trust(False, f"{who}: {vouched} and unknown to you" + (f" ({reason})" if reason else ""))
    return Trust(True, f"{who}: {vouched}, which leads to an authority in your trust file")


def assess_authority(
    certificate: x509.Certificate,
    chain: tuple[x509.Certificate, ...],
    pinned: tuple[x509.Certificate, ...],
    at: datetime,
) -> Trust:
    """Whether a timestamp's authority is one whom the reader pinned, directly or above it. `at` is its own time.

    Only a certificate that is made for timestamps counts: a signer whom the reader pinned cannot stamp its own work.
    `pinned` are those of the reader's file of timestamp authorities. `known` is None where nobody in there vouches for
    it, which makes its time a claim and breaks nothing.
    """
    who = f"{keys.subject_name(certificate)} (key {keys.fingerprint(certificate)[:16]})"
    claim = "so its time is a claim"
    if not pinned:
        return Trust(None, f"{who}: unknown to you; no file of timestamp authorities was given, {claim}")
    if not _stamps(certificate):
        return Trust(None, f"{who}: its certificate is not made for timestamps, {claim}")
    if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
        return Trust(False, f"{who}: it stamped outside the dates of its certificate")
    if certificate in pinned:
        return Trust(True, f"{who}: its certificate is in your file of timestamp authorities")
    reason = _path_problem(certificate, chain, pinned, at, stamps=True)
    if reason:
        return Trust(None, f"{who}: nobody in your file of timestamp authorities vouches for it, {claim} ({reason})")
    return Trust(True, f"{who}: an authority in your file of timestamp authorities vouches for it")


def _path_problem(
    certificate: x509.Certificate,
    chain: tuple[x509.Certificate, ...],
    pinned: tuple[x509.Certificate, ...],
    at: datetime,
    *,
    stamps: bool = False,
) -> str | None:
    from asn1crypto import x509 as asn1
    from pyhanko_certvalidator import CertificateValidator, ValidationContext
    from pyhanko_certvalidator.errors import PathBuildingError, ValidationError

    def convert(found: tuple[x509.Certificate, ...]) -> list[asn1.Certificate]:
        return [asn1.Certificate.load(keys.certificate_der(c)) for c in found]

    authorities = tuple(c for c in pinned if _is_authority(c))  # a colleague who is pinned vouches for nobody else
    if not stamps:
        authorities, chain = (tuple(c for c in found if not _only_stamps(c)) for found in (authorities, chain))
    context = ValidationContext(trust_roots=convert(authorities), allow_fetching=False, moment=at)
    validator: Any = CertificateValidator(convert((certificate,))[0], convert(chain), context)
    try:
        usage, purposes = (set(), {"time_stamping"}) if stamps else ({"non_repudiation"}, None)
        asyncio.run(validator.async_validate_usage(usage, purposes))
    except PathBuildingError:
        return (
            f"no path leads from it to a certificate in your {'file of timestamp authorities' * stamps or 'trust file'}"
        )
    except ValidationError as error:
        return str(error).splitlines()[0][:160]
    return None


def _is_authority(certificate: x509.Certificate) -> bool:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _stamps(certificate: x509.Certificate) -> bool:
    """Whether a certificate is made for timestamps, as one must be: for nothing else, and said once."""
    from cryptography.x509.oid import ExtendedKeyUsageOID

    return _purposes(certificate) == [ExtendedKeyUsageOID.TIME_STAMPING]


def _only_stamps(certificate: x509.Certificate) -> bool:
    from cryptography.x509.oid import ExtendedKeyUsageOID

    return set(_purposes(certificate)) == {ExtendedKeyUsageOID.TIME_STAMPING}


def _purposes(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    """What a certificate's extended key usage says that it is for; nothing where it does not say."""
    from cryptography import x509

    try:
        return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except (x509.ExtensionNotFound, ValueError):
        return []
