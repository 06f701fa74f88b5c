"""Whether the limits came before the evidence: confirmatory or exploratory, with the reasons and what changed.

Confirmatory only where the spec's commit is an ancestor of the commit of every run that gave evidence, the spec's files
were in it byte for byte, and no term changed since the first evidence: neither in a plan that ran, nor in the spec on
any branch. Must not judge and must not render. Git dates can be forged, so order comes from ancestry; dates only add
reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from torchspec.model.evidence import Record
from torchspec.model.plan import Plan
from torchspec.model.registration import LimitChange, Lock, Registration
from torchspec.provenance import git as gits
from torchspec.provenance import registration_history, terms, timestamp

if TYPE_CHECKING:
    import git

#: Records that tell something about an outcome; before the first of them a run has given no evidence.
EVIDENCE = frozenset({"timing", "sample", "fact", "unsupported", "side.failed", "rehearsal.step"})
STAMPED = "RFC 3161 timestamp of the plan"  # how the line about one begins in `strengthened_by`
_CLOCKS = timedelta(minutes=5)  # how far two honest clocks may be apart
_DIFF_LIMIT = 40_000  # characters


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A run as the ledger knows it. `first_evidence_at` is None for a run that told nothing about an outcome."""

    run: str
    started_at: str
    first_evidence_at: str | None
    plan: str | None
    lock: str | None
    commit: str | None
    spec_committed: bool | None


def runs_of(records: Iterable[Record]) -> tuple[RunSeen, ...]:
    """Every run of a ledger in order of its start. Reads the records as a stream."""
    starts: dict[str, Record] = {}
    evidence: dict[str, str] = {}
    for record in records:
        if record.kind == "run.start":
            starts.setdefault(record.run, record)
        elif record.kind in EVIDENCE:
            start = starts.get(record.run)
            if start is not None and start.body.get("canary"):  # figures were there to be seen before they came here
                served = _served(record)
                evidence[record.run] = min(evidence.get(record.run, served), served)
            evidence.setdefault(record.run, record.time.replace("+00:00", "Z"))
    return tuple(_seen(start, evidence.get(run)) for run, start in starts.items())


def _served(record: Record) -> str:
    """When the window of a canary's figure began, in UTC; the record's own time where it does not say."""
    since = (record.body.get("detail") or {}).get("since")
    try:
        moment = datetime.fromisoformat(str(since)).astimezone(UTC)
    except ValueError:
        return record.time.replace("+00:00", "Z")
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def _seen(start: Record, evidence: str | None) -> RunSeen:
    body, git = start.body, start.body.get("git") or {}
    return RunSeen(
        start.run,
        start.time,
        evidence,
        body.get("plan"),
        body.get("lock"),
        git.get("commit"),
        git.get("spec_committed"),
    )


def assess(
    lock: Lock,
    plan: Plan,
    runs: Sequence[RunSeen],
    *,
    repo: Path | None,
    history: Path,
    until: str | None = None,
) -> Registration:
    """The registration of a memo over these runs.

    `lock` and `plan` are the compiled ones; `repo` is a path inside the spec's repository (None: there is none);
    `history` is the folder with the plans that were compiled (`remember`). `until` (ISO, UTC) leaves out commits
    on other branches that were made later: for a memo that is looked at again.
    """
    seen = tuple(r for r in runs if r.first_evidence_at is not None)
    first = min((r.first_evidence_at for r in seen if r.first_evidence_at), key=_moment, default=None)
    found = _Found()
    if not seen:
        found.reasons.append("no run has given evidence yet")
    _compiled_state(lock, found)
    _plans_that_ran(lock, plan, seen, history, found)
    if lock.git.commit is not None and lock.git.path is not None:
        try:
            if repo is None:
                raise gits.NoRepository("no repository was given")
            with gits.repository(repo) as opened:
                _in_repository(opened, lock, seen, first, until, found)
        except gits.NoRepository as error:
            found.reasons.append(f"the history of the spec cannot be looked at: {error}")
    found.strengthened += _timestamp(lock, history, first)
    diff = "\n".join(found.diff)
    if len(diff) > _DIFF_LIMIT:
        diff = diff[:_DIFF_LIMIT] + f"\n… {len(diff) - _DIFF_LIMIT} more characters; see the repository\n"
    return Registration(
        status="exploratory" if found.reasons else "confirmatory",
        reasons=tuple(dict.fromkeys(found.reasons)),
        commit=found.commit,
        committed_at=found.committed_at,
        first_evidence_at=first,
        changes=tuple(dict.fromkeys(found.changes)),
        diff=diff,
        strengthened_by=tuple(found.strengthened),
    )


def _timestamp(lock: Lock, history: Path, first: str | None) -> list[str]:
    """The RFC 3161 timestamp of the plan, where it came before the first evidence."""
    stamp = timestamp.of_plan(history, lock.plan)
    if stamp is None:
        return []
    if stamp.problem or stamp.at is None:
        return [f"nothing: the timestamp of the plan does not hold ({stamp.problem})"]
    if first is not None and _moment(stamp.at) > _moment(first):
        return []
    return [f"{STAMPED}, {stamp.at}, by {stamp.authority}"]


