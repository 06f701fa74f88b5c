"""What git says about a spec: its commit, whether the spec is in it byte for byte, and the commits of the team's code.

Reads only; GitPython is imported inside the functions. Where there is no repository, no git or no commit yet, that is
said in `GitState.reason` and nothing fails. Git dates can be forged, so nothing here decides anything by date alone.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from torchspec.model.registration import CodeState, GitState

if TYPE_CHECKING:
    import git

#: No replaced objects and no grafts: they make another commit look like an ancestor without changing one of them.
_PLAIN = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


class NoRepository(Exception):
    """There is no usable repository; the message says why, in words for the memo."""


@contextmanager
def repository(path: Path) -> Iterator[git.Repo]:
    """The repository that holds `path` (a file or folder). Raises NoRepository with the reason."""
    try:
        import git
    except ImportError:
        raise NoRepository("git is not installed here") from None
    folder = path if path.is_dir() else path.parent
    try:
        repo = git.Repo(folder, search_parent_directories=True)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        raise NoRepository("not in a git repository") from None
    except (git.GitError, OSError, ValueError) as error:
        raise NoRepository(f"the git repository cannot be read: {_first_line(error)}") from None
    try:
        with repo:
            repo.git.update_environment(**_PLAIN)
            if repo.bare or repo.working_tree_dir is None:
                raise NoRepository("the git repository has no work tree")
            yield repo
    except git.GitCommandNotFound:
        raise NoRepository("git is not installed here") from None
    except git.GitCommandError as error:
        raise NoRepository(f"the git repository cannot be read: {_first_line(error.stderr or error)}") from None


def _first_line(error: object) -> str:
    lines = [line.strip(" '") for line in str(error).splitlines() if line.strip(" '")]
    return next((line for line in lines if not line.startswith("stderr:")), lines[0] if lines else "no reason given")


def describe(spec: Path, files: Sequence[Path] = ()) -> GitState:
    """What git says about `spec` and `files` (imports and team files; absolute, or relative to the spec's folder).

    `spec_committed` is true only where each of them that lies in the spec's repository is in its HEAD byte for byte and
    each of the others is in the HEAD of a repository of its own (a submodule, say).
    """
    spec = spec.resolve()
    others = tuple((spec.parent / f).resolve() for f in files)
    try:
        with repository(spec) as repo:
            return _describe(repo, spec, others)
    except NoRepository as error:
        return GitState(None, None, None, None, None, None, str(error))


def _describe(repo: git.Repo, spec: Path, others: tuple[Path, ...]) -> GitState:
    branch = None if repo.head.is_detached else repo.head.reference.name
    if not repo.head.is_valid():
        return GitState(None, branch, None, None, None, remote_of(repo), "the git repository has no commit yet")
    head = repo.head.commit
    code = tuple(_code_state(repo, spec.parent, path) for path in others)
    reasons = []
    if not blob_equals(repo, head.hexsha, spec):
        reasons.append(f"{spec.name} is not in commit {head.hexsha[:7]} as it is on disk")
    reasons += [f"{c.path}: {c.reason}" for c in code if not c.committed]
    if is_shallow(repo):
        reasons.append("the clone is shallow: its history cannot be followed to the beginning")
    return GitState(
        commit=head.hexsha,
        branch=branch,
        dirty=bool(repo.is_dirty(untracked_files=False)),
        spec_committed=blob_equals(repo, head.hexsha, spec) and all(c.committed for c in code),
        committed_at=commit_time(head),
        remote=remote_of(repo),
        reason="; ".join(reasons) or None,
        code=code,
        path=inside(repo, spec),
    )


def _code_state(repo: git.Repo, base: Path, path: Path) -> CodeState:
    shown = Path(os.path.relpath(path, base)).as_posix()
    try:
        with repository(path) as own:
            same = own.working_tree_dir == repo.working_tree_dir
            where = None if same else remote_of(own) or Path(str(own.working_tree_dir)).name
            if not own.head.is_valid():
                return CodeState(shown, None, None, False, where, "its repository has no commit yet")
            head = own.head.commit.hexsha
            committed = blob_equals(own, head, path)
            reason = None if committed else f"not in commit {head[:7]} as it is on disk"
            name = inside(own, path)
            changed = last_change(own, head, [name]) if name else None
            return CodeState(shown, head, changed, committed, where, reason)
    except NoRepository as error:
        return CodeState(shown, None, None, False, None, str(error))


def inside(repo: git.Repo, path: Path) -> str | None:
    """`path` relative to the work tree, with slashes; None where it lies outside."""
    root = Path(str(repo.working_tree_dir)).resolve()
    path = path.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else None


def blob(repo: git.Repo, commit: str, name: str) -> bytes | None:
    """The bytes of `name` (relative to the work tree) in `commit`; None where it is not there or is no file."""
    try:
        found = repo.commit(commit).tree / name
    except (KeyError, ValueError):
        return None
    if found.type != "blob" or found.mode == 0o120000:
        return None
    data: bytes = found.data_stream.read()
    return data


def blob_equals(repo: git.Repo, commit: str, path: Path) -> bool:
    """Whether `path` is in `commit` byte for byte as it is on disk."""
    name = inside(repo, path)
    try:
        return name is not None and blob(repo, commit, name) == path.read_bytes()
    except OSError:
        return False


def commit_time(commit: Any) -> str:
    """A commit's committer date, ISO, UTC."""
    return datetime.fromtimestamp(commit.committed_date, UTC).isoformat().replace("+00:00", "Z")


def last_change(repo: git.Repo, commit: str, names: Sequence[str]) -> str | None:
    """The newest commit, at or before `commit`, that touched any of `names` (relative to the work tree), or None."""
    if not names:
        return None
    return repo.git.rev_list("--max-count=1", commit, "--", *pathspecs(names)) or None


def pathspecs(names: Sequence[str]) -> list[str]:
    """Names relative to the work tree as arguments for git: from its top, with no character special."""
    return [f":(top,literal){name}" for name in names]


def spec_commit(repo: git.Repo, commit: str, spec: str, files: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The newest commit at or before `commit` that touched the spec or its files, and the files' names in the tree.

    `spec` is relative to the work tree, `files` to the spec's folder; a file outside of the work tree is left out.
    """
    folder = posixpath.dirname(spec)
    joined = (posixpath.normpath(posixpath.join(folder, f.replace("\\", "/"))) for f in files)
    names = tuple(dict.fromkeys((spec, *(n for n in joined if not n.startswith("../")))))
    return last_change(repo, commit, names), names


def has_commit(repo: git.Repo, commit: str) -> bool:
    """Whether the repository holds this commit (40 or 64 hex digits)."""
    if not _COMMIT.match(commit):
        return False
    import git

    try:
        repo.git.cat_file("-e", f"{commit}^{{commit}}")
    except git.GitCommandError:
        return False
    return True


def is_ancestor(repo: git.Repo, older: str, newer: str) -> bool:
    """Whether `older` is `newer` or comes before it. Both must be in the repository."""
    return bool(repo.is_ancestor(repo.commit(older), repo.commit(newer)))


def context(state: GitState) -> dict[str, Any]:
    """What a run records of git in `run.start`."""
    return {
        "commit": state.commit,
        "dirty": state.dirty,
        "branch": state.branch,
        "spec_committed": state.spec_committed,
    }


def is_shallow(repo: git.Repo) -> bool:
    """Whether history was cut off when the repository was cloned."""
    return (Path(str(repo.common_dir)) / "shallow").exists()


def remote_of(repo: git.Repo) -> str | None:
    """The URL of `origin` (else of the first remote) without credentials; None for none or a local folder."""
    remotes = sorted(repo.remotes, key=lambda r: (r.name != "origin", r.name))
    url = next((u for r in remotes[:1] for u in r.urls), None)
    return without_credentials(url) if url else None


def without_credentials(url: str) -> str | None:
    """A remote's URL with user, password, query and fragment taken out; None for a folder of this machine."""
    if "://" in url:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", "")) if host and parts.scheme != "file" else None
    host, colon, path = url.partition(":")
    if not colon or "/" in host or "\\" in host or len(host) == 1:
        return None
    return f"{host.rpartition('@')[2]}:{path}"


def user_name() -> str | None:
    """The name that git commits with here, or None."""
    import subprocess

    try:
        said = subprocess.run(
            ["git", "config", "--get", "user.name"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip() or None
