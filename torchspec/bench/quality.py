"""`torchspec bench quality`: measures, asks every design, and writes the table, the picture and all answers.

The tool's own method takes its pairs from a pool that is measured once for every truth: a planted change lies in blocks
beside the plain ones. It is shown twice: with the spread between equal pairs known from `calibrate`, whose pairs are
measured first and serve for nothing else, and with three equal pairs of a run's own, as without a calibration. Peers
are asked about the same works in between, each for as long as `peer_s`. What was measured is kept step by step, so that
a run that was stopped, or that was given a part of the time, goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torchspec.bench import asking, ours, peers, report
from torchspec.bench import plan as plans
from torchspec.bench.pool import PairOf, Pool
from torchspec.bench.rates import Answer, rates
from torchspec.bench.targets import targets
from torchspec.harness.environ import cpu_model, usable_cores
from torchspec.harness.run import CONTROL_PAIRS

TAIL = 12  # one call in twelve takes three times as long
ALONE = "as the machine was"
TAILED = f"one call in {TAIL} three times as long"
BUSY = "two busy neighbours"
KEPT = "quality.jsonl"
POOLS = {
    "calibration": "of calibration",
    "quiet": "as the machine was, with planted blocks",
    "still": "as the machine was, for the tail",
    "tail": "with a tail",
    "busy": "with busy neighbours",
}
#: Of so many equal pairs each the two-sided interval is asked whether they differ.
DIFFERENT = 4
CALIBRATED = "torchspec, calibrated"
OWN_HOW = {
    CALIBRATED: "pairs of fresh workers as the driver takes them, with the spread between equal pairs "
    "known from the pairs of the calibration, as far as the three equal pairs before agree with it; a run takes these "
    "controls once for all its candidates, and their time is not counted",
    "torchspec": f"the same without a calibration: {CONTROL_PAIRS} equal pairs of the run's own come first, and their "
    "time counts",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure. `pairs` for each of the conditions; `asked` questions to each peer and truth."""

    python: str
    out: Path
    pairs: int = 260
    calibration_pairs: int = 12
    tail_pairs: int = 16
    busy_pairs: int = 24
    asked: int = 2
    peers: tuple[str, ...] = tuple(peers.PEERS)
    packages: str | None = None
    limit: float = 0.03
    plants: tuple[float, ...] = (0.03, 0.05, 0.10)
    peer_truths: tuple[float, ...] = (0.0, 0.05)
    peer_s: float = 30.0
    min_pairs: int = 2
    max_pairs: int = 8
    builds: int = 6
    rounds: int = 10
    block_ms: float = 10.0
    seed: int = 1
    for_s: float | None = None

    def described(self) -> dict[str, Any]:
        """What makes two runs one: everything but where it is written and for how long."""
        held = asdict(self)
        return json.loads(json.dumps({k: v for k, v in held.items() if k not in ("out", "for_s", "packages")}))  # type: ignore[no-any-return]


class OtherRun(Exception):
    """The folder holds what was measured with other options."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to measure: a pair under a condition, or a question to a peer."""

    key: str
    condition: str = ALONE
    peer: str | None = None
    planted: float = 0.0

    @property
    def pool(self) -> str:
        """Which pairs it belongs to."""
        return self.key.split()[0]


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


def steps(options: Options) -> list[Step]:
    """Everything in the order in which it is measured: the calibration, then pairs of each condition and questions to
    peers spread over the run, so that all of them meet the same moods of the machine, and a part of the run holds a
    part of each."""
    asked = [
        Step(f"{name} {planted:g} {part}", ALONE, name, planted)
        for part in range(options.asked)
        for planted in options.peer_truths
        for name in options.peers
    ]
    lists = [
        [Step(f"quiet {number}") for number in range(options.pairs)],
        asked,
        [Step(f"still {number}") for number in range(options.tail_pairs)],
        [Step(f"tail {number}", TAILED) for number in range(options.tail_pairs)],
        [Step(f"busy {number}", BUSY) for number in range(options.busy_pairs)],
    ]
    placed = [((place + 0.5) / len(one), step) for one in lists for place, step in enumerate(one)]
    calibration = [Step(f"calibration {number}") for number in range(options.calibration_pairs)]
    return calibration + [step for _, step in sorted(placed, key=lambda pair: pair[0])]


