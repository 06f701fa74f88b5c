"""Who signed a memo, and whether the reader knows them. Says nothing about whether it is intact."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from torchspec.provenance import keys
from torchspec.provenance import trust as trusts
from torchspec.provenance.dsse import Signature
from torchspec.provenance.trust import Trust
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


def everybody(opened: Opened, trust: Path | None) -> tuple[Known, ...]:
    """The signers of the envelope, the author first; empty where the envelope cannot be read."""
    if opened.statement is None:
        return ()
    pinned: tuple[x509.Certificate, ...] = ()
    unreadable: Trust | None = None
    if trust is not None:
        read = trusts.read_trust(trust)
        pinned = read.value or ()
        if not pinned:
            unreadable = Trust(False, read.diagnostics[0].message)
    at = datetime.fromisoformat(opened.statement.predicate["made_at"])
    if opened.pdf.timestamp:
        at = datetime.fromisoformat(opened.pdf.timestamp)
    return tuple(
        Known(
            keys.subject_name(s.certificate),
            keys.fingerprint(s.certificate),
            keys.is_self_signed(s.certificate),
            unreadable or trusts.assess(s.certificate, opened.pdf.chain, pinned, _moment(s, at, number)),
        )
        for number, s in enumerate(opened.signatures)
    )


def _moment(signature: Signature, made: datetime, number: int) -> datetime:
    """When a signature may have been made: the author's with the memo, a reviewer's then or once the key was there.

    A reviewer's signature does not say when it was made, and it comes after the memo.
    """
    return made if number == 0 else max(made, signature.certificate.not_valid_before_utc)


def author(opened: Opened, trust: Path | None) -> Trust | None:
    """What the reader knows of the author; None where the envelope cannot be read."""
    found = everybody(opened, trust)
    return found[0].trust if found else None
