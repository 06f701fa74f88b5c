"""DSSE envelopes: a payload with one or more signatures over its pre-authentication encoding.

The file is canonical JSON and a newline, so that no byte of it can change unseen: signatures are in their one canonical
form, `keyid` is the SHA-256 of the certificate's DER, and parsing compares the bytes with what it would write itself.
Knows nothing of what the payload says. https://github.com/secure-systems-lab/dsse describes the format.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchspec.core.canon import canonical
from torchspec.core.files import strict_json
from torchspec.model.codec import schema_errors
from torchspec.provenance import keys
from torchspec.provenance.keys import SigningKey

if TYPE_CHECKING:
    from cryptography import x509

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class EnvelopeError(ValueError):
    """The bytes are not an envelope of ours; the message says why, in words."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature and the certificate that it claims."""

    sig: bytes
    certificate: x509.Certificate


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload (exact bytes) and its signatures, the author's first."""

    payload: bytes
    signatures: tuple[Signature, ...]


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: what is really signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, key: SigningKey) -> Signature:
    """Signs a payload with ECDSA (SHA-256, -384 or -512 by curve), RSA-PSS (SHA-256) or Ed25519."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    message, private = pae(PAYLOAD_TYPE, payload), key.private
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return Signature(private.sign(message), key.certificate)
    if isinstance(private, ec.EllipticCurvePrivateKey):
        made = private.sign(message, ec.ECDSA(_hash_for(private.curve.key_size)))
        return Signature(_low_s(made, private.curve), key.certificate)
    padding, algorithm = _pss()
    return Signature(private.sign(message, padding, algorithm), key.certificate)


def holds(payload: bytes, signature: Signature) -> bool:
    """Whether the certificate's key made this signature over this payload, in its canonical form."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    message = pae(PAYLOAD_TYPE, payload)
    try:
        public = signature.certificate.public_key()
        if keys.algorithm_of(public).startswith("unsupported"):
            return False
        if isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(signature.sig, message)
        elif isinstance(public, ec.EllipticCurvePublicKey):
            public.verify(signature.sig, message, ec.ECDSA(_hash_for(public.curve.key_size)))
            return _low_s(signature.sig, public.curve) == signature.sig
        else:
            padding, algorithm = _pss()
            public.verify(signature.sig, message, padding, algorithm)  # type: ignore[union-attr,call-arg]
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _hash_for(bits: int) -> Any:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256() if bits <= 256 else hashes.SHA384() if bits <= 384 else hashes.SHA512()


def _pss() -> tuple[Any, Any]:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    return padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH), hashes.SHA256()


def _low_s(signature: bytes, curve: Any) -> bytes:
    """Of the two forms that verify (s and n - s) the one with the smaller s: a third party cannot then make another."""
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

    r, s = decode_dss_signature(signature)
    order: int = curve.group_order
    return encode_dss_signature(r, min(s, order - s))


def dump(envelope: Envelope) -> bytes:
    """The file's bytes: canonical JSON and a newline."""
    from cryptography.hazmat.primitives.serialization import Encoding

    value = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(envelope.payload).decode(),
        "signatures": [
            {
                "keyid": keys.fingerprint(s.certificate),
                "sig": base64.b64encode(s.sig).decode(),
                "cert": s.certificate.public_bytes(Encoding.PEM).decode(),
            }
            for s in envelope.signatures
        ],
    }
    return canonical(value) + b"\n"


def parse(data: bytes) -> Envelope:
    """Reads an envelope. Raises EnvelopeError where it is not one, or not byte for byte as it would be written."""
    from cryptography import x509

    try:
        value = strict_json(data)
    except ValueError as error:
        raise EnvelopeError(f"it is not JSON: {error}") from None
    errors = schema_errors("bundle", value)
    if errors:
        raise EnvelopeError(f"it is not a DSSE envelope: {errors[0][0]}: {errors[0][1][:120]}")
    try:
        payload = base64.b64decode(value["payload"], validate=True)
        signatures = tuple(
            Signature(
                base64.b64decode(s["sig"], validate=True), x509.load_pem_x509_certificate(s["cert"].encode("ascii"))
            )
            for s in value["signatures"]
        )
        envelope = Envelope(payload, signatures)
        if dump(envelope) != data:
            raise EnvelopeError("it is not byte for byte as it was written")
    except EnvelopeError:
        raise
    except ValueError as error:
        raise EnvelopeError(f"a part of it is damaged: {str(error).splitlines()[0][:120]}") from None
    return envelope
