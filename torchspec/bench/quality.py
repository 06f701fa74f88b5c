"""`torchspec bench quality`: measures, asks every design, and has the table, the picture and all answers written.

The tool's own method takes its pairs from pools that are measured once for every truth: equal versions from plain
pairs, as a run has them; a planted change lies in blocks beside the plain ones of its own pairs. It is shown twice:
with the spread between equal pairs known from `calibrate`, whose pairs are measured first and serve for nothing else,
and with three equal pairs of a run's own, as without a calibration. Peers are asked about the same works in between.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from torchspec.bench import asking, peers
from torchspec.bench import plan as plans
from torchspec.bench.course import AHEAD, BUSY, PLANTED, Kept, Options, Step, steps
from torchspec.bench.pool import Pool
from torchspec.bench.summary import written


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """`count` processes that use the cores of this one without pause, for as long as the block lasts."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(options: Options, say: Callable[[str], None]) -> str | None:
    """Measures what is open, for `for_s` seconds at most; the table when everything is measured, else None.

    Writes `quality.md`, `quality.svg` and `quality.json` below `options.out`, of what there is. Raises OtherRun.
    """
    kept = Kept(options)
    open_steps = [step for step in steps(options) if step.key not in kept.steps]
    if open_steps:
        if options.for_s != 0:
            kept.piece()
        left = _measure(options, kept, open_steps, say)
        if left:
            written(options, kept)
            say(f"{left} of {len(steps(options))} steps are left: the same command goes on")
            return None
    return written(options, kept)


def _measure(options: Options, kept: Kept, open_steps: list[Step], say: Callable[[str], None]) -> int:
    """How many steps are left."""
    begin = time.monotonic()
    pool: Pool | None = None
    missing = {(one["peer"], one["condition"]) for one in kept.steps.values() if one.get("missing")}
    try:
        for place, step in enumerate(open_steps):
            if options.for_s is not None and time.monotonic() - begin >= options.for_s:
                return len(open_steps) - place
            if step.peer is not None:
                if (step.peer, step.condition) in missing:
                    kept.step(step.key, {"peer": step.peer, "condition": step.condition, "missing": "as before"})
                    continue
                found = _asked(options, step)
                if found.get("missing"):
                    missing.add((step.peer, step.condition))
                kept.step(step.key, found)
                say(f"{step.key}: {found.get('missing') or format(found['seconds'], '.1f') + ' s'}")
                continue
            pool = pool or Pool(
                options.python,
                builds=options.builds,
                rounds=options.rounds,
                block_ms=options.block_ms,
                seed=options.seed + len(kept.pieces),
            )
            more = step.pool in AHEAD and place + 1 < len(open_steps) and open_steps[place + 1].pool in AHEAD
            plants = options.plants if step.pool in PLANTED else ()
            with neighbours(2 if step.condition == BUSY else 0):
                pair = pool.pair(plants, step.tail, more)
            kept.step(step.key, asdict(pair))
            say(f"{step.key}: {pair.seconds:.1f} s")
    finally:
        if pool is not None:
            pool.close()
    return 0


def _asked(options: Options, step: Step) -> dict[str, Any]:
    """What a peer said, with what it was asked. A tool that failed to answer is missing, with its reason."""
    assert step.peer is not None
    ask = asking.Ask(
        options.python, options.packages, plans.WORKS, step.planted, options.limit, options.peer_s, step.tail
    )
    held = {"peer": step.peer, "planted": step.planted, "condition": step.condition}
    try:
        with neighbours(2 if step.condition == BUSY else 0):
            told = peers.run(step.peer, ask)
    except asking.Unavailable as reason:
        return {**held, "missing": str(reason)}
    return {**held, "answers": told.answers, "seconds": told.seconds}
