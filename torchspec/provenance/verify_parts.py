"""The single checks of `verify`: each returns the first thing that does not hold, in words, or None.

Reads the memo folder only. A file that cannot be read or parsed is a problem in words, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from torchspec.core.canon import canonical, digest, file_digest
from torchspec.core.files import strict_json
from torchspec.model.codec import from_json, schema_errors, to_json
from torchspec.model.plan import Plan
from torchspec.model.registration import Lock
from torchspec.model.verdict import Verdict
from torchspec.provenance import bundle, dsse, keys, pades, pdf_inside, statement
from torchspec.provenance.bundle import ENVELOPE, LEDGER_FILE, VERDICT_FILE
from torchspec.provenance.keyless import is_bundle
from torchspec.provenance.lock import HARNESS_FOLDER, LOCK_FILE, PLAN_FILE
from torchspec.provenance.pades import PdfSignature
from torchspec.provenance.statement import Statement

_NAMED = re.compile(r"\d{8}T\d{6}Z-([0-9a-f]{8})(?:-\d+)?\Z")
REQUIRED = ("memo.md", "memo.pdf", PLAN_FILE, LOCK_FILE, LEDGER_FILE, VERDICT_FILE)


class Opened:
    """A memo folder that is being verified: its parts, read once and on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.envelope: dsse.Envelope | None = None
        self.statement: Statement | None = None

    @property
    def signatures(self) -> tuple[dsse.Signature, ...]:
        return self.envelope.signatures if self.envelope else ()

    @cached_property
    def pdf(self) -> PdfSignature:
        try:
            return pades.read_pdf((self.folder / "memo.pdf").read_bytes())
        except OSError as error:
            return PdfSignature(f"it cannot be read: {error.strerror}")

    @cached_property
    def plan(self) -> Any:
        return self.json(PLAN_FILE)

    @cached_property
    def lock(self) -> Any:
        return self.json(LOCK_FILE)

    @cached_property
    def verdict(self) -> Any:
        return self.json(VERDICT_FILE)

    def json(self, name: str) -> Any:
        """A JSON file of the folder. Raises OSError, ValueError."""
        return strict_json((self.folder / name).read_bytes())


