"""From a judgement to a sealed memo, and back again for `verify`: view, render, sign, seal.

Returns values and diagnostics; printing and exit codes are `cli`'s.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torchspec import __version__
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.core.files import pretty, strict_json
from torchspec.model.codec import to_json
from torchspec.model.plan import Plan
from torchspec.model.registration import Registration
from torchspec.model.verdict import Verdict
from torchspec.pipeline import Compiled
from torchspec.pipeline_run import Judged, verdict_of

if TYPE_CHECKING:
    from torchspec.model.evidence import Record
    from torchspec.provenance import bundle
    from torchspec.provenance.keys import KeyInfo, SigningKey
    from torchspec.provenance.lock import Locked

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sealed:
    """A memo on disk, with what it says."""

    folder: Path
    verdict: Verdict
    registration: Registration
    new_key: str | None  # where a key was made for this, because there was none


def environments_of(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """side -> body of its latest side.environment record"""
    return {r.body["side"]: r.body for r in records if r.kind == "side.environment"}


def key_for_signing(path: str | None) -> Result[tuple[SigningKey, str | None]]:
    """The key to sign with: the named one, else the user's own, else a new one (its path is told)."""
    from torchspec.provenance import keyfile, keys

    if path is not None:
        loaded = keyfile.load_key(Path(path))
        return Result((loaded.value, None) if loaded.value else None, loaded.diagnostics)
    known = [k for k in keys.list_keys() if k.algorithm != "Ed25519"]
    made = None
    if known:
        chosen = next((k for k in known if k.name == "default"), known[0])
    else:
        fresh = keys.new_key("default", person_of())
        if fresh.value is None:
            return Result(None, fresh.diagnostics)
        chosen, made = fresh.value, str(fresh.value.path)
    loaded = keyfile.load_key(Path(chosen.path))
    return Result((loaded.value, made) if loaded.value else None, loaded.diagnostics)


def signer_words(info: KeyInfo, language: str) -> str:
    """Who signs, in the memo's language."""
    from torchspec.report import stamp

    return stamp.signer(info.subject, f"{info.algorithm} {info.fingerprint[:16]}", info.self_signed, language)


def person_of() -> str:
    """Who signs, where nobody said: git's user name, else the login name."""
    from torchspec.provenance import git

    name = git.user_name()
    if name:
        return name[:64]
    try:
        return getpass.getuser()[:64]
    except (OSError, KeyError):
        return "unnamed signer"


def rendered(
    plan: Plan,
    judged: Judged,
    compiled_lock: Any,
    ledger_path: Path,
    *,
    signer: str,
    issued: str,
    language: str,
    templates: Path | None,
    folder: Path,
) -> tuple[Diagnostic, ...]:
    """View and render into `folder`; what there is to say of it.

    The memo is drawn from what a reader of the sealed files has: the values as their JSON gives them back.
    """
    from torchspec import ledger
    from torchspec.report import pdf, render, view

    memo = view.view(
        _as_sealed(plan),
        _as_sealed(judged.verdict),
        lock=_as_sealed(compiled_lock),
        registration=_as_sealed(judged.registration),
        environments=environments_of(ledger.read(ledger_path)),
        records=ledger.read(ledger_path),
        signer=signer,
        issued=issued,
        language=language,
    )
    attachments = _inside(plan, judged.verdict, compiled_lock, judged.registration, ledger_path)
    lacking: set[str] = set()
    render.render(memo, folder, templates=templates, attachments=attachments, lacking=lacking)
    return (pdf.without_glyph(lacking),) if lacking else ()


def _inside(plan: Plan, verdict: Verdict, lock: Any, registration: Registration, path: Path) -> dict[str, bytes]:
    """What travels inside the PDF beside memo.json, so that whoever has only the PDF can judge and draw it again."""
    return {
        "plan.json": pretty(to_json(plan)),
        "verdict.json": pretty(to_json(verdict)),
        "lock.json": pretty(to_json(lock)),
        "registration.json": pretty(to_json(registration)),
        "ledger.jsonl": whole_lines(path.read_bytes()),
    }


def _as_sealed(value: T) -> T:
    """`value` as its sealed JSON gives it back: an order of keys that only this process knows is gone."""
    from torchspec.model.codec import from_json

    return from_json(type(value), strict_json(pretty(to_json(value))))


def whole_lines(data: bytes) -> bytes:
    """A ledger without the record that its writer did not finish, as the sealed copy has it."""
    return data[: data.rfind(b"\n") + 1]


