"""Deviations: written after the evidence began, they change no limit; edited or taken out, they are found and named."""

from __future__ import annotations

from pathlib import Path

import pytest
from deviations import ONE, TWO, WHOLE, block
from memos import SPEC, Project, make_project, run_git

from torchspec.core.registered import deviation_lines, registered
from torchspec.pipeline import compile_spec, diff_specs
from torchspec.provenance import registration


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "team")


def later(project: Project, text: str, day: int) -> registration.Registration:
    project.write_spec(text, at=f"2090-01-{day:02d}T00:00:00Z")
    return project.registration(project.compile())


def test_a_deviation_added_after_the_evidence_changes_nothing(project: Project) -> None:
    first = project.compile()
    registered_in = run_git(project.root, "rev-parse", "HEAD")
    project.run(first)
    for day, text in enumerate((block(ONE), block(ONE, TWO), block(ONE, "# a comment", TWO) + "# and one below\n"), 1):
        found = later(project, SPEC + text, day)
        assert (found.status, found.reasons) == ("confirmatory", ())
        assert found.commit == registered_in
        assert project.compile().plan_digest == first.plan_digest
    project.run(project.compile(), "r-2")  # a run after them is as good as one before
    assert project.registration(project.compile()).status == "confirmatory"


@pytest.mark.parametrize(
    "text", [block(TWO), block(ONE.replace("Ana", "Eve"), TWO), block(TWO, ONE), "", block(ONE.replace("disk", "fan"))]
)
def test_one_that_was_edited_or_taken_out_is_named(project: Project, text: str) -> None:
    project.run(project.compile())
    assert later(project, SPEC + block(ONE, TWO), 1).status == "confirmatory"
    found = later(project, SPEC + text, 2)
    commit = run_git(project.root, "rev-parse", "HEAD")
    assert found.status == "exploratory"
    assert any("a deviation was edited or taken out" in r and commit[:12] in r for r in found.reasons), found.reasons
    assert "the disk failed" in found.diff


def test_a_limit_that_changes_with_a_deviation_is_found(project: Project) -> None:
    project.run(project.compile())
    found = later(project, SPEC.replace("team", "team, in a hurry") + block(ONE), 1)
    assert any(r.startswith("the spec changed") for r in found.reasons), found.reasons
    assert any("does not come before commit" in r for r in found.reasons)
    # and hiding it behind a further deviation does not help
    found = later(project, SPEC.replace("team", "team, in a hurry") + block(ONE, TWO), 2)
    assert any("does not come before commit" in r for r in found.reasons), found.reasons


def test_a_deviation_on_a_branch_is_no_change_of_the_limits(project: Project) -> None:
    project.run(project.compile())
    run_git(project.root, "checkout", "-q", "-b", "notes")
    project.write_spec(SPEC + block(ONE), at="2090-01-01T00:00:00Z")
    run_git(project.root, "checkout", "-q", "main")
    assert project.registration(project.compile()).status == "confirmatory"


@pytest.mark.parametrize(
    ("tail", "left_out"),
    [
        (block(ONE), True),
        (block(ONE).replace("{", "{  # why"), True),
        (block(ONE).replace("\n", "\r\n"), True),
        (block(), True),
        (block(ONE) + "\n# a comment\n\n", True),
        (block(ONE) + "meta {\n}\n", False),
        (block(ONE, "gates {"), False),
        (block(ONE, "latency.p50 growth <= 90 % else isolate"), False),
        ("\n  deviations {\n}\n", False),
        ("\ndeviations {\n  deviation 2020-01-03\n", False),
    ],
)
def test_only_a_block_of_deviations_at_the_end_is_left_out(tail: str, left_out: bool) -> None:
    data = (SPEC + tail).encode()
    assert registered(data) == (SPEC.encode() if left_out else data)
    assert deviation_lines(data) == ((b" ".join(ONE.encode().split()),) if left_out and ONE in tail else ())


def test_setting_a_deviation_out_anew_is_no_edit(project: Project) -> None:
    project.run(project.compile())
    for day, text in enumerate((block(ONE), block(ONE.replace("  by", "   by"), TWO)), 1):
        assert later(project, SPEC + text, day).status == "confirmatory"


def test_from_the_text_to_the_lock_and_the_diff(tmp_path: Path) -> None:
    spec, old = tmp_path / "small.tspec", tmp_path / "old.tspec"
    spec.write_text(WHOLE)
    before = compile_spec(spec, tmp_path / "out", {}).compiled
    assert before is not None
    spec.write_text(WHOLE + block(ONE, TWO))
    after = compile_spec(spec, tmp_path / "out", {})
    assert after.compiled is not None, after.diagnostics
    assert after.compiled.plan_digest == before.plan_digest
    assert after.compiled.lock_digest != before.lock_digest
    found = after.compiled.lock.deviations
    assert [(d.date, d.by) for d in found] == [("2020-01-03", "Ana"), ("2020-01-04", "Bo")]
    assert (found[0].text, found[0].because) == ("run 2 was on another machine", "the disk failed")
    old.write_text(WHOLE + block(ONE))
    added = diff_specs(str(old), str(spec)).changes
    assert added is not None
    assert [(c.kind, c.severity) for c in added] == [("deviation", "neutral")]
    gone = diff_specs(str(spec), str(old)).changes
    assert gone is not None
    assert [(c.kind, c.severity) for c in gone] == [("deviation", "weaker")]
    assert "taken out or edited" in gone[0].text
