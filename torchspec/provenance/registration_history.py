"""What git remembers of a spec since the first evidence: diffs, changes on other branches, signed tags. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from torchspec.core.registered import deviation_lines, registered
from torchspec.provenance import git as gits
from torchspec.provenance.terms import Difference

if TYPE_CHECKING:
    import git

_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv")
_SECOND = timedelta(seconds=1)  # git keeps whole seconds


@dataclass(frozen=True, slots=True)
class Later:
    """A commit that changed the spec after the first evidence."""

    commit: str
    at: str
    branches: str
    files: str
    diff: list[str]
    deviations: bool = False  # nothing but the `deviations` block changed, and an earlier line of it with it


def term_lines(changed: Iterable[Difference]) -> list[str]:
    """Differences of terms as lines of a diff."""
    lines = []
    for change in changed:
        lines += [f"-{change.term}: {change.before}"] if change.before is not None else []
        lines += [f"+{change.term}: {change.after}"] if change.after is not None else []
    return lines


def diff(repo: git.Repo, before: str, after: str, names: Sequence[str], what: str) -> list[str]:
    """The text diff of the spec's files between two commits, under a heading; empty where they are the same."""
    text = repo.git.diff(*_PLAIN, before, after, "--", *gits.pathspecs(names))
    if not text:
        return []
    dates = (gits.commit_time(repo.commit(before)), gits.commit_time(repo.commit(after)))
    return [f"# {what}: commit {before[:12]} of {dates[0]} to commit {after[:12]} of {dates[1]}", *text.splitlines()]


def changes_since(
    repo: git.Repo, names: Sequence[str], known: Sequence[str], first: str, until: str | None
) -> list[Later]:
    """Commits since `first` (ISO, UTC) on any branch or tag that changed `names`, but for the history of `known`.

    What a run builds on is no later change. Stashes are left out: nothing ran from them. `until` leaves out commits
    that are dated later.
    """
    shown = repo.git.rev_list(
        "--exclude=refs/stash",
        "--all",
        "--full-history",
        *[f"^{commit}" for commit in dict.fromkeys(known)],
        "--",
        *gits.pathspecs(names),
    )
    found = []
    for commit in reversed(shown.split()):
        at = gits.commit_time(repo.commit(commit))
        moment = datetime.fromisoformat(at)
        if moment + _SECOND <= datetime.fromisoformat(first) or (until and moment > datetime.fromisoformat(until)):
            continue
        parents = [p.hexsha for p in repo.commit(commit).parents]
        written = [p for p in parents if _only(repo, p, commit, names)]
        if any(_grown(repo, p, commit, names) for p in written):
            continue
        branches = repo.git.for_each_ref(
            "--contains", commit, "--format=%(refname:short)", "refs/heads", "refs/remotes"
        )
        patch = ("--format=", "--no-show-signature", "--diff-merges=first-parent", *_PLAIN, commit, "--")
        changed = repo.git.show("--name-only", "-z", *patch, *gits.pathspecs(names)).strip("\0").split("\0")
        lines = [f"# commit {commit[:12]} of {at}", *repo.git.show(*patch, *gits.pathspecs(names)).splitlines()]
        shown_on = ", ".join(branches.split()[:3])
        found.append(Later(commit, at, shown_on, ", ".join(changed[:3]), lines, bool(written)))
    return found


def registering(repo: git.Repo, commit: str | None, names: Sequence[str]) -> str | None:
    """The commit that wrote what is registered in `commit`: commits that only added deviations are left out."""
    while commit is not None:
        parent = next((p.hexsha for p in repo.commit(commit).parents if _only(repo, p.hexsha, commit, names)), None)
        if parent is None:
            return commit
        commit = gits.last_change(repo, parent, names)
    return None


def _only(repo: git.Repo, before: str, after: str, names: Sequence[str]) -> bool:
    """Whether `names` differ between two commits in the `deviations` block alone, if at all."""
    for name in names:
        one, two = gits.blob(repo, before, name), gits.blob(repo, after, name)
        if one is None or two is None:
            if one is not two:
                return False
        elif registered(one) != registered(two):
            return False
    return True


def _grown(repo: git.Repo, before: str, after: str, names: Sequence[str]) -> bool:
    """Whether the `deviations` block only grew at its end between two commits."""
    for name in names:
        one, two = (deviation_lines(gits.blob(repo, c, name) or b"") for c in (before, after))
        if two[: len(one)] != one:
            return False
    return True


def signed_tags(repo: git.Repo, commit: str, held: Sequence[str]) -> list[str]:
    """Signed tags that hold the spec's commit and come before every run: they cannot be moved without their key."""
    import git

    found = []
    form = "--format=%(refname:strip=2)%09%(if)%(contents:signature)%(then)signed%(end)"
    for line in repo.git.for_each_ref("--contains", commit, form, "refs/tags").splitlines():
        name, _, signed = line.partition("\t")
        if not signed or not all(gits.is_ancestor(repo, f"refs/tags/{name}", run) for run in held):
            continue
        try:
            repo.git.verify_tag(name)
            found.append(f"signed tag {name}")
        except git.GitCommandError:
            found.append(f"signed tag {name} (its signature could not be checked here)")
    return found
