"""What several commands share: parameters from `--set`, showing diagnostics, finding the compiled spec."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torchspec import __version__
from torchspec.cli.exits import Exit
from torchspec.cli.output import render_all, say, tally, wants_color, width_of
from torchspec.core.diagnostics import Diagnostic, sort_diagnostics


def parameters(pairs: Iterable[str]) -> dict[str, str] | None:
    """`NAME=VALUE` pairs as a dict; None, and a word about it, where one has no `=`."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name:
            say(f"torchspec: --set takes NAME=VALUE, not {pair!r} (for instance: --set longest=4096)", sys.stderr)
            return None
        values[name] = value
    return values


def show(
    diagnostics: Sequence[Diagnostic],
    sources: Mapping[str, str],
    arguments: Namespace,
    *,
    target: str = "",
    form: str = "text",
) -> None:
    """Print diagnostics: text goes to stderr, the formats for machines to stdout."""
    ordered = sort_diagnostics(diagnostics)
    stream = sys.stderr if form == "text" else sys.stdout
    color = wants_color(stream, arguments.color)
    text = render_all(ordered, sources, form, color=color, target=target, version=__version__, columns=width_of(stream))
    if text:
        say(text, stream)
    if form == "text" and len(ordered) > 1:
        say(f"\n{tally(ordered)}", stream)


def exit_for(diagnostics: Iterable[Diagnostic]) -> Exit:
    """The spec is wrong (TS1xx to TS5xx), or the tool or a machine failed (the rest); OK without an error."""
    errors = [d for d in diagnostics if d.is_error]
    if not errors:
        return Exit.ADOPT
    return Exit.SPEC if any(d.code[2:3] in "12345" for d in errors) else Exit.MACHINE


def read_sources(diagnostics: Iterable[Diagnostic], folder: Path) -> dict[str, str]:
    """The text of the files that diagnostics point to, for excerpts, where they can still be read."""
    sources: dict[str, str] = {}
    for diagnostic in diagnostics:
        for span in [diagnostic.span, *(label.span for label in diagnostic.labels)]:
            if span is None or span.file in sources:
                continue
            path = folder / span.file
            if path.is_file():
                sources[span.file] = path.read_text(encoding="utf-8", errors="replace")
    return sources
