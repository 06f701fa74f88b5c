"""Whether a sealed memo's registration holds: assessed again from its ledger, lock and plans, and from the repository.

Says nothing about whether the folder is intact or its signer known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from torchspec.core.canon import sha256_hex
from torchspec.model.codec import from_json
from torchspec.model.plan import Plan
from torchspec.model.registration import Lock
from torchspec.provenance import git as gits
from torchspec.provenance import registration
from torchspec.provenance.bundle import LEDGER_FILE
from torchspec.provenance.terms import HISTORY_FOLDER
from torchspec.provenance.verify_parts import Opened

Finding = tuple[str, bool | None, str]


def checks(opened: Opened, repo: Path | None, *, around: Path | None = None) -> Iterator[Finding]:
    """(name, ok, reason) of what can be said; nothing where the parts cannot be read (other checks name that).

    Without `repo` the repository is the one that the memo lies in: its folder, or `around` where the parts lie apart.
    """
    from torchspec import ledger

    assert opened.statement is not None
    try:
        lock, plan = from_json(Lock, opened.lock), from_json(Plan, opened.plan)
        runs = registration.runs_of(ledger.read(opened.folder / LEDGER_FILE))
    except (OSError, ValueError, msgspec.ValidationError, ledger.LedgerError):
        return
    sealed = opened.statement.predicate["registration"]
    where, none = _repository(repo or around or opened.folder)
    if lock.git.commit is not None:
        yield _commit(lock, where, none, named=repo is not None)
    if sealed["status"] == "exploratory":
        first = sealed["reasons"][0] if sealed["reasons"] else "no reason was given"
        yield "registration", None, f"the memo says itself that it is exploratory: {first}"
        return
    if where is None:
        yield "registration", None, f"the memo says that it is confirmatory; {none}"
        return
    history = opened.folder / HISTORY_FOLDER
    try:
        until = opened.statement.predicate["made_at"]
        again = registration.assess(lock, plan, runs, repo=where, history=history, until=until)
    except ValueError as error:  # a time in the ledger that is none
        yield "registration", False, f"the memo says that it is confirmatory, but its runs cannot be read: {error}"
        return
    if again.status != "confirmatory":
        yield "registration", False, f"the memo says that it is confirmatory, but {again.reasons[0]}"
    elif again.commit != sealed["commit"]:
        yield (
            "registration",
            False,
            f"the memo names the spec's commit {sealed['commit']}, the repository {again.commit}",
        )
    elif gone := _gone(sealed["strengthened_by"], again.strengthened_by):
        yield "registration", False, f"the memo is strengthened by {gone}, which the repository does not show any more"
    else:
        yield (
            "registration",
            True,
            f"confirmatory: commit {again.commit[:12] if again.commit else ''} came before every run",
        )


def _gone(sealed: Iterable[str], found: Iterable[str]) -> str | None:
    """The first thing that strengthened the memo and is not there any more: a tag that was moved or taken away."""
    there = {_bare(s) for s in found}
    return next((s for s in map(_bare, sealed) if s not in there), None)


def _bare(said: str) -> str:
    """Without what could not be checked where it was said."""
    return said.removesuffix(" (its signature could not be checked here)")


def _repository(where: Path) -> tuple[Path | None, str]:
    try:
        with gits.repository(where):
            return where, ""
    except gits.NoRepository as error:
        return None, f"it cannot be checked: {error} (name the spec's repository with --repo)"


def _commit(lock: Lock, where: Path | None, none: str, *, named: bool) -> Finding:
    """Whether the commit exists and holds the spec files that were sealed, byte for byte."""
    commit, name = lock.git.commit or "", "commit"
    if where is None:
        return name, None, f"commit {commit[:12]} was not looked up; {none}"
    try:
        with gits.repository(where) as repo:
            if not gits.has_commit(repo, commit):
                which = "the repository" if named else f"the repository at {repo.working_tree_dir}"
                return name, False, f"commit {commit[:12]} is not in {which}"
            if not lock.git.spec_committed or lock.git.path is None:
                return name, True, f"commit {commit[:12]} exists; the spec was not in it as it was compiled"
            _, names = gits.spec_commit(repo, commit, lock.git.path, [f.path for f in lock.spec])
            for inside, locked in zip(names, lock.spec, strict=False):
                data = gits.blob(repo, commit, inside)
                if data is None or sha256_hex(data) != locked.sha256:
                    return name, False, f"commit {commit[:12]} holds another {inside} than the one that was compiled"
    except gits.NoRepository as error:
        return name, None, f"commit {commit[:12]} was not looked up: {error}"
    return name, True, f"commit {commit[:12]} exists and holds the spec byte for byte"
