"""Explanations of single words: a diagnostic code, metric, workload kind, backend, relation or unit, from the tables.

Plain text for a terminal. Must not print, and must not know any spec.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from types import MappingProxyType

from torchspec import catalog as catalog_tables
from torchspec import decide_algebra as algebra
from torchspec.catalog import Catalog, Metric
from torchspec.core.codes import CODES, Code
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.core.near import meant

WIDTH = 100
NO_WORDS: Mapping[str, str] = MappingProxyType({})
#: What an option takes that is a number -> in words.
_NUMBERS: dict[tuple[str, ...], str] = {
    ("count",): "a whole number",
    ("tolerance",): "a relative difference, from 0 to below 1",
}


def explain_word(
    what: str, catalog: Catalog | None = None, words: Mapping[str, str] = NO_WORDS, columns: int = WIDTH
) -> Result[str]:
    """What `what` means, as text. Without a row of that name: TS590 with the nearest name. `words`: texts of more."""
    tables = catalog if catalog is not None else catalog_tables.load()
    found = [text for text in (_code(what, columns), *_rows(what, tables, columns), words.get(what)) if text]
    if found:
        return Result("\n\n".join(found))
    names = [*CODES, *tables.metrics, *tables.workloads, *tables.backends, *tables.relations, *tables.units]
    close = meant(what, [*names, *words, *algebra.RANK])
    hint = f"did you mean {close}?" if close else "`torchspec docs` lists every metric, workload, backend and code"
    return Result(None, (Diagnostic("TS590", f"there is nothing called `{what}` to explain", hint=hint),))


def _code(what: str, columns: int) -> str | None:
    row = CODES.get(what.upper())
    return code_text(row, columns) if row is not None else None


def code_text(row: Code, columns: int = WIDTH) -> str:
    """A code's row as text."""
    parts = [f"{row.code}: {row.title}", filled(row.why, columns=columns)]
    if row.bad:
        parts.append("Refused:\n" + textwrap.indent(row.bad, "    "))
    if row.good:
        parts.append("Instead:\n" + textwrap.indent(row.good, "    "))
    return "\n\n".join(parts)


def filled(text: str, indent: str = "", more: str = "", columns: int = WIDTH) -> str:
    """`text` wrapped at the width of the explanations; its further lines are indented by `more` beyond `indent`."""
    return "\n".join(wrapped(text, columns, indent, indent + more))


