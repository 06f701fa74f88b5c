"""Signing keys: made, listed, loaded, with owner-only permissions.

A key is two PEM files in one folder (mode 0700): `<name>.key.pem` (PKCS#8, mode 0600) and `<name>.cert.pem`, a
certificate that only the key itself vouches for. Keys from elsewhere come as PEM (certificate in the same file or
beside it) or PKCS#12. Must not sign anything, and must never print or log a private key.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torchspec.core.diagnostics import Diagnostic, Result

if TYPE_CHECKING:
    from cryptography import x509

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_DAYS = 3 * 365
Algorithm = Literal["p256", "ed25519"]


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What may be shown of a key. `fingerprint` is the SHA-256 of the certificate's DER, in hex; dates are ISO, UTC."""

    name: str
    path: str
    certificate_path: str
    subject: str
    fingerprint: str
    algorithm: str
    not_before: str
    not_after: str
    self_signed: bool


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A loaded key: the private key and certificate objects of `cryptography`, and the certificates above it."""

    info: KeyInfo
    private: Any
    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...] = ()


def key_folder() -> Path:
    """Where keys live: $TORCHSPEC_KEYS, else the user's configuration folder. Not created here."""
    override = os.environ.get("TORCHSPEC_KEYS")
    if override:
        return Path(override).expanduser()
    from platformdirs import user_config_path

    return user_config_path("torchspec") / "keys"


def certificate_der(certificate: x509.Certificate) -> bytes:
    """The DER bytes of a certificate."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)


def fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of the certificate's DER, 64 hex digits."""
    from cryptography.hazmat.primitives import hashes

    return certificate.fingerprint(hashes.SHA256()).hex()


def subject_name(certificate: x509.Certificate) -> str:
    """The person on the certificate: the common name, else the whole subject."""
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else certificate.subject.rfc4514_string()


def issuer_name(certificate: x509.Certificate) -> str:
    """Who vouches for the certificate, as it says itself: the issuer's common name, else its whole name."""
    from cryptography.x509.oid import NameOID

    names = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else certificate.issuer.rfc4514_string()


