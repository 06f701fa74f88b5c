"""The envelope: the standard's encoding, one form of every byte, and signatures that nobody else can restate."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from memos import make_key

from torchspec.core.canon import canonical
from torchspec.provenance import dsse, keyfile, keys
from torchspec.provenance.keys import SigningKey


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return make_key(tmp_path / "keys")


def key_of(folder: Path, private: object) -> SigningKey:
    """A key of another kind with a self-signed certificate, through the way that users take: a PEM file."""
    from datetime import UTC, datetime

    certificate = keys._self_signed(private, "Rita", None, datetime.now(UTC), 30)
    path = folder / "other.pem"
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    path.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    path.chmod(0o600)
    loaded = keyfile.load_key(path)
    assert loaded.value is not None, loaded.diagnostics
    return loaded.value


def test_the_encoding_is_the_standards() -> None:
    # the example of the DSSE specification
    assert dsse.pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert dsse.pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_there_and_back(key: SigningKey) -> None:
    envelope = dsse.Envelope(b'{"a":1}', (dsse.sign(b'{"a":1}', key),))
    data = dsse.dump(envelope)
    assert dsse.parse(data) == envelope
    assert dsse.holds(envelope.payload, envelope.signatures[0])
    assert not dsse.holds(b'{"a":2}', envelope.signatures[0])


@pytest.mark.parametrize(
    "private",
    [
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
        rsa.generate_private_key(65537, 2048),
    ],
    ids=["P-384", "P-521", "RSA"],
)
def test_other_kinds_of_keys(tmp_path: Path, private: object) -> None:
    made = dsse.sign(b"payload", key_of(tmp_path, private))
    assert dsse.holds(b"payload", made)
    assert not dsse.holds(b"payloae", made)


def test_ed25519(tmp_path: Path) -> None:
    made = dsse.sign(b"payload", make_key(tmp_path / "keys", algorithm="ed25519"))
    assert dsse.holds(b"payload", made)
    assert not dsse.holds(b"payloae", made)


def test_another_key_does_not_verify(key: SigningKey, tmp_path: Path) -> None:
    other = make_key(tmp_path / "others")
    made = dsse.sign(b"payload", key)
    assert not dsse.holds(b"payload", dsse.Signature(made.sig, other.certificate))


def test_nobody_can_restate_a_signature(key: SigningKey) -> None:
    made = dsse.sign(b"payload", key)
    r, s = decode_dss_signature(made.sig)
    order = ec.SECP256R1.group_order
    twin = encode_dss_signature(r, order - s)
    key.certificate.public_key().verify(twin, dsse.pae(dsse.PAYLOAD_TYPE, b"payload"), ec.ECDSA(dsse._hash_for(256)))
    assert not dsse.holds(b"payload", dsse.Signature(twin, key.certificate))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("white space", lambda v, d: d.replace(b":", b": ", 1)),
        ("no newline", lambda v, d: d[:-1]),
        ("another newline", lambda v, d: d + b"\n"),
        ("another keyid", lambda v, d: d.replace(v["signatures"][0]["keyid"].encode(), b"0" * 64)),
        ("another type", lambda v, d: d.replace(b"in-toto", b"in_toto")),
        ("no signature", lambda v, d: canonical({**v, "signatures": []}) + b"\n"),
        ("a field more", lambda v, d: canonical({**v, "more": 1}) + b"\n"),
        ("a key twice", lambda v, d: d.replace(b'{"payload":', b'{"payload":"","payload":', 1)),
        ("not JSON", lambda v, d: b"{"),
        ("not UTF-8", lambda v, d: b"\xff" + d),
        ("deep", lambda v, d: b"[" * 100_000),
        ("a number", lambda v, d: b"1"),
        ("no certificate", lambda v, d: d.replace(b"BEGIN CERT", b"BEGIN CRET")),
    ],
)
def test_what_is_not_byte_for_byte_an_envelope_is_refused(key: SigningKey, what: str, change: object) -> None:
    data = dsse.dump(dsse.Envelope(b"payload", (dsse.sign(b"payload", key),)))
    changed = change(json.loads(data), data)  # type: ignore[operator]
    assert changed != data
    with pytest.raises(dsse.EnvelopeError):
        dsse.parse(changed)


def test_loose_base64_is_refused(key: SigningKey) -> None:
    """The last character before the padding has bits that decoders ignore."""
    payload = b"payload."  # 8 bytes: one padding character, two loose bits
    data = dsse.dump(dsse.Envelope(payload, (dsse.sign(payload, key),)))
    tight = base64.b64encode(payload)
    loose = tight[:-2] + bytes([tight[-2] + 1]) + b"="
    assert base64.b64decode(loose) == payload
    with pytest.raises(dsse.EnvelopeError):
        dsse.parse(data.replace(tight, loose))


def test_a_certificate_with_a_key_that_nobody_knows_holds_nothing(tmp_path: Path) -> None:
    """Its key has an algorithm that no library here has: found to hold nothing, not a traceback."""
    key = make_key(tmp_path / "keys")
    made = dsse.sign(b"{}", key)
    der, algorithm = key.certificate.public_bytes(Encoding.DER), bytes.fromhex("2a8648ce3d0201")
    assert der.count(algorithm) == 1
    strange = x509.load_der_x509_certificate(der.replace(algorithm, bytes.fromhex("2a8648ce420201")))
    assert dsse.holds(b"{}", made)
    assert not dsse.holds(b"{}", dsse.Signature(made.sig, strange))
