"""memo.pdf alone, as a stakeholder gets it by mail: what can be verified, and what cannot without the folder."""

from __future__ import annotations

import io
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from memos import Project, make_key, make_project, run_git, small_pdf
from pypdf import PdfWriter

from torchspec import pipeline_seal
from torchspec.core.files import pretty, strict_json
from torchspec.model.codec import to_json
from torchspec.provenance import pades, pdf_inside
from torchspec.provenance.verify import VerifyReport, verify

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("mail") / "team")
    made.run(made.compile())
    return made


@pytest.fixture(scope="module")
def files(project: Project) -> Files:
    """What `torchspec memo` attaches."""
    locked = project.compile()
    verdict, registration = project.verdict(locked), project.registration(locked)
    answers = [{"candidate": f.candidate, "decision": {"key": f.decision}} for f in verdict.fleet]
    return {
        "memo.json": pretty({"answers": answers}),
        "plan.json": pretty(to_json(locked.plan)),
        "verdict.json": pretty(to_json(verdict)),
        "lock.json": pretty(to_json(locked.lock)),
        "registration.json": pretty(to_json(registration)),
        "ledger.jsonl": project.ledger.read_bytes(),
    }


def drawn_with(files: Files) -> bytes:
    """A PDF with these files attached, which nobody signed."""
    from weasyprint import HTML, Attachment

    attached = [Attachment(string=data, name=name) for name, data in files.items()]
    made: bytes = HTML(string="<html lang=en><title>memo</title><h1>Adopt</h1></html>").write_pdf(attachments=attached)
    return made


def signed_in(project: Project, folder: Path, data: bytes) -> Path:
    """The PDF `data`, signed by the author, alone in a folder."""
    signed = pades.sign_pdf(data, project.key, reason="Decision memo")
    assert signed.value is not None, signed.diagnostics
    path = folder / "by mail.pdf"
    path.write_bytes(signed.value)
    return path


def mailed(project: Project, folder: Path, files: Files) -> Path:
    return signed_in(project, folder, drawn_with(files))


def broken(report: VerifyReport) -> tuple[str, str]:
    assert report.first_failure is not None
    assert not report.intact
    return report.first_failure.name, report.first_failure.reason


def test_a_pdf_alone_is_verified_with_what_is_inside(project: Project, files: Files, tmp_path: Path) -> None:
    path = mailed(project, tmp_path, files)
    report = verify(path)
    assert (report.ok, report.intact, report.trusted, report.registered, report.alone) == (True, True, None, None, True)
    assert report.decisions == (("candidate", "adopt"),)
    assert report.words[0] == "Intact: the PDF is as it was signed, and the evidence inside it belongs together."
    assert "memo.md and memo.html, the spec, the harness files, and the envelope" in report.words[-1]
    assert report.to_json()["alone"] is True
    pem = tmp_path / "trust.pem"
    pem.write_bytes(project.key.certificate.public_bytes(Encoding.PEM))
    report = verify(path, trust=pem, repo=project.root)
    assert (report.trusted, report.registered) == (True, True), report.words
    pem.write_bytes(make_key(tmp_path / "other", "eve", "Eve").certificate.public_bytes(Encoding.PEM))
    assert verify(path, trust=pem).trusted is False


def test_the_pdf_of_a_folder_points_at_it(project: Project, tmp_path: Path) -> None:
    """The stand-in's PDF has no evidence inside; the folder that it lies in has."""
    memo = project.seal(project.compile())
    report = verify(memo / "memo.pdf")
    assert broken(report)[0] == "attachments"
    assert "memo.json is not attached to it" in report.words[0]
    assert report.words[-1] == f"That folder seems to be here: torchspec verify {memo}"


def drop(files: Files) -> None:
    files["ledger.jsonl"] = b"".join(files["ledger.jsonl"].splitlines(keepends=True)[:-1])


def reorder(files: Files) -> None:
    lines = files["ledger.jsonl"].splitlines(keepends=True)
    files["ledger.jsonl"] = b"".join([lines[0], lines[2], lines[1], *lines[3:]])


def loosen(files: Files) -> None:
    files["plan.json"] = files["plan.json"].replace(b'"value":1', b'"value":9').replace(b'"value": 1', b'"value": 9')


def decide(files: Files) -> None:
    files["memo.json"] = files["memo.json"].replace(b"adopt", b"defer")


def no_evidence(files: Files) -> None:
    del files["ledger.jsonl"]


def other_lock(files: Files) -> None:
    files["lock.json"] = pretty(strict_json(files["lock.json"]) | {"plan": "0" * 64})


def nonsense(files: Files) -> None:
    files["verdict.json"] = b"[1, {"


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        (drop, "ledger", "it ends at record"),
        (reorder, "ledger", "its chain does not hold"),
        (loosen, "attachments fit", "another plan than the one that is attached"),
        (decide, "attachments fit", "memo.json decides otherwise than the verdict"),
        (other_lock, "attachments fit", "the lock names another plan"),
        (no_evidence, "attachments", "ledger.jsonl is not attached"),
        (nonsense, "attachments fit", "cannot be read"),
    ],
)
def test_even_the_author_cannot_attach_what_does_not_fit(
    project: Project, files: Files, tmp_path: Path, change: Callable[[Files], None], name: str, words: str
) -> None:
    own = dict(files)
    change(own)
    assert own != files
    found = broken(verify(mailed(project, tmp_path, own)))
    assert found[0] == name
    assert words in found[1]


