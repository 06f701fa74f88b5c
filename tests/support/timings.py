"""Judgements on times: one gate, pairs whose log ratios a test gives, and fresh ones; nothing here was measured."""

from __future__ import annotations

from evidence import book, gate

GROWTH = gate("latency.p50", "growth", "<=", 0.03)


def judged(logs: list[float], fresh: list[float] | None = None, line=GROWTH, **more):  # type: ignore[no-untyped-def]
    made = book(line)
    made.controls(line.metric)
    made.pairs(logs, **more)
    if fresh is not None:
        made.pairs(fresh, stage="confirm", seed=77, **more)
    made.done()
    return made.only()
