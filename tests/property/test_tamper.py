"""Tampering: whatever is changed in a sealed memo is found, and named after what was changed."""

from __future__ import annotations

import dataclasses
import io
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from memos import Project, make_key, make_project, render
from pypdf import PdfReader, PdfWriter

from torchspec.model.registration import Registration
from torchspec.provenance import bundle, dsse, pades, statement
from torchspec.provenance.verify import Check, verify

FILES = [
    "envelope.json",
    "harness/cpu.py",
    "ledger.jsonl",
    "lock.json",
    "memo.html",
    "memo.json",
    "memo.md",
    "memo.pdf",
    "plan.json",
    "registration.json",
    "spec/small.tspec",
    "verdict.json",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("tamper") / "team")
    made.run(made.compile())
    return made


@pytest.fixture(scope="module")
def sealed(project: Project) -> Path:
    return project.seal(project.compile())


@pytest.fixture
def memo(sealed: Path, tmp_path: Path) -> Path:
    """A copy to spoil, under the name that it was sealed with."""
    return shutil.copytree(sealed, tmp_path / sealed.name)


def failure(memo: Path, repo: Path | None = None) -> Check:
    report = verify(memo, repo=repo)
    assert not report.ok
    assert report.first_failure is not None
    return report.first_failure


def test_the_memo_is_intact_before_anything_is_changed(memo: Path, project: Project) -> None:
    assert verify(memo, repo=project.root).ok
    assert sorted(p.relative_to(memo).as_posix() for p in memo.rglob("*") if p.is_file()) == FILES


def flips(memo: Path, name: str, count: int) -> None:
    """Flips one byte at `count` random positions, the ends always among them; each must be found and named."""
    path = memo / name
    whole = path.read_bytes()
    source = random.Random(f"{name} {count}")
    positions = {0, len(whole) - 1, *(source.randrange(len(whole)) for _ in range(count))}
    for position in sorted(positions):
        spoiled = bytearray(whole)
        spoiled[position] ^= source.randrange(1, 256)
        path.write_bytes(spoiled)
        report = verify(memo, stop_at_first=True)
        assert report.first_failure is not None, f"{name}: byte {position} of {len(whole)} changed and was not found"
        assert report.first_failure.name in ({"envelope", "envelope signature"} if name == "envelope.json" else {name})
    path.write_bytes(whole)
    assert verify(memo, stop_at_first=True).ok


@pytest.mark.parametrize("name", FILES)
def test_any_byte(memo: Path, name: str) -> None:
    flips(memo, name, 25)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_any_byte_at_length(memo: Path, name: str) -> None:
    flips(memo, name, 500)


def spoiled_pdfs(whole: bytes, count: int) -> None:
    """Without the envelope's help: the PDF alone, in the hands of somebody who holds nothing else."""
    source = random.Random(count)
    positions = {0, len(whole) - 1, *(source.randrange(len(whole)) for _ in range(count))}
    end = len(whole)
    positions |= set(range(whole.rindex(b"startxref"), end))  # the trailer's end, byte by byte
    xref = int(whole[whole.rindex(b"startxref") + 9 :].split()[0])
    positions |= {xref + i for i in range(0, end - xref, 7)}
    for position in sorted(positions):
        spoiled = bytearray(whole)
        spoiled[position] ^= source.randrange(1, 256)
        found = pades.read_pdf(bytes(spoiled))
        assert found.problem is not None, f"byte {position} of {len(whole)} changed and was not found"


def test_any_byte_of_the_pdf_alone(sealed: Path) -> None:
    spoiled_pdfs((sealed / "memo.pdf").read_bytes(), 100)


@pytest.mark.slow
def test_any_byte_of_the_pdf_alone_at_length(sealed: Path) -> None:
    spoiled_pdfs((sealed / "memo.pdf").read_bytes(), 1500)


@pytest.mark.parametrize("name", FILES)
def test_a_byte_more_or_less(memo: Path, name: str) -> None:
    whole = (memo / name).read_bytes()
    for changed in (whole + b"\n", whole[:-1], whole + b"\0", b""):
        (memo / name).write_bytes(changed)
        assert name.startswith(failure(memo).name.split()[0])


