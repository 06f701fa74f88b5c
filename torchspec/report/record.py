"""What came first and what was run: the registration of the limits, every change since, every run of the ledger."""

from __future__ import annotations

import re

from torchspec.model.memo import Block, Section
from torchspec.report import build, numbers
from torchspec.report.context import Context, evidence_words, minute
from torchspec.report.language import clip, code, join, plain, soft, strong
from torchspec.report.names import RUNS


def registration(ctx: Context) -> Section:
    """Whether limits came first: the commit, what strengthens it, and every change since."""
    t = ctx.t
    r = ctx.registration
    blocks: list[Block] = []
    rows = [
        build.row(t.text("Spec's commit"), build.cell(code(r.commit[:16])) if r.commit else _no_commit(ctx)),
        build.row(t.text("Committed, by git's own date"), minute(r.committed_at) or t.text("not known")),
        build.row(t.text("First evidence"), minute(r.first_evidence_at) or t.text("none")),
        build.row(
            t.text("Strengthened by"),
            "; ".join(_strength(ctx, s) for s in r.strengthened_by) or t.text("nothing: git dates alone can be forged"),
        ),
        build.row(t.text("Tree when compiled"), _tree(ctx)),
    ]
    blocks.append(
        build.table(
            "plain", t.text("Registration"), [build.column(t.text("What")), build.column(t.text("Found"))], rows
        )
    )
    if r.reasons:
        blocks.append(build.heading(t.text("Why this is exploratory")))
        blocks.append(build.listing([plain(x) for x in r.reasons]))
    if r.changes:
        blocks.append(
            build.heading(
                t.counted(
                    len(r.changes),
                    "{n} limit changed after its first evidence",
                    "{n} limits changed after their first evidence",
                )
            )
        )
        blocks.append(
            build.table(
                "plain",
                t.text("Changed limits"),
                [
                    build.column(t.text("Gate")),
                    build.column(t.text("Before")),
                    build.column(t.text("After")),
                    build.column(t.text("Commit")),
                    build.column(t.text("When")),
                ],
                [
                    build.row(
                        build.cell(code(c.gate)),
                        c.before or t.text("was not there"),
                        build.cell(
                            strong(c.after or t.text("taken out")),
                            sub=soft(t.text("set after the run: it cannot pass")),
                        ),
                        build.cell(code((c.commit or "")[:16])),
                        minute(c.at),
                    )
                    for c in r.changes
                ],
            )
        )
    if r.diff:
        blocks.append(build.heading(t.text("The difference, as git shows it")))
        blocks.append(build.code_block(r.diff))
    if ctx.lock.deviations:
        blocks.append(build.heading(t.text("Deviations from the plan, as the spec records them")))
        blocks.append(_deviations(ctx))
    changed = [p for p in ctx.plan.params if p.value != p.default]
    if changed:
        blocks.append(build.heading(t.text("Parameters set at compile time")))
        blocks.append(
            build.table(
                "plain",
                t.text("Parameters"),
                [
                    build.column(t.text("Name")),
                    build.column(t.text("Default")),
                    build.column(t.text("Value")),
                    build.column(t.text("Why it may change")),
                ],
                [build.row(build.cell(code(p.name)), str(p.default), str(p.value), p.because) for p in changed],
            )
        )
    if r.status == "confirmatory":
        heading = t.text("Registration: confirmatory, the limits came before the evidence")
    else:
        heading = (
            t.counted(
                len(r.changes),
                "Registration: exploratory, {n} limit changed",
                "Registration: exploratory, {n} limits changed",
            )
            if r.changes
            else t.text("Registration: exploratory")
        )
    return Section("registration", "", heading, (), tuple(blocks))


def _strength(ctx: Context, said: str) -> str:
    """What strengthens the registration, in the memo's language; unknown words stay as they are."""
    t = ctx.t
    if found := re.fullmatch(r"RFC 3161 timestamp of the plan, (\S+), by (.*)", said):
        text = t.text("RFC 3161 timestamp of the plan, {time} UTC, by {who}", time=minute(found[1]), who=found[2])
        return f"{text} ({t.text('whether to believe this authority is yours to say')})"
    if found := re.fullmatch(r"signed tag (\S+)( \(its signature could not be checked here\))?", said):
        tag = t.text("signed tag {name}", name=found[1])
        return f"{tag} ({t.text('its signature could not be checked here')})" if found[2] else tag
    return said


def _deviations(ctx: Context) -> Block:
    t = ctx.t
    columns = [
        build.column(t.text("Date")),
        build.column(t.text("What was done otherwise")),
        build.column(t.text("Because")),
        build.column(t.text("By")),
    ]
    rows = [build.row(d.date, build.cell(strong(d.text)), d.because, d.by) for d in ctx.lock.deviations]
    note = t.words(
        "The block only grows and changes no limit; a line that was edited or taken out after the first evidence would "
        "make this memo exploratory."
    )
    return build.table("plain", t.text("Deviations"), columns, rows, note=note)


