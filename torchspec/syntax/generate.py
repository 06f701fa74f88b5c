"""Generates `_tables.py` from `grammar/`: `python -m torchspec.syntax.generate`.

Lark analyses `tspec.lark` (LALR(1), conflicts are errors) and its tables are written down as plain data, because
importing Lark costs more than everything else that `torchspec check` does. The samples of `syntax_errors.json` are
parsed up to their mistake; the state and token found there stand for their label, as in Lark's `match_examples`. Used
by developers and by the test that keeps the committed tables in step; nothing else may import it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lark import Lark
from lark.parsers.lalr_analysis import Reduce, Shift

from torchspec.core.resources import data_folder

TARGET = Path(__file__).with_name("_tables.py")


def analyse() -> dict[str, Any]:
    """The tables: `terminals` [(name, regular expression)], `ignored`, `rules` [(origin, length)], `start`, `end`,
    `states` [{token: next state, or -1 - rule}], `gotos` [{origin: next state}]."""
    text = (data_folder("grammar") / "tspec.lark").read_text(encoding="utf-8")
    lark = Lark(text, start="file", parser="lalr", lexer="basic", strict=False, maybe_placeholders=False)
    table = lark.parser.parser._parse_table
    terminals = {t.name for t in lark.terminals} | {"$END"}
    rules = sorted(
        {_rule(argument) for row in table.states.values() for kind, argument in row.values() if kind is Reduce}
    )
    order = _numbered(table)
    states: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for state in order:
        row = sorted(table.states[state].items())
        shifts = {symbol: order[to] for symbol, (kind, to) in row if kind is Shift}
        reductions = {symbol: -1 - rules.index(_rule(to)) for symbol, (kind, to) in row if kind is Reduce}
        states.append(reductions | {symbol: to for symbol, to in shifts.items() if symbol in terminals})
        gotos.append({symbol: to for symbol, to in shifts.items() if symbol not in terminals})
    ranked = sorted(lark.terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    return {
        "terminals": [(t.name, t.pattern.to_regexp()) for t in ranked],
        "ignored": sorted(lark.ignore_tokens),
        "rules": [(origin, len(body)) for origin, *body in rules],
        "start": order[table.start_states["file"]],
        "end": order[table.end_states["file"]],
        "states": states,
        "gotos": gotos,
    }


def _rule(rule: Any) -> tuple[str, ...]:
    return (str(rule.origin.name), *(symbol.name for symbol in rule.expansion))


def _numbered(table: Any) -> dict[Any, int]:
    """State -> number, in the order of a walk from the start: Lark's own numbers change from run to run."""
    waiting = [table.start_states["file"]]
    order: dict[Any, int] = {}
    for state in waiting:
        if state not in order:
            order[state] = len(order)
            waiting += [to for _, (kind, to) in sorted(table.states[state].items()) if kind is Shift]
    return order


def render(tables: dict[str, Any], labels: dict[tuple[int, str], str]) -> str:
    """The text of `_tables.py`."""
    lines = [
        '"""Generated from grammar/tspec.lark by `python -m torchspec.syntax.generate`. Do not edit."""',
        "",
        f"TERMINALS = {tables['terminals']!r}",
        f"IGNORED = {tables['ignored']!r}",
        f"RULES = {tables['rules']!r}",
        f"START, END = {tables['start']}, {tables['end']}",
        "STATES = [",
        *(f"    {state!r}," for state in tables["states"]),
        "]",
        "GOTOS = [",
        *(f"    {goto!r}," for goto in tables["gotos"]),
        "]",
        "LABELS = {",
        *(f"    {key!r}: {labels[key]!r}," for key in sorted(labels)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def label_samples(tables: dict[str, Any]) -> dict[tuple[int, str], str]:
    """(state, token) -> label, from the samples. Two labels for one place are an error of the samples."""
    from torchspec.syntax.lalr import Tables, first_failure
    from torchspec.syntax.lexical import tokens

    made = Tables(tables["states"], tables["gotos"], tables["rules"], tables["start"], tables["end"])
    labels: dict[tuple[int, str], str] = {}
    for row in json.loads((data_folder("grammar") / "syntax_errors.json").read_text(encoding="utf-8")):
        for sample in row["samples"]:
            stream = [t for t in tokens(sample, tables["terminals"]) if t.type not in tables["ignored"]]
            place = first_failure(made, stream)
            if place is None:
                raise ValueError(f"this sample has no syntax error: {sample!r}")
            if labels.setdefault(place, row["label"]) != row["label"]:
                raise ValueError(f"{sample!r} stands for both {labels[place]} and {row['label']}")
    return labels


def generated() -> str:
    """What `_tables.py` should hold for the grammar and samples as they are."""
    tables = analyse()
    return render(tables, label_samples(tables))


if __name__ == "__main__":
    TARGET.write_text(generated(), encoding="utf-8")
