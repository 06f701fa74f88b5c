"""Trust: a signer is known because the reader pinned it, or an authority above it; never because it says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from memos import make_key, make_project

from torchspec.provenance import keys, trust, verify_signers
from torchspec.provenance.trust import TrustFiles
from torchspec.provenance.verify import verify

NOW = datetime.now(UTC)


def issue(
    name: str,
    private: Any,
    issuer: str,
    signer: Any,
    *,
    authority: bool,
    purposes: tuple[x509.ObjectIdentifier, ...] = (),
) -> x509.Certificate:
    """A certificate for `private` under another name's key."""

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    usage = x509.KeyUsage(not authority, not authority, False, False, False, authority, authority, False, False)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=10))
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(signer, hashes.SHA256())


@pytest.fixture(scope="module")
def chain() -> tuple[x509.Certificate, x509.Certificate, x509.Certificate]:
    """(root authority, authority below it, person)."""
    root, below, person = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    return (
        issue("Root", root, "Root", root, authority=True),
        issue("Team authority", below, "Root", root, authority=True),
        issue("Ana", person, "Team authority", below, authority=False),
    )


def test_nothing_pinned_is_not_decided(tmp_path: Path) -> None:
    found = trust.assess(make_key(tmp_path / "keys").certificate, (), (), datetime.now(UTC))
    assert found.known is None
    assert "self-signed and unknown to you" in found.words


def test_a_pinned_certificate_is_known(tmp_path: Path) -> None:
    own, other = make_key(tmp_path / "a").certificate, make_key(tmp_path / "b").certificate
    assert trust.assess(own, (), (other, own), datetime.now(UTC)).known is True


def test_the_same_name_on_another_key_is_unknown(tmp_path: Path) -> None:
    own, other = make_key(tmp_path / "a").certificate, make_key(tmp_path / "b").certificate
    found = trust.assess(own, (), (other,), datetime.now(UTC))
    assert found.known is False
    assert "self-signed and unknown to you" in found.words


def test_a_signature_outside_the_dates_is_not_trusted(tmp_path: Path) -> None:
    own = make_key(tmp_path / "a", days=1).certificate
    assert trust.assess(own, (), (own,), datetime.now(UTC) + timedelta(days=2)).known is False
    assert trust.assess(own, (), (own,), datetime.now(UTC) - timedelta(days=2)).known is False


def test_a_path_to_a_pinned_authority_is_known(chain: tuple[x509.Certificate, ...]) -> None:
    root, below, person = chain
    assert trust.assess(person, (below,), (root,), NOW).known is True
    assert trust.assess(person, (), (below,), NOW).known is True
    assert "certified by Team authority" in trust.assess(person, (below,), (root,), NOW).words


def test_a_missing_link_is_unknown(chain: tuple[x509.Certificate, ...]) -> None:
    root, _, person = chain
    found = trust.assess(person, (), (root,), NOW)
    assert found.known is False
    assert "no path leads" in found.words


def test_a_person_is_no_authority(chain: tuple[x509.Certificate, ...]) -> None:
    """A pinned colleague cannot vouch for somebody else."""
    colleague, eve = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pinned = issue("Colleague", colleague, "Colleague", colleague, authority=False)
    forged = issue("Ana", eve, "Colleague", colleague, authority=False)
    assert trust.assess(forged, (), (pinned,), NOW).known is False
    root, below, _ = chain
    between = issue("Ana", eve, "Colleague", colleague, authority=False)
    assert trust.assess(between, (pinned, below), (root,), NOW).known is False


def test_a_forged_issuer_name_is_unknown(chain: tuple[x509.Certificate, ...]) -> None:
    root, below, _ = chain
    eve = ec.generate_private_key(ec.SECP256R1())
    forged = issue("Ana", eve, "Team authority", eve, authority=False)
    assert trust.assess(forged, (below,), (root,), NOW).known is False


def test_a_trust_file_without_certificates_is_refused(tmp_path: Path, chain: tuple[x509.Certificate, ...]) -> None:
    path = tmp_path / "trust.pem"
    path.write_bytes(b"".join(c.public_bytes(Encoding.PEM) for c in chain))
    assert trust.read_trust(path).value == chain
    path.write_text("no certificate")
    for refused in (trust.read_trust(path), trust.read_trust(tmp_path / "gone")):
        assert [d.code for d in refused.diagnostics] == ["TS823"]


STAMPING, MAIL = ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.EMAIL_PROTECTION


def test_what_is_made_for_timestamps_is_no_author_and_vouches_for_none(chain: tuple[x509.Certificate, ...]) -> None:
    root, below, person = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    top = issue("Root", root, "Root", root, authority=True)
    stamps = issue("Stamps", below, "Root", root, authority=True, purposes=(STAMPING,))
    leaf = issue("TSA", person, "Root", root, authority=False, purposes=(STAMPING,))
    for pinned in ((top,), (leaf,), (top, leaf)):
        found = trust.assess(leaf, (), pinned, NOW)
        assert (found.known, "made for timestamps" in found.words) == (False, True), found.words
    ana = issue("Ana Ruiz", person, "Stamps", below, authority=False, purposes=(MAIL,))
    assert trust.assess(ana, (stamps,), (top,), NOW).known is False
    assert trust.assess(ana, (), (stamps,), NOW).known is False
    mailed = issue("Ana Ruiz", person, "Root", root, authority=False, purposes=(MAIL,))
    assert trust.assess(mailed, (), (top,), NOW).known is True, "whom the reader pinned as a certifier of signers"


def test_an_authority_pinned_for_timestamps_makes_no_author_known(tmp_path: Path) -> None:
    """The same root certifies the authority and an author: pinned for time, it vouches for nobody's name."""
    root, below, private = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    top = issue("Public root", root, "Public root", root, authority=True)
    tsa = issue("TSA", below, "Public root", root, authority=False, purposes=(STAMPING,))
    ana = issue("Ana Ruiz", private, "Public root", root, authority=False, purposes=(MAIL,))
    path = tmp_path / "authorities.pem"
    path.write_bytes(top.public_bytes(Encoding.PEM))
    pinned, _ = verify_signers.pinned_by(TrustFiles(None, path).authorities)
    assert trust.assess_authority(tsa, (), pinned, NOW).known is True
    made = make_key(tmp_path / "keys")
    info = replace(made.info, subject="Ana Ruiz", fingerprint=keys.fingerprint(ana))
    key = replace(made, private=private, certificate=ana, info=info)
    project = replace(make_project(tmp_path / "team"), key=key)
    project.run(project.compile())
    memo = project.seal(project.compile())
    report = verify(memo, trust_timestamps=path)
    assert (report.ok, report.trusted) == (True, None), report.words
    assert verify(memo, trust=path).trusted is True