def is_self_signed(certificate: x509.Certificate) -> bool:
    """Whether only its own key vouches for this certificate. False also where its own signature does not hold."""
    from cryptography.exceptions import InvalidSignature

    if certificate.issuer != certificate.subject:
        return False
    try:
        certificate.verify_directly_issued_by(certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def algorithm_of(public: Any) -> str:
    """The algorithm of a public key in words: "ECDSA P-256", "RSA 3072", "Ed25519", or "unsupported …"."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(public, ec.EllipticCurvePublicKey):
        curves = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
        curve = curves.get(public.curve.name)
        return f"ECDSA {curve}" if curve else f"unsupported curve {public.curve.name}"
    if isinstance(public, rsa.RSAPublicKey):
        return f"RSA {public.key_size}" if public.key_size >= 2048 else f"unsupported RSA of {public.key_size} bits"
    if isinstance(public, ed25519.Ed25519PublicKey):
        return "Ed25519"
    return f"unsupported {type(public).__name__}"


def describe(certificate: x509.Certificate, *, name: str, path: Path, certificate_path: Path) -> KeyInfo:
    """The `KeyInfo` of a certificate and where its key lies."""
    return KeyInfo(
        name=name,
        path=str(path),
        certificate_path=str(certificate_path),
        subject=subject_name(certificate),
        fingerprint=fingerprint(certificate),
        algorithm=algorithm_of(certificate.public_key()),
        not_before=certificate.not_valid_before_utc.isoformat(),
        not_after=certificate.not_valid_after_utc.isoformat(),
        self_signed=is_self_signed(certificate),
    )


def _self_signed(private: Any, person: str, email: str | None, now: datetime, days: int) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed25519
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, person)])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=True,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.replace(microsecond=0))
        .not_valid_after(now.replace(microsecond=0) + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
    )
    if email:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.RFC822Name(email)]), critical=False)
    return builder.sign(private, None if isinstance(private, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Writes a file that must not exist yet, with `mode` from its first byte on. Raises FileExistsError, OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def new_key(
    name: str,
    person: str,
    *,
    email: str | None = None,
    folder: Path | None = None,
    algorithm: Algorithm = "p256",
    days: int = _DAYS,
) -> Result[KeyInfo]:
    """Makes a key and its self-signed certificate; never overwrites.

    `person` goes on the certificate (1 to 64 characters). Ed25519 keys can only sign envelopes, never PDFs.
    Diagnostics: TS810 (there already), TS816 (name or person), TS817 (folder).
    """
    if not _NAME.match(name):
        hint = "use up to 64 letters, digits, - and _, beginning with a letter or digit"
        return Result(None, (Diagnostic("TS816", f"{name!r} is not a name for a key", hint=hint),))
    if not 1 <= len(person) <= 64 or not person.isprintable():
        hint = "give a name of 1 to 64 printable characters"
        return Result(None, (Diagnostic("TS816", f"{person!r} cannot stand on a certificate", hint=hint),))
    if email is not None and not (email.isascii() and email.isprintable() and "@" in email):
        hint = "leave it out, or give an address such as ana@example.org"
        return Result(None, (Diagnostic("TS816", f"{email!r} is not an e-mail address for a certificate", hint=hint),))
    folder = folder or key_folder()
    key_path, certificate_path = folder / f"{name}.key.pem", folder / f"{name}.cert.pem"
    for path in (key_path, certificate_path):
        if path.exists():
            hint = "choose another name with --name, or sign with the key that is there"
            return Result(None, (Diagnostic("TS810", f"{path} is there already", hint=hint),))
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private: Any = ec.generate_private_key(ec.SECP256R1())
    if algorithm == "ed25519":
        private = ed25519.Ed25519PrivateKey.generate()
    certificate = _self_signed(private, person, email, datetime.now(UTC), days)
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        problem = _make_folder(folder)
        if problem:
            return Result(None, (problem,))
        _write_pair(key_path, secret, certificate_path, certificate.public_bytes(Encoding.PEM))
    except OSError as error:
        hint = "name another folder in TORCHSPEC_KEYS"
        return Result(None, (Diagnostic("TS817", f"the key cannot be kept in {folder}: {error.strerror}", hint=hint),))
    return Result(describe(certificate, name=name, path=key_path, certificate_path=certificate_path))


def _make_folder(folder: Path) -> Diagnostic | None:
    """Makes the key folder, mode 0700, or looks at the one that is there. Raises OSError."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    return open_to_others(folder, writing=True)


def _write_pair(key_path: Path, secret: bytes, certificate_path: Path, certificate: bytes) -> None:
    """Writes both files or none. Raises OSError."""
    _write_new(key_path, secret, 0o600)
    try:
        _write_new(certificate_path, certificate, 0o644)
    except BaseException:
        key_path.unlink(missing_ok=True)
        raise


def open_to_others(path: Path, *, writing: bool) -> Diagnostic | None:
    """TS812 where group or others may read `path` (or, with `writing`, may write to it)."""
    if os.name != "posix":
        return None
    mode = stat.S_IMODE(path.stat().st_mode)
    sticky = writing and mode & stat.S_ISVTX  # in such a folder nobody can replace the files of another
    if sticky or not mode & (0o022 if writing else 0o077):
        return None
    what = "write to" if writing else "read or change"
    wanted = "700" if path.is_dir() else "600"
    message = f"others can {what} {path} (its permissions are {mode:o})"
    return Diagnostic("TS812", message, hint=f"chmod {wanted} '{path}', and make a new key if it was ever shared")


def list_keys(folder: Path | None = None) -> tuple[KeyInfo, ...]:
    """The keys in the folder, by name. Reads certificates only; one that cannot be read is left out."""
    folder = folder or key_folder()
    found = []
    for path in sorted(folder.glob("*.key.pem")) if folder.is_dir() else []:
        shown = show_key(path.name.removesuffix(".key.pem"), folder)
        if shown.value is not None:
            found.append(shown.value)
    return tuple(found)


def show_key(name: str, folder: Path | None = None) -> Result[KeyInfo]:
    """What may be shown of the key `name`. Diagnostics: TS811 (no such key), TS815 (its certificate)."""
    folder = folder or key_folder()
    key_path, certificate_path = folder / f"{name}.key.pem", folder / f"{name}.cert.pem"
    if not _NAME.match(name) or not key_path.is_file():
        return Result(None, (no_key(name, folder),))
    certificates = read_certificates(certificate_path)
    if not certificates:
        hint = "put the certificate back, or make a new key with `torchspec key new --name …`"
        return Result(None, (Diagnostic("TS815", f"{certificate_path} is not a certificate", hint=hint),))
    return Result(describe(certificates[0], name=name, path=key_path, certificate_path=certificate_path))


def no_key(name: str, folder: Path) -> Diagnostic:
    there = [p.name.removesuffix(".key.pem") for p in sorted(folder.glob("*.key.pem"))] if folder.is_dir() else []
    hint = f"there are: {', '.join(there)}" if there else "make one with `torchspec key new`"
    return Diagnostic("TS811", f"no key {name!r} in {folder}", hint=hint)


def read_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    """The PEM certificates in a file, in order; empty where it has none or cannot be read."""
    from cryptography import x509

    try:
        return tuple(x509.load_pem_x509_certificates(path.read_bytes()))
    except (OSError, ValueError):
        return ()