def wrapped(text: str, columns: int, first: str = "", further: str = "") -> list[str]:
    """Lines of at most `columns`; a number and its `%` stay together, and no word is cut."""
    held = text.replace(" %", "\u00a0%")
    lines = textwrap.wrap(
        held, columns, initial_indent=first, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\u00a0%", " %") for line in lines]


def _rows(what: str, tables: Catalog, columns: int) -> list[str]:
    found = []

    def told(head: str, facts: list[tuple[str, str]]) -> None:
        found.append(_fields(head, facts, columns))

    if what in tables.metrics:
        told(f"{what}: {tables.metrics[what].meaning}", metric_facts(tables, what))
    if what in tables.workloads:
        told(f"{what}: {tables.workloads[what].meaning}", workload_facts(tables, what))
    if what in tables.backends:
        told(f"{what}: {tables.backends[what].meaning}", backend_facts(tables, what))
    if what in tables.relations:
        relation = tables.relations[what]
        uses = [m.name for m in tables.metrics.values() if what in m.forms]
        told(f"{what}: {relation.meaning}", [("metrics", ", ".join(uses))])
    if what in tables.units:
        unit = tables.units[what]
        told(f"{what}: {unit.meaning}", [("measures", unit.dimension)])
    if what in algebra.RANK:
        found.append(filled(f"{what}: {DECISIONS[what]}", columns=columns))
    return found


DECISIONS = {
    "adopt": "the candidate may run everywhere.",
    "isolate": "the candidate may run only in named places.",
    "defer": "the candidate runs nowhere new, until there is evidence.",
    "rollback": "the candidate runs nowhere, and where it does already it is undone.",
}


def _fields(head: str, facts: list[tuple[str, str]], columns: int) -> str:
    width = max((len(name) for name, _ in facts), default=0)
    lines = [filled(head, columns=columns), ""]
    for name, value in facts:
        label = f"  {name:<{width}}  "
        lines.append(
            textwrap.fill(
                value, columns, initial_indent=label, subsequent_indent=" " * len(label), break_long_words=False
            )
        )
    return "\n".join(lines)


def metric_facts(tables: Catalog, name: str) -> list[tuple[str, str]]:
    """(label, text) of everything that the table says about a metric, in the order of the documentation."""
    row = tables.metrics[name]
    direction = {"lower": "lower is better", "higher": "higher is better", "none": "it holds or it does not"}
    units = [u.name for u in tables.units.values() if u.dimension == row.dimension]
    dimension = row.dimension + (f" ({', '.join(units)})" if units else "")
    if row.dimension == "rate":
        dimension = "rate (tokens/s, queries/s: what the workload counts)"
    facts = [
        ("dimension", dimension),
        ("better", direction[row.better]),
        ("measured", row.measured),
        ("backends", ", ".join(row.backends)),
        ("modes", ", ".join(row.modes)),
        ("workloads", ", ".join(row.kinds) or _every_kind(tables, row)),
        ("limits", ", ".join(row.forms)),
        ("against", ", ".join(row.against) or "nothing"),
        ("usual else", row.usual + (", and never waived" if row.correctness or row.usual == "rollback" else "")),
    ]
    if row.team:
        alone = f" (of itself: {', '.join(row.team_alone)})" if row.team_alone else ""
        facts.append(("team's file", f"{row.team} gives it{alone}"))
    if row.needs_against:
        facts.append(("note", "a limit names its reference with `against`"))
    return facts


def _every_kind(tables: Catalog, row: Metric) -> str:
    lacking = [kind.name for kind in tables.workloads.values() if not kind.can_give(row)]
    return "every kind" + (f" but {', '.join(lacking)}" if lacking else "")


def workload_facts(tables: Catalog, name: str) -> list[tuple[str, str]]:
    """(label, text) of everything that the table says about a kind of workload."""
    row = tables.workloads[name]
    axes = []
    for axis in row.axes:
        said = f" ({', '.join(axis.values)})" if axis.values else ""
        default = "must be given" if axis.default is None else f"default {axis.default}"
        if axis.default == "":
            default = "left to the team's code where it is not given"
        axes.append(f"{axis.name}: {axis.meaning}{said}; {default}")
    entry = {"required": "must be given", "optional": "may be given", "none": "none"}[row.entry]
    facts = [
        ("modes", ", ".join(row.modes) + f"; default {', '.join(row.default_modes)}"),
        ("backends", ", ".join(row.backends)),
        ("team's code", entry),
    ]
    facts += [("axis", text) for text in axes]
    if row.free_axes:
        facts.append(("axis", "any other: given to the team's function, or to the operator, by name"))
    if row.beside:
        facts.append(("beside", ", ".join("any dotted name" if b == "*" else b for b in row.beside)))
    if row.paths:
        facts.append(("path", ", ".join(row.paths)))
    facts.append(("counts", row.items_unit or "what `counts` says"))
    for option, values, stands in row.options:
        takes = _NUMBERS.get(values) or ", ".join(values) or "any value"
        only = [f"{value} on {' and '.join(on)} alone" for word, value, on in row.option_backends if word == option]
        only += [f"beside {other} {value} alone" for word, other, value in row.option_needs if word == option]
        takes += f" ({'; '.join(only)})" if only else ""
        facts.append(("word", f"{option}: {takes}" + (f"; default {stands}" if stands is not None else "")))
    if row.mask_parameters:
        facts.append(("mask", "parameters " + ", ".join(row.mask_parameters)))
    own = [m.name for m in tables.metrics.values() if name in m.kinds]
    if row.gives:
        facts.append(("metrics", f"only {', '.join(row.gives)}"))
    elif own:
        facts.append(("own metrics", ", ".join(own)))
    return facts


def backend_facts(tables: Catalog, name: str) -> list[tuple[str, str]]:
    """(label, text) of everything that the table says about a backend."""
    row = tables.backends[name]
    facts = [("needs", row.hardware)]
    if row.device:
        facts.append(("torch device", row.device))
    if row.over:
        facts.append(("over", ", ".join(row.over)))
    if row.launchers:
        facts.append(("launcher", ", ".join(row.launchers)))
    gives = [m.name for m in tables.metrics.values() if name in m.backends]
    lacks = [m.name for m in tables.metrics.values() if name not in m.backends]
    facts.append(("metrics", f"{len(gives)} of {len(tables.metrics)}"))
    if lacks:
        facts.append(("not given", ", ".join(lacks)))
    return facts
