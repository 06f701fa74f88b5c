"""From a compiled spec and a ledger to a sealed memo, as `torchspec memo` does it: drawn, stamped, signed, verified.

The ledger's figures are made up; everything else is real.
"""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from authority import MOMENT, make_authority, serving
from deviations import ONE, WHOLE, block
from memos import make_key, run_git
from pypdf import PdfReader

from torchspec import ledger, pipeline, pipeline_run, pipeline_seal
from torchspec.core.diagnostics import Diagnostic
from torchspec.pipeline import Compiled
from torchspec.provenance import bundle, pades, pdf_inside
from torchspec.provenance.verify import VerifyReport, verify

Done = tuple[Path, tuple[Diagnostic, ...]]
QUESTION = "May we move? 能移动吗"


@dataclass
class Made:
    root: Path
    compiled: Compiled
    key: str
    judged: pipeline_run.Judged


def make(root: Path) -> Made:
    """A repository with a spec, compiled, stamped before the run, with a short made-up ledger that has a torn tail."""
    root.mkdir()
    run_git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("out/\nkeys/\nteam/\n")
    spec = root / "small.tspec"
    spec.write_text(WHOLE.replace("May we move?", QUESTION), encoding="utf-8")
    run_git(root, "add", ".")
    run_git(root, "commit", "-q", "-m", "state the limits", at="2020-01-02T12:00:00Z")
    compiled = pipeline.compile_spec(spec, root / "out", {}).compiled
    assert compiled is not None
    with serving(make_authority(root / "keys")) as url:
        assert pipeline.stamp(compiled, url).value is not None
    compiled.evidence.mkdir()
    from torchspec.provenance import git

    body = {
        "plan": compiled.plan_digest,
        "harness": {"backend": "cpu", "sha256": compiled.lock.harness["cpu"]},
        "argv": ["cpu.py", "pair", "--baseline", "/home/ada/environments/0123456789abcdef0123/venv/bin/python"],
        "backend": "cpu",
        "candidate": "candidate",
        "git": git.context(git.describe(spec)),
        "host": {"os": "made up", "cores": 2},
        "pid": 1,
        "lock": compiled.lock_digest,
    }
    path = compiled.ledger
    ledger.append(path, "r-1", "run.start", body)
    for cell in compiled.plan.cells:
        for side, value in (("baseline", 1e-7), ("candidate", 2e-7)):
            sample = {"cell": cell.id, "candidate": "candidate", "side": side, "metric": "error.max_abs"}
            sample |= {"value": value, "unit": "1", "repeat": 0, "against": "cpu.float64", "meter": "made up"}
            ledger.append(path, "r-1", "sample", {**sample, "process": "shared", "detail": {}})
        done = {"cell": cell.id, "candidate": "candidate", "status": "measured", "reason": None}
        ledger.append(path, "r-1", "cell.done", done)
    ledger.append(path, "r-1", "run.end", {"status": "completed", "wall_s": 1.0, "cells": {"done": 1, "total": 1}})
    with path.open("ab") as stream:
        stream.write(b'{"v":1,"seq":99,"half a rec')
    spec.write_text(spec.read_text(encoding="utf-8") + block(ONE), encoding="utf-8")
    run_git(root, "commit", "-q", "-a", "-m", "write down a deviation", at="2090-01-02T12:00:00Z")
    compiled = pipeline.compile_spec(spec, root / "out", {}).compiled
    assert compiled is not None
    key = make_key(root / "keys", "ana", "Ana Example")
    judged = pipeline_run.judge(compiled)
    assert judged.value is not None, judged.diagnostics
    return Made(root, compiled, key.info.path, judged.value)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("sealing") / "team")


