"""RFC 3161 timestamps of the plan and of the signature, against an authority on this machine."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from authority import MOMENT, make_authority, serving
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from memos import Project, make_project, run_git, small_pdf

from torchspec.provenance import pades, timestamp, trust
from torchspec.provenance.verify import VerifyReport, verify


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "team")


def stamp(project: Project, url: str) -> timestamp.Stamp:
    made = timestamp.stamp_plan(project.out / "history", project.compile().plan_digest, timestamp.client(url))
    assert made.value is not None, made.diagnostics
    return made.value


def test_a_plan_stamped_before_the_evidence_strengthens(project: Project, authority: Any) -> None:
    locked = project.compile()
    with serving(authority) as url:
        found = stamp(project, url)
        assert (found.problem, found.at, found.authority) == (None, "2020-01-02T13:00:00Z", "Test authority")
    assert stamp(project, "http://127.0.0.1:1/") == found  # it is stamped: nobody is asked again
    project.run(locked)
    said = project.registration(locked)
    assert said.strengthened_by == ("RFC 3161 timestamp of the plan, 2020-01-02T13:00:00Z, by Test authority",)
    memo = project.seal(locked)
    assert (memo / "history" / f"{locked.plan_digest}.tsr").is_file()
    report = verify(memo)
    assert (report.intact, report.registered) == (True, True), report.words


def test_a_stamp_after_the_evidence_strengthens_nothing(project: Project, tmp_path: Path) -> None:
    locked = project.compile()
    with serving(make_authority(tmp_path / "late", datetime(2048, 1, 1, tzinfo=UTC))) as url:
        stamp(project, url)
    project.run(locked)
    assert project.registration(locked).strengthened_by == ()


def test_a_stamp_of_another_plan_is_none(project: Project, authority: Any) -> None:
    with serving(authority) as url:
        stamp(project, url)
    mine = project.compile().plan_digest
    data = (project.out / "history" / f"{mine}.tsr").read_bytes()
    other = project.compile(limit=2.0)
    (project.out / "history" / f"{other.plan_digest}.tsr").write_bytes(data)
    project.run(other)
    assert "does not hold (it stamps something else" in project.registration(other).strengthened_by[0]


def test_any_byte_of_a_stamp(project: Project, authority: Any) -> None:
    """What a token does not sign (its frame) may be written otherwise; then it says the same, or it is none."""
    with serving(authority) as url:
        good = stamp(project, url)
    digest = project.compile().plan_digest
    data = (project.out / "history" / f"{digest}.tsr").read_bytes()
    chance = random.Random(7)
    for _ in range(120):
        at = chance.randrange(len(data))
        spoilt = bytearray(data)
        spoilt[at] ^= 1 << chance.randrange(8)
        found = timestamp.read(bytes(spoilt), digest)
        assert found.problem is not None or found.at == good.at, at
    assert timestamp.read(data + b"x", digest).problem is not None
    assert timestamp.read(b"", digest).problem is not None


@pytest.mark.parametrize(
    ("url", "words"),
    [("http://127.0.0.1:1/", "cannot be reached"), ("file:///etc/passwd", "no http"), ("ftp://a/", "no http")],
)
def test_no_authority_no_timestamp(project: Project, url: str, words: str) -> None:
    made = timestamp.stamp_plan(project.out, "0" * 64, timestamp.client(url))
    assert made.value is None
    assert made.diagnostics[0].code == "TS824"
    assert words in made.diagnostics[0].message
    signed = pades.sign_pdf(small_pdf(), project.key, reason="x", timestamper=timestamp.client(url))
    assert [d.code for d in signed.diagnostics] == ["TS824"]


@pytest.mark.parametrize(("answer", "status"), [(b"<html>", 200), (b"", 200), (b"no", 503), (b"\x30\x80" * 40, 200)])
def test_an_authority_that_answers_something_else(project: Project, answer: bytes, status: int) -> None:
    with serving(None, answer=answer, status=status) as url:
        made = timestamp.stamp_plan(project.out, "0" * 64, timestamp.client(url))
    assert [d.code for d in made.diagnostics] == ["TS824"]


def test_a_stamped_signature(project: Project, authority: Any) -> None:
    with serving(authority) as url:
        signed = pades.sign_pdf(small_pdf(), project.key, reason="x", timestamper=timestamp.client(url))
    assert signed.value is not None, signed.diagnostics
    found = pades.read_pdf(signed.value)
    assert (found.problem, found.timestamp) == (None, f"{MOMENT:%Y-%m-%dT%H:%M:%SZ}")


def test_a_tag_that_was_moved_is_named(project: Project) -> None:
    def tag() -> None:
        body = f"object {run_git(project.root, 'rev-parse', 'HEAD')}\ntype commit\ntag registered\n"
        body += "tagger team <team@example.org> 1577966400 +0000\n\nlimits\n"
        body += "-----BEGIN PGP SIGNATURE-----\n\nmade up: no key signed this\n-----END PGP SIGNATURE-----\n"
        (project.root / ".git" / "body").write_text(body)
        made = run_git(project.root, "hash-object", "-t", "tag", "-w", "--literally", ".git/body")
        run_git(project.root, "update-ref", "refs/tags/registered", made)

    locked = project.compile()
    tag()
    project.run(locked)
    memo = project.seal(locked)
    assert verify(memo).registered is True
    (project.root / "more").write_text("x")
    run_git(project.root, "add", "more")
    run_git(project.root, "commit", "-q", "-m", "more")
    tag()
    report = verify(memo)
    assert report.intact
    assert report.registered is False
    assert "signed tag registered" in report.words[2]


def test_whether_the_authority_is_known_is_said_apart(project: Project, tmp_path: Path) -> None:
    """A token that holds says when; only the reader's file of authorities says whether to believe it."""
    locked, authority = project.compile(), make_authority(tmp_path / "authority", datetime.now(UTC))
    with serving(authority) as url:
        stamp(project, url)
        project.run(locked)
        memo = project.seal(locked, timestamper=timestamp.client(url))
    own = project.key.certificate.public_bytes(Encoding.PEM)
    known = x509.load_der_x509_certificate(authority.tsa_cert.dump()).public_bytes(Encoding.PEM)

    def asked(pem: bytes | None, option: str = "trust_timestamps") -> tuple[list[bool | None], VerifyReport]:
        path = None if pem is None else tmp_path / "trust.pem"
        if path:
            path.write_bytes(pem or b"")
        files: dict[str, Any] = {option: path}
        report = verify(memo, **files)
        return [c.ok for c in report.checks if c.group == "timestamp"], report

    for pem, ok, words in (
        (None, None, "no file of timestamp authorities was given, so its time is a claim"),
        (own, None, "nobody in your file of timestamp authorities vouches for it, so its time is a claim"),
        (own + known, True, "its certificate is in your file of timestamp authorities"),
    ):
        found, report = asked(pem)
        assert found == [ok, ok]
        assert report.ok, "an authority that nobody knows breaks nothing"
        told = [w for w in report.words if w.startswith("Timestamp of the ")]
        assert [words in w for w in told] == [True, True], told
        assert [t["ok"] for t in report.to_json()["timestamps"]] == [ok, ok]
        assert report.to_json()["trusted"] is None, "a file of timestamp authorities says nothing of authors"
    assert asked(b"no certificate")[0] == [False, False]
    found, report = asked(own + known, "trust")
    assert (found, report.trusted) == ([None, None], True), "a trust file says nothing of timestamps"


def test_a_signer_is_no_authority_and_an_authority_has_dates(tmp_path: Path) -> None:
    """A pinned colleague cannot stamp their own work; a time outside of the certificate's dates is not believed."""
    for stamps, moment, known, words in (
        (True, MOMENT, True, "its certificate is in your file of timestamp authorities"),
        (False, MOMENT, None, "not made for timestamps"),
        (True, datetime(2010, 1, 1, tzinfo=UTC), False, "outside the dates"),
    ):
        made = make_authority(tmp_path / f"{stamps}{moment.year}", moment, stamps=stamps)
        certificate = x509.load_der_x509_certificate(made.tsa_cert.dump())
        found = trust.assess_authority(certificate, (), (certificate,), moment)
        assert (found.known, words in found.words) == (known, True), found.words
        as_author = trust.assess(certificate, (), (certificate,), moment)
        if stamps:
            assert as_author.known is False, "an authority signs no memo, pinned or not"
