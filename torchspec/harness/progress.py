"""What the driver says while it runs: one JSON object a line for a program, plain lines for people."""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def seconds_in_words(seconds: float) -> str:
    """ "4 min 10 s"; "35 s"."""
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def timed_share(end: dict[str, Any]) -> str:
    """ "; 52 % of 210 s inside timed work, 71 % of the 150 s of pairs": how well a run's time was used.

    What pairs spent in torch.compile is left out of their time, and said.
    """
    names = ("timed_s", "pairs_s", "seconds", "compiling_s")
    timed, pairs, whole, compiling = (float(end.get(name) or 0.0) for name in names)
    if timed <= 0.0 or pairs <= compiling or whole <= 0.0:
        return ""
    share = f"{100 * timed / whole:.0f} % of {whole:.0f} s inside timed work"
    beside = f" beside {compiling:.0f} s of compiling" if compiling >= 0.5 else ""
    return f"; {share}, {100 * timed / (pairs - compiling):.0f} % of the {pairs - compiling:.0f} s of pairs{beside}"


class Progress:
    """Writes events to stdout. `form` is "json" or "text"."""

    def __init__(self, form: str) -> None:
        self.form = form
        self._label = ""
        self._left: tuple[float, float] | None = None

    def event(self, event: str, **fields: Any) -> None:
        if self.form == "json":
            line: str | None = json.dumps({"event": event, **fields}, ensure_ascii=True)
        else:
            line = self._words(event, fields)
        if line is not None:
            try:
                print(line, flush=True)
            except BrokenPipeError:  # whoever listened has gone; evidence matters more than words
                sys.stdout = sys.stderr

    def left(self, seconds: float) -> None:
        """About how long the rest will take."""
        self._left = (time.monotonic(), seconds)
        if self.form == "json":
            self.event("left", seconds=round(seconds, 1))

    def _words(self, event: str, fields: dict[str, Any]) -> str | None:
        if event == "plan":
            return f"{fields['cells']} cells to measure"
        if event == "cell":
            self._label = f"[{fields['index']}/{fields['of']}] {fields['label']}"
            return self._label
        if event == "doing":
            side = f" ({fields['side']})" if fields.get("side") else ""
            return f"  {fields['what']}{side}{self._left_words()}"
        if event == "failed":
            return f"  {fields['side']} failed: {fields['error']}"
        if event == "done":
            return f"  {fields['label']}: {fields['status']}" + (f", {fields['reason']}" if fields["reason"] else "")
        if event == "calibration":
            refused = [f"  {cell}: not used, {why}" for cell, why in fields["refused"].items()]
            cells = "1 cell" if fields["used"] == 1 else f"{fields['used']} cells"
            return "\n".join([f"the noise of {cells} was measured before", *refused])
        if event == "end":
            reason = f": {fields['reason']}" if fields.get("reason") else ""
            return f"{fields['status']}{reason}{timed_share(fields)}"
        return None

    def _left_words(self) -> str:
        if self._left is None:
            return ""
        said, seconds = self._left
        return f", about {seconds_in_words(seconds - (time.monotonic() - said))} left"


class Estimate:
    """How long the rest will take, from how long the done part took. `ahead` is work in units of any one size."""

    def __init__(self, progress: Progress, ahead: float) -> None:
        self.progress, self.ahead = progress, ahead
        self._done = 0.0
        self._begin = time.monotonic()

    def done(self, units: float) -> None:
        """`units` of the work are over; says what is left."""
        self._done += units
        self.ahead = max(0.0, self.ahead - units)
        self.progress.left((time.monotonic() - self._begin) / self._done * self.ahead)
