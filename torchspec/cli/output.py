"""Writing to the terminal: diagnostics in every format from one value, and colour only where it is wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from torchspec.core.diagnostics import Diagnostic, Span

FORMATS = ("text", "json", "sarif", "junit", "github")


def wants_color(stream: TextIO, choice: str = "auto") -> bool:
    """`always`, `never`, or `auto`: a terminal, and NO_COLOR is not set (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int | None:
    """Columns of the terminal behind `stream`; None where there is none."""
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size((100, 24)).columns


def say(text: str = "", stream: TextIO | None = None) -> None:
    """Print one line; a closed pipe is not an error of ours."""
    stream = stream or sys.stdout
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except UnicodeEncodeError:
        stream.write(
            text.encode(stream.encoding or "ascii", "backslashreplace").decode(stream.encoding or "ascii") + "\n"
        )
        stream.flush()


def _place(span: Span) -> dict[str, Any]:
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as JSON: the same value that the text shows."""
    return {
        "code": diagnostic.code,
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        "span": _place(diagnostic.span) if diagnostic.span else None,
        "labels": [{"span": _place(label.span), "text": label.text} for label in diagnostic.labels],
        "notes": list(diagnostic.notes),
        "help": diagnostic.hint,
    }


def _sarif(diagnostics: Sequence[Diagnostic], version: str) -> str:
    import json

    from torchspec.core.codes import CODES

    used = sorted({d.code for d in diagnostics})
    results = []
    for d in diagnostics:
        result: dict[str, Any] = {
            "ruleId": d.code,
            "level": str(d.severity),
            "message": {"text": d.message + (f"\n{d.hint}" if d.hint else "")},
        }
        if d.span:
            result["locations"] = [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": d.span.file},
                        "region": {
                            "startLine": d.span.line,
                            "startColumn": d.span.column,
                            "endLine": d.span.end_line,
                            "endColumn": d.span.end_column,
                        },
                    }
                }
            ]
        results.append(result)
    rules = [
        {"id": c, "shortDescription": {"text": CODES[c].title}, "fullDescription": {"text": CODES[c].why}}
        for c in used
        if c in CODES
    ]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "torchspec", "version": version, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _attribute(text: str) -> str:
    """`text` as an XML attribute; line ends are kept."""
    from html import escape

    return '"' + escape(text).replace("\n", "&#10;") + '"'


def _junit(diagnostics: Sequence[Diagnostic], target: str) -> str:
    from html import escape

    from torchspec.core.diagnostics import render_text

    cases = []
    for d in diagnostics:
        tag = "failure" if d.is_error else "system-out"
        text = escape(render_text(d, {}), quote=False)
        inner = (
            f"<failure message={_attribute(d.message)}>{text}</failure>"
            if tag == "failure"
            else f"<{tag}>{text}</{tag}>"
        )
        name = _attribute(f"{d.code} {d.span or target}")
        cases.append(f"  <testcase classname={_attribute(target)} name={name}>{inner}</testcase>")
    if not cases:
        cases.append(f'  <testcase classname={_attribute(target)} name="check"/>')
    failures = sum(d.is_error for d in diagnostics)
    head = f'<testsuite name="torchspec check" tests="{len(cases)}" failures="{failures}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"])


def _github(d: Diagnostic) -> str:
    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def prop(text: str) -> str:
        return data(text).replace(":", "%3A").replace(",", "%2C")

    where = ""
    if d.span:
        start = f"file={prop(d.span.file)},line={d.span.line},col={d.span.column}"
        where = f"{start},endLine={d.span.end_line},endColumn={d.span.end_column},"
    body = d.message + (f"\nhelp: {d.hint}" if d.hint else "")
    return f"::{d.severity} {where}title={prop(d.code)}::{data(body)}"


def render_all(
    diagnostics: Sequence[Diagnostic],
    sources: Mapping[str, str],
    form: str,
    *,
    color: bool,
    target: str,
    version: str,
    columns: int | None = None,
) -> str:
    """All diagnostics in one of `FORMATS`; the empty string where there is nothing to say."""
    if form == "json":
        import json

        return json.dumps(
            {"version": 1, "diagnostics": [as_json(d) for d in diagnostics]}, indent=2, ensure_ascii=False
        )
    if form == "sarif":
        return _sarif(diagnostics, version)
    if form == "junit":
        return _junit(diagnostics, target)
    if form == "github":
        return "\n".join(_github(d) for d in diagnostics)
    if not diagnostics:
        return ""
    from torchspec.core.diagnostics import render_text

    return "\n\n".join(render_text(d, sources, color, columns) for d in diagnostics)


def tally(diagnostics: Sequence[Diagnostic]) -> str:
    """ "2 errors, 1 warning" """
    errors = sum(d.is_error for d in diagnostics)
    warnings = len(diagnostics) - errors
    parts = [f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((errors, "error"), (warnings, "warning")) if n]
    return ", ".join(parts) or "no mistakes"
