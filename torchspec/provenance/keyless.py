"""Sigstore signatures: the memo's Statement signed by an identity (a mail address, a CI job) instead of a kept key.

An optional extra (`torchspec[sigstore]`). The bundles, one for each identity, lie beside the envelope and sign the same
bytes, as a reviewer's signature does. Reading one needs nothing but this module; whether its certificate and its entry
in the public log hold is what the sigstore package says, offline, against a trusted root.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchspec.core.canon import canonical
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.core.files import strict_json, write_whole
from torchspec.provenance import dsse
from torchspec.provenance.trust import Trust

if TYPE_CHECKING:
    from cryptography import x509

BUNDLE = "envelope.sigstore.json"  # the first one; the next are envelope.sigstore-2.json, -3, ...
_BUNDLES = re.compile(r"envelope\.sigstore(?:-([2-9]|[1-9][0-9]{1,3}))?\.json")
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
TOKEN = "SIGSTORE_ID_TOKEN"
_ISSUERS = ("1.3.6.1.4.1.57264.1.8", "1.3.6.1.4.1.57264.1.1")  # as DER text; as bare text, in older certificates
_INSTALL = "pip install 'torchspec[sigstore]'"


@dataclass(frozen=True, slots=True)
class Known:
    """Whom the reader accepts: `identity` by `issuer`, as `root` (a trusted root file) vouches for; None: not said.

    One without the other accepts nobody: any issuer can say any name.
    """

    identity: str | None = None
    issuer: str | None = None
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A bundle as read. `problem` is the first thing that does not hold, in words; names are claims until trusted."""

    problem: str | None
    identity: str = ""
    issuer: str = ""
    logged: str = ""  # when the log took it in (ISO, UTC)
    data: bytes = field(default=b"", repr=False)  # the bundle that was read
    payload: bytes = field(default=b"", repr=False)  # the Statement that it signs
    number: int = 1  # of the bundle beside the envelope


class _SignedAlready(Exception):
    """This identity's bundle lies beside the envelope already; the message says whose."""


def half_said(known: Known) -> Diagnostic | None:
    """TS831 where only one half of whom the reader accepts was said."""
    if bool(known.identity) == bool(known.issuer):
        return None
    given, lacking = ("identity", "issuer") if known.identity else ("issuer", "identity")
    message = f"--sigstore-{given} was given without --sigstore-{lacking}, which together say whom you accept"
    hint = "give both, for instance: --sigstore-identity ana@example.org --sigstore-issuer https://accounts.google.com"
    return Diagnostic("TS831", message, hint=hint)


def sign(memo_folder: Path, payload: bytes, *, config: Path | None = None, ask: bool = False) -> Result[Seen]:
    """Has an identity sign `payload`, the Statement of the memo in `memo_folder`, and writes the bundle beside it.

    Bundles that are there stay: the new one gets the next number. One that does not hold, or of the same identity, is a
    reason not to sign (TS822).
    `config` is a client trust configuration of another instance than the public one. The identity token is that of
    $SIGSTORE_ID_TOKEN, else of the CI job that this runs in, else, where `ask`, of whoever signs in with a browser.
    Diagnostics: TS822, TS827 (not installed), TS828 (no identity), TS829 (no signature was given).
    """
    try:
        import sigstore.dsse
        import sigstore.models
        import sigstore.sign
    except ImportError:
        message = "a Sigstore signature needs the sigstore package, which is not installed"
        return Result(None, (Diagnostic("TS827", message, hint=_INSTALL),))
    there = of_memo(memo_folder, payload)
    spoilt = next((s for s in there if s.problem), None)
    if spoilt is not None:
        message = f"{name_of(spoilt.number)} does not hold ({spoilt.problem}), so it is not worth another signature"
        return Result(None, (Diagnostic("TS822", message, hint="see `torchspec verify`; take it out of the folder"),))
    try:
        with _quiet():
            chosen = (
                sigstore.models.ClientTrustConfig.from_json(config.read_text(encoding="utf-8"))
                if config is not None
                else sigstore.models.ClientTrustConfig.production()
            )
            token = _token(chosen, ask)
            if isinstance(token, Diagnostic):
                return Result(None, (token,))
            _refuse_again(there, token.identity, token.federated_issuer)
            with sigstore.sign.SigningContext.from_trust_config(chosen).signer(token) as signer:
                made = signer.sign_dsse(sigstore.dsse.Statement(payload)).to_json()
        data = canonical(json.loads(made)) + b"\n"
        seen = read(data, payload)
        if seen.problem:
            raise ValueError(seen.problem)
        _refuse_again(there, seen.identity, seen.issuer)  # a CI job is certified under another name than its token's
        seen = replace(seen, number=max((s.number for s in there), default=0) + 1)
        write_whole(memo_folder / name_of(seen.number), data)
    except _SignedAlready as error:
        return Result(None, (Diagnostic("TS822", str(error), hint="a reviewer signs as an identity of their own"),))
    except Exception as error:  # its clients raise private classes for what a service answers; each means: no signature
        return Result(None, (_gave_none(error, config),))
    return Result(seen)


