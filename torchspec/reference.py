"""The reference as Markdown, from the tables alone: metrics, workloads, backends, units and limits, decisions, codes.

Must not print and must not know any spec. A new row in a table is in here without a further line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torchspec import catalog as catalog_tables
from torchspec import decide_algebra as algebra
from torchspec.core.codes import CODES
from torchspec.explain_words import DECISIONS, backend_facts, metric_facts, workload_facts


def topics() -> dict[str, Callable[[], str]]:
    """Topic -> a function that gives its Markdown, in reading order."""
    return {
        "metrics": metrics,
        "workloads": workloads,
        "backends": backends,
        "limits": limits,
        "decisions": decisions,
        "diagnostics": diagnostics,
    }


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(text) for text in row) + " |" for row in rows]
    return "\n".join(lines)


def _listed(facts: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts)


def metrics() -> str:
    """Every metric: meaning, unit, direction, where and how it is measured."""
    tables = catalog_tables.load()
    overview = _table(
        ("Metric", "Meaning", "Better", "Usual `else`"),
        ((f"`{m.name}`", m.meaning, m.better, m.usual) for m in tables.metrics.values()),
    )
    details = [
        f"### `{m.name}`\n\n{m.meaning}.\n\n{_listed(metric_facts(tables, m.name))}" for m in tables.metrics.values()
    ]
    return "\n\n".join(["## Metrics", overview, *details])


def workloads() -> str:
    """Every kind of workload with its modes, axes and words."""
    tables = catalog_tables.load()
    details = [
        f"### `{w.name}`\n\n{w.meaning}.\n\n{_listed(workload_facts(tables, w.name))}"
        for w in tables.workloads.values()
    ]
    return "\n\n".join(["## Workloads", *details])


def backends() -> str:
    """Every backend, and what it does not give."""
    tables = catalog_tables.load()
    details = [
        f"### `{b.name}`\n\n{b.meaning}.\n\n{_listed(backend_facts(tables, b.name))}" for b in tables.backends.values()
    ]
    return "\n\n".join(["## Backends", *details])


def limits() -> str:
    """How a limit is put, and the units that it may have."""
    tables = catalog_tables.load()
    forms = _table(("Limit", "Meaning"), ((f"`{r.form}`", r.meaning) for r in tables.relations.values()))
    units = _table(
        ("Unit", "Measures", "Meaning"), ((f"`{u.name}`", u.dimension, u.meaning) for u in tables.units.values())
    )
    return "\n\n".join(["## Limits", forms, "### Units", units, "A rate counts what the workload counts: `tokens/s`."])


def decisions() -> str:
    """The algebra as tables, computed by the functions that decide."""
    order = _table(("Decision", "Meaning"), ((f"`{d}`", DECISIONS[d]) for d in algebra.RANK))
    gates = _table(
        ("Outcome", *(f"else {e}" for e in algebra.ELSES), "else defer, waived"),
        (
            (
                outcome.replace("_", " "),
                *(algebra.gate_contribution(outcome, e) for e in algebra.ELSES),
                algebra.gate_contribution(outcome, "defer", True),
            )
            for outcome in algebra.OUTCOMES
        ),
    )
    votes = _table(
        ("Row", *(f"{r}: vote" for r in algebra.REQUIREMENTS)),
        (
            (
                decision,
                *(
                    str(algebra.row_vote(r, algebra.row_decision([decision], r)) or "none")
                    for r in algebra.REQUIREMENTS
                ),
            )
            for decision in algebra.RANK
        ),
    )
    rules = _table(("Rule", "Why"), ((words, why) for words, why in algebra.RULES.items()))
    return "\n\n".join(
        [
            "## Decisions",
            order,
            "### A gate on a cell",
            gates,
            "### A row in the fleet",
            "A row is a workload on a backend; it takes the worst over its gates and cells. The fleet takes the worst "
            "vote. A lane whose off switch did not pass votes defer. Without a required row the fleet defers.",
            votes,
            "### Rules that can fire",
            rules,
            "A test walks 5 outcomes, 3 answers, waived or not, 3 requirements, two rows, three gates and 5 outcomes "
            "of the rehearsal: 1,215,000 combinations through the functions that decide. It does not cover `together`, "
            "several candidates and off switches that fail; those are drawn at random in another one.",
        ]
    )


def diagnostics() -> str:
    """Every code: what it says, why, and what to write instead."""
    parts = ["## Diagnostics"]
    for row in sorted(CODES.values(), key=lambda r: r.code):
        text = f"### {row.code}: {row.title}\n\n{row.why}"
        if row.bad:
            text += f"\n\nRefused:\n\n```text\n{row.bad}\n```"
        if row.good:
            text += f"\n\nInstead:\n\n```text\n{row.good}\n```"
        parts.append(text)
    return "\n\n".join(parts)
