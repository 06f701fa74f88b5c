"""Sigstore signatures: the real client and verifier against a MOCK of the services, and what is said without them."""

from __future__ import annotations

import builtins
import json
import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from memos import make_project
from mock_sigstore import ISSUER, MockSigstore, mock_token, serving_mock

from torchspec.cli import main
from torchspec.core.canon import canonical
from torchspec.provenance import bundle, dsse, keyless
from torchspec.provenance.keyless import BUNDLE, Known
from torchspec.provenance.verify import VerifyReport, verify

WHO = "ana@example.org"


@pytest.fixture(scope="module")
def mock() -> MockSigstore:
    return MockSigstore()


@pytest.fixture(scope="module")
def root(mock: MockSigstore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trust") / "trusted_root.json"
    path.write_text(json.dumps(mock.trusted_root()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed memo without a Sigstore signature."""
    project = make_project(tmp_path_factory.mktemp("keyless") / "team")
    project.run(project.compile())
    return project.seal(project.compile())


@pytest.fixture(scope="module")
def signed(plain: Path, mock: MockSigstore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    memo = shutil.copytree(plain, folder / plain.name)
    with pytest.MonkeyPatch.context() as patch, serving_mock(mock, folder) as config:
        patch.setenv(keyless.TOKEN, mock_token(WHO))
        done = bundle.cosign_keyless(memo, config=config)
    assert done.value is not None, done.diagnostics
    assert (done.value.problem, done.value.identity, done.value.issuer) == (None, WHO, ISSUER)
    return memo


def said(report: VerifyReport) -> tuple[bool | None, str]:
    return next((c.ok, c.reason) for c in report.checks if c.group == "sigstore")


def test_signed_by_an_identity_and_verified_offline(signed: Path, root: Path) -> None:
    report = verify(signed, accepted=Known(WHO, ISSUER, root))
    assert report.ok, report.first_failure
    assert said(report) == (True, f"{WHO}, as {ISSUER} says, logged at {logged(signed)}, whom you accept")
    assert any(w.startswith("Sigstore signature: trusted: ana@example.org") for w in report.words)


def logged(memo: Path) -> str:
    envelope = dsse.parse((memo / "envelope.json").read_bytes())
    (seen,) = keyless.of_memo(memo, envelope.payload)
    return seen.logged


@pytest.mark.parametrize(
    ("identity", "issuer", "ok", "words"),
    [
        (None, None, None, "you did not say that you accept them"),
        ("eve@example.org", ISSUER, False, "SANs do not match"),
        (WHO, "https://another.example", False, "OIDCIssuer"),
        (WHO, None, None, "you did not say that you accept them"),
        (None, ISSUER, None, "you did not say that you accept them"),
        (WHO, ISSUER, True, "whom you accept"),
    ],
)
def test_whom_the_reader_accepts(
    signed: Path, root: Path, identity: str | None, issuer: str | None, ok: bool | None, words: str
) -> None:
    found = said(verify(signed, accepted=Known(identity, issuer, root)))
    assert (found[0], words in found[1]) == (ok, True), found


def test_another_instance_s_root_does_not_vouch(signed: Path, tmp_path: Path) -> None:
    other = tmp_path / "root.json"
    other.write_text(json.dumps(MockSigstore().trusted_root()), encoding="utf-8")
    for root in (other, tmp_path / "gone"):
        ok, reason = said(verify(signed, accepted=Known(WHO, ISSUER, root)))
        assert (ok, "--sigstore-root" in reason) == (False, True), reason


def test_any_byte_of_the_bundle(signed: Path, root: Path, tmp_path: Path) -> None:
    memo = shutil.copytree(signed, tmp_path / signed.name)
    data, payload = (memo / BUNDLE).read_bytes(), dsse.parse((memo / "envelope.json").read_bytes()).payload
    chance = random.Random(7)
    for _ in range(60):
        at, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
        (memo / BUNDLE).write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        (seen,) = keyless.of_memo(memo, payload)
        if seen.problem is None:
            assert keyless.assess(seen, Known(WHO, ISSUER, root)).known is False, (at, bit)


def other_statement(value: Any) -> None:
    value["dsseEnvelope"]["payload"] = "e30="


def other_kind(value: Any) -> None:
    value["mediaType"] = "application/json"


def other_signature(value: Any) -> None:
    value["dsseEnvelope"]["signatures"][0]["sig"] = "AAAA"


def no_certificate(value: Any) -> None:
    del value["verificationMaterial"]["certificate"]


def two_signatures(value: Any) -> None:
    value["dsseEnvelope"]["signatures"] *= 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_statement, "it signs another statement"),
        (other_kind, "a bundle of another kind"),
        (other_signature, "does not belong to the certificate of ana@example.org"),
        (no_certificate, "it is no Sigstore bundle"),
        (two_signatures, "it is no Sigstore bundle"),
    ],
)
def test_what_does_not_hold_is_named(signed: Path, tmp_path: Path, change: Callable[[Any], None], words: str) -> None:
    memo = shutil.copytree(signed, tmp_path / signed.name)
    value = json.loads((memo / BUNDLE).read_bytes())
    change(value)
    (memo / BUNDLE).write_bytes(canonical(value) + b"\n")
    failure = verify(memo).first_failure
    assert failure is not None
    assert (failure.name, words in failure.reason) == ("sigstore bundle", True), failure


def test_a_bundle_of_another_memo(signed: Path, plain: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path / "other")
    project.run(project.compile(), "r-2")
    other = project.seal(project.compile())
    shutil.copyfile(signed / BUNDLE, other / BUNDLE)
    failure = verify(other).first_failure
    assert failure is not None
    assert failure.reason == "it signs another statement than the envelope's"
    assert all(c.name != "sigstore bundle" for c in verify(plain).checks)


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] == "sigstore":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refusing)


@pytest.mark.usefixtures("without_package")
def test_without_the_package_it_is_said_what_was_not_looked_at(signed: Path, plain: Path) -> None:
    report = verify(signed, accepted=Known(WHO, ISSUER))
    assert report.ok
    ok, reason = said(report)
    assert (ok, "certificate and log entry were not looked at" in reason) == (None, True)
    refused = bundle.cosign_keyless(plain)
    assert [d.code for d in refused.diagnostics] == ["TS827"]
    assert "torchspec[sigstore]" in (refused.diagnostics[0].hint or "")


def test_no_identity_no_signature(plain: Path, mock: MockSigstore, tmp_path: Path, monkeypatch: Any) -> None:
    for name in (keyless.TOKEN, "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: None)
    with serving_mock(mock, tmp_path) as config:
        assert [d.code for d in bundle.cosign_keyless(plain, config=config).diagnostics] == ["TS828"]


def test_out_of_reach_or_refused(plain: Path, mock: MockSigstore, tmp_path: Path, monkeypatch: Any) -> None:
    """Offline, a service that refuses, an old token, a configuration that is none: said, and nothing written."""
    with serving_mock(mock, tmp_path) as config:
        gone = tmp_path / "gone.json"
        gone.write_bytes(config.read_bytes())
    monkeypatch.setenv(keyless.TOKEN, mock_token())
    refused = bundle.cosign_keyless(plain, config=gone).diagnostics
    assert ([d.code for d in refused], "refused" in refused[0].message) == (["TS829"], True), refused
    assert "torchspec cosign" in (refused[0].hint or "")
    with serving_mock(mock, tmp_path, status=403) as config:
        assert [d.code for d in bundle.cosign_keyless(plain, config=config).diagnostics] == ["TS829"]
        monkeypatch.setenv(keyless.TOKEN, mock_token(lifetime=timedelta(hours=-1)))
        assert "token" in bundle.cosign_keyless(plain, config=config).diagnostics[0].message
    gone.write_text("[]")
    assert [d.code for d in bundle.cosign_keyless(plain, config=gone).diagnostics] == ["TS829"]
    assert not (plain / BUNDLE).exists()
    assert [d.code for d in bundle.cosign_keyless(tmp_path).diagnostics] == ["TS822"]


def test_half_of_whom_the_reader_accepts_is_refused(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, value, lacking in (
        ("--sigstore-identity", WHO, "--sigstore-issuer"),
        ("--sigstore-issuer", ISSUER, "--sigstore-identity"),
    ):
        assert main(["verify", str(signed), option, value]) == 3
        said = capsys.readouterr()
        assert (said.out, "error[TS831]" in said.err, lacking in said.err) == ("", True, True), said.err


def test_a_second_reviewer_signs_beside_the_first(signed: Path, mock: MockSigstore, root: Path, tmp_path: Path) -> None:
    memo = shutil.copytree(signed, tmp_path / signed.name)
    first = (memo / BUNDLE).read_bytes()
    with pytest.MonkeyPatch.context() as patch, serving_mock(mock, tmp_path) as config:
        patch.setenv(keyless.TOKEN, mock_token("bo@example.org"))
        assert bundle.cosign_keyless(memo, config=config).value is not None
        for who in ("bo@example.org", WHO):
            patch.setenv(keyless.TOKEN, mock_token(who))
            (refused,) = bundle.cosign_keyless(memo, config=config).diagnostics
            assert (refused.code, f"{who}, as {ISSUER} says, has signed" in refused.message) == ("TS822", True)
    assert (memo / BUNDLE).read_bytes() == first
    assert (memo / "envelope.sigstore-2.json").is_file()
    for who, expected in (
        (WHO, [True, None]),
        ("bo@example.org", [None, True]),
        ("eve@example.org", [False, False]),
    ):
        report = verify(memo, accepted=Known(who, ISSUER, root))
        assert [c.ok for c in report.checks if c.group == "sigstore"] == expected
        assert (report.intact, report.ok) == (True, True in expected), report.words
    names = [c.name for c in verify(memo).checks if c.name.startswith("sigstore")]
    assert names == ["sigstore bundle", "sigstore bundle 2", "sigstore signature", "sigstore signature 2"]


def test_a_bundle_that_does_not_hold_is_not_signed_over(signed: Path, tmp_path: Path) -> None:
    memo = shutil.copytree(signed, tmp_path / signed.name)
    (memo / BUNDLE).write_bytes(b"{}\n")
    (refused,) = bundle.cosign_keyless(memo).diagnostics
    assert (refused.code, f"{BUNDLE} does not hold" in refused.message) == ("TS822", True), refused
    assert (memo / BUNDLE).read_bytes() == b"{}\n"


def test_what_was_verified_is_the_statement(signed: Path) -> None:
    """A verifier that says yes to something else than the envelope's Statement is not believed."""
    (seen,) = keyless.of_memo(signed, dsse.parse((signed / "envelope.json").read_bytes()).payload)

    class MockVerifier:
        def __init__(self, kind: str, payload: bytes) -> None:
            self.answer = (kind, payload)

        def verify_dsse(self, *_: Any) -> tuple[str, bytes]:
            return self.answer

    for kind, payload, known in (
        (dsse.PAYLOAD_TYPE, seen.payload, True),
        (dsse.PAYLOAD_TYPE, b"{}", False),
        ("application/json", seen.payload, False),
    ):
        mock = MockVerifier(kind, payload)
        assert keyless.assess(seen, Known(WHO, ISSUER), lambda _, mock=mock: mock).known is known  # type: ignore[misc]
