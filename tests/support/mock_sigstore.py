"""A MOCK of Sigstore's services on this machine, for tests: an authority, a log of certificates, a log of signatures.

It believes any identity token and logs anything; no real service is asked. What it hands out has the real form, so that
the sigstore package's own client and verifier run against it unchanged.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = "https://mock-issuer.example"
_SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUED_BY_BARE = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUED_BY = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SINCE = datetime(2025, 1, 1, tzinfo=UTC)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _public(key: Any) -> bytes:
    made: bytes = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return made


def mock_token(identity: str = "ana@example.org", *, lifetime: timedelta = timedelta(minutes=5)) -> str:
    """An identity token that nobody signed: the client forwards it, and only the MOCK believes it."""
    now = datetime.now(UTC)
    claims = {"aud": "sigstore", "iss": ISSUER, "sub": identity, "email": identity}
    claims |= {"iat": int(now.timestamp()) - 1, "exp": int((now + lifetime).timestamp())}

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'ES256', 'typ': 'JWT'})}.{part(claims)}.{_b64(b'no signature').rstrip('=')}"


class MockSigstore:
    """Keys of the MOCK instance and what it answers."""

    def __init__(self) -> None:
        self.root, self.certificates, self.log = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "MOCK authority")])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self.authority = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.root.public_key())
            .serial_number(1)
            .not_valid_before(_SINCE)
            .not_valid_after(_SINCE + timedelta(days=9000))
            .add_extension(x509.BasicConstraints(True, 1), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.root.public_key()), critical=False)
            .sign(self.root, hashes.SHA256())
        )

    def certificate(self, asked: x509.CertificateSigningRequest, identity: str) -> x509.Certificate:
        """A certificate of ten minutes, with the certificate log's stamp inside."""
        now = datetime.now(UTC).replace(microsecond=0)
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        issuer = ISSUER.encode()
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.root.public_key())  # type: ignore[arg-type]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.authority.subject)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(seconds=2))
            .not_valid_after(now + timedelta(minutes=10))
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(above, critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUED_BY, b"\x0c%c%b" % (len(issuer), issuer)), critical=False)
            .add_extension(x509.UnrecognizedExtension(_ISSUED_BY_BARE, issuer), critical=False)
        )
        before = builder.sign(self.root, hashes.SHA256()).tbs_certificate_bytes
        at = int(now.timestamp() * 1000)
        entry = hashlib.sha256(_public(self.root)).digest() + len(before).to_bytes(3, "big") + before
        signature = self.certificates.sign(
            struct.pack("!BBQH", 0, 0, at, 1) + entry + b"\0\0", ec.ECDSA(hashes.SHA256())
        )
        stamp = b"\0" + hashlib.sha256(_public(self.certificates)).digest() + struct.pack("!QH", at, 0)
        stamp += b"\x04\x03" + struct.pack("!H", len(signature)) + signature
        listed = struct.pack("!H", len(stamp)) + stamp
        listed = struct.pack("!H", len(listed)) + listed
        octets = (b"\x04\x81%c" % len(listed) if len(listed) > 127 else b"\x04%c" % len(listed)) + listed
        return builder.add_extension(x509.UnrecognizedExtension(_SCTS, octets), critical=False).sign(
            self.root, hashes.SHA256()
        )

    def logged(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """The entry of a DSSE envelope as the only one of a log, with proof, checkpoint and promise."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        signatures = [{"signature": s["sig"], "verifier": content["verifiers"][0]} for s in envelope["signatures"]]
        digests = {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(content["envelope"].encode()).hexdigest()},
            "payloadHash": {
                "algorithm": "sha256",
                "value": hashlib.sha256(base64.b64decode(envelope["payload"])).hexdigest(),
            },
        }
        kept = {"apiVersion": "0.0.1", "kind": "dsse", "spec": digests | {"signatures": signatures}}
        body = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
        leaf = hashlib.sha256(b"\0" + body).digest()
        own = hashlib.sha256(_public(self.log)).digest()
        note = f"mock.example - 1\n1\n{_b64(leaf)}\n"
        signed = own[:4] + self.log.sign(note.encode(), ec.ECDSA(hashes.SHA256()))
        promised = {"body": _b64(body), "integratedTime": int(datetime.now(UTC).timestamp())}
        promised |= {"logID": own.hex(), "logIndex": 0}
        promise = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        proof = {"logIndex": 0, "rootHash": leaf.hex(), "treeSize": 1, "hashes": []}
        proof["checkpoint"] = f"{note}\n\u2014 mock.example {_b64(signed)}\n"
        verification = {
            "inclusionProof": proof,
            "signedEntryTimestamp": _b64(self.log.sign(promise, ec.ECDSA(hashes.SHA256()))),
        }
        return {"0" * 64: promised | {"verification": verification}}

    def trusted_root(self) -> dict[str, Any]:
        """What a reader needs to believe this MOCK."""

        def log(key: Any) -> dict[str, Any]:
            public = {"rawBytes": _b64(_public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256"}
            public["validFor"] = {"start": "2025-01-01T00:00:00Z"}
            where = {"baseUrl": "https://mock.example", "hashAlgorithm": "SHA2_256"}
            return where | {"publicKey": public, "logId": {"keyId": _b64(hashlib.sha256(_public(key)).digest())}}

        chain = {"certificates": [{"rawBytes": _b64(self.authority.public_bytes(Encoding.DER))}]}
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.log)],
            "ctlogs": [log(self.certificates)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "mock", "commonName": "MOCK authority"},
                    "uri": "https://mock.example",
                    "certChain": chain,
                    "validFor": {"start": "2025-01-01T00:00:00Z"},
                }
            ],
            "timestampAuthorities": [],
        }

    def config(self, url: str) -> dict[str, Any]:
        """The client trust configuration of the MOCK at `url`."""

        def service(address: str) -> list[dict[str, Any]]:
            valid = {"start": "2025-01-01T00:00:00Z"}
            return [{"url": address, "majorApiVersion": 1, "validFor": valid, "operator": "mock"}]

        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(),
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": service(url),
                "oidcUrls": service(url),
                "rekorTlogUrls": service(url),
                "tsaUrls": [],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaConfig": {"selector": "ANY"},
            },
        }


@contextmanager
def serving_mock(mock: MockSigstore, folder: Path, *, status: int = 201) -> Iterator[Path]:
    """The path of the MOCK's client trust configuration while it serves."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/api/v2/signingCert":
                pem = base64.b64decode(value["certificateSigningRequest"])
                claims = self.headers["Authorization"].split(".")[1]
                identity = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
                made = mock.certificate(x509.load_pem_x509_csr(pem), identity)
                chain = [c.public_bytes(Encoding.PEM).decode() for c in (made, mock.authority)]
                self._say({"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}})
            else:
                assert self.path == "/api/v1/log/entries", self.path
                self._say(mock.logged(value))

        def _say(self, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        path = folder / "mock-sigstore.json"
        path.write_text(json.dumps(mock.config(f"http://127.0.0.1:{server.server_port}")), encoding="utf-8")
        yield path
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