def test_a_byte_of_an_attachment_breaks_the_signature(project: Project, files: Files, tmp_path: Path) -> None:
    path = mailed(project, tmp_path, files)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert broken(verify(path))[0] == "PDF signature"
    path.write_bytes(small_pdf())
    assert broken(verify(path)) == ("PDF signature", "the PDF carries no signature")
    path.write_text("# a memo\n")
    assert broken(verify(path))[1] == "it is not a PDF; name a memo's folder or its memo.pdf"


def test_a_memo_from_before_lock_and_registration_travelled_inside(
    project: Project, files: Files, tmp_path: Path
) -> None:
    old = {n: d for n, d in files.items() if n not in {"lock.json", "registration.json"}}
    report = verify(mailed(project, tmp_path, old), repo=project.root, rerender=lambda folder: {})
    assert (report.ok, report.registered) == (True, None)
    assert "lock and registration are in the memo's folder only" in report.words[2]
    assert any(w.startswith("Not proven: that the memo says what the evidence says") for w in report.words)


def test_words_and_pages_are_told_apart(project: Project, files: Files, tmp_path: Path) -> None:
    path = mailed(project, tmp_path, files)

    def drawn(words: bytes, pages: bytes) -> VerifyReport:
        return verify(path, rerender=lambda folder: {"memo.json": words, "memo.pdf": pages})

    same = drawn(files["memo.json"], path.read_bytes()[:200])
    assert next(c for c in same.checks if c.name == "rerendered").reason.endswith("and its pages")
    other = drawn(files["memo.json"], b"%PDF-1.7 other")
    assert other.ok
    assert any(w.startswith("Not proven: that the pages show") for w in other.words)
    assert broken(drawn(b"{}", path.read_bytes()[:200]))[0] == "rerendered"


def test_a_registration_that_the_repository_does_not_show(project: Project, files: Files, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(project.root, elsewhere)
    run_git(elsewhere, "checkout", "-q", "--orphan", "new")
    report = verify(mailed(project, tmp_path, files), repo=tmp_path)
    assert report.registered is None
    assert "--repo" in report.words[2]
    run_git(elsewhere, "commit", "-q", "-m", "all of it at once", at="2090-01-02T12:00:00Z")
    run_git(elsewhere, "branch", "-D", "main")
    run_git(elsewhere, "reflog", "expire", "--expire=now", "--all")
    run_git(elsewhere, "gc", "-q", "--prune=now")
    assert verify(mailed(project, tmp_path, files), repo=elsewhere).registered is False


def test_attachments_of_what_has_none() -> None:
    assert pdf_inside.attachments(small_pdf()) == {}
    assert "WeasyPrint" not in pdf_inside.drawn_by(io.BytesIO(b"no PDF").getvalue())
    with pytest.raises(pdf_inside.Unreadable):
        pdf_inside.attachments(b"%PDF-1.7 nothing")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda packed: packed[:9] + b"\xff" * 9 + packed[18:], "cannot be read"),
        (lambda packed: packed[: len(packed) // 2], "is not whole"),
        (lambda packed: zlib.compress(bytes(9_000_000)), "unpack to more than 8,000,000 bytes"),
    ],
)
def test_a_damaged_or_bloated_attachment_is_named(
    project: Project,
    files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], bytes],
    words: str,
) -> None:
    """Signed by the author, so that nothing before the attachments says no."""
    monkeypatch.setattr(pdf_inside, "LARGEST", 8_000_000)
    assert verify(mailed(project, tmp_path, files)).ok
    writer = PdfWriter(clone_from=io.BytesIO(drawn_with(files)))
    root: Any = writer.root_object
    stream = root["/Names"]["/EmbeddedFiles"]["/Names"][1].get_object()["/EF"]["/F"].get_object()
    assert stream["/Filter"] == "/FlateDecode"
    stream._data = change(stream._data)
    out = io.BytesIO()
    writer.write(out)
    found = broken(verify(signed_in(project, tmp_path, out.getvalue())))
    assert (found[0], words in found[1]) == ("attachments", True), found


def test_a_signature_that_does_not_say_when_is_named(
    project: Project, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyhanko.sign.signers import pdf_byterange

    real = pdf_byterange.PdfSignedData.__init__

    def without_time(self: Any, *rest: Any, **named: Any) -> None:
        real(self, *rest, **named)
        del self["/M"]

    monkeypatch.setattr(pdf_byterange.PdfSignedData, "__init__", without_time)
    path = mailed(project, tmp_path, files)
    assert broken(verify(path)) == ("PDF signature", "the signature does not say when it was made")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "memo.json does not say its language"),
        ({"language": "en"}, "memo.json does not say its issued"),
        ({"language": "tlh", "issued": "2026-12-01T00:00:00Z"}, "names the language 'tlh'"),
    ],
)
def test_a_memo_that_cannot_be_drawn_again_is_named(
    project: Project, files: Files, tmp_path: Path, words: dict[str, str], said: str
) -> None:
    own = files | {"memo.json": pretty(strict_json(files["memo.json"]) | words)}
    name, reason = broken(verify(mailed(project, tmp_path, own), rerender=pipeline_seal.rerender))
    assert (name, said in reason) == ("rerendered", True), reason


def test_anything_that_drawing_raises_is_named(project: Project, files: Files, tmp_path: Path) -> None:
    def rerender(folder: Path) -> dict[str, bytes]:
        raise KeyError("issued")

    for path in (mailed(project, tmp_path, files), project.seal(project.compile())):
        name, reason = broken(verify(path, rerender=rerender))
        assert (name, "cannot be drawn again from its parts: KeyError: 'issued'" in reason) == ("rerendered", True)


def test_the_repository_around_the_pdf_is_looked_at(project: Project, files: Files, tmp_path: Path) -> None:
    place = project.root / "mail"
    place.mkdir()
    report = verify(mailed(project, place, files))
    assert report.registered is True, report.words
