"""Git: what is said of a spec in every kind of repository, and that nothing fails where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from memos import run_git

from torchspec.provenance import git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "team"
    (root / "specs").mkdir(parents=True)
    run_git(root, "init", "-q", "-b", "main")
    for name in ("a.tspec", "common.tspec", "code.py"):
        (root / "specs" / name).write_text(f"# {name}\n")
    return root


def commit(root: Path, message: str = "c") -> str:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", message, at="2026-11-30T12:00:00Z")
    return run_git(root, "rev-parse", "HEAD")


def test_a_committed_spec(repo: Path) -> None:
    head = commit(repo)
    (repo / "untracked").write_text("x")
    state = git.describe(repo / "specs" / "a.tspec", [Path("common.tspec"), Path("code.py")])
    assert (state.commit, state.branch, state.dirty, state.spec_committed) == (head, "main", False, True)
    assert state.committed_at == "2026-11-30T12:00:00Z"
    assert state.path == "specs/a.tspec"
    assert state.reason is None
    assert [(c.path, c.commit, c.last_changed, c.committed) for c in state.code] == [
        ("common.tspec", head, head, True),
        ("code.py", head, head, True),
    ]


@pytest.mark.parametrize("changed", ["a.tspec", "common.tspec", "code.py"])
def test_one_byte_that_is_not_committed_is_seen(repo: Path, changed: str) -> None:
    commit(repo)
    (repo / "specs" / changed).write_text(f"# {changed}\r\n")
    state = git.describe(repo / "specs" / "a.tspec", [Path("common.tspec"), Path("code.py")])
    assert state.spec_committed is False
    assert state.dirty is True
    assert state.reason is not None
    assert changed in state.reason


def test_another_file_that_differs_makes_the_tree_dirty_only(repo: Path) -> None:
    (repo / "other.txt").write_text("1")
    commit(repo)
    (repo / "other.txt").write_text("2")
    state = git.describe(repo / "specs" / "a.tspec")
    assert (state.dirty, state.spec_committed) == (True, True)


def test_an_ignored_spec_is_not_committed(repo: Path) -> None:
    (repo / ".gitignore").write_text("specs/\n")
    commit(repo)
    assert git.describe(repo / "specs" / "a.tspec").spec_committed is False


def test_a_repository_without_a_commit(repo: Path) -> None:
    state = git.describe(repo / "specs" / "a.tspec")
    assert (state.commit, state.branch, state.spec_committed) == (None, "main", None)
    assert state.reason == "the git repository has no commit yet"


def test_outside_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "a.tspec").write_text("")
    state = git.describe(tmp_path / "a.tspec")
    assert state.commit is None
    assert state.reason == "not in a git repository"


def test_a_broken_repository_says_so(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    (tmp_path / "a.tspec").write_text("")
    state = git.describe(tmp_path / "a.tspec")
    assert state.commit is None
    assert state.reason


def test_without_git_it_says_so_and_goes_on(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "a.tspec").write_text("")
    code = (
        "import sys, pathlib; from torchspec.provenance.git import describe; "
        "print(describe(pathlib.Path(sys.argv[1])).reason)"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {
        "PATH": "",
        "PYTHONPATH": str(repository),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.tspec")], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "git is not installed here", done.stderr


def test_a_detached_head_has_no_branch(repo: Path) -> None:
    head = commit(repo)
    run_git(repo, "checkout", "-q", "--detach")
    state = git.describe(repo / "specs" / "a.tspec")
    assert (state.commit, state.branch, state.spec_committed) == (head, None, True)


def test_a_worktree(repo: Path, tmp_path: Path) -> None:
    commit(repo)
    run_git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    state = git.describe(tmp_path / "side" / "specs" / "a.tspec")
    assert (state.branch, state.spec_committed, state.path) == ("side", True, "specs/a.tspec")


def test_a_shallow_clone_says_so(repo: Path, tmp_path: Path) -> None:
    commit(repo)
    (repo / "more").write_text("x")
    commit(repo)
    run_git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    state = git.describe(tmp_path / "shallow" / "specs" / "a.tspec")
    assert state.spec_committed is True
    assert state.reason is not None
    assert "shallow" in state.reason


def test_team_code_in_a_submodule_has_its_own_commit(repo: Path, tmp_path: Path) -> None:
    code = tmp_path / "models"
    code.mkdir()
    run_git(code, "init", "-q", "-b", "main")
    (code / "model.py").write_text("x = 1\n")
    own = commit(code)
    run_git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(code), "specs/models")
    head = commit(repo)
    state = git.describe(repo / "specs" / "a.tspec", [Path("models/model.py")])
    assert state.commit == head
    assert state.spec_committed is True
    assert (state.code[0].commit, state.code[0].repository) == (own, "models")
    (repo / "specs" / "models" / "model.py").write_text("x = 2\n")
    assert git.describe(repo / "specs" / "a.tspec", [Path("models/model.py")]).spec_committed is False


def test_a_symbolic_link_is_followed(repo: Path) -> None:
    (repo / "link.tspec").symlink_to("specs/a.tspec")
    commit(repo)
    state = git.describe(repo / "link.tspec")
    assert (state.path, state.spec_committed) == ("specs/a.tspec", True)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@example.org/team/work.git?token=x#y", "https://example.org/team/work.git"),
        ("https://secret@example.org:8443/team/work.git", "https://example.org:8443/team/work.git"),
        ("ssh://git@example.org/team/work.git", "ssh://example.org/team/work.git"),
        ("git@example.org:team/work.git", "example.org:team/work.git"),
        ("https://example.org/a@b.git", "https://example.org/a@b.git"),
        ("file:///home/ana/work.git", None),
        ("/home/ana/work.git", None),
        ("../work.git", None),
        ("C:\\work.git", None),
    ],
)
def test_a_remote_carries_no_credentials(repo: Path, url: str, shown: str | None) -> None:
    commit(repo)
    run_git(repo, "remote", "add", "other", "https://example.org/other.git")
    run_git(repo, "remote", "add", "origin", url)
    assert git.describe(repo / "specs" / "a.tspec").remote == shown