class Kept:
    """What was measured, a JSON line a step, in the folder of the results."""

    def __init__(self, options: Options) -> None:
        self.path = options.out / KEPT
        options.out.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        held = [json.loads(line) for line in lines]
        if held and held[0]["options"] != options.described():
            raise OtherRun(str(self.path))
        self.steps: dict[str, dict[str, Any]] = {one["key"]: one for one in held if "key" in one}
        self.pieces: list[dict[str, Any]] = [one for one in held if "begun" in one]
        if not held:
            self._add({"options": options.described()})

    def _add(self, line: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def piece(self) -> None:
        """A new piece of the run begins."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.pieces.append({"begun": now, "cores": len(usable_cores())})
        self._add(self.pieces[-1])

    def step(self, key: str, found: dict[str, Any]) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.steps[key] = {"key": key, "at": at, **found}
        self._add(self.steps[key])

    def pairs(self, begin: str) -> list[PairOf]:
        """The pairs whose key begins so, in the order measured."""
        return [_pair(one) for key, one in self.steps.items() if key.startswith(begin) and "ratios" in one]


def _pair(held: dict[str, Any]) -> PairOf:
    ratios = {
        work: {metric: {float(p): v for p, v in figures.items()} for metric, figures in metrics.items()}
        for work, metrics in held["ratios"].items()
    }
    return PairOf(ratios, held["seconds"], held["timed_s"], held["load"])


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
    missing = {one["peer"] for one in kept.steps.values() if one.get("missing")}
    try:
        for place, step in enumerate(open_steps):
            if options.for_s is not None and time.monotonic() - begin >= options.for_s:
                return len(open_steps) - place
            if step.peer is not None:
                if step.peer not in missing:
                    found = _asked(options, step)
                    if found.get("missing"):
                        missing.add(step.peer)
                    kept.step(step.key, found)
                    say(f"{step.key}: {found.get('missing') or format(found['seconds'], '.1f') + ' s'}")
                else:
                    kept.step(step.key, {"peer": step.peer, "missing": "as before"})
                continue
            pool = pool or Pool(
                options.python,
                builds=options.builds,
                rounds=options.rounds,
                block_ms=options.block_ms,
                seed=options.seed + len(kept.pieces),
            )
            quick = step.pool in ("calibration", "quiet", "busy")  # a run that is asked for tails starts no spares
            follows = place + 1 < len(open_steps) and open_steps[place + 1].pool == step.pool
            plants = options.plants if step.pool in ("quiet", "busy") else ()
            with neighbours(2 if step.condition == BUSY else 0):
                pair = pool.pair(plants, TAIL if step.condition == TAILED else 0, quick and follows)
            kept.step(step.key, asdict(pair))
            say(f"{step.key}: {pair.seconds:.1f} s")
    finally:
        if pool is not None:
            pool.close()
    return 0


def _asked(options: Options, step: Step) -> dict[str, Any]:
    assert step.peer is not None
    ask = asking.Ask(options.python, options.packages, plans.WORKS, step.planted, options.limit, options.peer_s)
    held = {"peer": step.peer, "planted": step.planted}
    try:
        told = peers.run(step.peer, ask)
    except asking.Unavailable as reason:
        return {**held, "missing": str(reason)}
    return {**held, "answers": told.answers, "seconds": told.seconds}


def written(options: Options, kept: Kept) -> str:
    """The table, of what was kept alone; all three files are written."""
    answers = [*_own(options, kept), *_theirs(kept)]
    found = rates(answers, options.limit)
    missing = {one["peer"]: one["missing"] for one in reversed(kept.steps.values()) if one.get("missing")}
    how = {**OWN_HOW, **peers.HOW}
    setting = _setting(options, kept)
    equal = kept.pairs("quiet ")
    different = {work: ours.called_different(equal, work, "latency.p50", DIFFERENT) for work in plans.WORKS}
    off = {
        (condition, work): (len(pool), ours.off_by(pool, work, "latency.p50"))
        for condition, pool in ((ALONE, equal), (BUSY, kept.pairs("busy ")))
        for work in plans.WORKS
        if pool
    }
    aims = targets(found, CALIBRATED, ALONE, BUSY, options.limit, different)
    text = report.table(found, missing, setting, how, different, DIFFERENT, off, aims)
    (options.out / "quality.md").write_text(text, encoding="utf-8")
    (options.out / "quality.svg").write_text(report.picture(found), encoding="utf-8")
    held = {"setting": setting, "missing": missing, "answers": [asdict(a) for a in answers]}
    (options.out / "quality.json").write_text(json.dumps(held, indent=1), encoding="utf-8")
    return text


def _own(options: Options, kept: Kept) -> list[Answer]:
    pools = {name: kept.pairs(f"{name} ") for name in ("calibration", "quiet", "still", "tail", "busy")}
    plain_s = ours.usual_seconds(pools["calibration"])
    every = (0.0, *options.plants)
    known, own = CALIBRATED, "torchspec"
    asked = [
        (known, "quiet", ALONE, every, "latency.p50"),
        (known, "busy", BUSY, every, "latency.p50"),
        (known, "tail", TAILED, (0.0,), "latency.p50"),
        (known, "tail", TAILED, (0.0,), "latency.p95"),
        (own, "quiet", ALONE, every, "latency.p50"),
        (own, "busy", BUSY, every, "latency.p50"),
        (own, "still", ALONE, (0.0,), "latency.p95"),
    ]
    found: list[Answer] = []
    for design, name, condition, plants, metric in asked:
        calibrated = pools["still" if metric == "latency.p95" else "calibration"]
        for planted in plants:
            truth = 3.0 if condition == TAILED and metric == "latency.p95" else 1.0 + planted
            for work in plans.WORKS:
                found += ours.comparisons(
                    pools[name],
                    work,
                    metric,
                    planted,
                    options.limit,
                    design=design,
                    condition=condition,
                    truth=truth,
                    min_pairs=options.min_pairs,
                    max_pairs=options.max_pairs,
                    known=ours.spread(calibrated, work, metric) if design == known else None,
                    controls=0 if name == "tail" else CONTROL_PAIRS,
                    pair_s=plain_s if name == "quiet" else None,
                )
    return found


def _theirs(kept: Kept) -> list[Answer]:
    return [
        Answer(
            one["peer"],
            work,
            "its own",
            ALONE,
            1.0 + one["planted"],
            verdict,
            ratio,
            one["seconds"] / len(one["answers"]),
            None,
            one["seconds"],
        )
        for one in kept.steps.values()
        for work, (verdict, ratio) in one.get("answers", {}).items()
    ]


def _setting(options: Options, kept: Kept) -> dict[str, str]:
    quiet, plain = kept.pairs("quiet "), kept.pairs("calibration ")
    counts = [f"{len(kept.pairs(f'{name} '))} {words}" for name, words in POOLS.items()]
    loads = sorted(pair.load for pair in quiet if pair.load is not None)
    spent = sum(one.get("seconds", 0.0) for one in kept.steps.values())
    ends = [one["at"] for one in kept.steps.values()]
    asked = len(steps(options))
    cores = sorted({one["cores"] for one in kept.pieces})
    tools = peers.versions(options.python, options.packages)
    usual = ours.usual_seconds(plain)
    share = sum(pair.timed_s for pair in plain[1:]) / max(1e-9, sum(pair.seconds for pair in plain[1:]))
    return {
        "measured": f"{len(ends)} of {asked} steps, {kept.pieces[0]['begun']} to {max(ends)}, "
        f"in {len(kept.pieces)} pieces"
        if ends
        else "nothing",
        "machine": f"{platform.system()} {platform.machine()}, {cpu_model()}, {os.cpu_count()} cores, of which "
        f"{' or '.join(map(str, cores))} could be used",
        "load during these pairs": f"{loads[0]:.1f} to {loads[-1]:.1f}, median {loads[len(loads) // 2]:.1f}"
        if loads
        else "not told",
        "versions": ", ".join(f"{name} {version}" for name, version in tools.items()),
        "limit": f"growth <= {options.limit * 100:g} %",
        "pairs": ", ".join(counts),
        "a pair without planted blocks": f"{usual:.1f} s for {len(plans.WORKS)} works together, {share * 100:.0f} % of "
        "it inside timed work"
        if usual is not None
        else "not measured",
        "design": f"{options.min_pairs} to {options.max_pairs} pairs, {options.builds} builds, {options.rounds} rounds "
        f"of {options.block_ms:g} ms; a failure needs as many fresh pairs again",
        "a peer's time": f"{options.peer_s:g} s for a comparison of all works",
        "seconds in all": f"{spent:.0f}",
    }
