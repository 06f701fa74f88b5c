"""What the memo does not show: cells that were not run, combinations not covered, waivers, caveats."""

from __future__ import annotations

from collections import Counter

from torchspec.model.memo import Block, Section, TableRow, Words
from torchspec.model.verdict import WaiverUse
from torchspec.report import build, numbers
from torchspec.report.context import Context, day
from torchspec.report.language import clip, code, join, link, plain, soft, strong
from torchspec.report.names import WAIVERS
from torchspec.report.rows import rule_words


def limits_of_it(ctx: Context) -> Section:
    """Not run and why, not covered, waived, and the caveats written before the run."""
    t = ctx.t
    blocks: list[Block] = []
    missing: Counter[tuple[str, str]] = Counter()
    named: dict[tuple[str, str], dict[str, None]] = {}
    for j in ctx.verdict.judgements:
        if j.outcome == "not_run":
            cell = ctx.cells[j.cell]
            why = clip(j.reason, 240) if t.code == "en" else rule_words(ctx, j) or t.text("no evidence")
            place = (cell.backend, why)
            missing[place] += 1
            named.setdefault(place, {})[cell.workload] = None
    rows = [
        build.row(build.cell(code(place[0])), t.listed([code(w) for w in named[place]], 8), numbers.count(n), place[1])
        for place, n in list(missing.items())[:120]
    ]
    if rows:
        blocks.append(build.heading(t.text("Not run, and why")))
        left = len(missing) - len(rows)
        blocks.append(
            build.table(
                "plain",
                t.text("Not run, and why"),
                [
                    build.column(t.text("Backend")),
                    build.column(t.text("Workloads")),
                    build.column(t.text("Judgements"), "right"),
                    build.column(t.text("Reason")),
                ],
                rows,
                note=t.plural(left, "{n} more line is in memo.json.", "{n} more lines are in memo.json.")
                if left
                else "",
            )
        )
    if ctx.plan.exclusions:
        blocks.append(build.heading(t.text("Not covered: taken out of the matrix by the spec")))
        blocks.append(
            build.table(
                "plain",
                t.text("Not covered"),
                [
                    build.column(t.text("Workload")),
                    build.column(t.text("What")),
                    build.column(t.text("Cells"), "right"),
                    build.column(t.text("Because")),
                    build.column(t.text("Until")),
                ],
                [
                    build.row(
                        build.cell(code(e.workload)),
                        build.cell(code(e.text)),
                        numbers.count(e.removed),
                        e.because,
                        e.until or t.text("no date"),
                    )
                    for e in ctx.plan.exclusions
                ],
            )
        )
    if ctx.verdict.waivers:
        blocks.append(build.heading(t.text("Waivers")))
        blocks.append(
            build.table(
                "plain",
                t.text("Waivers"),
                [
                    build.column(t.text("Gate")),
                    build.column(t.text("Where")),
                    build.column(t.text("By")),
                    build.column(t.text("Until")),
                    build.column(t.text("State")),
                ],
                [_waiver(ctx, w) for w in ctx.verdict.waivers],
            )
        )
    optional = [b for b in ctx.plan.backends if b.requirement == "optional"]
    if optional:
        blocks.append(build.heading(t.text("Optional backends")))
        blocks.append(
            build.listing(
                [
                    t.words(
                        "`{backend}`: {because}, until {until}",
                        backend=b.name,
                        because=b.because or "",
                        until=b.until or "",
                    )
                    for b in optional
                ]
            )
        )
    if ctx.plan.upgrade.caveats:
        blocks.append(build.heading(t.text("Caveats, written before the run")))
        blocks.append(build.listing([plain(c) for c in ctx.plan.upgrade.caveats]))
    comparisons = _comparisons(ctx)
    if comparisons:
        blocks.append(build.heading(t.text("Many comparisons")))
        blocks.append(build.paragraph(comparisons))
    if not ctx.plan.claims:
        blocks.append(build.paragraph(t.words("The spec states no claims of others.")))
    return Section(
        "scope",
        "",
        _heading(ctx, sum(missing.values())),
        t.words("Results belong to a workload on a backend: nothing measured on one carries over to another."),
        tuple(blocks),
    )


def _heading(ctx: Context, missing: int) -> str:
    t = ctx.t
    total = len(ctx.verdict.judgements)
    if missing:
        return t.text("What this does not show: {n} of {m} judgements were not run", n=missing, m=total)
    return t.text("What this does not show: everything planned was run")


def _comparisons(ctx: Context) -> Words:
    """How many outcomes may be wrong by chance, were every truth exactly at its limit: the judge's own figures."""
    t = ctx.t
    chance = ctx.verdict.chance
    if not chance or not chance.get("weighed"):
        return ()
    return t.words(
        "{n} outcomes were told from noise by an interval. Were every truth exactly at its limit, chance alone would "
        "make at most about {passes} of them pass and {fails} fail. A failure of timing was seen twice, the second "
        "time on fresh pairs.",
        n=round(chance["weighed"]),
        passes=numbers.scientific(chance["false_passes"], locale=t.locale),
        fails=numbers.scientific(chance["false_failures"], locale=t.locale),
    )


def _waiver(ctx: Context, use: WaiverUse) -> TableRow:
    return build.row(
        build.cell(code(use.metric)),
        build.cell(
            code(f"{use.workload}, {use.backend}"), sub=soft(ctx.candidate_name(use.candidate)) if ctx.several else ""
        ),
        build.cell(use.by, sub=soft(use.because)),
        use.until,
        build.cell(strong(ctx.t.text(WAIVERS[use.status])), sub=soft(use.reason)),
    )


def sources(ctx: Context) -> list[Block]:
    """Where figures of others come from."""
    t = ctx.t
    if not ctx.plan.sources:
        return []
    return [
        build.heading(t.text("Sources")),
        build.table(
            "plain",
            t.text("Sources"),
            [build.column(t.text("Name")), build.column(t.text("Address")), build.column(t.text("Retrieved"))],
            [
                build.row(build.cell(code(s.name)), build.cell(_address(s.url)), day(s.retrieved) or t.text("no date"))
                for s in ctx.plan.sources
            ],
        ),
    ]


def _address(url: str) -> Words:
    return join([link(url, url)])
