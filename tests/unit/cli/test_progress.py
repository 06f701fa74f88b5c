"""Progress: what a terminal shows fits its line, what a log shows stays."""

from __future__ import annotations

import io

import pytest

from torchspec.cli.progress import Progress, cut, duration
from torchspec.core.diagnostics import display_width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.6, "1 min 00 s"), (61, "1 min 01 s"), (3599.7, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize("text", ["short", "x" * 200, "日本語" * 40])
def test_a_live_line_never_wraps(text: str) -> None:
    assert display_width(cut(text, 79)) <= 79


def test_a_terminal_has_one_live_line_and_plain_output_has_none() -> None:
    events = [
        {"event": "backend", "backend": "cpu", "candidate": "candidate"},
        {"event": "cell", "cell": "1", "label": "attention cpu infer", "index": 1, "of": 2},
        {"event": "left", "seconds": 90},
        {"event": "doing", "what": "fresh process 1 of 3"},
        {
            "event": "done",
            "cell": "1",
            "label": "attention cpu infer",
            "status": "not_run",
            "reason": "no\x1b[31m device",
        },
        {"event": "unknown"},
    ]
    live, plain = Terminal(), io.StringIO()
    for stream in (live, plain):
        with Progress(stream, color=False) as progress:
            for event in events:
                progress.event(event)
    assert live.getvalue().count("\r") >= 2
    assert "[1/2] attention cpu infer: fresh process 1 of 3, about 1 min 30 s left" in live.getvalue()
    assert "\r" not in plain.getvalue()
    assert "attention cpu infer: not run: no<U+001B>[31m device" in plain.getvalue()


def test_a_run_ends_with_the_share_of_its_time_inside_timed_work() -> None:
    plain = io.StringIO()
    with Progress(plain, color=False) as progress:
        progress.event({"event": "calibration", "used": 3, "refused": {}})
        progress.event({"event": "end", "seconds": 200.0, "timed_s": 80.0, "pairs_s": 100.0})
        progress.event({"event": "end", "seconds": 200.0, "timed_s": 80.0, "pairs_s": 140.0, "compiling_s": 40.0})
        progress.event({"event": "end", "seconds": 20.0, "timed_s": 0.0, "pairs_s": 0.0})  # nothing was timed
    assert plain.getvalue() == (
        "  the noise of 3 cells on this machine was measured before\n"
        "  40 % of 200 s inside timed work, 80 % of the 100 s of pairs\n"
        "  40 % of 200 s inside timed work, 80 % of the 100 s of pairs beside 40 s of\n"
        "    compiling\n"
    )
