"""Verifies memo.pdf alone, as it comes by mail: its signature, and the evidence that travels inside it.

Says also what cannot be said without the memo's folder. Writes only into a folder of its own that is gone afterwards.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchspec.core.canon import digest
from torchspec.model.codec import from_json
from torchspec.model.plan import Plan
from torchspec.model.registration import Lock, Registration
from torchspec.model.verdict import Verdict
from torchspec.provenance import keys, pades, pdf_inside, registration, statement, verify_registered, verify_signers
from torchspec.provenance import trust as trusts
from torchspec.provenance import verify_parts as parts
from torchspec.provenance.bundle import ENVELOPE, LEDGER_FILE, REGISTRATION_FILE, VERDICT_FILE
from torchspec.provenance.lock import LOCK_FILE, PLAN_FILE
from torchspec.provenance.statement import Statement
from torchspec.provenance.trust import Trust, TrustFiles
from torchspec.provenance.verify import Check, Signer, VerifyReport
from torchspec.provenance.verify_parts import Opened

MEMO_FILE = "memo.json"
NEEDED = (MEMO_FILE, PLAN_FILE, VERDICT_FILE, LEDGER_FILE)
WANTED = (LOCK_FILE, REGISTRATION_FILE)  # memos sealed before these travelled inside lack them

_FOLDER = "the memo's folder"
UNSAID = (
    f"Not looked at, because it is in {_FOLDER} only: memo.md and memo.html, the spec, the harness files, and the "
    "envelope with the signatures of reviewers."
)
OTHER_PAGES = (
    "Not proven: that the pages show the words of memo.json; drawing them here gives other bytes, as other system "
    f"libraries, other fonts or a team's own templates do. Those are in {_FOLDER}."
)


class _Mail:
    """A PDF that is being verified alone."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.opened = Opened(folder)
        self.unsaid: list[str] = []
        self.author: Signer | None = None
        self.decisions: tuple[tuple[str, str], ...] = ()


def verify(
    path: Path,
    name: str,
    files: TrustFiles,
    repo: Path | None,
    *,
    rejudge: Callable[[Plan, Path], Verdict] | None = None,
    rerender: Callable[[Path], Mapping[str, bytes]] | None = None,
) -> VerifyReport:
    """Verifies the PDF at `path`, which the reader called `name`."""
    with tempfile.TemporaryDirectory(prefix="torchspec-pdf-") as place:
        mail = _Mail(path, Path(place))
        checks = tuple(_checks(mail, files, repo, rejudge, rerender))
    unsaid = [*mail.unsaid, UNSAID]
    if (path.parent / ENVELOPE).is_file():
        unsaid.append(f"That folder seems to be here: torchspec verify {path.parent}")
    signers = (mail.author,) if mail.author else ()
    return VerifyReport(name, checks, signers, mail.decisions, alone=True, unsaid=tuple(unsaid))


def _checks(
    mail: _Mail,
    files: TrustFiles,
    repo: Path | None,
    rejudge: Callable[[Plan, Path], Verdict] | None,
    rerender: Callable[[Path], Mapping[str, bytes]] | None,
) -> Iterator[Check]:
    opened = mail.opened

    def check(name: str, problem: str | None, good: str) -> Check:
        return Check(name, problem is None, problem or good, "intact")

    signature, problem = _read(mail)
    yield check("PDF signature", problem, "exactly one, over the whole file, intact, no change allowed")
    if problem:
        return
    problem = _take_out(mail)
    yield check("attachments", problem, "plan, verdict, evidence and the memo's words are inside the PDF")
    if problem:
        return
    problem = _stated(mail, signature)
    yield check("attachments fit", problem, "plan, verdict and evidence name each other")
    if problem or opened.statement is None:
        return
    yield check("ledger", parts.ledger_problem(opened), "its chain holds and its head is the one that was judged")
    yield check("plan", parts.plan_problem(opened), "it is the one that the verdict names, and fits its schema")
    yield check("verdict", parts.verdict_problem(opened), "it was judged with this plan and from this evidence")
    if rejudge is not None:
        good = "judging the ledger anew gives the verdict that is inside"
        yield check("rejudged", parts.rejudge_problem(opened, rejudge), good)
    if rerender is not None and _has(opened, *WANTED):
        drawn, problem = parts.drawn_anew(opened, rerender)
        if not problem:
            problem, _ = parts.rerender_problem(opened, {MEMO_FILE: drawn[MEMO_FILE]})
        same = not problem and (opened.folder / "memo.pdf").read_bytes().startswith(drawn["memo.pdf"])
        yield check("rerendered", problem, "the memo's words follow from the evidence" + (", and its pages" * same))
        if not problem and not same:
            mail.unsaid.append(OTHER_PAGES)
    elif rerender is not None:
        said = f"Not proven: that the memo says what the evidence says; lock and registration are in {_FOLDER} only."
        mail.unsaid.append(said)
    known = _author(mail, signature, files)
    yield Check("signer", known.known, known.words, "trusted")
    for name, ok, reason in verify_signers.stamps(opened, files):
        yield Check(name, ok, reason, "timestamp")
    for name, ok, reason in _registered(mail, repo):
        yield Check(name, ok, reason, "registered")


