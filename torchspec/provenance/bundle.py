"""Seals a memo: one folder with everything a reader needs, the PDF signed, the envelope over all of it written last.

The folder is put together under a hidden name beside its place and renamed when it is whole, so that nothing
half-written is ever taken for a memo; `latest` points to the newest. Must not judge, decide or render.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from torchspec.core.canon import digest, file_digest
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.core.files import pretty, strict_json, sync_folder, write_whole
from torchspec.model.codec import to_json
from torchspec.model.registration import Registration
from torchspec.model.verdict import Verdict
from torchspec.provenance import dsse, keyless, pades, statement, terms, timestamp
from torchspec.provenance import registration as registration_of
from torchspec.provenance.keys import SigningKey
from torchspec.provenance.lock import HARNESS_FOLDER, LOCK_FILE, PLAN_FILE, Locked
from torchspec.provenance.terms import HISTORY_FOLDER

ENVELOPE, VERDICT_FILE, LEDGER_FILE, REGISTRATION_FILE = (
    "envelope.json",
    "verdict.json",
    "ledger.jsonl",
    "registration.json",
)
SPEC_FOLDER, LATEST = "spec", "latest"
MEMO_FILES = ("memo.md", "memo.html", "memo.pdf", "memo.json")
_STAGING = ".sealing-"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed memo: its folder and the SHA-256 of the envelope's bytes."""

    folder: Path
    envelope_digest: str


class _Refused(Exception):
    """The parts do not belong together; the message says why."""


def folder_name(made: datetime, plan_digest: str, ledger_head: str) -> str:
    """A memo folder's name: UTC stamp and a short digest of plan and evidence, `20261130T120129Z-1a2b3c4d`."""
    return f"{made.astimezone(UTC):%Y%m%dT%H%M%SZ}-{short_digest(plan_digest, ledger_head)}"


def short_digest(plan_digest: str, ledger_head: str) -> str:
    """Eight hex digits that tell the memos of different plans or evidence apart."""
    return digest({"plan": plan_digest, "ledger": ledger_head})[:8]


def spec_place(path: str) -> str:
    """Where a spec file lies in the memo folder; `..` of an import from a folder above becomes `_above`."""
    parts = ("_above" if p == ".." else p for p in PurePosixPath(path.replace("\\", "/")).parts if p not in ("/", "."))
    return str(PurePosixPath(SPEC_FOLDER, *parts))


def seal(
    memo_root: Path,
    *,
    render: Callable[[Path], object],
    compiled: Path,
    locked: Locked,
    spec_folder: Path,
    ledger: Path,
    verdict: Verdict,
    registration: Registration,
    key: SigningKey,
    tool: str,
    now: datetime,
    timestamper: Any = None,
    stamp: pades.VisibleStamp | None = None,
) -> Result[Sealed]:
    """Renders, signs and seals a memo below `memo_root`.

    `render` writes memo.md, memo.html, memo.pdf (unsigned) and memo.json into the folder it is given, and whatever else
    belongs to the memo. `compiled` is `out/<name>`. Diagnostics: TS814, TS820 (PDF), TS821 (parts, disk). Exceptions of
    `render` pass through; nothing half-written is left in either case.
    """
    try:
        memo_root.mkdir(parents=True, exist_ok=True)
        _sweep(memo_root)
        staging = Path(tempfile.mkdtemp(prefix=f"{_STAGING}{os.getpid()}-", dir=memo_root))
    except OSError as error:
        return _refused(f"{memo_root} cannot be written: {error.strerror}")
    try:
        render(staging)
        records, runs = _copy(staging, compiled, locked, spec_folder, ledger, verdict)
        write_whole(staging / VERDICT_FILE, pretty(to_json(verdict)))
        write_whole(staging / REGISTRATION_FILE, pretty(to_json(registration)))
        pdf = staging / "memo.pdf"
        signed = pades.sign_pdf(
            pdf.read_bytes(),
            key,
            reason=f"Decision memo: {locked.plan.upgrade.title}",
            timestamper=timestamper,
            stamp=stamp,
        )
        if signed.value is None:
            return Result(None, signed.diagnostics)
        write_whole(pdf, signed.value)
        made = statement.predicate(
            locked.plan,
            verdict,
            registration,
            locked.lock,
            key.info,
            made_at=f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            tool=tool,
            records=records,
            runs=runs,
        )
        body = statement.payload(file_digests(staging), made)
        envelope = dsse.dump(dsse.Envelope(body, (dsse.sign(body, key),)))
        write_whole(staging / ENVELOPE, envelope)
        return Result(_publish(staging, memo_root, folder_name(now, verdict.plan_digest, verdict.ledger_head)))
    except _Refused as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"the memo cannot be written: {error.strerror or error}")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _refused(message: str) -> Result[Sealed]:
    hint = "make it again: `torchspec memo` judges the ledger anew and seals what belongs together"
    return Result(None, (Diagnostic("TS821", message, hint=hint),))


