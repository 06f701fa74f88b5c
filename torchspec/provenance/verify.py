"""Verifies a memo folder: recomputes everything and names the first thing that does not hold.

Three questions are kept apart: *intact* (is this what was sealed?), *trusted* (do you know who sealed it?) and
*registered* (were the limits committed before the evidence?). Where there is a timestamp, a fourth one is whether its
authority is known. Works offline and changes nothing. Must not print. A PDF alone is `verify_pdf`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torchspec import __version__
from torchspec.model.codec import to_json
from torchspec.model.plan import Plan
from torchspec.model.verdict import Verdict
from torchspec.provenance import keyless, verify_registered, verify_signers
from torchspec.provenance import verify_parts as parts
from torchspec.provenance.keyless import Known
from torchspec.provenance.trust import TrustFiles
from torchspec.provenance.verify_parts import Opened

Group = Literal["intact", "trusted", "registered", "timestamp", "sigstore"]
_BESIDE = ("timestamp", "sigstore")  # said beside the three answers, and no part of them
#: Given the plan and the ledger's path, judges and decides anew.
Rejudge = Callable[[Plan, Path], Verdict]
#: Given the memo folder, renders anew: file name to the bytes that it should have.
Rerender = Callable[[Path], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `ok` is None where it could not be decided; `reason` is one sentence."""

    name: str
    ok: bool | None
    reason: str
    group: Group