def _refuse_again(there: tuple[Seen, ...], identity: str, issuer: str) -> None:
    if any((s.identity, s.issuer) == (identity, issuer) for s in there):
        raise _SignedAlready(f"{identity}, as {issuer} says, has signed this envelope already")


def _gave_none(error: Exception, config: Path | None) -> Diagnostic:
    """TS829, with the root of what went wrong in words."""
    root: BaseException = error
    while root.__cause__ is not None or (root.__context__ is not None and not root.__suppress_context__):
        root = root.__cause__ or root.__context__ or root
    said, below = (" ".join(str(e).split()) or type(e).__name__ for e in (error, root))
    if len(said) > 120:  # as those of connections are, where the last part is what a person needs
        said = f"{type(error).__name__}: {below}"
    elif below not in said:
        said += f" ({below})"
    where = f"the instance that {config} names" if config else "Sigstore's public instance"
    hint = (
        f"signing needs {where} within reach; sign with a key where it is not (`torchspec cosign`), or name another "
        "instance with --sigstore-config"
    )
    return Diagnostic("TS829", f"no Sigstore signature was given: {said[:240]}", hint=hint)


def _token(config: Any, ask: bool) -> Any:
    """The identity token to sign with, or a Diagnostic. Raises what the package raises."""
    from sigstore.oidc import IdentityToken, Issuer, detect_credential

    given = os.environ.get(TOKEN) or detect_credential()
    if given:
        return IdentityToken(given)
    if ask:
        return Issuer(config.signing_config.get_oidc_url()).identity_token()
    hint = f"put an OpenID Connect token for the audience `sigstore` into {TOKEN}, or sign in a terminal with a browser"
    return Diagnostic("TS828", "nobody said as whom to sign with Sigstore", hint=hint)


@contextmanager
def _quiet() -> Iterator[None]:
    """What these packages log is in their errors too, which become diagnostics here."""
    loggers = [logging.getLogger(name) for name in ("sigstore", "tuf", "urllib3")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def name_of(number: int) -> str:
    """The file of a memo's bundle."""
    return BUNDLE if number == 1 else BUNDLE.replace(".json", f"-{number}.json")


def is_bundle(name: str) -> bool:
    """Whether a file of the memo folder is the place of a bundle."""
    return _BUNDLES.fullmatch(name) is not None


def of_memo(folder: Path, payload: bytes) -> tuple[Seen, ...]:
    """The bundles beside a memo's envelope over `payload`, in the order of their numbers."""
    found = (_BUNDLES.fullmatch(path.name) for path in folder.iterdir())
    seen = []
    for number in sorted(int(m.group(1) or 1) for m in found if m):
        try:
            data = (folder / name_of(number)).read_bytes()
        except OSError as error:
            seen.append(Seen(f"it cannot be read: {error.strerror}", number=number))
        else:
            seen.append(replace(read(data, payload), number=number))
    return tuple(seen)


def read(data: bytes, payload: bytes) -> Seen:
    """Reads a bundle over `payload`: its form, and that the key of its certificate made the signature."""
    try:
        value = strict_json(data)
        if canonical(value) + b"\n" != data:
            return Seen("it is not byte for byte as it was written")
        if value["mediaType"] != MEDIA_TYPE:
            return Seen(f"it is a bundle of another kind: {str(value['mediaType'])[:80]}")
        envelope = value["dsseEnvelope"]
        (signature,) = envelope["signatures"]
        made = base64.b64decode(signature["sig"], validate=True)
        if (envelope["payloadType"], base64.b64decode(envelope["payload"], validate=True)) != (
            dsse.PAYLOAD_TYPE,
            payload,
        ):
            return Seen("it signs another statement than the envelope's")
        certificate = _certificate(base64.b64decode(value["verificationMaterial"]["certificate"]["rawBytes"]))
        identity, issuer = _names(certificate)
        at = [e.get("integratedTime") for e in value["verificationMaterial"]["tlogEntries"]]
        logged = _time(at[0]) if at and at[0] is not None else ""
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError) as error:
        return Seen(f"it is no Sigstore bundle: {str(error).splitlines()[0][:120] if str(error) else 'damaged'}")
    if not _made(certificate, made, dsse.pae(dsse.PAYLOAD_TYPE, payload)):
        return Seen(f"its signature does not belong to the certificate of {identity}")
    return Seen(None, identity, issuer, logged, data, payload)