def _sweep(memo_root: Path) -> None:
    """Removes what a killed process left behind."""
    for path in memo_root.glob(f"{_STAGING}*"):
        owner = path.name.removeprefix(_STAGING).partition("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _copy(
    staging: Path, compiled: Path, locked: Locked, spec_folder: Path, ledger: Path, verdict: Verdict
) -> tuple[int, tuple[str, ...]]:
    """Copies plan, lock, harness, spec and ledger and checks that they belong together: (records, run ids)."""
    from torchspec import ledger as ledgers

    for name in ("memo.md", "memo.pdf"):
        if not (staging / name).is_file():
            raise _Refused(f"rendering left no {name}")
    shutil.copyfile(compiled / PLAN_FILE, staging / PLAN_FILE)
    shutil.copyfile(compiled / LOCK_FILE, staging / LOCK_FILE)
    found = digest(strict_json((staging / PLAN_FILE).read_bytes()))
    if not found == locked.plan_digest == verdict.plan_digest:
        raise _Refused("the verdict was judged with another plan than the one in the folder")
    (staging / HARNESS_FOLDER).mkdir()
    for backend, path in sorted(locked.harness.items()):
        place = staging / HARNESS_FOLDER / f"{backend}.py"
        shutil.copyfile(path, place)
        _expect(place, locked.lock.harness[backend], str(path))
    for locked_file in locked.lock.spec:
        place = staging / spec_place(locked_file.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(spec_folder / locked_file.path, place)
        except FileNotFoundError:
            raise _Refused(f"the spec file {locked_file.path} is gone; compile again") from None
        _expect(place, locked_file.sha256, locked_file.path)
    shutil.copyfile(ledger, staging / LEDGER_FILE)
    try:
        report = ledgers.verify(staging / LEDGER_FILE)
    except ledgers.LedgerError as error:
        raise _Refused(str(error)) from None
    if report.torn_tail:  # a record whose writer died is no evidence: the copy ends with the last whole one
        copied = staging / LEDGER_FILE
        os.truncate(copied, copied.stat().st_size - report.torn_tail)
    if report.problems:
        raise _Refused(f"the ledger does not hold: {report.problems[0].message}")
    if report.head != verdict.ledger_head:
        raise _Refused("the verdict was judged from an older ledger than the one in the folder")
    runs = registration_of.runs_of(ledgers.read(staging / LEDGER_FILE))
    for plan in {r.plan for r in runs if r.plan and r.plan != locked.plan_digest}:
        earlier = compiled / HISTORY_FOLDER / f"{plan}.json"
        if terms.recall(earlier.parent, plan) is not None:  # an unknown one makes the memo exploratory, not impossible
            (staging / HISTORY_FOLDER).mkdir(exist_ok=True)
            shutil.copyfile(earlier, staging / HISTORY_FOLDER / earlier.name)
    stamp = compiled / HISTORY_FOLDER / f"{locked.plan_digest}{timestamp.SUFFIX}"
    if stamp.is_file():
        (staging / HISTORY_FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(stamp, staging / HISTORY_FOLDER / stamp.name)
    return report.count, tuple(r.run for r in runs)


def _expect(path: Path, expected: str, name: str) -> None:
    if file_digest(path) != expected:
        raise _Refused(f"{name} is not the file that was compiled; compile again")


def file_digests(folder: Path) -> dict[str, str]:
    """Name (relative, with slashes) to SHA-256 of every file below a memo folder but the envelope."""
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).as_posix() != ENVELOPE
    }


def _publish(staging: Path, memo_root: Path, name: str) -> Sealed:
    """Renames the whole folder to its place and points `latest` at it."""
    for path in (staging, *(p for p in staging.rglob("*") if p.is_dir())):
        path.chmod(0o755)
        sync_folder(path)
    envelope_digest = file_digest(staging / ENVELOPE)
    place = memo_root / name
    number = 1
    while place.exists():
        number += 1
        place = memo_root / f"{name}-{number}"
    staging.rename(place)
    link = memo_root / f".{LATEST}-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(place.name, target_is_directory=True)
    os.replace(link, memo_root / LATEST)
    sync_folder(memo_root)
    return Sealed(place, envelope_digest)


def cosign(memo_folder: Path, key: SigningKey) -> Result[int]:
    """Adds a reviewer's signature to the envelope of a memo; the number of signatures it then carries.

    Every signature that is there must hold; whether the files do is `verify`'s to say first. Diagnostics: TS822.
    """
    path = memo_folder / ENVELOPE
    opened = _to_cosign(path)
    if opened.value is None:
        return Result(None, opened.diagnostics)
    envelope = opened.value
    if any(s.certificate == key.certificate for s in envelope.signatures):
        message = f"{key.info.subject} has signed this envelope already"
        return Result(None, (Diagnostic("TS822", message, hint="a reviewer signs with a key of their own"),))
    signatures = (*envelope.signatures, dsse.sign(envelope.payload, key))
    try:
        write_whole(path, dsse.dump(dsse.Envelope(envelope.payload, signatures)))
    except OSError as error:
        return Result(None, (Diagnostic("TS822", f"the envelope cannot be written: {error.strerror}"),))
    return Result(len(signatures))


def cosign_keyless(memo_folder: Path, *, config: Path | None = None, ask: bool = False) -> Result[keyless.Seen]:
    """Has an identity sign the Statement of a memo with Sigstore, as a reviewer; see `keyless.sign`.

    Diagnostics: TS822 (the envelope), TS827 to TS829.
    """
    opened = _to_cosign(memo_folder / ENVELOPE)
    if opened.value is None:
        return Result(None, opened.diagnostics)
    return keyless.sign(memo_folder, opened.value.payload, config=config, ask=ask)


def _to_cosign(path: Path) -> Result[dsse.Envelope]:
    """The envelope at `path`, where every signature on it holds. Diagnostics: TS822."""
    try:
        envelope = dsse.parse(path.read_bytes())
    except FileNotFoundError:
        hint = "name a memo folder: out/<name>/memo/latest"
        return Result(None, (Diagnostic("TS822", f"there is no envelope in {path.parent}", hint=hint),))
    except (OSError, dsse.EnvelopeError) as error:
        return Result(None, (Diagnostic("TS822", f"the envelope cannot be signed: {error}", hint="verify it first"),))
    if not all(dsse.holds(envelope.payload, s) for s in envelope.signatures):
        message = "a signature on the envelope does not hold, so it is not worth a second one"
        return Result(None, (Diagnostic("TS822", message, hint="see `torchspec verify`"),))
    return Result(envelope)