def _no_commit(ctx: Context) -> str:
    return ctx.lock.git.reason or ctx.t.text("none: the spec is not in a commit")


def _tree(ctx: Context) -> str:
    t = ctx.t
    git = ctx.lock.git
    if git.commit is None:
        return git.reason or t.text("not in a repository")
    if git.dirty is None:
        return t.text("not known")
    where = f" ({git.branch})" if git.branch else ""
    return (t.text("differed from the commit") if git.dirty else t.text("clean")) + where


def runs(ctx: Context) -> Section:
    """Every run that the ledger knows, the discarded ones too."""
    t = ctx.t
    rows = []
    finished = 0
    for r in ctx.verdict.runs:
        run = str(r.get("run") or r.get("id") or "")
        start = ctx.evidence.starts.get(run, {})
        status = clip(str(r.get("status") or ""), 40)
        finished += status == "completed"
        git = r.get("git") or start.get("git") or {}
        commit = str(git.get("commit") or "")[:7] if isinstance(git, dict) else ""
        host = r.get("host") or start.get("host") or {}
        machine = ", ".join(str(host[k]) for k in ("os", "cpu") if k in host) if isinstance(host, dict) else ""
        seq = ctx.evidence.first_seq.get(run)
        wall = r.get("wall_s")
        cells = r.get("cells")
        done = f"{cells.get('done')} / {cells.get('total')}" if isinstance(cells, dict) else ""
        rows.append(
            build.row(
                build.cell(
                    code(run),
                    sub=join(
                        [
                            evidence_words([seq] if seq is not None else ()),
                            soft(t.text("taken in from another machine") if run in ctx.evidence.taken_in else ""),
                        ]
                    ),
                ),
                build.cell(
                    str(r.get("backend") or start.get("backend") or ""),
                    sub=soft(str(r.get("candidate") or start.get("candidate") or "")),
                ),
                build.cell(
                    minute(str(r.get("started") or r.get("start") or r.get("time") or "")),
                    sub=soft(numbers.duration(float(wall), locale=t.locale) if isinstance(wall, int | float) else ""),
                ),
                build.cell(
                    plain(t.text(RUNS[status]) if status in RUNS else status),
                    sub=soft(clip(str(r.get("reason") or ""), 200)),
                ),
                done,
                build.cell(code(commit), sub=soft(machine)),
            )
        )
    total = len(rows)
    if total and finished == total:
        heading = t.counted(
            total, "Runs: the one the ledger knows was completed", "Runs: all {n} that the ledger knows were completed"
        )
    else:
        heading = t.counted(total, "Runs: {n}, completed: {done}", "Runs: {n}, completed: {done}", done=finished)
    blocks: tuple[Block, ...] = ()
    if rows:
        blocks = (
            build.table(
                "plain",
                t.text("Runs"),
                [
                    build.column(t.text("Run")),
                    build.column(t.text("Backend"), sub=t.text("candidate")),
                    build.column(t.text("Started, UTC"), sub=t.text("took")),
                    build.column(t.text("Ended as")),
                    build.column(t.text("Cells"), "right"),
                    build.column(t.text("Commit"), sub=t.text("machine")),
                ],
                rows,
            ),
        )
    return Section(
        "runs",
        "",
        heading,
        t.words(
            "Every run in the ledger is listed, also those that were interrupted or came to nothing: running again "
            "until it passes would be seen here."
        ),
        (*blocks, *_notes(ctx)),
    )


def _notes(ctx: Context) -> tuple[Block, ...]:
    """Corrections and remarks: what the ledger's notes say, in their own words."""
    t = ctx.t
    if not ctx.evidence.notes:
        return ()
    rows = [
        build.row(
            build.cell(minute(n.time), sub=evidence_words([n.seq])),
            str(n.body.get("by") or ""),
            build.cell(
                plain(clip(str(n.body.get("text") or n.body.get("what") or ""), 400)),
                sub=evidence_words(s for s in n.body.get("about") or () if isinstance(s, int)),
            ),
        )
        for n in ctx.evidence.notes
    ]
    left = ctx.evidence.more_notes
    columns = [
        build.column(t.text("Written, UTC")),
        build.column(t.text("By")),
        build.column(t.text("Note"), sub=t.text("about")),
    ]
    note = t.plural(left, "{n} more note is in the ledger.", "{n} more notes are in the ledger.") if left else ""
    return (
        build.heading(t.text("Notes in the ledger")),
        build.table("plain", t.text("Notes in the ledger"), columns, rows, note=note),
    )
