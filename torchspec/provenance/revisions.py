"""Specs as they were: the files of a git revision, written to a temporary folder, for `torchspec diff`.

Changes nothing in the repository or its work tree.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.provenance import git as gits


def _no(message: str, hint: str) -> Result[tuple[Path, Path]]:
    return Result(None, (Diagnostic("TS830", message, hint=hint),))


@contextmanager
def checkout(revisions: str, spec: Path) -> Iterator[Result[tuple[Path, Path]]]:
    """The spec at the older and the newer end of `revisions`.

    `A...B` is B against the merge base of the two, `A..B` is B against A, and `A` alone is the work tree against A.
    Diagnostics: TS830 (not a file nor a revision, or no such file in it).
    """
    import git

    try:
        with gits.repository(spec) as repo, tempfile.TemporaryDirectory(prefix="torchspec-diff-") as folder:
            name = gits.inside(repo, spec)
            if name is None:
                yield _no(f"{spec} is not in the repository", "name a spec of the repository that the revision is in")
                return
            yield _ends(repo, revisions, spec, name, Path(folder))
    except gits.NoRepository as error:
        yield _no(f"{revisions!r} is no file, and {error}", "give two spec files, or a revision and a committed spec")
    except git.GitCommandError as error:
        yield _no(f"{revisions!r} is neither a file nor a revision", f"git says: {str(error.stderr).strip()[:200]}")


def _ends(repo: object, revisions: str, spec: Path, name: str, folder: Path) -> Result[tuple[Path, Path]]:
    import git
    from git.exc import BadName

    assert isinstance(repo, git.Repo)
    mark = "..." if "..." in revisions else ".." if ".." in revisions else ""
    first, _, second = revisions.partition(mark) if mark else (revisions, "", "")
    try:
        older = repo.commit(first or "HEAD")
        newer = repo.commit(second or "HEAD") if mark else None
    except (BadName, ValueError, git.GitCommandError):
        return _no(f"{revisions!r} is neither a file nor a revision", "give two spec files, or a revision and a spec")
    if mark == "..." and newer is not None:
        bases = repo.merge_base(older, newer)
        older = bases[0] if bases else older
    ends = []
    for label, commit in (("old", older), ("new", newer)):
        if commit is None:
            ends.append(spec)
            continue
        place = folder / label
        _write(commit.tree, place)
        if not (place / name).is_file():
            return _no(f"there is no {name} in {commit.hexsha[:12]}", "name the spec as it is called in both revisions")
        ends.append(place / name)
    return Result((ends[0], ends[1]))


def _write(tree: object, place: Path) -> None:
    """Every spec and Python file of a tree: what a spec can import or name, and nothing else."""
    import git

    assert isinstance(tree, git.Tree)
    for blob in tree.traverse():
        if not isinstance(blob, git.Blob) or blob.mode == git.Blob.link_mode:
            continue
        if not str(blob.path).endswith((".tspec", ".py")):
            continue
        path = place / str(blob.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob.data_stream.read())
