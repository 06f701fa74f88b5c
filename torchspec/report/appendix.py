"""The appendix: how to verify the memo, how to run each part again, and where everything comes from."""

from __future__ import annotations

import shlex

from torchspec.model.memo import Block, Section
from torchspec.report import build, numbers
from torchspec.report.context import Context, minute
from torchspec.report.language import code, plain, soft
from torchspec.report.scope import sources


def section(ctx: Context) -> Section:
    t = ctx.t
    blocks: list[Block] = [
        build.heading(t.text("Verify this memo; no torch is needed")),
        build.code_block(f"torchspec verify {shlex.quote(f'out/{ctx.plan.name}/memo/latest')}"),
        build.paragraph(t.words(
            "It recomputes the chain of the ledger, all digests, both signatures and the commit, and names the first thing "
            "that does not hold.")),
        build.heading(t.text("Run it again")),
        build.code_block(_again(ctx)),
    ]
    commands = _commands(ctx)
    if commands:
        blocks += [build.heading(t.text("What each run executed")), build.code_block(commands)]
    blocks += sources(ctx)
    blocks += [build.heading(t.text("Digests")), _digests(ctx)]
    blocks += [build.heading(t.text("Evidence")), build.paragraph(t.words(
        "E-0142 is the record with the number 142 in the append-only ledger, {n} records in all, from {first} to {last} "
        "UTC. Each record holds the hash of the one before; the last hash is `{head}`.",
        n=ctx.evidence.records, first=minute(ctx.evidence.first) or t.text("no record"),
        last=minute(ctx.evidence.last) or t.text("no record"), head=ctx.verdict.ledger_head[:16] or "0"))]
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
    for run, start in ctx.evidence.starts.items():
        argv = start.get("argv")
        if isinstance(argv, list) and argv:
            lines.append(f"# {run}")
            lines.append(shlex.join(str(a) for a in argv))
    return "\n".join(lines)


def _digests(ctx: Context) -> Block:
    t = ctx.t
    rows = [build.row(build.cell(plain(t.text("Plan"))), build.cell(code(ctx.verdict.plan_digest[:16])),
                      build.cell(soft(ctx.plan.schema)))]
    rows += [build.row(build.cell(plain(t.text("Spec")), sub=code(f.path)), build.cell(code(f.sha256[:16])), "")
             for f in ctx.lock.spec]
    rows += [build.row(build.cell(plain(t.text("Team's file")), sub=code(f.path)), build.cell(code(f.sha256[:16])), "")
             for f in ctx.lock.files]
    rows += [build.row(build.cell(plain(t.text("Harness")), sub=code(f"{b}.py")), build.cell(code(d[:16])), "")
             for b, d in sorted(ctx.lock.harness.items())]
    rows.append(build.row(build.cell(plain(t.text("Catalog"))), build.cell(code(ctx.lock.catalog[:16])), ""))
    rows += [build.row(build.cell(plain(t.text("Plug-in")), sub=code(n)), build.cell(code(v[:32])), "")
             for n, v in sorted(ctx.lock.plugins.items())]
    rows.append(build.row(build.cell(plain(t.text("Ledger, last record"))),
                          build.cell(code(ctx.verdict.ledger_head[:16])),
                          t.text("{n} records", n=ctx.evidence.records)))
    rows.append(build.row(build.cell(plain(t.text("Compiler"))), build.cell(code(f"torchspec {ctx.lock.compiler}")), ""))
    if ctx.lock.git.remote:
        rows.append(build.row(build.cell(plain(t.text("Repository"))), build.cell(code(ctx.lock.git.remote)), ""))
    return build.table("plain", t.text("Digests"), [
        build.column(t.text("What")), build.column(t.text("SHA-256, first 16")), build.column("")], rows,
        note=t.words("Whole digests are in memo.json's bundle: plan.json, lock and envelope.") if numbers else "")