def seal(
    compiled: Compiled,
    judged: Judged,
    *,
    key: str | None,
    language: str = "en",
    templates: Path | None = None,
    timestamp: str | None = None,
) -> Result[Sealed]:
    """Write, sign and seal the memo of what was judged. `timestamp` is the address of an RFC 3161 authority."""
    from torchspec.provenance import lock as locking
    from torchspec.report import templates as teams

    signing = key_for_signing(key)
    if signing.value is None:
        return Result(None, signing.diagnostics)
    signer, made = signing.value
    missing = teams.missing(templates)
    if missing is not None:
        return Result(None, (missing,))
    held = locking.check_lock(compiled.folder, spec_folder=compiled.spec.parent)
    if held.value is None:
        return Result(None, held.diagnostics)
    on_disk = held.value  # drawn from what is sealed, so that drawing it again gives the same bytes
    now = datetime.now(UTC).replace(microsecond=0)

    said: list[Diagnostic] = []

    def draw(folder: Path) -> None:
        if templates is not None:
            teams.keep(templates, folder)
        with teams.told():
            said[:] = rendered(
                on_disk.plan,
                judged,
                on_disk.lock,
                compiled.ledger,
                signer=signer_words(signer.info, language),
                issued=f"{now:%Y-%m-%dT%H:%M:%SZ}",
                language=language,
                templates=teams.kept(folder),
                folder=folder,
            )

    try:
        sealed = _sealed(compiled, judged, on_disk, signer, draw, now, language, timestamp)
    except teams.Broken as error:
        return Result(None, (error.diagnostic,))
    if sealed.value is None:
        return Result(None, sealed.diagnostics)
    told = (*said, *sealed.diagnostics)
    return Result(Sealed(sealed.value.folder, judged.verdict, judged.registration, made), told)


def _sealed(
    compiled: Compiled,
    judged: Judged,
    held: Locked,
    signer: SigningKey,
    draw: Callable[[Path], None],
    now: datetime,
    language: str,
    timestamp: str | None,
) -> Result[bundle.Sealed]:
    from torchspec.provenance import bundle, pades
    from torchspec.provenance import timestamp as timestamps
    from torchspec.report import stamp

    info = signer.info
    signed = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    drawn, words = stamp.pdf(info.subject, f"{info.algorithm} {info.fingerprint[:16]}", signed, language)
    return bundle.seal(
        compiled.folder / "memo",
        render=draw,
        compiled=compiled.folder,
        locked=held,
        spec_folder=compiled.spec.parent,
        ledger=compiled.ledger,
        verdict=judged.verdict,
        registration=judged.registration,
        key=signer,
        tool=f"torchspec {__version__}",
        now=now,
        timestamper=timestamps.client(timestamp) if timestamp else None,
        stamp=pades.VisibleStamp(drawn, words, stamp.WIDTH, stamp.HEIGHT, stamp.RIGHT, stamp.TOP),
    )


def rejudge(plan: Plan, path: Path) -> Verdict:
    """For `verify`: the verdict again, from plan and ledger alone. Raises ValueError where there is none."""
    from torchspec.core.canon import digest

    result = verdict_of(plan, path, digest(to_json(plan)))
    if result.value is None:
        raise ValueError(result.diagnostics[0].message)
    return result.value


def rerender(folder: Path) -> dict[str, bytes]:
    """For `verify`: the memo's four files again, the PDF unsigned, from what the memo folder (or the PDF) holds.

    Raises ValueError where memo.json does not say how the memo was drawn.
    """
    from torchspec import ledger
    from torchspec.core.canon import canonical
    from torchspec.model.codec import from_json
    from torchspec.model.registration import Lock
    from torchspec.provenance import keys, pades
    from torchspec.report import render, view
    from torchspec.report import templates as teams
    from torchspec.report.language import LANGUAGES

    def load(kind: type[Any], name: str) -> Any:
        return from_json(kind, strict_json((folder / name).read_bytes()))

    old = strict_json((folder / "memo.json").read_bytes())
    lacking = [n for n in ("language", "issued") if not isinstance(old, dict) or not isinstance(old.get(n), str)]
    if lacking:
        raise ValueError(f"memo.json does not say its {lacking[0]}")
    if old["language"] not in LANGUAGES:
        raise ValueError(f"memo.json names the language {old['language'][:20]!r}; there is {', '.join(LANGUAGES)}")
    certificate = pades.read_pdf((folder / "memo.pdf").read_bytes()).certificate
    if certificate is None:
        raise ValueError("the PDF names no signer")
    path = folder / "ledger.jsonl"
    plan, verdict = load(Plan, "plan.json"), load(Verdict, "verdict.json")
    lock, registration = load(Lock, "lock.json"), load(Registration, "registration.json")
    memo = view.view(
        plan,
        verdict,
        lock=lock,
        registration=registration,
        environments=environments_of(ledger.read(path)),
        records=ledger.read(path),
        signer=signer_words(keys.describe(certificate, name="", path=folder, certificate_path=folder), old["language"]),
        issued=old["issued"],
        language=old["language"],
    )
    own = teams.kept(folder)
    data = canonical(to_json(memo))
    inside = {"memo.json": data, **_inside(plan, verdict, lock, registration, path)}
    return {
        "memo.json": data,
        "memo.md": render.markdown_of(memo, own).encode(),
        "memo.html": render.html_of(memo, templates=own).encode(),
        "memo.pdf": render.pdf_of(memo, templates=own, attachments=inside),
    }