def _read_problem(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    return f"it cannot be read: {(isinstance(error, OSError) and error.strerror) or error}"


def folder_problem(opened: Opened) -> str | None:
    """Whether this is a memo folder at all."""
    if not opened.folder.is_dir():
        return "there is no such folder"
    if not (opened.folder / ENVELOPE).is_file():
        return f"it is no sealed memo: there is no {ENVELOPE} in it"
    return None


def envelope_problem(opened: Opened) -> str | None:
    """Reads the envelope and its Statement into `opened`."""
    try:
        opened.envelope = dsse.parse((opened.folder / ENVELOPE).read_bytes())
        found = statement.parse(opened.envelope.payload)
    except (OSError, dsse.EnvelopeError, statement.StatementError) as error:
        return _read_problem(error) if isinstance(error, OSError) else str(error)
    missing = [name for name in REQUIRED if name not in found.subjects]
    if missing:
        return f"it does not cover {missing[0]}"
    opened.statement = found
    return None


def signature_problem(opened: Opened) -> str | None:
    """Whether every signature holds and the first one is the author's that the Statement names."""
    assert opened.envelope is not None
    assert opened.statement is not None
    for number, signature in enumerate(opened.signatures):
        name = keys.subject_name(signature.certificate)
        if not dsse.holds(opened.envelope.payload, signature):
            return f"the signature of {name} does not belong to this envelope"
        if signature.certificate.issuer == signature.certificate.subject and not keys.is_self_signed(
            signature.certificate
        ):
            return f"the certificate of {name} was changed: its own signature does not hold"
        author = opened.statement.predicate["author"]["certificate_sha256"]
        if number == 0 and keys.fingerprint(signature.certificate) != author:
            return f"{name} signed first, but the statement names the author's certificate {author[:16]}"
    return None


def name_problem(opened: Opened) -> str | None:
    """Whether a folder that is named as ours is named after what it holds: another memo swapped in is found."""
    assert opened.statement is not None
    found = _NAMED.match(opened.folder.name)
    made = opened.statement.predicate
    if found and found.group(1) != bundle.short_digest(made["plan"], made["ledger"]["head"]):
        return f"the folder is named {opened.folder.name}, but holds a memo about another plan or other evidence"
    return None


def digest_problem(opened: Opened, name: str) -> str | None:
    """Whether a file of the folder has the digest that was sealed."""
    assert opened.statement is not None
    path = opened.folder / name
    inside = Path(name).parts and not Path(name).is_absolute() and ".." not in Path(name).parts
    if not inside or path.is_symlink() or not path.resolve().is_relative_to(opened.folder):
        return "it lies outside of the folder"
    try:
        found = file_digest(path)
    except OSError as error:
        return _read_problem(error)
    expected = opened.statement.subjects[name]
    if found != expected:
        return f"it was changed after it was sealed: its digest is {found[:16]}, the envelope says {expected[:16]}"
    return None


def extra_problem(opened: Opened) -> str | None:
    """Whether the folder holds anything that was not sealed."""
    assert opened.statement is not None
    known = {ENVELOPE, *opened.statement.subjects}
    for path in sorted(opened.folder.rglob("*")):
        name = path.relative_to(opened.folder).as_posix()
        if path.is_symlink() or (not path.is_dir() and name not in known and not is_bundle(name)):
            return f"{name} was not there when it was sealed"
    return None


def ledger_problem(opened: Opened) -> str | None:
    """Whether the chain holds, and ends where the verdict and the envelope say."""
    from torchspec import ledger

    assert opened.statement is not None
    try:
        report = ledger.verify(opened.folder / LEDGER_FILE)
    except ledger.LedgerError as error:
        return str(error)
    first = next((p for p in report.problems if p.is_error), None)
    if first is not None:
        return f"its chain does not hold: {first.message}"
    if report.torn_tail:
        return "its last line is not whole"
    sealed = opened.statement.predicate["ledger"]
    if (report.head, report.count) != (sealed["head"], sealed["records"]):
        return (
            f"it ends at record {report.count} ({report.head[:16]}); "
            f"sealed was the end at record {sealed['records']} ({sealed['head'][:16]})"
        )
    return None


def plan_problem(opened: Opened) -> str | None:
    """Whether the plan is the one that envelope, lock and verdict name, and fits its schema."""
    assert opened.statement is not None
    try:
        found = digest(opened.plan)
        errors = schema_errors("plan", opened.plan)
    except (OSError, ValueError) as error:
        return _read_problem(error)
    if found != opened.statement.predicate["plan"]:
        return f"its digest is {found[:16]}, the envelope says {opened.statement.predicate['plan'][:16]}"
    return f"it does not fit its schema: {errors[0][0]}: {errors[0][1][:120]}" if errors else None


def lock_problem(opened: Opened) -> str | None:
    """Whether the lock names this plan, these harness files and these spec files."""
    assert opened.statement is not None
    try:
        errors = schema_errors("lock", opened.lock)
        if errors:
            return f"it does not fit its schema: {errors[0][0]}: {errors[0][1][:120]}"
        lock = from_json(Lock, opened.lock)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        return _read_problem(error)
    if lock.plan != opened.statement.predicate["plan"]:
        return "it names another plan"
    named = {f"{HARNESS_FOLDER}/{b}.py": d for b, d in lock.harness.items()}
    named |= {bundle.spec_place(f.path): f.sha256 for f in lock.spec}
    for name, expected in sorted(named.items()):
        if opened.statement.subjects.get(name) != expected:
            return f"it names another {name} than the one that was sealed"
    return None


def verdict_problem(opened: Opened) -> str | None:
    """Whether the verdict is about this plan and ledger, and decides what the envelope says."""
    assert opened.statement is not None
    made = opened.statement.predicate
    try:
        verdict = from_json(Verdict, opened.verdict)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        return _read_problem(error)
    if verdict.plan_digest != made["plan"]:
        return "it was judged with another plan"
    if verdict.ledger_head != made["ledger"]["head"]:
        return "it was judged from other evidence: the ledger ends elsewhere"
    if canonical(statement.decisions(verdict)) != canonical(made["decisions"]):
        return "it decides otherwise than the envelope says"
    return None


def pdf_problem(opened: Opened) -> str | None:
    """Whether memo.pdf carries exactly one intact certification signature over the whole file."""
    return opened.pdf.problem


def signer_problem(opened: Opened) -> str | None:
    """Whether the PDF was signed with the certificate of the envelope's author."""
    own = opened.pdf.certificate
    if own is None:
        return "the PDF names no signer"
    author = opened.signatures[0].certificate
    if own != author:
        return (
            f"the PDF was signed by {keys.subject_name(own)} ({keys.fingerprint(own)[:16]}), "
            f"the envelope by {keys.subject_name(author)} ({keys.fingerprint(author)[:16]})"
        )
    return None


def rejudge_problem(opened: Opened, rejudge: Callable[[Plan, Path], Verdict]) -> str | None:
    """Whether judging the ledger anew gives the sealed verdict."""
    try:
        again = to_json(rejudge(from_json(Plan, opened.plan), opened.folder / LEDGER_FILE))
        if canonical(again) != canonical(opened.verdict):
            return "judging the ledger anew gives another verdict"
    except (OSError, ValueError, msgspec.ValidationError) as error:
        return _read_problem(error)
    except Exception as error:  # evidence that fits no plan can raise anything in the judge
        return f"the ledger cannot be judged anew: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None


def drawn_anew(
    opened: Opened, rerender: Callable[[Path], Mapping[str, bytes]]
) -> tuple[Mapping[str, bytes], str | None]:
    """(what drawing the memo anew gives, why it cannot be drawn)

    The parts of a memo reach the view and the renderer here, and parts that fit no memo can raise anything there.
    """
    try:
        return rerender(opened.folder), None
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        if not isinstance(error, (ValueError, OSError)):  # a KeyError says only the key
            said = f"{type(error).__name__}: {said}"
        return {}, f"the memo cannot be drawn again from its parts: {said}"


def rerender_problem(opened: Opened, drawn: Mapping[str, bytes]) -> tuple[str | None, str]:
    """(whether `drawn`, the sealed verdict rendered anew, is the sealed memo, what is to be said where it is).

    A signature is added behind a PDF, so the sealed one begins with the bytes that were drawn.
    """
    note = ""
    for name, expected in sorted(drawn.items()):
        try:
            found = (opened.folder / name).read_bytes()
        except OSError as error:
            return f"{name}: {_read_problem(error)}", ""
        if found == expected or (name == "memo.pdf" and found.startswith(expected)):
            continue
        if name == "memo.pdf" and (then := pdf_inside.drawn_by(found)) != (now := pdf_inside.drawn_by(expected)):
            note = f"; but the PDF cannot be compared here: it was drawn by {then}, and this is {now}"
            continue
        return f"{name} does not say what the evidence says: rendering it anew gives other bytes", ""
    return None, note
