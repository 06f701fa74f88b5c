"""The signature inside a PDF: made, read back, accepted by other tools, and every way to fake one named."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from memos import make_key, small_pdf
from pypdf import PdfReader, PdfWriter

from torchspec.provenance import pades
from torchspec.provenance.keys import SigningKey


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("team") / "keys", person="Ana Pérez 中文")


@pytest.fixture(scope="module")
def signed(key: SigningKey) -> bytes:
    made = pades.sign_pdf(small_pdf(), key, reason="Decision memo: may it?")
    assert made.value is not None
    return made.value


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        package = {"pdfsig": "poppler-utils"}.get(name, name)
        pytest.fail(f"{name} is needed: `make test` installs it (Debian: {package})", pytrace=False)
    return found


def test_what_was_signed_is_intact(signed: bytes, key: SigningKey) -> None:
    found = pades.read_pdf(signed)
    assert found.problem is None
    assert found.certificate == key.certificate
    assert found.signed_at is not None
    assert found.timestamp is None
    assert len(PdfReader(io.BytesIO(signed)).pages) == 2


def test_pdfsig_agrees(signed: bytes, tmp_path: Path) -> None:
    (tmp_path / "memo.pdf").write_bytes(signed)
    done = subprocess.run([tool("pdfsig"), tmp_path / "memo.pdf"], capture_output=True, text=True, check=False)
    assert "Signature is Valid" in done.stdout
    assert "Total document signed" in done.stdout
    assert "ETSI.CAdES.detached" in done.stdout
    assert done.stdout.count("Signature #") == 1
    assert "Ana Pérez 中文" in done.stdout


def test_qpdf_agrees(signed: bytes, tmp_path: Path) -> None:
    (tmp_path / "memo.pdf").write_bytes(signed)
    done = subprocess.run([tool("qpdf"), "--check", tmp_path / "memo.pdf"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_signature_differs_between_two_signings(key: SigningKey, signed: bytes) -> None:
    again = pades.sign_pdf(small_pdf(), key, reason="Decision memo: may it?")
    assert again.value is not None
    assert again.value[: len(small_pdf())] == signed[: len(small_pdf())] == small_pdf()


def test_an_ed25519_key_cannot_sign_a_pdf(tmp_path: Path) -> None:
    refused = pades.sign_pdf(small_pdf(), make_key(tmp_path / "keys", algorithm="ed25519"), reason="x")
    assert refused.value is None
    assert refused.diagnostics[0].code == "TS814"


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7\n", b"no PDF", b"%PDF-1.7\n" + bytes(1000)])
def test_what_is_no_pdf_cannot_be_signed_or_read(key: SigningKey, data: bytes) -> None:
    assert [d.code for d in pades.sign_pdf(data, key, reason="x").diagnostics] == ["TS820"]
    assert pades.read_pdf(data).problem


def test_a_signed_pdf_is_not_signed_again(key: SigningKey, signed: bytes) -> None:
    assert [d.code for d in pades.sign_pdf(signed, key, reason="x").diagnostics] == ["TS820"]


def test_an_encrypted_pdf_cannot_be_signed(key: SigningKey) -> None:
    writer = PdfWriter(clone_from=io.BytesIO(small_pdf()))
    writer.encrypt("", "owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    assert [d.code for d in pades.sign_pdf(out.getvalue(), key, reason="x").diagnostics] == ["TS820"]


def problem(data: bytes) -> str:
    found = pades.read_pdf(data).problem
    assert found is not None
    return found


def test_no_signature() -> None:
    assert problem(small_pdf()) == "the PDF carries no signature"


@pytest.mark.parametrize("extra", [b"\n", b"\0"])
def test_bytes_after_the_end(signed: bytes, extra: bytes) -> None:
    assert "does not cover the whole PDF" in problem(signed + extra)


def test_a_comment_after_the_end(signed: bytes) -> None:
    assert problem(signed + b"% a comment\n%%EOF\n")


def test_a_cut_end(signed: bytes) -> None:
    assert problem(signed[:-1])


def test_a_page_added_in_an_update(signed: bytes, tmp_path: Path) -> None:
    (tmp_path / "memo.pdf").write_bytes(signed)
    writer = PdfWriter(tmp_path / "memo.pdf", incremental=True)
    writer.add_blank_page(200, 200)
    out = io.BytesIO()
    writer.write(out)
    assert out.getvalue()[: len(signed)] == signed
    assert len(PdfReader(out).pages) == 3
    assert "does not cover the whole PDF" in problem(out.getvalue())


def test_a_second_signature(key: SigningKey) -> None:
    once = approve(small_pdf(), key, "First")
    assert "2 signatures" in problem(approve(once, key, "Second"))


def approve(data: bytes, key: SigningKey, field: str) -> bytes:
    """An approval signature, as other tools make them."""
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.sign import signers

    meta = signers.PdfSignatureMetadata(field_name=field, md_algorithm="sha256")
    out = signers.sign_pdf(IncrementalPdfFileWriter(io.BytesIO(data)), meta, signer=pades._signer(key))
    made: bytes = out.getvalue()
    return made


def test_an_approval_is_no_certification(key: SigningKey) -> None:
    assert "not a certification" in problem(approve(small_pdf(), key, "Signature"))


def gap(data: bytes) -> tuple[int, int]:
    """Where the hex of the signature begins and ends."""
    start = data.index(b"/Contents <") + len(b"/Contents <")
    return start, data.index(b">", start)


def test_something_hidden_behind_the_signature(signed: bytes) -> None:
    _, end = gap(signed)
    hidden = bytearray(signed)
    hidden[end - 8 : end] = b"deadbeef"
    assert "something else than a signature" in problem(bytes(hidden))


def test_a_certificate_put_in_place_of_the_signers(signed: bytes, tmp_path: Path) -> None:
    """The same name and dates, another key: only the certificate inside the signature is exchanged."""
    from asn1crypto import cms, x509

    start, end = gap(signed)
    content = cms.ContentInfo.load(bytes.fromhex(signed[start:end].decode()).rstrip(b"\0") + b"\0" * 8)
    other = make_key(tmp_path / "keys", person="Ana Pérez 中文")
    swapped = cms.CertificateChoices({"certificate": x509.Certificate.load(pades.certificate_der(other.certificate))})
    content["content"]["certificates"] = cms.CertificateSet([swapped])
    signer = content["content"]["signer_infos"][0]
    signer["sid"] = cms.SignerIdentifier(
        {
            "issuer_and_serial_number": cms.IssuerAndSerialNumber(
                {"issuer": swapped.chosen.issuer, "serial_number": swapped.chosen.serial_number}
            )
        }
    )
    fake = content.dump(force=True).hex().encode()
    faked = signed[:start] + fake.ljust(end - start, b"0") + signed[end:]
    assert len(faked) == len(signed)
    assert problem(faked)


def test_the_frame_that_a_signature_does_not_cover_cannot_change(signed: bytes, key: SigningKey) -> None:
    """Versions, the list of digests, the signer's name beside the certificate: none of it is signed in CMS."""
    start, end = gap(signed)
    raw = bytes.fromhex(signed[start:end].decode())
    name = key.certificate.issuer.public_bytes()
    beside = raw.rindex(name, 0, raw.rindex(name))  # the signer's name beside the certificate, before the signed parts
    for position in (*range(60), *range(beside - 12, beside + len(name) + 40)):
        changed = bytearray(raw)
        changed[position] ^= 0x20
        found = pades.read_pdf(signed[:start] + bytes(changed).hex().upper().encode() + signed[end:])
        assert found.problem is not None, f"byte {position} changed and was not found"


