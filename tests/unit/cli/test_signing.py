"""Signing as users do it: `torchspec cosign` with a PKCS#12 file, and what is said where it cannot be used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from memos import make_key, make_project

from torchspec.cli import main
from torchspec.provenance import keys

PASSPHRASE = "correct horse"


@pytest.fixture(scope="module")
def memo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = make_project(tmp_path_factory.mktemp("signing") / "team")
    project.run(project.compile())
    return project.seal(project.compile())


def container(folder: Path, *, expired: bool = False) -> tuple[Path, Path]:
    """(a PKCS#12 file under the passphrase, its certificate as PEM)."""
    key = make_key(folder / "keys", "rita", "Rita Reviewer")
    certificate = key.certificate
    if expired:
        certificate = keys._self_signed(key.private, "Rita", None, datetime.now(UTC) - timedelta(days=9), 2)
    path, pem = folder / "rita.p12", folder / "rita.pem"
    lock = BestAvailableEncryption(PASSPHRASE.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"rita", key.private, certificate, None, lock))
    path.chmod(0o600)
    pem.write_bytes(certificate.public_bytes(Encoding.PEM))
    return path, pem


def test_a_reviewer_signs_with_pkcs12_and_is_known_by_its_certificate(
    memo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, pem = container(tmp_path)
    monkeypatch.setenv("TORCHSPEC_KEY_PASSPHRASE", PASSPHRASE)
    assert main(["cosign", str(memo), "--key", str(path)]) == 0
    assert "signed by Rita Reviewer; the envelope carries 2 signatures" in capsys.readouterr().out
    main(["verify", str(memo), "--trust", str(pem)])
    assert "Signed by a reviewer too: Rita Reviewer" in (said := capsys.readouterr().out)
    assert "its certificate is in your trust file" in said


@pytest.mark.parametrize(
    ("given", "expired", "words"),
    [
        ("wrong", False, "error[TS813]: the passphrase in TORCHSPEC_KEY_PASSPHRASE does not open"),
        (None, False, "is kept under a passphrase, and none was given"),
        (PASSPHRASE, True, "error[TS815]: the certificate of"),
    ],
)
def test_a_pkcs12_file_that_cannot_be_used_is_said_why(
    memo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str | None,
    expired: bool,
    words: str,
) -> None:
    path, _ = container(tmp_path, expired=expired)
    monkeypatch.delenv("TORCHSPEC_KEY_PASSPHRASE", raising=False)
    if given:
        monkeypatch.setenv("TORCHSPEC_KEY_PASSPHRASE", given)
    before = (memo / "envelope.json").read_bytes()
    assert main(["cosign", str(memo), "--key", str(path)]) == 3
    assert words in capsys.readouterr().err
    assert (memo / "envelope.json").read_bytes() == before


def test_a_file_of_timestamp_authorities_makes_no_signer_known(
    memo: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, pem = container(tmp_path)
    main(["verify", str(memo), "--trust-timestamps", str(pem)])
    assert "no trust file was given, so the name is a claim" in capsys.readouterr().out