@dataclass(frozen=True, slots=True)
class Signer:
    """Who signed what. `trusted` is None where the reader pinned no certificate."""

    role: Literal["author", "reviewer"]
    name: str
    fingerprint: str
    self_signed: bool
    trusted: bool | None
    words: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Every check in order, who signed, and the three answers."""

    folder: str
    checks: tuple[Check, ...]
    signers: tuple[Signer, ...]
    decisions: tuple[tuple[str, str], ...]  # candidate, decision: as sealed; empty where the envelope cannot be read
    alone: bool = False  # only the PDF was there
    unsaid: tuple[str, ...] = ()  # what could not be looked at, a sentence each

    @property
    def first_failure(self) -> Check | None:
        """The first check that does not hold."""
        return next((c for c in self.checks if c.ok is False), None)

    def _group(self, group: Group) -> bool | None:
        found = [c.ok for c in self.checks if c.group == group]
        if False in found:
            return False
        return None if not found or None in found else True

    @property
    def intact(self) -> bool:
        """Whether the folder is what was sealed, byte for byte, and holds together."""
        return self._group("intact") is True

    @property
    def trusted(self) -> bool | None:
        """Whether the author is pinned by the reader; None where nothing was pinned."""
        return self._group("trusted")

    @property
    def registered(self) -> bool | None:
        """Whether the memo is confirmatory and the repository agrees; None where it cannot be checked here."""
        return self._group("registered")

    @property
    def ok(self) -> bool:
        """Whether nothing that was looked at fails. An exploratory memo, or one of an unknown signer, can be ok."""
        return self.intact and self.first_failure is None

    @property
    def words(self) -> tuple[str, ...]:
        """The three answers, a sentence each, for people."""
        failure = next((c for c in self.checks if c.ok is False and c.group == "intact"), None)
        undecided = next((c for c in self.checks if c.ok is None and c.group == "intact"), None)
        first = "Intact: every file is as it was sealed, and they belong together."
        if self.alone:
            first = "Intact: the PDF is as it was signed, and the evidence inside it belongs together."
        if failure or undecided:
            found = failure or undecided
            assert found is not None
            first = f"Not intact: {found.name}: {found.reason}."
        said = [first, self._sentence("trusted", "Trusted"), self._sentence("registered", "Registered")]
        word = {True: "trusted", False: "not trusted", None: "not decided"}
        said += [f"{c.name.capitalize()}: {word[c.ok]}: {c.reason}." for c in self.checks if c.group in _BESIDE]
        return (*said, *self.unsaid)

    def _sentence(self, group: Group, word: str) -> str:
        answer = self._group(group)
        mine = [c for c in self.checks if c.group == group]
        if not mine:
            return f"{word}: not looked at, because the {'PDF' if self.alone else 'folder'} is not intact."
        shown = mine[-1] if answer else next(c for c in mine if c.ok is answer)
        said = {True: word, False: f"Not {word.lower()}", None: f"{word}: not decided"}[answer]
        return f"{said}: {shown.reason}."

    def to_json(self) -> dict[str, Any]:
        """The report as JSON types."""
        first = self.first_failure
        return {
            "schema": "torchspec.verify/1",
            "folder": self.folder,
            "ok": self.ok,
            "intact": self.intact,
            "trusted": self.trusted,
            "registered": self.registered,
            "timestamps": [to_json(c) for c in self.checks if c.group == "timestamp"],
            "alone": self.alone,
            "words": list(self.words),
            "first_failure": first.name if first else None,
            "decisions": [{"candidate": c, "decision": d} for c, d in self.decisions],
            "signers": to_json(self.signers),
            "checks": to_json(self.checks),
        }


def verify(
    memo_folder: Path,
    trust: Path | None = None,
    repo: Path | None = None,
    *,
    rejudge: Rejudge | None = None,
    rerender: Rerender | None = None,
    stop_at_first: bool = False,
    accepted: Known | None = None,
    trust_timestamps: Path | None = None,
) -> VerifyReport:
    """Verifies a sealed memo folder, or a memo's PDF alone; `latest` may be given.

    `trust` is a PEM file with the certificates of the signers that the reader accepts, or of those who certify them;
    `trust_timestamps` is one with those of timestamp authorities. `repo` is the repository of the spec; default: the
    one that the memo lies in, if any. `rejudge` and `rerender` prove in addition that the verdict follows from the
    evidence and the memo from the verdict. `accepted` is whom the reader accepts as having signed with Sigstore. With
    `stop_at_first` nothing after the first failure is looked at.
    """
    folder, files = memo_folder.resolve(), TrustFiles(trust, trust_timestamps)
    if folder.is_file():
        from torchspec.provenance import verify_pdf

        return verify_pdf.verify(folder, str(memo_folder), files, repo, rejudge=rejudge, rerender=rerender)
    opened = Opened(folder)
    checks: list[Check] = []
    for check in _checks(opened, files, repo, rejudge, rerender, accepted or Known()):
        checks.append(check)
        if stop_at_first and check.ok is False:
            break
    return VerifyReport(str(memo_folder), tuple(checks), opened_signers(opened, files), _decisions(opened))


def _checks(
    opened: Opened,
    files: TrustFiles,
    repo: Path | None,
    rejudge: Rejudge | None,
    rerender: Rerender | None,
    accepted: Known,
) -> Iterator[Check]:
    def check(name: str, problem: str | None, good: str, group: Group = "intact") -> Check:
        return Check(name, problem is None, problem or good, group)

    missing = parts.folder_problem(opened)
    yield check("folder", missing, "it is a memo folder")
    if missing:
        return
    yield check("envelope", parts.envelope_problem(opened), "it is a DSSE envelope over an in-toto Statement")
    if opened.statement is None:
        return
    count = len(opened.signatures)
    good = "the author's signature holds" if count == 1 else f"all {count} signatures hold"
    yield check("envelope signature", parts.signature_problem(opened), good)
    assert opened.envelope is not None
    identities = keyless.of_memo(opened.folder, opened.envelope.payload)
    for seen in identities:
        yield check(_numbered("sigstore bundle", seen), seen.problem, f"{seen.identity} signed the same statement")
    yield check("folder name", parts.name_problem(opened), "the folder's name fits what was sealed")
    for name in sorted(opened.statement.subjects):
        yield check(name, parts.digest_problem(opened, name), "its digest is the one that was sealed")
    yield check("nothing extra", parts.extra_problem(opened), "the folder holds what was sealed and nothing else")
    yield check("ledger", parts.ledger_problem(opened), "its chain holds and its head is the one that was judged")
    yield check("plan", parts.plan_problem(opened), "its digest is the one that lock, verdict and envelope name")
    yield check("lock", parts.lock_problem(opened), "spec and harness files are the ones that it names")
    yield check("verdict", parts.verdict_problem(opened), "it decides what the envelope says")
    yield check(
        "PDF signature", parts.pdf_problem(opened), "exactly one, over the whole file, intact, no change allowed"
    )
    yield check("same signer", parts.signer_problem(opened), "one key signed the PDF and the envelope")
    if rejudge is not None:
        good = "judging the ledger anew gives the verdict that was sealed"
        yield check("rejudged", _by_another(opened, parts.rejudge_problem(opened, rejudge), "judged"), good)
    if rerender is not None:
        own = any(name.startswith("templates/") for name in opened.statement.subjects)
        how = " with the team's own templates, which are in the folder," if own else ""
        good = f"rendering the verdict anew{how} gives the memo that was sealed"
        drawn, problem = parts.drawn_anew(opened, rerender)
        problem, note = (problem, "") if problem else parts.rerender_problem(opened, drawn)
        yield check("rerendered", _by_another(opened, problem, "rendered"), good + note)
    known = verify_signers.author(opened, files)
    if known is not None:
        yield Check("signer", known.known, known.words, "trusted")
    for name, ok, reason in verify_signers.stamps(opened, files):
        yield Check(name, ok, reason, "timestamp")
    identities = tuple(s for s in identities if s.problem is None)
    for seen, looked in zip(identities, keyless.assess_all(identities, accepted), strict=True):
        yield Check(_numbered("sigstore signature", seen), looked.known, looked.words, "sigstore")
    for name, ok, reason in verify_registered.checks(opened, repo):
        yield Check(name, ok, reason, "registered")


def _by_another(opened: Opened, problem: str | None, did: str) -> str | None:
    """A problem, with the version that `did` (judged, rendered) this where it is not this one: rules get better."""
    assert opened.statement is not None
    tool = opened.statement.predicate["tool"]
    if problem is None or tool == f"torchspec {__version__}":
        return problem
    return f"{problem} (it was {did} by {tool}, this is torchspec {__version__}: compare with that one)"


def _numbered(name: str, seen: keyless.Seen) -> str:
    return name if seen.number == 1 else f"{name} {seen.number}"


def opened_signers(opened: Opened, files: TrustFiles) -> tuple[Signer, ...]:
    """Who signed the envelope, the author first; empty where it cannot be read."""
    return tuple(
        Signer("author" if i == 0 else "reviewer", s.name, s.fingerprint, s.self_signed, s.trust.known, s.trust.words)
        for i, s in enumerate(verify_signers.everybody(opened, files))
    )


def _decisions(opened: Opened) -> tuple[tuple[str, str], ...]:
    if opened.statement is None:
        return ()
    return tuple((d["candidate"], d["decision"]) for d in opened.statement.predicate["decisions"])