def test_letters_of_the_other_case_are_found(signed: bytes) -> None:
    start, end = gap(signed)
    assert problem(signed[:start] + signed[start:end].lower() + signed[end:])


def stamped(key: SigningKey) -> bytes:
    words = "Signed by Ana"
    stamp = pades.VisibleStamp(small_pdf(), words, 200, 22, 45, 8)
    made = pades.sign_pdf(small_pdf(), key, reason="x", stamp=stamp)
    assert made.value is not None, made.diagnostics
    return made.value


def test_a_visible_stamp_is_one_intact_signature_on_the_first_page(key: SigningKey, tmp_path: Path) -> None:
    data = stamped(key)
    found = pades.read_pdf(data)
    assert found.problem is None
    reader = PdfReader(io.BytesIO(data))
    seen = [[a.get_object() for a in page.get("/Annots", [])] for page in reader.pages]
    assert [len(a) for a in seen] == [1, 0]
    right, top = float(reader.pages[0].mediabox.right), float(reader.pages[0].mediabox.top)
    rectangle = [float(v) for v in seen[0][0]["/Rect"]]
    assert rectangle == pytest.approx([right - 245, top - 30, right - 45, top - 8], abs=1)
    assert seen[0][0]["/TU"] == "Signed by Ana"
    (tmp_path / "memo.pdf").write_bytes(data)
    for command in ([tool("pdfsig"), tmp_path / "memo.pdf"], [tool("qpdf"), "--check", tmp_path / "memo.pdf"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    unseen = pades.sign_pdf(small_pdf(), key, reason="x")
    assert unseen.value is not None
    annots = PdfReader(io.BytesIO(unseen.value)).pages[0].get("/Annots", [])
    assert all([float(v) for v in a.get_object()["/Rect"]] == [0, 0, 0, 0] for a in annots)


def test_a_byte_of_the_stamp_is_found(key: SigningKey) -> None:
    import random

    data = stamped(key)
    chance = random.Random(11)
    plain = len(small_pdf())
    for _ in range(60):
        at = chance.randrange(plain, len(data))
        spoilt = bytearray(data)
        spoilt[at] ^= 1 << chance.randrange(8)
        assert pades.read_pdf(bytes(spoilt)).problem is not None, at
