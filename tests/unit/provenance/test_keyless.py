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
    seen = keyless.of_memo(memo, envelope.payload)
    assert seen is not None
    return seen.logged


@pytest.mark.parametrize(
    ("identity", "issuer", "ok", "words"),
    [
        (None, None, None, "you named nobody whom you accept"),
        ("eve@example.org", ISSUER, False, "SANs do not match"),
        (WHO, "https://another.example", False, "OIDCIssuer"),
        (WHO, None, True, "whom you accept"),
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
        seen = keyless.of_memo(memo, payload)
        assert seen is not None
        if seen.problem is None:
            assert keyless.assess(memo, seen, Known(WHO, ISSUER, root)).known is False, (at, bit)


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
