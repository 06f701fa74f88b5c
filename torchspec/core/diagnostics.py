"""Diagnostics: a user's mistake as a value, and the one text renderer for it.

Must not print, and must not decide exit codes: `cli` does. Text, JSON, SARIF, JUnit and GitHub output all come from
the same `Diagnostic` value. An exception, by contrast, is a bug of ours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Severity(StrEnum):
    """How bad it is: an error stops the stage, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a file: 1-based lines and columns, columns counted in code points, end exclusive.

    `file` is the path as the user wrote it (relative to the folder of the main spec for imports).
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that explains the first one, with a few words."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A mistake, its place, the reason and a way out.

    `code` is a row of `core.codes` (for instance ``TS201``); `message` is one sentence without a final full stop in the
    user's own names; `span` is tight; `hint` says what to write instead. `span` is None only for what has no place in
    a file (a missing file, a full disk).
    """

    code: str
    message: str
    span: Span | None = None
    labels: tuple[Label, ...] = ()
    hint: str | None = None
    severity: Severity = Severity.ERROR
    notes: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """What a stage returns: a value (None when errors made one impossible) and diagnostics."""

    value: T | None
    diagnostics: tuple[Diagnostic, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return self.value is not None and not any(d.is_error for d in self.diagnostics)


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """By place, then code, without repeats: the same mistakes give the same list."""
    nowhere = Span("", 0, 0, 0, 0)
    return tuple(sorted(dict.fromkeys(diagnostics), key=lambda d: (d.span or nowhere, d.code, d.message)))


def visible(text: str) -> str:
    """`text` with control and bidirectional characters made visible, so that no file can rewrite the terminal."""
    return "".join(
        f"<U+{ord(c):04X}>" if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp", "Cs"} and c != "\t" else c
        for c in text
    )


def display_width(text: str) -> int:
    """Columns that `text` takes in a terminal (wide East Asian characters take two, combining marks none)."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


_BOLD, _RED, _YELLOW, _BLUE, _RESET = "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[0m"


#: Columns of an excerpt where no terminal says how wide it is.
WIDTH = 100
#: Characters of a line, before and after a place, that are looked at to show it.
_REACH = 400


def _excerpt(
    span: Span, text: str, source: str, width: int, paint: str, reset: str, mark: str, columns: int | None
) -> list[str]:
    lines = source.split("\n")
    if not 1 <= span.line <= len(lines):
        return []
    raw, here = lines[span.line - 1], span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(raw)
    first, last = max(0, here - _REACH), here + _REACH
    before = visible(raw[first:here]).replace("\t", "    ")
    under = visible(raw[here : max(min(end, last), here + 1)]).replace("\t", "    ")
    after = visible(raw[max(min(end, last), here + 1) : last]).replace("\t", "    ")
    room = WIDTH if columns is None else max(20, columns - width - 4)
    line, begin, stop = before + under + after, len(before), len(before) + len(under)
    left, right = _window(line, begin, room, first > 0 or last < len(raw))
    start = display_width(line[left:begin]) + (left > 0 or first > 0)
    carets = mark * max(1, display_width(line[begin : min(stop, right)]))
    line = "…" * (left > 0 or first > 0) + line[left:right] + "…" * (right < len(line) or last < len(raw))
    gutter = " " * width
    shown = [f"{span.line:>{width}} | {line}"]
    if columns is not None and text and start + len(carets) + 1 + display_width(text) > room:  # on a line of its own
        indent = " " * max(0, min(start, room - display_width(text)))
        return [*shown, f"{gutter} | {' ' * start}{paint}{carets}{reset}", f"{gutter} | {indent}{paint}{text}{reset}"]
    tail = f" {text}" if text else ""
    return [*shown, f"{gutter} | {' ' * start}{paint}{carets}{tail}{reset}"]


def _window(line: str, start: int, room: int, cut: bool) -> tuple[int, int]:
    """The part of `line` that fits into `room` columns with what begins at `start`, and marks of what is left out."""
    widths = [display_width(c) for c in line]
    if sum(widths) <= room and not cut:
        return 0, len(line)
    left, used = start, 0
    while left > 0 and used + widths[left - 1] <= min(30, room // 3):
        left -= 1
        used += widths[left]
    right, used = left, 0
    while right < len(line) and used + widths[right] <= room - 2:
        used += widths[right]
        right += 1
    while left > 0 and right == len(line) and used + widths[left - 1] <= room - 2:
        left -= 1
        used += widths[left]
    return left, right


def _wrapped(head: str, text: str, columns: int | None, indent: int, painted: str) -> str:
    """`painted`, which shows as `head`, then `text`, broken between words where a line would be too long."""
    if columns is None or len(head) + len(text) <= columns:
        return painted + text
    import textwrap

    room = max(columns, indent + 20)
    lines = textwrap.wrap(
        head + text, room, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False,
        drop_whitespace=True, replace_whitespace=False,
    )  # fmt: skip
    lines[0] = painted + lines[0][len(head) :]
    return "\n".join(lines)


def render_text(
    diagnostic: Diagnostic, sources: Mapping[str, str], color: bool = False, columns: int | None = None
) -> str:
    """One diagnostic as text: message, place, source line with carets, labels, hint.

    `sources` maps file names (as in spans) to their text; a file that is not in it is shown without an excerpt.
    `columns`: how wide the terminal is; without it no line is broken.
    """
    error = diagnostic.is_error
    paint = (_RED if error else _YELLOW) if color else ""
    blue, bold, reset = (_BLUE, _BOLD, _RESET) if color else ("", "", "")
    head = f"{diagnostic.severity}[{diagnostic.code}]"
    message = _wrapped(f"{head}: ", visible(diagnostic.message), columns, 2, f"{paint}{head}{reset}{bold}: ")
    out = [message + reset]
    spans = [s for s in [diagnostic.span, *(lb.span for lb in diagnostic.labels)] if s is not None]
    width = max((len(str(s.line)) for s in spans), default=1)
    gutter = " " * width
    if diagnostic.span is not None:
        out.append(f"{gutter}--> {visible(str(diagnostic.span))}")
        if diagnostic.span.file in sources:
            out.append(f"{gutter} |")
            out += _excerpt(diagnostic.span, "", sources[diagnostic.span.file], width, paint, reset, "^", columns)
    for label in diagnostic.labels:
        if diagnostic.span is None or label.span.file != diagnostic.span.file:
            out.append(f"{gutter}::: {visible(str(label.span))}")
        excerpt = (
            _excerpt(label.span, visible(label.text), sources[label.span.file], width, blue, reset, "-", columns)
            if label.span.file in sources
            else []
        )
        out += excerpt or [f"{gutter}  {visible(str(label.span))}: {visible(label.text)}"]
    for note in diagnostic.notes:
        out.append(_wrapped(f"{gutter} = note: ", visible(note), columns, width + 9, f"{gutter} = note: "))
    if diagnostic.hint:
        painted = f"{gutter} = {bold}help{reset}: "
        out.append(_wrapped(f"{gutter} = help: ", visible(diagnostic.hint), columns, width + 9, painted))
    return "\n".join(out)