def _certificate(data: bytes) -> x509.Certificate:
    from cryptography import x509

    return x509.load_der_x509_certificate(data)


def _names(certificate: x509.Certificate) -> tuple[str, str]:
    """(who, as whom says that it is them) of a certificate of Sigstore's authority. Raises ValueError."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("its certificate names nobody") from None
    texts = [str(n.value) for n in names if isinstance(n, (x509.RFC822Name, x509.UniformResourceIdentifier))]
    if len(texts) != 1:
        raise ValueError("its certificate does not name one identity")
    found = {e.oid.dotted_string: getattr(e.value, "value", b"") for e in certificate.extensions}
    new, old = (found.get(oid, b"") for oid in _ISSUERS)
    issuer = new[2:] if new[:1] == b"\x0c" else old  # a short UTF8String: tag and length come first
    return texts[0], issuer.decode("utf-8")


def _made(certificate: x509.Certificate, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        public = certificate.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            return False
        public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def assess_all(
    seen: tuple[Seen, ...], known: Known, verifier: Callable[[Path | None], Any] | None = None
) -> tuple[Trust, ...]:
    """`assess` of every bundle. Where the reader accepts one of them, the others may be of whom they did not name."""
    found = [assess(s, known, verifier) for s in seen]
    if any(t.known for t in found):
        anybody = Known(root=known.root)
        for at, trust in enumerate(found):
            if trust.known is False and (again := assess(seen[at], anybody, verifier)).known is None:
                found[at] = again
    return tuple(found)


def assess(seen: Seen, known: Known, verifier: Callable[[Path | None], Any] | None = None) -> Trust:
    """Whether certificate and log entry of a bundle that was read hold, and the identity is one the reader accepts.

    Offline: the trusted root is the named file's, else the one that the sigstore package brings or keeps.
    """
    who = f"{seen.identity}, as {seen.issuer or 'nobody'} says"
    try:
        from sigstore.models import Bundle
        from sigstore.verify import policy
    except ImportError:
        return Trust(None, f"{who}: certificate and log entry were not looked at, which needs sigstore ({_INSTALL})")
    wanted: Any = policy.UnsafeNoOp()
    accepting = bool(known.identity and known.issuer)
    if accepting:
        wanted = policy.Identity(identity=known.identity or "", issuer=known.issuer)
    try:
        with _quiet():
            signed = (verifier or _verifier)(known.root).verify_dsse(Bundle.from_json(seen.data), wanted)
    except Exception as error:  # hostile bytes reach several parsers here, and each error means: it does not hold
        said = " ".join(str(error).split())[:200] or type(error).__name__
        return Trust(False, f"{who}: {said} (another instance's trusted root is named with --sigstore-root)")
    if signed != (dsse.PAYLOAD_TYPE, seen.payload):
        return Trust(False, f"{who}: what was verified is another statement than the envelope's")
    logged = f", logged at {seen.logged}" if seen.logged else ", logged"
    if not accepting:
        return Trust(
            None, f"{who}{logged}; you did not say that you accept them (--sigstore-identity, --sigstore-issuer)"
        )
    return Trust(True, f"{who}{logged}, whom you accept")


def _time(seconds: str | int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _verifier(root: Path | None) -> Any:
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    if root is not None:
        return Verifier(trusted_root=TrustedRoot.from_file(str(root)))
    return Verifier.production(offline=True)