@pytest.mark.parametrize("name", FILES)
def test_a_file_taken_away(memo: Path, name: str) -> None:
    (memo / name).unlink()
    found = failure(memo)
    assert found.name == ("folder" if name == "envelope.json" else name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_replaced_by_a_link_to_the_same_bytes(memo: Path, name: str) -> None:
    (memo / name).rename(memo.parent / "aside")
    (memo / name).symlink_to(memo.parent / "aside")
    assert failure(memo).name in {name, "nothing extra"}


@pytest.mark.parametrize("name", ["note.txt", "history/x.json", ".hidden", "memo.pdf.sig"])
def test_a_file_put_beside(memo: Path, name: str) -> None:
    (memo / name).parent.mkdir(exist_ok=True)
    (memo / name).write_text("x")
    found = failure(memo)
    assert found.name == "nothing extra"
    assert name in found.reason


def test_a_pipe_put_beside(memo: Path) -> None:
    os.mkfifo(memo / "pipe")
    assert failure(memo).name == "nothing extra"


def lines(memo: Path) -> list[bytes]:
    return (memo / "ledger.jsonl").read_bytes().splitlines(keepends=True)


def reseal(memo: Path, project: Project, folder: Path, name: str = "Ana Example") -> None:
    """Somebody else signs the folder as it is, under the author's name."""
    eve = make_key(folder, person=name)
    made = statement.parse(dsse.parse((memo / "envelope.json").read_bytes()).payload).predicate
    made["author"]["certificate_sha256"] = eve.info.fingerprint
    body = statement.payload(bundle.file_digests(memo), made)
    (memo / "envelope.json").write_bytes(dsse.dump(dsse.Envelope(body, (dsse.sign(body, eve),))))


LEDGERS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "last dropped": lambda found: found[:-1],
    "first dropped": lambda found: found[1:],
    "one dropped": lambda found: found[:2] + found[3:],
    "two reordered": lambda found: [found[0], found[2], found[1], *found[3:]],
    "one doubled": lambda found: [*found, found[-1]],
    "emptied": lambda found: [],
}


@pytest.mark.parametrize("how", LEDGERS)
def test_records_moved_or_dropped(memo: Path, project: Project, tmp_path: Path, how: str) -> None:
    (memo / "ledger.jsonl").write_bytes(b"".join(LEDGERS[how](lines(memo))))
    assert failure(memo).name == "ledger.jsonl"
    reseal(memo, project, tmp_path / "eve")
    assert failure(memo).name == "ledger"


def test_an_envelope_signed_by_another_key(memo: Path, project: Project, tmp_path: Path) -> None:
    reseal(memo, project, tmp_path / "eve")
    found = failure(memo)
    assert found.name == "same signer"
    assert "the PDF was signed by Ana Example" in found.reason


def test_a_signature_of_another_key_on_the_same_statement(memo: Path, tmp_path: Path) -> None:
    eve = make_key(tmp_path / "eve")
    envelope = dsse.parse((memo / "envelope.json").read_bytes())
    (memo / "envelope.json").write_bytes(
        dsse.dump(dsse.Envelope(envelope.payload, (dsse.sign(envelope.payload, eve), *envelope.signatures)))
    )
    found = failure(memo)
    assert found.name == "envelope signature"
    assert "signed first" in found.reason


def test_a_certificate_put_in_place_of_the_authors(memo: Path, tmp_path: Path) -> None:
    eve = make_key(tmp_path / "eve", person="Ana Example")
    envelope = dsse.parse((memo / "envelope.json").read_bytes())
    swapped = dsse.Signature(envelope.signatures[0].sig, eve.certificate)
    (memo / "envelope.json").write_bytes(dsse.dump(dsse.Envelope(envelope.payload, (swapped,))))
    assert failure(memo).name == "envelope signature"


def test_everything_signed_by_somebody_else_is_not_trusted(memo: Path, project: Project, tmp_path: Path) -> None:
    """Whoever renders and signs all of it makes an intact memo; only a pinned certificate tells them apart."""
    eve = make_key(tmp_path / "eve", person="Ana Example")
    render(memo, "adopt, really")
    signed = pades.sign_pdf((memo / "memo.pdf").read_bytes(), eve, reason="x")
    assert signed.value is not None
    (memo / "memo.pdf").write_bytes(signed.value)
    made = statement.parse(dsse.parse((memo / "envelope.json").read_bytes()).payload).predicate
    made["author"]["certificate_sha256"] = eve.info.fingerprint
    body = statement.payload(bundle.file_digests(memo), made)
    (memo / "envelope.json").write_bytes(dsse.dump(dsse.Envelope(body, (dsse.sign(body, eve),))))
    assert verify(memo).intact
    assert "unknown to you" in verify(memo).words[1]
    report = verify(memo, trust=Path(project.key.info.certificate_path))
    assert report.trusted is False
    assert not report.ok


