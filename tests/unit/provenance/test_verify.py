"""Verification: intact, trusted and registered kept apart, in words, with the first failure named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from memos import SPEC, Project, make_key, make_project, run_git

from torchspec.core.canon import canonical
from torchspec.model.plan import Plan
from torchspec.model.verdict import Verdict
from torchspec.provenance import bundle, dsse, statement
from torchspec.provenance.verify import verify


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path / "team")
    made.run(made.compile())
    return made


@pytest.fixture
def memo(project: Project) -> Path:
    return project.seal(project.compile())


def test_an_intact_registered_memo_of_a_stranger(memo: Path) -> None:
    report = verify(memo)
    assert report.ok
    assert (report.intact, report.trusted, report.registered) == (True, None, True)
    assert report.first_failure is None
    assert report.decisions == (("candidate", "adopt"),)
    intact, trusted, registered = report.words
    assert intact.startswith("Intact: ")
    assert "self-signed and unknown to you" in trusted
    assert registered.startswith("Registered: confirmatory")


def test_latest_may_be_given(memo: Path) -> None:
    assert verify(memo.parent / "latest").ok


def test_a_pinned_signer_is_trusted(project: Project, memo: Path, tmp_path: Path) -> None:
    pem = tmp_path / "trust.pem"
    pem.write_bytes(project.key.certificate.public_bytes(Encoding.PEM))
    report = verify(memo, trust=pem)
    assert report.ok
    assert report.trusted is True
    assert report.signers[0].trusted is True


def test_a_reviewer_whose_key_is_younger_than_the_memo_is_known(project: Project, tmp_path: Path) -> None:
    """A reviewer signs after the memo was made, with a key of whatever day; an expired one stays refused."""
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    reviewer = make_key(tmp_path / "others", person="Bo Reviewer")
    pem = tmp_path / "trust.pem"
    pem.write_bytes(b"".join(k.certificate.public_bytes(Encoding.PEM) for k in (project.key, reviewer)))
    memo = project.seal(project.compile(), now=long_ago)
    assert bundle.cosign(memo, reviewer).value == 2
    found = verify(memo, trust=pem).signers
    assert [(s.role, s.trusted) for s in found] == [("author", False), ("reviewer", True)]
    assert "outside the dates" in found[0].words
    assert "in your trust file" in found[1].words


def test_another_signer_is_not_trusted(memo: Path, tmp_path: Path) -> None:
    pem = tmp_path / "trust.pem"
    pem.write_bytes(make_key(tmp_path / "others").certificate.public_bytes(Encoding.PEM))
    report = verify(memo, trust=pem)
    assert report.intact
    assert report.trusted is False
    assert not report.ok
    assert report.first_failure is not None
    assert report.first_failure.name == "signer"
    assert report.words[1].startswith("Not trusted: Ana Example")


def test_a_trust_file_that_is_none_trusts_nobody(memo: Path, tmp_path: Path) -> None:
    report = verify(memo, trust=tmp_path / "gone.pem")
    assert report.trusted is False
    assert "is not a file" in report.words[1]


def test_an_exploratory_memo_is_intact_and_says_so(project: Project) -> None:
    project.write_spec(SPEC + "# later\n", commit=False)
    locked = project.compile()
    project.run(locked, "r-2")
    report = verify(project.seal(locked))
    assert report.ok
    assert report.registered is None
    assert "exploratory" in report.words[2]


def test_outside_of_a_repository_registration_is_not_decided(memo: Path, project: Project, tmp_path: Path) -> None:
    away = tmp_path / "away" / memo.name
    shutil.copytree(memo, away)
    report = verify(away)
    assert report.ok
    assert report.registered is None
    assert "--repo" in report.words[2]
    assert verify(away, repo=project.root).registered is True


def test_a_repository_without_the_commit_does_not_register(memo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    run_git(other, "commit", "-q", "--allow-empty", "-m", "another project")
    report = verify(memo, repo=other)
    assert report.intact
    assert report.registered is False
    assert report.first_failure is not None
    assert report.first_failure.name == "commit"
    assert "is not in the repository" in report.words[2]


def test_rewritten_history_does_not_register(project: Project, memo: Path) -> None:
    run_git(project.root, "commit", "-q", "--amend", "-m", "rewritten", at="2020-01-05T12:00:00Z")
    run_git(project.root, "reflog", "expire", "--expire=now", "--all")
    run_git(project.root, "gc", "-q", "--prune=now")
    report = verify(memo)
    assert report.intact
    assert report.registered is False


def test_later_work_on_the_spec_does_not_touch_a_sealed_memo(project: Project, memo: Path) -> None:
    project.write_spec(SPEC + "# the next upgrade\n", at="2090-01-01T00:00:00Z")
    assert verify(memo).registered is True


def test_what_is_no_memo_is_said(tmp_path: Path) -> None:
    (tmp_path / "memo.pdf").write_bytes(b"%PDF")
    assert "name a memo's folder" in verify(tmp_path / "memo.pdf").words[0]
    for path in (tmp_path, tmp_path / "gone"):
        report = verify(path)
        assert not report.ok
        assert not report.intact
        assert report.first_failure is not None
        assert report.first_failure.name == "folder"
        assert report.words[1].startswith("Trusted: not looked at")


def test_the_report_travels_as_json(memo: Path) -> None:
    value = json.loads(canonical(verify(memo).to_json()))
    assert value["ok"] is True
    assert value["first_failure"] is None
    assert {c["group"] for c in value["checks"]} == {"intact", "trusted", "registered"}


def test_rejudging(project: Project, memo: Path) -> None:
    same = project.verdict(project.compile())

    def other(plan: Plan, ledger: Path) -> Verdict:
        assert ledger.is_file()
        return replace(same, rows=())

    assert verify(memo, rejudge=lambda plan, ledger: same).ok
    report = verify(memo, rejudge=other)
    assert report.first_failure is not None
    assert report.first_failure.name == "rejudged"
    assert "judged by 0.1.0, this is torchspec" in report.first_failure.reason  # another version has other rules


def test_rerendering(memo: Path) -> None:
    assert verify(memo, rerender=lambda folder: {"memo.md": b"**Decision: adopt.**\n"}).ok
    report = verify(memo, rerender=lambda folder: {"memo.md": b"**Decision: defer.**\n"})
    assert report.first_failure is not None
    assert "memo.md does not say" in report.first_failure.reason
    assert (
        "rendered by 0.1.0, this is torchspec" in report.first_failure.reason
    )  # another version words things otherwise


def reseal(memo: Path, project: Project, change: Callable[[dict[str, object]], None] | None = None) -> None:
    """Signs the folder as it is anew with the author's own key: what only the author could do."""
    made = statement.parse(dsse.parse((memo / "envelope.json").read_bytes()).payload)
    if change:
        change(made.predicate)
    body = statement.payload(bundle.file_digests(memo), made.predicate)
    (memo / "envelope.json").write_bytes(dsse.dump(dsse.Envelope(body, (dsse.sign(body, project.key),))))