def remember(folder: Path, plan: Plan, plan_digest: str) -> None:
    """Keeps a compiled plan in `folder/history` (`folder` is `out/<name>`), for `assess` to compare. Raises OSError."""
    terms.remember(folder / terms.HISTORY_FOLDER, plan, plan_digest)


class _Found:
    """What has been found so far."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.changes: list[LimitChange] = []
        self.diff: list[str] = []
        self.strengthened: list[str] = []
        self.commit: str | None = None
        self.committed_at: str | None = None


def _compiled_state(lock: Lock, found: _Found) -> None:
    if lock.git.commit is None:
        found.reasons.append(f"the spec is not registered: {lock.git.reason or 'no commit holds it'}")
    elif not lock.git.spec_committed:
        why = f": {lock.git.reason}" if lock.git.reason else ""
        found.reasons.append(f"the spec was not committed when it was compiled{why}")


def _plans_that_ran(lock: Lock, plan: Plan, seen: Sequence[RunSeen], history: Path, found: _Found) -> None:
    """Compares the terms of every other plan that gave evidence with the compiled one."""
    own = terms.of_plan(plan)
    for digest in dict.fromkeys(r.plan for r in seen if r.plan != lock.plan):
        names = [r.run for r in seen if r.plan == digest]
        which = f"run {names[0]}" if len(names) == 1 else f"{len(names)} runs, the first of them {names[0]},"
        earlier = terms.recall(history, digest) if digest else None
        if earlier is None:
            found.reasons.append(
                f"{which} ran another plan ({(digest or 'none')[:12]}) whose limits are not known any more"
            )
            continue
        changed = terms.differences(terms.of_plan(earlier), own)
        if not changed:
            continue
        what = "a limit" if len(changed) == 1 else f"{len(changed)} limits or other terms"
        found.reasons.append(f"{what} changed after evidence: {which} ran with other terms ({changed[0].term})")
        when = lock.git.committed_at if lock.git.spec_committed else None
        commit = lock.git.commit if lock.git.spec_committed else None
        found.changes += [LimitChange(c.term, c.before, c.after, commit, when) for c in changed]
        found.diff.append(f"# terms of plan {digest[:12] if digest else ''} ({which}) to plan {lock.plan[:12]}")
        found.diff += registration_history.term_lines(changed)


def _in_repository(
    repo: git.Repo, lock: Lock, seen: Sequence[RunSeen], first: str | None, until: str | None, found: _Found
) -> None:
    assert lock.git.commit is not None
    assert lock.git.path is not None
    if not gits.has_commit(repo, lock.git.commit):
        found.reasons.append(
            f"commit {lock.git.commit[:12]}, from which the spec was compiled, is not in the repository"
        )
        return
    files = [f.path for f in (*lock.spec, *lock.files)]
    commit, names = gits.spec_commit(repo, lock.git.commit, lock.git.path, files)
    commit = registration_history.registering(repo, commit, names)
    if commit is None:
        if lock.git.spec_committed:
            found.reasons.append(f"no commit up to {lock.git.commit[:12]} holds {lock.git.path}")
        return
    found.commit, found.committed_at = commit, gits.commit_time(repo.commit(commit))
    for run in seen:
        reason = _run_reason(repo, commit, found.committed_at, run)
        if reason:
            found.reasons.append(reason)
            if run.commit and gits.has_commit(repo, run.commit):
                found.diff += registration_history.diff(repo, run.commit, commit, names, f"run {run.run}")
    if first is not None:
        held = [run.commit for run in seen if run.commit and gits.has_commit(repo, run.commit)]
        for later in registration_history.changes_since(repo, names, held or [commit], first, until):
            where = f" on {later.branches}" if later.branches else ""
            what = "a deviation was edited or taken out" if later.deviations else "the spec changed"
            found.reasons.append(f"{what}{where} after the first evidence, in commit {later.commit[:12]} of {later.at}")
            found.changes.append(LimitChange(f"text of {later.files}", None, None, later.commit, later.at))
            found.diff += later.diff
        found.strengthened += registration_history.signed_tags(repo, commit, held)
    if gits.is_shallow(repo):
        found.reasons.append("the clone is shallow, so that the history of the spec cannot be followed")


def _run_reason(repo: git.Repo, commit: str, committed_at: str, run: RunSeen) -> str | None:
    """Why this run does not confirm, or None."""
    if run.commit is None:
        return f"run {run.run} ran outside of a commit"
    if not run.spec_committed:
        return f"run {run.run} ran while the spec's files differed from commit {run.commit[:12]}"
    if not gits.has_commit(repo, run.commit):
        return f"commit {run.commit[:12]} of run {run.run} is not in the repository (its history was rewritten or cut)"
    if not gits.is_ancestor(repo, commit, run.commit):
        return f"the spec's commit {commit[:12]} does not come before commit {run.commit[:12]} of run {run.run}"
    if run.first_evidence_at and _moment(committed_at) > _moment(run.first_evidence_at) + _CLOCKS:
        return f"the spec's commit {commit[:12]} is dated {committed_at}, after the evidence of run {run.run}"
    return None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