def test_a_page_added(memo: Path, project: Project, tmp_path: Path) -> None:
    writer = PdfWriter(memo / "memo.pdf", incremental=True)
    writer.add_blank_page(200, 200)
    out = io.BytesIO()
    writer.write(out)
    (memo / "memo.pdf").write_bytes(out.getvalue())
    assert len(PdfReader(out).pages) == 3
    assert failure(memo).name == "memo.pdf"
    reseal(memo, project, tmp_path / "eve")
    found = failure(memo)
    assert found.name == "PDF signature"
    assert "does not cover the whole PDF" in found.reason


def test_an_attachment_swapped(memo: Path, project: Project, tmp_path: Path) -> None:
    """The data inside the PDF says otherwise than its pages: found by the signature, whoever signs the folder."""
    writer = PdfWriter(memo / "memo.pdf", incremental=True)
    writer.add_attachment("memo.json", b'{"decision": "adopt"}')
    out = io.BytesIO()
    writer.write(out)
    (memo / "memo.pdf").write_bytes(out.getvalue())
    assert failure(memo).name == "memo.pdf"
    reseal(memo, project, tmp_path / "eve")
    assert failure(memo).name == "PDF signature"


def test_another_run_s_evidence_replayed(memo: Path, another: Path, project: Project, tmp_path: Path) -> None:
    """The ledger of a run that went better, under the verdict of this one, signed by somebody."""
    shutil.copyfile(another / "ledger.jsonl", memo / "ledger.jsonl")
    reseal(memo, project, tmp_path / "eve")
    assert failure(memo).name == "ledger"
    shutil.copyfile(another / "verdict.json", memo / "verdict.json")
    reseal(memo, project, tmp_path / "eve again")
    assert failure(memo).name == "ledger"


def test_a_limit_edited_and_compiled_again(tmp_path: Path) -> None:
    """The memo that follows says what changed, when and in which commit; claiming otherwise is found."""
    project = make_project(tmp_path / "team")
    project.run(project.compile(limit=1.0))
    locked = project.compile(limit=2.0)
    project.run(locked, "r-2")
    honest = project.registration(locked)
    assert honest.status == "exploratory"
    assert "latency.p50" in honest.changes[0].gate
    assert verify(project.seal(locked)).registered is None
    claimed = project.seal(locked, registration=dataclasses.replace(honest, status="confirmatory", reasons=()))
    report = verify(claimed)
    assert (report.intact, report.registered) == (True, False)
    assert "a limit changed after evidence" in report.words[2]


def test_a_pdf_without_its_signature(memo: Path, project: Project, tmp_path: Path) -> None:
    render(memo)
    reseal(memo, project, tmp_path / "eve")
    assert failure(memo).reason == "the PDF carries no signature"


@pytest.fixture(scope="module")
def another(project: Project, sealed: Path) -> Path:
    """A memo of the same author about another run."""
    project.run(project.compile(), "r-2")
    return project.seal(project.compile(), render=lambda folder: render(folder, "adopt, too"))


@pytest.mark.parametrize("name", ["envelope.json", "ledger.jsonl", "memo.md", "memo.pdf", "verdict.json"])
def test_a_part_of_another_memo_swapped_in(memo: Path, another: Path, name: str) -> None:
    assert verify(another).ok
    shutil.copyfile(another / name, memo / name)
    found = failure(memo)
    assert found.name == ("folder name" if name == "envelope.json" else name)


def test_another_memo_swapped_in_whole(memo: Path, another: Path) -> None:
    shutil.rmtree(memo)
    shutil.copytree(another, memo)
    found = failure(memo)
    assert found.name == "folder name"
    assert "another plan or other evidence" in found.reason


def test_a_registration_claimed_by_hand(memo: Path, project: Project, tmp_path: Path) -> None:
    claimed = Registration("confirmatory", (), "0" * 40, "2020-01-01T00:00:00Z", None)
    from torchspec.core.files import pretty
    from torchspec.model.codec import to_json

    (memo / "registration.json").write_bytes(pretty(to_json(claimed)))
    assert failure(memo).name == "registration.json"