@pytest.fixture(scope="module")
def sealed(made: Made) -> Done:
    """Sealed with the team's own Markdown and logo, and with a stamped signature."""
    team = made.root / "team"
    team.mkdir()
    (team / "memo.md.j2").write_text("{{ memo.kicker | md_text }}\nOur own words: {{ memo.question | md_text }}\n")
    (team / "logo.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    (team / "notes.txt").write_text("not a template")
    (team / "logo.png").symlink_to("/etc/passwd")
    with serving(make_authority(made.root / "keys")) as url:
        done = pipeline_seal.seal(made.compiled, made.judged, key=made.key, templates=team, timestamp=url)
    assert done.value is not None, done.diagnostics
    return done.value.folder, done.diagnostics


def looked(folder: Path) -> VerifyReport:
    return verify(folder, rejudge=pipeline_seal.rejudge, rerender=pipeline_seal.rerender)


def test_the_sealed_memo_verifies_down_to_its_words(made: Made, sealed: Done) -> None:
    folder, _ = sealed
    report = looked(folder)
    assert report.ok, [c for c in report.checks if c.ok is False]
    assert (report.intact, report.registered) == (True, True)
    again = next(c for c in report.checks if c.name == "rerendered")
    assert "with the team's own templates, which are in the folder" in again.reason
    said = made.judged.registration
    assert said.status == "confirmatory"
    assert [s.split(",")[0] for s in said.strengthened_by] == ["RFC 3161 timestamp of the plan"]


def test_the_teams_templates_are_kept_and_nothing_else_of_the_folder(
    sealed: Done,
) -> None:
    folder, _ = sealed
    assert sorted(p.name for p in (folder / "templates").iterdir()) == ["logo.svg", "memo.md.j2"]
    assert "Our own words: May we move? 能移动吗" in (folder / "memo.md").read_text(encoding="utf-8")
    assert "data:image/svg+xml" in (folder / "memo.html").read_text(encoding="utf-8")


def test_templates_swapped_after_sealing_are_found(sealed: Done, tmp_path: Path) -> None:
    copy = shutil.copytree(sealed[0], tmp_path / sealed[0].name)
    (copy / "templates" / "memo.md.j2").write_text("Adopt!\n")
    failure = looked(copy).first_failure
    assert failure is not None
    assert failure.name == "templates/memo.md.j2"


def test_a_torn_tail_is_nowhere_in_the_memo(sealed: Done) -> None:
    folder, _ = sealed
    copied = (folder / "ledger.jsonl").read_bytes()
    assert b"half a rec" not in copied
    attached = PdfReader(io.BytesIO((folder / "memo.pdf").read_bytes())).attachments
    assert attached["ledger.jsonl"] == [copied]
    assert sorted(attached) == [
        *("ledger.jsonl", "lock.json", "memo.json"),
        *("plan.json", "registration.json", "verdict.json"),
    ]
    for name in set(attached) - {"ledger.jsonl"}:
        assert attached[name] == [(folder / name).read_bytes()]


def test_the_pdf_alone_verifies_down_to_its_words(made: Made, sealed: Done, tmp_path: Path) -> None:
    """By mail, without its folder: the team's logo is on its pages, so they cannot be drawn again without it."""
    alone = Path(shutil.copyfile(sealed[0] / "memo.pdf", tmp_path / "memo.pdf"))
    report = verify(alone, repo=made.root, rejudge=pipeline_seal.rejudge, rerender=pipeline_seal.rerender)
    assert report.ok, [c for c in report.checks if c.ok is False]
    assert (report.intact, report.registered) == (True, True), report.words
    assert {c.name for c in report.checks if c.ok} >= {"rejudged", "rerendered", "ledger", "commit"}
    said = " ".join(report.words)
    assert "Not looked at: the RFC 3161 timestamp of the plan" in said
    assert "Not proven: that the pages show the words" in said


def test_pages_that_say_something_else_are_found(made: Made, tmp_path: Path) -> None:
    """Whoever holds the key can sign other pages than the evidence gives; drawing them again shows it."""
    done = pipeline_seal.seal(made.compiled, made.judged, key=made.key)
    assert done.value is not None, done.diagnostics
    memo = shutil.copytree(done.value.folder, tmp_path / done.value.folder.name)
    report = looked(memo)
    assert report.ok, [c for c in report.checks if c.ok is False]
    assert "cannot be compared" not in next(c for c in report.checks if c.name == "rerendered").reason
    drawn = pipeline_seal.rerender(memo)
    assert (memo / "memo.json").read_bytes() == drawn["memo.json"]
    assert (memo / "memo.pdf").read_bytes().startswith(drawn["memo.pdf"])
    assert "zlib " in pdf_inside.drawn_by(drawn["memo.pdf"])
    other = drawn | {"memo.pdf": drawn["memo.pdf"].replace(b"%\xf0", b"%\xf1", 1)}
    assert other != drawn
    found = verify(memo, rerender=lambda folder: other).first_failure
    assert found is not None
    assert (found.name, found.reason.split(" does not")[0]) == ("rerendered", "memo.pdf")


def test_the_signature_is_seen_and_stamped(sealed: Done) -> None:
    data = (sealed[0] / "memo.pdf").read_bytes()
    found = pades.read_pdf(data)
    assert (found.problem, found.timestamp) == (None, f"{MOMENT:%Y-%m-%dT%H:%M:%SZ}")
    field = PdfReader(io.BytesIO(data)).pages[0]["/Annots"][-1].get_object()
    assert field["/TU"].startswith("Signed by Ana Example, ")


def test_the_deviation_is_in_the_memo_and_the_folder_names_nobody(sealed: Done) -> None:
    folder, _ = sealed
    words = (folder / "memo.html").read_text(encoding="utf-8")
    assert "run 2 was on another machine" in words
    assert "1 deviation" in words
    assert "/home/ada" not in words
    assert "environment 0123456789abcdef" in words


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ memo.nothing }}", "has no attribute"),
        ("{% if %}", "memo.md.j2, line 1"),
        ("{{ memo.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "/etc/passwd"),
        ("\udcff", "utf-8"),
        (None, "holds no template"),
    ],
)
def test_a_template_that_cannot_be_used(made: Made, tmp_path: Path, template: str | None, words: str) -> None:
    if template is not None:
        (tmp_path / "memo.md.j2").write_bytes(template.encode("utf-8", "surrogateescape"))
    done = pipeline_seal.seal(made.compiled, made.judged, key=made.key, templates=tmp_path)
    assert done.value is None
    assert [d.code for d in done.diagnostics] == ["TS825"]
    assert words in done.diagnostics[0].message
    assert not list((made.compiled.folder / "memo").glob(f"{bundle._STAGING}*"))


def test_templates_that_are_not_there(made: Made) -> None:
    done = pipeline_seal.seal(made.compiled, made.judged, key=made.key, templates=Path("nowhere"))
    assert [d.code for d in done.diagnostics] == ["TS825"]
    assert "is not there" in done.diagnostics[0].message
