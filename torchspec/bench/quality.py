"""`torchspec bench quality`: measures, asks every design, and writes the table, the picture and all answers.

The tool's own method takes its pairs from a pool that is measured once for every truth: a planted change lies in blocks
beside the plain ones. Peers are asked one comparison at a time, for as long as the tool's own took on average.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torchspec.bench import ours, peers, report
from torchspec.bench import plan as plans
from torchspec.bench.pool import PairOf, Pool
from torchspec.bench.rates import Answer, rates

TAIL = 12  # one call in twelve takes three times as long


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure. `pairs` for each of the conditions; `asked` comparisons of each peer, work and truth."""

    python: str
    out: Path
    pairs: int = 60
    tail_pairs: int = 30
    busy_pairs: int = 30
    asked: int = 5
    peers: tuple[str, ...] = tuple(peers.PEERS)
    packages: str | None = None
    limit: float = 0.03
    plants: tuple[float, ...] = (0.03, 0.05, 0.10)
    min_pairs: int = 3
    max_pairs: int = 8
    builds: int = 4
    rounds: int = 10
    block_ms: float = 10.0
    seed: int = 1


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """`count` processes that use their cores without pause, for as long as the block lasts."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(options: Options, say: Callable[[str], None]) -> str:
    """Measures everything and writes `quality.md`, `quality.svg` and `quality.json` below `options.out`."""
    begin = time.monotonic()
    answers: list[Answer] = []
    pool = Pool(
        options.python, builds=options.builds, rounds=options.rounds, block_ms=options.block_ms, seed=options.seed
    )
    shares: list[float] = []
    try:
        quiet = _measured(pool, options.pairs, options.plants, 0, "quiet", say, shares)
        answers += _ours(options, quiet, "quiet", (0.0, *options.plants), "latency.p50")
        answers += _ours(options, quiet, "quiet", (0.0,), "latency.p95")
        tail = _measured(pool, options.tail_pairs, (), TAIL, "tail", say, shares)
        for metric in ("latency.p50", "latency.p95"):
            answers += _ours(options, tail, f"one call in {TAIL} three times as long", (0.0,), metric)
        with neighbours(2):
            busy = _measured(pool, options.busy_pairs, options.plants, 0, "two busy neighbours", say, shares)
        answers += _ours(options, busy, "two busy neighbours", (0.0, *options.plants), "latency.p50")
    finally:
        pool.close()
    missing = _peers(options, answers, say)
    setting = _setting(options, time.monotonic() - begin, shares)
    found = rates(answers)
    how = {"torchspec": "pairs of fresh workers as the driver takes them", **peers.HOW}
    text = report.table(found, missing, setting, how)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "quality.md").write_text(text, encoding="utf-8")
    (options.out / "quality.svg").write_text(report.picture(found), encoding="utf-8")
    held = {"setting": setting, "missing": missing, "answers": [asdict(a) for a in answers]}
    (options.out / "quality.json").write_text(json.dumps(held, indent=1), encoding="utf-8")
    return text


def _measured(
    pool: Pool,
    count: int,
    plants: Sequence[float],
    tail: int,
    name: str,
    say: Callable[[str], None],
    shares: list[float],
) -> list[PairOf]:
    found = []
    for number in range(count):
        found.append(pool.pair(plants, tail))
        shares.append(found[-1].timed_s / found[-1].seconds)
        say(f"{name}: pair {number + 1} of {count} in {found[-1].seconds:.1f} s")
    return found


def _ours(
    options: Options, pool: Sequence[PairOf], condition: str, plants: Sequence[float], metric: str
) -> list[Answer]:
    found = []
    for planted in plants:
        for work in plans.WORKS:
            found += ours.comparisons(
                pool,
                work,
                metric,
                planted,
                options.limit,
                condition=condition,
                truth=1.0 + planted,
                min_pairs=options.min_pairs,
                max_pairs=options.max_pairs,
            )
    return found


def _peers(options: Options, answers: list[Answer], say: Callable[[str], None]) -> dict[str, str]:
    """Asks the peers and appends their answers; gives who could not be asked, and why."""
    own = [a.seconds for a in answers if a.design == "torchspec" and a.condition == "quiet"]
    budget = max(10.0, sum(own) / len(own)) if own else 30.0
    missing: dict[str, str] = {}
    for name in options.peers:
        for planted in (0.0, *options.plants):
            for work in plans.WORKS:
                for number in range(options.asked):
                    if name in missing:
                        break
                    say(f"{name}: {work}, {report.told(1 + planted)}, {number + 1} of {options.asked}")
                    ask = peers.Ask(options.python, options.packages, work, planted, options.limit, budget)
                    try:
                        told = peers.run(name, ask)
                    except (peers.Unavailable, subprocess.TimeoutExpired) as reason:
                        missing[name] = str(reason)
                        break
                    answers.append(
                        Answer(
                            name, work, "latency.p50", "quiet", 1.0 + planted, told.verdict, told.ratio, told.seconds
                        )
                    )
    return missing


def _setting(options: Options, seconds: float, shares: Sequence[float]) -> dict[str, str]:
    load = os.getloadavg() if hasattr(os, "getloadavg") else (float("nan"),) * 3
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load at the end": f"{load[0]:.1f}",
        "limit": f"growth <= {options.limit * 100:g} %",
        "pairs": f"{options.pairs} quiet, {options.tail_pairs} tail, {options.busy_pairs} with busy neighbours",
        "design": f"{options.min_pairs} to {options.max_pairs} pairs, {options.builds} builds, {options.rounds} rounds "
        f"of {options.block_ms:g} ms",
        "share of a pair's time inside timed work": f"{sum(shares) / len(shares) * 100:.0f} %" if shares else "none",
        "seconds in all": f"{seconds:.0f}",
    }