def first(memo: Path, **options: Path) -> tuple[str, str]:
    found = verify(memo, **options).first_failure
    assert found is not None
    return found.name, found.reason


def test_even_the_author_cannot_drop_the_end_of_the_ledger(project: Project, memo: Path) -> None:
    lines = (memo / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (memo / "ledger.jsonl").write_bytes(b"".join(lines[:-1]))
    reseal(memo, project)
    assert first(memo)[0] == "ledger"


def test_even_the_author_cannot_change_the_plan_alone(project: Project, memo: Path) -> None:
    plan = json.loads((memo / "plan.json").read_bytes())
    plan["gates"][0]["limit"]["value"] = 99.0
    (memo / "plan.json").write_bytes(canonical(plan))
    reseal(memo, project)
    assert first(memo)[0] == "plan"


@pytest.mark.parametrize("name", ["harness/cpu.py", "spec/small.tspec"])
def test_even_the_author_cannot_change_what_the_lock_names(project: Project, memo: Path, name: str) -> None:
    (memo / name).write_text("other")
    reseal(memo, project)
    assert first(memo) == ("lock", f"it names another {name} than the one that was sealed")


def test_even_the_author_cannot_decide_otherwise_than_the_verdict(project: Project, memo: Path) -> None:
    def adopt(made: dict[str, object]) -> None:
        made["decisions"][0]["decision"] = "rollback"  # type: ignore[index]

    reseal(memo, project, adopt)
    assert first(memo)[0] == "verdict"


def test_even_the_author_cannot_leave_a_file_out(project: Project, memo: Path) -> None:
    body = json.loads(dsse.parse((memo / "envelope.json").read_bytes()).payload)
    body["subject"] = [s for s in body["subject"] if s["name"] != "ledger.jsonl"]
    raw = canonical(body)
    (memo / "envelope.json").write_bytes(dsse.dump(dsse.Envelope(raw, (dsse.sign(raw, project.key),))))
    assert first(memo) == ("envelope", "it does not cover ledger.jsonl")


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "a/../../b", ""])
def test_a_statement_cannot_name_files_outside(project: Project, memo: Path, name: str) -> None:
    body = json.loads(dsse.parse((memo / "envelope.json").read_bytes()).payload)
    body["subject"].insert(0, {"name": name, "digest": {"sha256": "0" * 64}})
    raw = canonical(body)
    (memo / "envelope.json").write_bytes(dsse.dump(dsse.Envelope(raw, (dsse.sign(raw, project.key),))))
    assert first(memo)[1] == "it lies outside of the folder"


def test_a_memo_that_wrongly_says_confirmatory_is_found(project: Project) -> None:
    """The author commits the spec only after the run, and claims otherwise in the envelope."""
    project.write_spec(SPEC + "# later\n", commit=False)
    locked = project.compile()
    project.run(locked, "r-2")
    honest = project.registration(locked)
    memo = project.seal(locked, registration=replace(honest, status="confirmatory", reasons=()))
    report = verify(memo)
    assert report.intact
    assert report.registered is False
    assert "says that it is confirmatory, but" in report.words[2]