def _has(opened: Opened, *names: str) -> bool:
    return all((opened.folder / name).is_file() for name in names)


def _read(mail: _Mail) -> tuple[pades.PdfSignature, str | None]:
    """Copies the PDF beside what will be taken out of it, and reads its signature."""
    try:
        data = mail.path.read_bytes()
    except OSError as error:
        return pades.PdfSignature(None), f"it cannot be read: {error.strerror}"
    if not data.startswith(b"%PDF-"):
        return pades.PdfSignature(None), "it is not a PDF; name a memo's folder or its memo.pdf"
    (mail.opened.folder / "memo.pdf").write_bytes(data)
    return mail.opened.pdf, mail.opened.pdf.problem


def _take_out(mail: _Mail) -> str | None:
    """Writes the attachments that are ours beside the PDF."""
    folder = mail.opened.folder
    try:
        found = pdf_inside.attachments((folder / "memo.pdf").read_bytes())
    except pdf_inside.Unreadable as error:
        return str(error)
    missing = [name for name in NEEDED if name not in found]
    if missing:
        return f"it is no memo, or one without its evidence: {missing[0]} is not attached to it"
    for name in (*NEEDED, *WANTED):
        if name in found:
            (folder / name).write_bytes(found[name])
    return None


def _stated(mail: _Mail, signature: pades.PdfSignature) -> str | None:
    """What the envelope would say, from what is attached; and whether memo.json decides what the verdict decides."""
    from torchspec import ledger

    opened = mail.opened
    try:
        verdict = from_json(Verdict, opened.verdict)
        from_json(Plan, opened.plan)
        records = ledger.verify(opened.folder / LEDGER_FILE).count
        own = [[a["candidate"], a["decision"]["key"]] for a in opened.json(MEMO_FILE)["answers"]]
        made: dict[str, Any] = {
            "plan": verdict.plan_digest,
            "ledger": {"head": verdict.ledger_head, "records": records},
            "decisions": statement.decisions(verdict),
            "made_at": signature.signed_at,
            "registration": None,
        }
        if _has(opened, *WANTED):
            sealed = from_json(Registration, opened.json(REGISTRATION_FILE))
            made["registration"] = statement.registration_json(sealed)
            if from_json(Lock, opened.lock).plan != verdict.plan_digest:
                return "the lock names another plan than the verdict"
    except ledger.LedgerError as error:
        return str(error)
    except Exception as error:  # an author can attach anything, and each error means: it is no memo's
        return f"they cannot be read: {str(error).splitlines()[0][:160] if str(error) else type(error).__name__}"
    if digest(opened.plan) != verdict.plan_digest:
        return "the verdict was judged with another plan than the one that is attached"
    mail.decisions = tuple((f.candidate, f.decision) for f in verdict.fleet)
    if own != [list(pair) for pair in mail.decisions]:
        return "memo.json decides otherwise than the verdict"
    opened.statement = Statement({}, made)
    return None


def _author(mail: _Mail, signature: pades.PdfSignature, files: TrustFiles) -> Trust:
    certificate = signature.certificate
    assert certificate is not None
    assert signature.signed_at is not None  # `pades` gives both where nothing is wrong, and this comes after it
    pinned, unreadable = verify_signers.pinned_by(files.signers)
    at = verify_signers.believed_time(signature.stamp, signature.signed_at, files)
    known = unreadable or trusts.assess(certificate, signature.chain, pinned, at)
    name, print_ = keys.subject_name(certificate), keys.fingerprint(certificate)
    mail.author = Signer("author", name, print_, keys.is_self_signed(certificate), known.known, known.words)
    return known


def _registered(mail: _Mail, repo: Path | None) -> Iterator[verify_registered.Finding]:
    """The registration, as far as what is attached can tell."""
    opened = mail.opened
    assert opened.statement is not None
    sealed = opened.statement.predicate["registration"]
    if sealed is None:
        yield "registration", None, f"lock and registration are in {_FOLDER} only"
        return
    stamped = [s for s in sealed["strengthened_by"] if s.startswith(registration.STAMPED)]
    if stamped:
        mail.unsaid.append(f"Not looked at: the {stamped[0]}; its token is in {_FOLDER}.")
        rest = [s for s in sealed["strengthened_by"] if s not in stamped]
        made = opened.statement.predicate | {"registration": sealed | {"strengthened_by": rest}}
        opened.statement = replace(opened.statement, predicate=made)
    from torchspec import ledger

    try:
        runs = registration.runs_of(ledger.read(opened.folder / LEDGER_FILE))
    except ledger.LedgerError:  # the check of the ledger has named it
        return
    plan = opened.statement.predicate["plan"]
    if sealed["status"] == "confirmatory" and any(r.plan != plan for r in runs if r.first_evidence_at):
        said = (
            f"the memo says that it is confirmatory; runs of other plans gave evidence too, and those are in {_FOLDER}"
        )
        yield "registration", None, said
        return
    yield from verify_registered.checks(opened, repo, around=mail.path.parent)
