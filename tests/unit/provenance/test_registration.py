"""Pre-registration: confirmatory only where the limits came first; nothing that changed later is hidden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from memos import SPEC, Project, make_project, run_git

from torchspec import ledger
from torchspec.core.canon import canonical
from torchspec.model.codec import to_json
from torchspec.provenance import registration

LOOSER = SPEC.replace("team", "team, in a hurry")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "team")


def reason(found: registration.Registration, *words: str) -> None:
    """Exploratory, and one reason holds all the words."""
    assert found.status == "exploratory"
    assert any(all(word in said for word in words) for said in found.reasons), found.reasons


def test_limits_committed_before_the_evidence_confirm(project: Project) -> None:
    locked = project.compile()
    project.run(locked)
    found = project.registration(locked)
    assert found.status == "confirmatory"
    assert found.reasons == ()
    assert found.commit == run_git(project.root, "rev-parse", "HEAD")
    assert found.committed_at == "2020-01-02T12:00:00Z"
    assert found.first_evidence_at is not None
    assert (found.changes, found.diff) == ((), "")


def test_other_commits_in_between_do_not_matter(project: Project) -> None:
    locked = project.compile()
    (project.root / "code.py").write_text("x = 1\n")
    run_git(project.root, "add", "code.py")
    run_git(project.root, "commit", "-q", "-m", "unrelated", at="2020-01-02T12:30:00Z")
    project.run(locked)
    project.run(project.compile(), "r-2")  # compiled again from a commit that came after r-1's
    found = project.registration(project.compile())
    assert found.status == "confirmatory", found.reasons
    assert found.committed_at == "2020-01-02T12:00:00Z"


def test_without_evidence_nothing_is_confirmed(project: Project) -> None:
    locked = project.compile()
    reason(registration.assess(locked.lock, locked.plan, (), repo=project.root, history=project.out), "no run")
    project.run(locked, evidence=False)
    reason(project.registration(locked), "no run has given evidence")


def test_outside_of_a_repository_is_exploratory(tmp_path: Path) -> None:
    project = make_project(tmp_path / "team", repository=False)
    locked = project.compile()
    project.run(locked)
    found = project.registration(locked)
    reason(found, "not registered", "not in a git repository")
    assert len(found.reasons) == 1


def test_a_run_that_names_no_commit_is_exploratory(project: Project) -> None:
    locked = project.compile()
    project.run(locked)
    runs = tuple(replace(r, commit=None) for r in registration.runs_of(ledger.read(project.ledger)))
    found = registration.assess(locked.lock, locked.plan, runs, repo=project.root, history=project.out / "history")
    reason(found, "r-1", "outside of a commit")


def test_a_spec_that_is_not_committed_is_exploratory(project: Project) -> None:
    project.write_spec(LOOSER, commit=False)
    locked = project.compile()
    project.run(locked)
    found = project.registration(locked)
    reason(found, "was not committed when it was compiled", "small.tspec")
    reason(found, "r-1", "differed from commit")


def test_committing_after_the_run_does_not_help(project: Project) -> None:
    project.write_spec(LOOSER, commit=False)
    project.run(project.compile())
    project.write_spec(LOOSER, at="2020-01-03T13:00:00Z")
    found = project.registration(project.compile())
    reason(found, "r-1", "differed from commit")


def test_a_limit_loosened_after_evidence_is_shown_with_its_diff(project: Project) -> None:
    project.run(project.compile(limit=1.0))
    project.write_spec(LOOSER, at="2020-01-03T13:00:00Z")
    locked = project.compile(limit=2.0)
    project.run(locked, "r-2")
    found = project.registration(locked)
    reason(found, "a limit changed after evidence", "run r-1")
    reason(found, "does not come before commit", "run r-1")
    change = next(c for c in found.changes if c.gate.startswith("gate"))
    assert "<= 1" in str(change.before)
    assert "<= 2" in str(change.after)
    assert change.commit == run_git(project.root, "rev-parse", "HEAD")
    assert change.at == "2020-01-03T13:00:00Z"
    assert '-  owner "team"' in found.diff
    assert '+  owner "team, in a hurry"' in found.diff


def test_a_limit_loosened_and_recompiled_without_a_commit_is_found(project: Project) -> None:
    project.run(project.compile(limit=1.0))
    locked = project.compile(limit=2.0)  # as by --set: the spec's text and the commit are the same
    project.run(locked, "r-2")
    found = project.registration(locked)
    reason(found, "a limit changed after evidence", "run r-1")
    assert "+gate service: latency.p50: absolute <= 2.0" in found.diff


def test_old_evidence_judged_by_a_new_limit_is_found(project: Project) -> None:
    project.run(project.compile(limit=1.0))
    reason(project.registration(project.compile(limit=2.0)), "a limit changed after evidence")


def test_a_limit_that_went_back_is_found(project: Project) -> None:
    project.run(project.compile(limit=1.0))
    project.run(project.compile(limit=2.0), "r-2")
    reason(project.registration(project.compile(limit=1.0)), "a limit changed after evidence", "run r-2")


@pytest.mark.parametrize("how", ["gone", "edited"])
def test_a_plan_whose_limits_are_not_known_any_more_is_said(project: Project, how: str) -> None:
    first = project.compile(limit=1.0)
    project.run(first)
    locked = project.compile(limit=2.0)
    path = project.out / "history" / f"{first.plan_digest}.json"
    if how == "gone":
        path.unlink()
    else:  # the earlier plan is made to say what the later one says
        path.write_bytes(canonical(to_json(locked.plan)))
    reason(project.registration(locked), "run r-1", "not known any more")


def test_another_plan_with_the_same_terms_is_no_change(project: Project) -> None:
    project.run(project.compile())
    (project.spec.parent / "note.txt").write_text("x")
    first = project.compile()
    other = project.out / "history" / f"{first.plan_digest}.json"
    assert other.is_file()
    found = project.registration(first)
    assert found.changes == ()


def test_a_change_on_another_branch_after_evidence_is_found(project: Project) -> None:
    project.run(project.compile())
    run_git(project.root, "checkout", "-q", "-b", "try/looser")
    project.write_spec(LOOSER, at="2090-01-01T00:00:00Z")
    later = run_git(project.root, "rev-parse", "HEAD")
    run_git(project.root, "checkout", "-q", "main")
    found = project.registration(project.compile())
    reason(found, "try/looser", later[:12])
    assert (found.changes[0].commit, found.changes[0].at) == (later, "2090-01-01T00:00:00Z")
    assert '+  owner "team, in a hurry"' in found.diff


def test_a_change_and_its_reversal_on_the_same_branch_are_found(project: Project) -> None:
    project.run(project.compile())
    project.write_spec(LOOSER, at="2090-01-01T00:00:00Z")
    later = run_git(project.root, "rev-parse", "HEAD")
    project.write_spec(SPEC, at="2090-01-01T01:00:00Z")
    found = project.registration(project.compile())
    reason(found, later[:12])
    reason(found, "does not come before commit", "run r-1")


def test_an_old_branch_is_no_change(project: Project) -> None:
    run_git(project.root, "checkout", "-q", "-b", "old")
    project.write_spec(LOOSER, at="2020-01-01T00:00:00Z")
    run_git(project.root, "checkout", "-q", "main")
    locked = project.compile()
    project.run(locked)
    assert project.registration(locked).status == "confirmatory"


def test_rewritten_history_is_found(project: Project) -> None:
    project.run(project.compile())
    project.spec.write_text(LOOSER)
    run_git(project.root, "add", "specs")
    run_git(project.root, "commit", "-q", "--amend", "-m", "as if it had always been", at="2020-01-02T12:00:00Z")
    locked = project.compile()
    reason(project.registration(locked), "does not come before commit", "run r-1")
    run_git(project.root, "reflog", "expire", "--expire=now", "--all")
    run_git(project.root, "gc", "-q", "--prune=now")
    reason(project.registration(locked), "r-1", "not in the repository")


def test_a_replaced_commit_hides_nothing(project: Project) -> None:
    """History is rewritten and the run's commit replaced by one that seems to build on the loosened spec."""
    project.run(project.compile())
    ran = run_git(project.root, "rev-parse", "HEAD")
    project.write_spec(LOOSER, at="2020-01-01T00:00:00Z")
    rewritten = run_git(project.root, "commit-tree", "HEAD^{tree}", "-m", "x", at="2020-01-01T00:00:00Z")
    run_git(project.root, "reset", "-q", "--hard", rewritten)
    run_git(project.root, "replace", "--graft", ran, rewritten)
    run_git(project.root, "merge-base", "--is-ancestor", rewritten, ran)  # what git says when it is asked naively
    found = project.registration(project.compile())
    reason(found, "does not come before commit", "run r-1")


