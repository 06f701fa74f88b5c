"""Progress that a person can read: one live line in a terminal, plain lines elsewhere. Pure text in, text out."""

from __future__ import annotations

import shutil
import time
from types import TracebackType
from typing import Any, TextIO

from torchspec.cli.findings import wrapped
from torchspec.core.diagnostics import display_width, visible

_CLEAR = "\r\x1b[2K"
_QUIET_S = 20.0  # where the output is not a terminal: a word at least this far apart about what is going on


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `1 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns, with an ellipsis where it was cut."""
    if display_width(text) <= width:
        return text
    kept = ""
    for character in text:
        if display_width(kept + character) > width - 1:
            return kept + "…"
        kept += character
    return kept


class Progress:
    """Shows the events of provisioning and of the harness drivers on one stream."""

    def __init__(self, stream: TextIO, color: bool) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.color = color
        self.where = ""
        self.left: float | None = None
        self._began = time.monotonic()
        self._spoke = float("-inf")
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the live line away."""
        if self._shown:
            self.stream.write(_CLEAR)
            self.stream.flush()
            self._shown = False

    def line(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        self.stream.write(visible(text) + "\n")
        self.stream.flush()
        self._spoke = time.monotonic()

    def _now(self, text: str) -> None:
        """What is going on at the moment: rewritten in place, or said now and then."""
        left = f", about {duration(self.left)} left" if self.left else ""
        if self.live:
            width = shutil.get_terminal_size((80, 24)).columns - 1
            room = width - display_width(left)
            self.stream.write(_CLEAR + cut(visible(text), room) + left)
            self.stream.flush()
            self._shown = True
        elif time.monotonic() - self._spoke >= _QUIET_S:
            self.line(f"{text}{left}")

    def event(self, event: dict[str, Any]) -> None:
        """One event: of provisioning, or of a driver (see docs/evidence.md). Unknown ones are passed over."""
        kind = event.get("event")
        if kind == "backend":
            self.line(f"measuring on {event['backend']} ({event['candidate']} against baseline)")
        elif kind == "cell":
            self.where = f"[{event.get('index', '?')}/{event.get('of', '?')}] {event.get('label', '')}"
            self._now(self.where)
        elif kind == "doing":
            side = f" ({event['side']})" if event.get("side") else ""
            inside = str(event.get("what", "")).startswith(("fresh process", "freezing"))
            lead = f"{self.where}: " if self.where and inside else ""
            self._now(f"{lead}{event.get('what', '')}{side}")
        elif kind == "calibration":
            cells = "1 cell" if event.get("used") == 1 else f"{event.get('used', 0)} cells"
            self.line(f"  the noise of {cells} on this machine was measured before")
        elif kind == "left":
            self.left = float(event.get("seconds", 0.0))
        elif kind == "failed":
            what = event.get("reason") or event.get("error") or event.get("how") or ""
            self.line(f"  {event.get('label', event.get('cell', ''))}: {event.get('side', '')} failed: {what}")
        elif kind == "done":
            mark = {"measured": "measured", "not_run": "not run", "failed": "failed", "error": "error"}
            reason = f": {event['reason']}" if event.get("reason") else ""
            self.where = ""
            self.line(
                f"  {event.get('label', self.where)}: {mark.get(str(event.get('status')), event.get('status'))}{reason}"
            )
        elif kind == "end":
            self.left, self.where = None, ""
            self.clear()
            names = ("timed_s", "pairs_s", "seconds", "compiling_s")
            timed, pairs, whole, compiling = (float(event.get(name) or 0.0) for name in names)
            if timed and pairs > compiling and whole:
                beside = f" beside {compiling:.0f} s of compiling" if compiling >= 0.5 else ""
                rest = f"{100 * timed / (pairs - compiling):.0f} % of the {pairs - compiling:.0f} s of pairs{beside}"
                said = f"{100 * timed / whole:.0f} % of {whole:.0f} s inside timed work, {rest}"
                for line in wrapped(said, 80, "  ", "    ").splitlines():
                    self.line(line)
