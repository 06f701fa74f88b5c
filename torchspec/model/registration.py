"""Lock and registration: what a run is bound to, and whether the memo may call itself confirmatory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LOCK_SCHEMA = "torchspec.lock/1"


@dataclass(frozen=True, slots=True)
class CodeState:
    """One import or team file: the commit checked out in its repository, and the last one that changed it.

    `repository` is set where that is another repository than the spec's (a submodule, say): its remote or folder name.
    """

    path: str
    commit: str | None
    last_changed: str | None
    committed: bool  # the file is in `commit` byte for byte
    repository: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GitState:
    """The repository that holds a file. Not in a repository: `commit` is None and `reason` says so."""

    commit: str | None
    branch: str | None
    dirty: bool | None  # anything in the tree differs from the commit
    spec_committed: bool | None  # the spec and its imports and team files are in `commit` byte for byte
    committed_at: str | None  # ISO, UTC; git dates alone can be forged
    remote: str | None  # URL without credentials
    reason: str | None = None
    code: tuple[CodeState, ...] = ()
    path: str | None = None  # the spec, relative to the root of its repository


@dataclass(frozen=True, slots=True)
class LockedFile:
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Deviation:
    """Something that was done otherwise than planned, as the spec's `deviations` block says it. `date` is ISO."""

    date: str
    text: str
    by: str
    because: str


@dataclass(frozen=True, slots=True)
class Lock:
    """Binds spec, imports, team files, plan, harness bytes, compiler, catalog and plugins to a commit.

    `spec` holds digests of whole files; the plan's leave out the `deviations` block, which may grow.
    """

    schema: str
    name: str
    compiler: str
    catalog: str  # digest of the catalog's tables
    plugins: dict[str, str]  # name -> version and digest
    spec: tuple[LockedFile, ...]
    files: tuple[LockedFile, ...]
    plan: str
    harness: dict[str, str]  # backend -> sha256
    params: dict[str, str]  # what --set changed
    git: GitState
    deviations: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A gate line that is not what it was when the first evidence was taken."""

    gate: str
    before: str | None
    after: str | None
    commit: str | None
    at: str | None


@dataclass(frozen=True, slots=True)
class Registration:
    """Confirmatory only where the spec's commit is an ancestor of every run's commit, clean, and no limit changed."""

    status: Literal["confirmatory", "exploratory"]
    reasons: tuple[str, ...]  # why exploratory; empty when confirmatory
    commit: str | None
    committed_at: str | None
    first_evidence_at: str | None
    changes: tuple[LimitChange, ...] = ()
    diff: str = ""
    strengthened_by: tuple[str, ...] = ()  # "signed tag v1", "RFC 3161 timestamp by …"
