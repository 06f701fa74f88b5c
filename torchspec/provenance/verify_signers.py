"""Who signed a memo, and whether the reader knows them. Says nothing about whether it is intact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from torchspec.provenance import keys
from torchspec.provenance import timestamp as timestamps
from torchspec.provenance import trust as trusts
from torchspec.provenance.dsse import Signature
from torchspec.provenance.terms import HISTORY_FOLDER
from torchspec.provenance.timestamp import Stamp
from torchspec.provenance.trust import Trust, TrustFiles
from torchspec.provenance.verify_parts import Opened

if TYPE_CHECKING:
    from cryptography import x509


@dataclass(frozen=True, slots=True)
class Known:
    """One signer of the envelope, and what the reader knows of them."""

    name: str
    fingerprint: str
    self_signed: bool
    trust: Trust


def pinned_by(trust: Path | None) -> tuple[tuple[x509.Certificate, ...], Trust | None]:
    """(the reader's certificates, what is said of everybody where the trust file cannot be read)"""
    if trust is None:
        return (), None
    read = trusts.read_trust(trust)
    return read.value or (), None if read.value else Trust(False, read.diagnostics[0].message)


def everybody(opened: Opened, files: TrustFiles) -> tuple[Known, ...]:
    """The signers of the envelope, the author first; empty where the envelope cannot be read."""
    if opened.statement is None:
        return ()
    pinned, unreadable = pinned_by(files.signers)
    at = believed_time(opened.pdf.stamp, opened.statement.predicate["made_at"], files)
    return tuple(
        Known(
            keys.subject_name(s.certificate),
            keys.fingerprint(s.certificate),
            keys.is_self_signed(s.certificate),
            unreadable or trusts.assess(s.certificate, opened.pdf.chain, pinned, _moment(s, at, number)),
        )
        for number, s in enumerate(opened.signatures)
    )


def believed_time(stamp: Stamp | None, said: str, files: TrustFiles) -> datetime:
    """When the author signed: by the timestamp where the reader knows its authority, else what the author `said`."""
    pinned, _ = pinned_by(files.authorities)
    if stamp and stamp.at and (known := authority(stamp, pinned)) and known.known:
        said = stamp.at
    return datetime.fromisoformat(said)


def authority(stamp: Stamp, pinned: tuple[x509.Certificate, ...]) -> Trust | None:
    """What the reader knows of a timestamp's authority; None for a token that does not hold."""
    if stamp.certificate is None or stamp.at is None:
        return None
    return trusts.assess_authority(stamp.certificate, stamp.chain, pinned, datetime.fromisoformat(stamp.at))


def stamps(opened: Opened, files: TrustFiles) -> Iterator[tuple[str, bool | None, str]]:
    """(name, whether the authority is trusted, why) of each timestamp of the memo: of its signature, of its plan."""
    pinned, unreadable = pinned_by(files.authorities)
    of_plan = None
    if opened.statement is not None:
        of_plan = timestamps.of_plan(opened.folder / HISTORY_FOLDER, opened.statement.predicate["plan"])
    for name, stamp in (("timestamp of the signature", opened.pdf.stamp), ("timestamp of the plan", of_plan)):
        if stamp is None:
            continue
        known = authority(stamp, pinned)
        if known is None:
            yield name, False, stamp.problem or "it does not hold"
        else:
            known = unreadable or known
            yield name, known.known, f"{stamp.at}, by {known.words}" if known is not unreadable else known.words


def _moment(signature: Signature, made: datetime, number: int) -> datetime:
    """When a signature may have been made: the author's with the memo, a reviewer's then or once the key was there.

    A reviewer's signature does not say when it was made, and it comes after the memo.
    """
    return made if number == 0 else max(made, signature.certificate.not_valid_before_utc)


def author(opened: Opened, files: TrustFiles) -> Trust | None:
    """What the reader knows of the author; None where the envelope cannot be read."""
    found = everybody(opened, files)
    return found[0].trust if found else None
