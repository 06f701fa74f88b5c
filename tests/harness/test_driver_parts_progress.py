"""How the driver says what it does: events for programs, words for people."""

from __future__ import annotations

import json

import pytest

from torchspec.harness.progress import Estimate, Progress, seconds_in_words


def test_progress_speaks_to_programs_and_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    Progress("json").event("cell", cell="c", label="é", index=1, of=2)
    Estimate(Progress("json"), 10).done(5)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {"event": "cell", "cell": "c", "label": "é", "index": 1, "of": 2}
    assert lines[1]["event"] == "left"
    words = Progress("text")
    words.event("cell", cell="c", label="attention", index=1, of=2)
    words.left(75)
    words.event("doing", what="latency pair 2 of up to 8", side="baseline")
    assert capsys.readouterr().out == "[1/2] attention\n  latency pair 2 of up to 8 (baseline), about 1 min 15 s left\n"
    words.event("end", status="completed", reason=None, seconds=200.0, timed_s=80.0, pairs_s=100.0)
    said = "completed; 40 % of 200 s inside timed work, 80 % of the 100 s of pairs\n"
    assert capsys.readouterr().out == said
    words.event("end", status="completed", reason=None, seconds=200.0, timed_s=80.0, pairs_s=140.0, compiling_s=40.0)
    assert capsys.readouterr().out == said.replace("pairs", "pairs beside 40 s of compiling")
    words.event("end", status="failed", reason="why", seconds=2.0, timed_s=0.0, pairs_s=0.0)
    assert capsys.readouterr().out == "failed: why\n"
    assert [seconds_in_words(s) for s in (-3, 0.4, 59.4, 60, 3600)] == ["0 s", "0 s", "59 s", "1 min 0 s", "60 min 0 s"]
