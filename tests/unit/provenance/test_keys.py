"""Keys: made with owner-only permissions, never overwritten, refused where others can read them."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from memos import make_key

from torchspec.provenance import keyfile, keys


def code_of(result: object) -> str:
    found = result.diagnostics  # type: ignore[attr-defined]
    assert result.value is None  # type: ignore[attr-defined]
    assert len(found) == 1
    assert found[0].hint
    return str(found[0].code)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_key_is_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    made = keys.new_key("default", "Ana Pérez 中文", email="ana@example.org", folder=folder)
    assert made.value is not None
    assert mode(folder) == 0o700
    assert mode(folder / "default.key.pem") == 0o600
    assert b"BEGIN PRIVATE KEY" in (folder / "default.key.pem").read_bytes()
    assert made.value.algorithm == "ECDSA P-256"
    assert made.value.self_signed
    assert keys.list_keys(folder) == (made.value,)
    assert keys.show_key("default", folder).value == made.value


def test_the_folder_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHSPEC_KEYS", str(tmp_path / "elsewhere"))
    assert keys.new_key("default", "Ana").value is not None
    loaded = keyfile.load_key()
    assert loaded.value is not None
    assert Path(loaded.value.info.path).parent == tmp_path / "elsewhere"


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    make_key(tmp_path / "keys")
    before = (tmp_path / "keys" / "default.key.pem").read_bytes()
    assert code_of(keys.new_key("default", "Eve", folder=tmp_path / "keys")) == "TS810"
    assert (tmp_path / "keys" / "default.key.pem").read_bytes() == before


@pytest.mark.parametrize("name", ["../x", "", "a b", ".hidden", "x" * 65, "-rf"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    assert code_of(keys.new_key(name, "Ana", folder=tmp_path / "keys")) == "TS816"
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(("person", "email"), [("", None), ("a\nb", None), ("x" * 65, None), ("Ana", "no address")])
def test_a_person_that_no_certificate_can_hold_is_refused(tmp_path: Path, person: str, email: str | None) -> None:
    assert code_of(keys.new_key("default", person, email=email, folder=tmp_path / "keys")) == "TS816"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert code_of(keys.new_key("default", "Ana", folder=tmp_path / "file" / "keys")) == "TS817"


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, bits: int) -> None:
    make_key(tmp_path / "keys")
    path = tmp_path / "keys" / "default.key.pem"
    path.chmod(bits)
    refused = keyfile.load_key("default", folder=tmp_path / "keys")
    assert code_of(refused) == "TS812"
    assert "chmod 600" in str(refused.diagnostics[0].hint)
    path.chmod(0o600)
    assert keyfile.load_key("default", folder=tmp_path / "keys").value is not None


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path / "keys")
    (tmp_path / "keys").chmod(0o770)
    assert code_of(keyfile.load_key("default", folder=tmp_path / "keys")) == "TS812"
    assert code_of(keys.new_key("second", "Ana", folder=tmp_path / "keys")) == "TS812"


def test_a_missing_key_names_those_that_are_there(tmp_path: Path) -> None:
    make_key(tmp_path / "keys", "release")
    refused = keyfile.load_key("nobody", folder=tmp_path / "keys")
    assert code_of(refused) == "TS811"
    assert "release" in str(refused.diagnostics[0].hint)
    assert code_of(keys.show_key("nobody", tmp_path / "keys")) == "TS811"
    assert code_of(keyfile.load_key(tmp_path / "no.pem")) == "TS811"


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n", b"\x30\x82\x00"):
        path = tmp_path / "some.pem"
        path.write_bytes(data)
        path.chmod(0o600)
        assert code_of(keyfile.load_key(path)) == "TS813"


def test_a_certificate_of_another_key_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path / "keys")
    other = make_key(tmp_path / "others")
    (tmp_path / "keys" / "default.cert.pem").write_bytes(other.certificate.public_bytes(Encoding.PEM))
    assert code_of(keyfile.load_key("default", folder=tmp_path / "keys")) == "TS815"
    (tmp_path / "keys" / "default.cert.pem").unlink()
    assert code_of(keyfile.load_key("default", folder=tmp_path / "keys")) == "TS815"


def test_a_certificate_outside_its_dates_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path / "keys", days=1)
    later = datetime.now(UTC) + timedelta(days=2)
    assert code_of(keyfile.load_key("default", folder=tmp_path / "keys", now=later)) == "TS815"


@pytest.mark.parametrize("secret", [None, b"correct horse"])
def test_pkcs12_and_pem_from_elsewhere(tmp_path: Path, secret: bytes | None) -> None:
    key = make_key(tmp_path / "keys")
    lock = BestAvailableEncryption(secret) if secret else NoEncryption()
    p12 = tmp_path / "team.p12"
    p12.write_bytes(pkcs12.serialize_key_and_certificates(b"team", key.private, key.certificate, None, lock))
    pem = tmp_path / "team.pem"
    private = key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
    pem.write_bytes(private + key.certificate.public_bytes(Encoding.PEM))
    for path in (p12, pem):
        path.chmod(0o600)
        loaded = keyfile.load_key(path, passphrase=secret)
        assert loaded.value is not None, loaded.diagnostics
        assert loaded.value.info.fingerprint == key.info.fingerprint
        if secret:
            assert code_of(keyfile.load_key(path, passphrase=b"wrong")) == "TS813"
            refused = keyfile.load_key(path)
            assert code_of(refused) == "TS813"
            assert "TORCHSPEC_KEY_PASSPHRASE" in str(refused.diagnostics[0].hint)


@pytest.mark.parametrize("private", [ec.generate_private_key(ec.SECP256K1()), rsa.generate_private_key(65537, 1024)])
def test_weak_and_strange_keys_are_refused(tmp_path: Path, private: object) -> None:
    path = tmp_path / "weak.pem"
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))  # type: ignore[attr-defined]
    path.chmod(0o600)
    assert code_of(keyfile.load_key(path)) == "TS814"