@pytest.mark.parametrize("where", ["before the run", "after the run"])
def test_a_signed_tag_strengthens_only_what_came_before_the_run(project: Project, where: str) -> None:
    def tag() -> None:
        body = f"object {run_git(project.root, 'rev-parse', 'HEAD')}\ntype commit\ntag registered\n"
        body += "tagger team <team@example.org> 1577966400 +0000\n\nlimits\n"
        body += "-----BEGIN PGP SIGNATURE-----\n\nmade up: no key signed this\n-----END PGP SIGNATURE-----\n"
        (project.root / ".git" / "body").write_text(body)
        made = run_git(project.root, "hash-object", "-t", "tag", "-w", "--literally", ".git/body")
        run_git(project.root, "update-ref", "refs/tags/registered", made)

    run_git(project.root, "tag", "plain")
    run_git(project.root, "tag", "-a", "-m", "no signature", "annotated")
    locked = project.compile()
    if where == "before the run":
        tag()
    project.run(locked)
    if where == "after the run":
        (project.root / "more").write_text("x")
        run_git(project.root, "add", "more")
        run_git(project.root, "commit", "-q", "-m", "more", at="2020-01-03T00:00:00Z")
        tag()
    found = project.registration(locked)
    assert found.status == "confirmatory"
    wanted = ("signed tag registered (its signature could not be checked here)",) if where == "before the run" else ()
    assert found.strengthened_by == wanted


