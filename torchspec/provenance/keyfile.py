"""Loads a signing key from a name in the key folder, a PEM file or a PKCS#12 file, and checks that it may sign.

Must not make keys (`keys` does) and must not sign. A private key that others can read is refused.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.provenance import keys
from torchspec.provenance.keys import SigningKey

if TYPE_CHECKING:
    from cryptography import x509


def load_key(
    source: str | Path = "default",
    *,
    passphrase: bytes | None = None,
    folder: Path | None = None,
    now: datetime | None = None,
) -> Result[SigningKey]:
    """Loads a key by its name in the key folder, or from a file (PEM or PKCS#12) when `source` is a path.

    What has a separator or a suffix is a path, and so is what names a file that is there. `passphrase` is by default
    that of $TORCHSPEC_KEY_PASSPHRASE, if set. `now` (default: the clock, UTC) is the moment for which the
    certificate must be valid. Diagnostics: TS811 to TS815.
    """
    folder = folder or keys.key_folder()
    path = Path(source).expanduser()
    by_name = path.name == str(source) and not path.suffix and not path.is_file()
    if by_name:
        path = folder / f"{source}.key.pem"
    if not path.is_file():
        there = keys.no_key(str(source), folder) if by_name else None
        hint = "name a key file that is there, or make a key with `torchspec key new`"
        return Result(None, (there or Diagnostic("TS811", f"there is no key file {path}", hint=hint),))
    problem = keys.open_to_others(path, writing=False) or keys.open_to_others(path.parent, writing=True)
    if problem:
        return Result(None, (problem,))
    try:
        data = path.read_bytes()
    except OSError as error:
        return Result(None, (Diagnostic("TS813", f"{path} cannot be read: {error.strerror}"),))
    if passphrase is None and (given := os.environ.get("TORCHSPEC_KEY_PASSPHRASE")):
        passphrase = given.encode()
    is_pem = b"-----BEGIN" in data
    try:
        private, certificates = (_pem if is_pem else _pkcs12)(data, passphrase)
    except (ValueError, TypeError) as error:
        return Result(None, (_unreadable(path, error, passphrase is not None),))
    beside = _certificate_path(path)
    if not certificates:
        certificates = keys.read_certificates(beside)
    checked = _check(private, certificates, path, now or datetime.now(UTC))
    if isinstance(checked, Diagnostic):
        return Result(None, (checked,))
    name = path.name.removesuffix(".key.pem") if path.name.endswith(".key.pem") else path.stem
    info = keys.describe(checked, name=name, path=path, certificate_path=beside if beside.is_file() else path)
    return Result(SigningKey(info, private, checked, tuple(c for c in certificates if c != checked)))


def _unreadable(path: Path, error: Exception, tried: bool) -> Diagnostic:
    """TS813: no key, one whose passphrase was not given, or one that the given passphrase does not open."""
    hint = "give a PKCS#8 PEM private key or a PKCS#12 file"
    if "ncrypted" not in str(error) and "password" not in str(error):
        return Diagnostic("TS813", f"{path} cannot be read as a private key", hint=hint)
    if tried:
        message = f"the passphrase in TORCHSPEC_KEY_PASSPHRASE does not open {path}"
        return Diagnostic("TS813", message, hint="give the passphrase with which the file was made")
    message = f"{path} is kept under a passphrase, and none was given"
    return Diagnostic("TS813", message, hint="give its passphrase in TORCHSPEC_KEY_PASSPHRASE")


def _certificate_path(path: Path) -> Path:
    stem = path.name.removesuffix(".key.pem") if path.name.endswith(".key.pem") else path.stem
    return path.with_name(f"{stem}.cert.pem")


def _pem(data: bytes, passphrase: bytes | None) -> tuple[Any, tuple[x509.Certificate, ...]]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private = load_pem_private_key(data, passphrase)
    inside = tuple(x509.load_pem_x509_certificates(data)) if b"BEGIN CERTIFICATE" in data else ()
    return private, inside


def _pkcs12(data: bytes, passphrase: bytes | None) -> tuple[Any, tuple[x509.Certificate, ...]]:
    from cryptography.hazmat.primitives.serialization import pkcs12

    private, certificate, more = pkcs12.load_key_and_certificates(data, passphrase)
    if private is None:
        raise ValueError("no private key in the file")
    return private, tuple(c for c in (certificate, *more) if c is not None)


def _check(
    private: Any, certificates: tuple[x509.Certificate, ...], path: Path, now: datetime
) -> x509.Certificate | Diagnostic:
    algorithm = keys.algorithm_of(private.public_key())
    if algorithm.startswith("unsupported"):
        hint = "use ECDSA on P-256, P-384 or P-521, RSA of 2048 bits or more, or Ed25519 for envelopes"
        return Diagnostic("TS814", f"{path} holds an {algorithm} key", hint=hint)
    public = private.public_key()
    own = next((c for c in certificates if c.public_key() == public), None)
    if own is None:
        wanted = _certificate_path(path)
        what = "holds certificates of other keys only" if certificates else "has no certificate"
        hint = f"put the certificate into the file itself or into {wanted.name} beside it"
        return Diagnostic("TS815", f"the key {path} {what}", hint=hint)
    if not own.not_valid_before_utc <= now <= own.not_valid_after_utc:
        dates = f"{own.not_valid_before_utc:%Y-%m-%d} to {own.not_valid_after_utc:%Y-%m-%d}"
        hint = "make a new key with `torchspec key new --name …`, or correct the clock"
        return Diagnostic("TS815", f"the certificate of {path} is valid from {dates}, which today is not in", hint=hint)
    return own
