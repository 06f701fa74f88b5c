"""An RFC 3161 authority for tests: pyHanko's dummy behind a real HTTP server on this machine. Its tokens are real."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from torchspec.provenance import keyfile, pades

MOMENT = datetime(2020, 1, 2, 13, 0, tzinfo=UTC)


def _certificate(private: Any, stamps: bool) -> Any:
    """Self-signed, valid from before any test's moment; made for timestamps alone unless told otherwise."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    usage = x509.KeyUsage(True, True, False, False, False, False, False, False, False)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2019, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2049, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
    )
    if stamps:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    return builder.sign(private, hashes.SHA256())


def make_authority(folder: Path, moment: datetime = MOMENT, *, stamps: bool = True) -> Any:
    """A timestamper that says it was `moment`; its key and certificate lie in `folder`/authority.pem."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from pyhanko.sign.timestamps import DummyTimeStamper

    private = rsa.generate_private_key(65537, 2048)
    certificate = _certificate(private, stamps)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "authority.pem"
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    path.chmod(0o600)
    loaded = keyfile.load_key(path)
    assert loaded.value is not None, loaded.diagnostics
    signer = pades._signer(loaded.value)
    return DummyTimeStamper(signer.signing_cert, signer.signing_key, fixed_dt=moment)


@contextmanager
def serving(authority: Any, *, answer: bytes | None = None, status: int = 200) -> Iterator[str]:
    """The address of `authority` while inside; `answer` is said instead of a timestamp."""
    from asn1crypto import tsp

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = tsp.TimeStampReq.load(self.rfile.read(int(self.headers["Content-Length"])))
            said = answer if answer is not None else asyncio.run(authority.async_request_tsa_response(asked)).dump()
            self.send_response(status)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