def test_configuration_of_git_changes_nothing(project: Project) -> None:
    project.run(project.compile(limit=1.0))
    project.write_spec(LOOSER, at="2090-01-01T00:00:00Z")
    plain = project.registration(project.compile(limit=2.0))
    for name, value in [("log.showSignature", "true"), ("log.follow", "true"), ("color.ui", "always")]:
        run_git(project.root, "config", name, value)
    run_git(project.root, "config", "diff.external", "false")
    assert project.registration(project.compile(limit=2.0)) == plain


def test_a_spec_dated_after_its_evidence_is_found(tmp_path: Path) -> None:
    project = make_project(tmp_path / "team")
    project.write_spec(LOOSER, at="2090-06-01T00:00:00Z")
    locked = project.compile()
    project.run(locked)
    reason(project.registration(locked), "dated 2090-06-01T00:00:00Z", "r-1")


def test_a_shallow_clone_cannot_confirm(project: Project, tmp_path: Path) -> None:
    (project.root / "more").write_text("x")
    run_git(project.root, "add", "more")
    run_git(project.root, "commit", "-q", "-m", "more", at="2020-01-02T12:30:00Z")
    run_git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project.root}", "shallow")
    clone = Project(tmp_path / "shallow", project.key)
    locked = clone.compile()
    clone.run(locked)
    reason(clone.registration(locked), "shallow")


def test_no_repository_to_look_at_is_exploratory(project: Project, tmp_path: Path) -> None:
    locked = project.compile()
    project.run(locked)
    runs = registration.runs_of(ledger.read(project.ledger))
    found = registration.assess(locked.lock, locked.plan, runs, repo=None, history=project.out / "history")
    reason(found, "cannot be looked at")


def test_every_reason_is_given_once(project: Project) -> None:
    project.write_spec(LOOSER, commit=False)
    locked = project.compile()
    for number in range(3):
        project.run(locked, f"r-{number}")
    found = project.registration(locked)
    assert len(found.reasons) == len(set(found.reasons)) == 4
