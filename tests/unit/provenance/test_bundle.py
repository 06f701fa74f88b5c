"""Sealing: a whole memo folder or none, parts that belong together or a refusal, reviewers beside the author."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memos import NOW, Project, make_key, make_project, render

from torchspec import ledger
from torchspec.core.diagnostics import Result
from torchspec.provenance import bundle, dsse, statement
from torchspec.provenance.bundle import Sealed
from torchspec.provenance.verify import verify


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path / "team")
    made.run(made.compile())
    return made


def try_seal(project: Project, **options: Any) -> Result[Sealed]:
    locked = options["locked"] if "locked" in options else project.compile()
    given: dict[str, Any] = {
        "render": render,
        "compiled": project.out,
        "locked": locked,
        "spec_folder": project.spec.parent,
        "ledger": project.ledger,
        "key": project.key,
        "tool": "0.1.0",
        "now": NOW,
    } | options
    given["verdict"] = given.get("verdict") or project.verdict(locked)
    given["registration"] = given.get("registration") or project.registration(locked)
    return bundle.seal(project.out / "memo", **given)


def left(project: Project) -> list[str]:
    folder = project.out / "memo"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def test_a_memo_holds_everything_and_latest_points_to_it(project: Project) -> None:
    sealed = try_seal(project).value
    assert sealed is not None
    assert sealed.folder.name.startswith("20261201T120000Z-")
    assert sorted(p.name for p in sealed.folder.iterdir()) == [
        "envelope.json",
        "harness",
        "ledger.jsonl",
        "lock.json",
        "memo.html",
        "memo.json",
        "memo.md",
        "memo.pdf",
        "plan.json",
        "registration.json",
        "spec",
        "verdict.json",
    ]
    assert (sealed.folder / "spec" / "small.tspec").read_bytes() == project.spec.read_bytes()
    assert os.readlink(project.out / "memo" / "latest") == sealed.folder.name


def test_a_second_memo_takes_another_name_and_the_link_moves(project: Project) -> None:
    first, second = try_seal(project).value, try_seal(project).value
    assert first is not None
    assert second is not None
    assert second.folder.name == f"{first.folder.name}-2"
    assert os.readlink(project.out / "memo" / "latest") == second.folder.name
    assert verify(first.folder).ok
    assert verify(second.folder).ok


def test_the_statement_says_what_was_decided(project: Project) -> None:
    sealed = try_seal(project).value
    assert sealed is not None
    envelope = dsse.parse((sealed.folder / "envelope.json").read_bytes())
    made = statement.parse(envelope.payload)
    assert set(made.subjects) >= {"memo.md", "memo.html", "memo.pdf", "memo.json", "plan.json", "spec/small.tspec"}
    assert made.predicate["decisions"][0]["decision"] == "adopt"
    assert made.predicate["registration"]["status"] == "confirmatory"
    assert made.predicate["runs"] == ["r-1"]
    assert made.predicate["author"]["self_signed"] is True
    assert made.predicate["made_at"] == "2026-12-01T12:00:00Z"


def test_earlier_plans_travel_with_the_memo(project: Project) -> None:
    earlier = project.compile().plan_digest
    project.run(project.compile(limit=2.0), "r-2")
    sealed = project.seal(project.compile(limit=2.0))
    assert [p.stem for p in (sealed / "history").iterdir()] == [earlier]
    assert verify(sealed).registered is None
    assert verify(sealed).ok


def test_nothing_is_left_when_rendering_fails(project: Project) -> None:
    def breaks(folder: Path) -> None:
        render(folder)
        raise RuntimeError("no font")

    with pytest.raises(RuntimeError, match="no font"):
        try_seal(project, render=breaks)
    assert left(project) == []


def test_nothing_is_left_when_the_user_interrupts(project: Project) -> None:
    def interrupted(folder: Path) -> None:
        render(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        try_seal(project, render=interrupted)
    assert left(project) == []


def refusal(project: Project, **options: Any) -> str:
    found = try_seal(project, **options)
    assert found.value is None
    assert left(project) == []
    assert found.diagnostics[0].code == "TS821"
    assert found.diagnostics[0].hint
    return found.diagnostics[0].message


def test_a_full_disk_is_a_diagnostic(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes, mode: int = 0o644) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle, "write_whole", full)
    assert "No space left on device" in refusal(project)


def test_a_verdict_of_an_older_ledger_is_refused(project: Project) -> None:
    verdict = project.verdict(project.compile())
    project.run(project.compile(), "r-2")
    assert "older ledger" in refusal(project, verdict=verdict)


def test_a_verdict_of_another_plan_is_refused(project: Project) -> None:
    verdict = project.verdict(project.compile())
    assert "another plan" in refusal(project, verdict=replace(verdict, plan_digest="0" * 64))


def test_a_damaged_ledger_is_refused(project: Project) -> None:
    verdict = project.verdict(project.compile())
    lines = project.ledger.read_bytes().splitlines(keepends=True)
    registration = project.registration(project.compile())
    project.ledger.write_bytes(b"".join([*lines[:1], *lines[2:]]))
    assert "does not hold" in refusal(project, verdict=verdict, registration=registration)


def test_a_record_whose_writer_died_is_left_out(project: Project) -> None:
    verdict = project.verdict(project.compile())
    whole = project.ledger.read_bytes()
    with project.ledger.open("ab") as stream:
        stream.write(b'{"v":1,')
    sealed = try_seal(project, verdict=verdict).value
    assert sealed is not None
    assert (sealed.folder / "ledger.jsonl").read_bytes() == whole
    assert verify(sealed.folder).ok


def test_a_spec_that_changed_is_refused(project: Project) -> None:
    locked = project.compile()
    project.spec.write_text("tspec 1\n")
    assert "small.tspec is not the file" in refusal(project, locked=locked, verdict=project.verdict(locked))


def test_a_harness_that_changed_is_refused(project: Project) -> None:
    locked = project.compile()

    def late(folder: Path) -> None:
        render(folder)
        (project.out / "harness" / "cpu.py").write_text("other")

    assert "cpu.py is not the file" in refusal(project, render=late, locked=locked)


def test_a_memo_without_its_pdf_is_refused(project: Project) -> None:
    assert "no memo.pdf" in refusal(project, render=lambda folder: (folder / "memo.md").write_text("x"))


def test_what_a_killed_process_left_is_swept(project: Project) -> None:
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(pid, 0)
    dead = project.out / "memo" / f".sealing-{pid}-abc"
    alive = project.out / "memo" / f".sealing-{os.getppid()}-abc"
    dead.mkdir(parents=True)
    alive.mkdir()
    assert try_seal(project).value is not None
    assert not dead.exists()
    assert alive.exists()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a.tspec", "spec/a.tspec"),
        ("common/b.tspec", "spec/common/b.tspec"),
        ("../shared/b.tspec", "spec/_above/shared/b.tspec"),
        ("./a.tspec", "spec/a.tspec"),
        ("/etc/a.tspec", "spec/etc/a.tspec"),
        ("..\\b.tspec", "spec/_above/b.tspec"),
    ],
)
def test_no_spec_file_leaves_the_folder(path: str, place: str) -> None:
    assert bundle.spec_place(path) == place


def test_a_reviewer_signs_beside_the_author(project: Project, tmp_path: Path) -> None:
    folder = project.seal(project.compile())
    reviewer = make_key(tmp_path / "reviewer", person="Rui", algorithm="ed25519")
    assert bundle.cosign(folder, reviewer).value == 2
    report = verify(folder)
    assert report.ok
    assert [(s.role, s.name) for s in report.signers] == [("author", "Ana Example"), ("reviewer", "Rui")]
    again = bundle.cosign(folder, reviewer)
    assert [d.code for d in again.diagnostics] == ["TS822"]


def test_nobody_signs_beside_a_broken_signature(project: Project, tmp_path: Path) -> None:
    folder = project.seal(project.compile())
    reviewer = make_key(tmp_path / "reviewer")
    path = folder / "envelope.json"
    envelope = dsse.parse(path.read_bytes())
    path.write_bytes(dsse.dump(replace(envelope, payload=envelope.payload.replace(b'"adopt"', b'"defer"'))))
    assert [d.code for d in bundle.cosign(folder, reviewer).diagnostics] == ["TS822"]
    path.write_bytes(b"{}")
    assert [d.code for d in bundle.cosign(folder, reviewer).diagnostics] == ["TS822"]
    path.unlink()
    assert [d.code for d in bundle.cosign(folder, reviewer).diagnostics] == ["TS822"]


def test_the_ledger_is_copied_not_linked(project: Project) -> None:
    folder = project.seal(project.compile())
    project.run(project.compile(), "r-2")
    assert verify(folder).ok
    assert ledger.head(folder / "ledger.jsonl") != ledger.head(project.ledger)
