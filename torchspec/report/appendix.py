"""The appendix: how to verify the memo, how to run each part again, and where everything comes from."""

from __future__ import annotations

import shlex

from torchspec.model.memo import Block, Section
from torchspec.report import build
from torchspec.report.context import Context, minute
from torchspec.report.language import code
from torchspec.report.private import command
from torchspec.report.scope import sources


def section(ctx: Context) -> Section:
    t = ctx.t
    blocks: list[Block] = [
        build.heading(t.text("Verify this memo; no torch is needed")),
        build.code_block(f"torchspec verify {shlex.quote(f'out/{ctx.plan.name}/memo/latest')}"),
        build.paragraph(
            t.words(
                "It recomputes the chain of the ledger, all digests, both signatures and the commit, and names the "
                "first thing that does not hold."
            )
        ),
        build.heading(t.text("Run it again")),
        build.code_block(_again(ctx)),
    ]
    commands = _commands(ctx)
    if commands:
        blocks += [build.heading(t.text("What each run executed")), build.code_block(commands)]
    blocks += sources(ctx)
    blocks += [build.heading(t.text("Digests")), _digests(ctx)]
    blocks += [
        build.heading(t.text("Evidence")),
        build.paragraph(
            t.words(
                "E-0142 is the record with the number 142 in the append-only ledger, {n} records in all, from {first} "
                "to {last} UTC. Each record holds the hash of the one before; the last hash is `{head}`.",
                n=ctx.evidence.records,
                first=minute(ctx.evidence.first) or t.text("no record"),
                last=minute(ctx.evidence.last) or t.text("no record"),
                head=ctx.verdict.ledger_head[:16] or "0",
            )
        ),
    ]
    return Section("evidence", "A", t.text("Appendix: verify, reproduce, trace"), (), tuple(blocks))


def _spec(ctx: Context) -> str:
    return ctx.plan.spec[0].path if ctx.plan.spec else f"{ctx.plan.name}.tspec"


def _again(ctx: Context) -> str:
    lines = []
    commit = ctx.registration.commit or ctx.lock.git.commit
    if commit:
        lines.append(f"git checkout {commit}")
    sets = "".join(f" --set {shlex.quote(f'{k}={v}')}" for k, v in sorted(ctx.lock.params.items()))
    lines.append(f"torchspec compile {shlex.quote(_spec(ctx))}{sets}")
    lines.append("torchspec run")
    return "\n".join(lines)


def _commands(ctx: Context) -> str:
    lines = []
    environments: dict[str, str] = {}
    for run, start in ctx.evidence.starts.items():
        argv = start.get("argv")
        if isinstance(argv, list) and argv:
            words, known = command(str(a) for a in argv)
            candidate = str(start.get("candidate") or "")
            environments |= {side: digest for side, digest in known.items() if side == "BASELINE" or not ctx.several}
            lines += [f"# {run}", shlex.join(words)]
            if ctx.several and "CANDIDATE" in known:
                lines.append(f"# CANDIDATE: {ctx.candidate_name(candidate)}, {known['CANDIDATE']}")
    return "\n".join([*_sides(ctx, environments), *lines])


def _sides(ctx: Context, environments: dict[str, str]) -> list[str]:
    """What stands for the interpreters in the command lines: torch, Python and the environment's digest."""
    lines = []
    for name, digest in sorted(environments.items()):
        side = ctx.plan.baseline if name == "BASELINE" else ctx.plan.candidates[0]
        body = ctx.environments.get(side.id) or {}
        torch = str((body.get("torch") or {}).get("version") or side.torch or "")
        said = ctx.t.text(
            "torch {torch}, Python {python}, environment {digest}",
            torch=torch,
            python=str(body.get("python") or ctx.plan.frozen.python or "?"),
            digest=digest,
        )
        lines.append(f"# {name}: {said}")
    return lines


def _digests(ctx: Context) -> Block:
    t = ctx.t
    lock = ctx.lock
    found = [(t.text("Plan"), "plan.json", ctx.verdict.plan_digest[:16])]
    found += [(t.text("Spec"), f.path, f.sha256[:16]) for f in lock.spec]
    found += [(t.text("Team's file"), f.path, f.sha256[:16]) for f in lock.files]
    found += [(t.text("Harness"), f"{b}.py", d[:16]) for b, d in sorted(lock.harness.items())]
    found.append((t.text("Catalog"), "", lock.catalog[:16]))
    found += [(t.text("Plug-in"), n, v[:32]) for n, v in sorted(lock.plugins.items())]
    found.append((t.text("Ledger, last record"), "ledger.jsonl", ctx.verdict.ledger_head[:16]))
    found.append((t.text("Compiler"), "torchspec", lock.compiler))
    if lock.git.remote:
        found.append((t.text("Repository"), "", lock.git.remote))
    rows = [build.row(what, build.cell(code(name)), build.cell(code(value))) for what, name, value in found]
    return build.table(
        "plain",
        t.text("Digests"),
        [build.column(t.text("What")), build.column(t.text("File")), build.column(t.text("SHA-256, first 16"))],
        rows,
        note=t.words("Whole digests are in lock.json and in the envelope beside this memo."),
    )
