"""The course of a benchmark: its options, the steps in the order in which they are measured, and what is kept of each.

A step is a pair of workers under a condition, or a question to a peer. What was measured is kept step by step, so that
a run that was stopped, or that was given a part of the time, goes on where it stopped. Must not measure.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torchspec.bench import peers
from torchspec.bench.pool import PairOf
from torchspec.harness.environ import usable_cores

TAIL = 12  # one call in twelve takes three times as long
ALONE = "as the machine was"
TAILED = f"one call in {TAIL} three times as long"
BUSY = "two busy neighbours"
#: What peers may be asked about beside the quiet machine: versions that are equal, and a slow tail.
CONDITIONS = {"busy": BUSY, "tail": TAILED}
KEPT = "quality.jsonl"
POOLS = {
    "calibration": "of calibration",
    "equal": "of equal versions, as the machine was",
    "quiet": "as the machine was, with planted blocks",
    "still": "as the machine was, for the tail",
    "tail": "with a tail",
    "busy": "with busy neighbours",
}
#: Pools of workers without a slow tail, which may be started before their pair's turn. As in a run, one that is asked
#: for tails starts none ahead.
AHEAD = ("calibration", "equal", "quiet", "busy")
PLANTED = ("quiet", "busy")


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure: pairs of each pool, and questions to each peer (`asked` a truth or condition).

    A plain pair takes 4 to 6 s, one with planted blocks 9 to 12, a question to a peer up to `peer_s`: by that, about
    two hours in all. 300 plain pairs give about 300 comparisons of equal versions of the three works together. A truth
    at the limit takes eight pairs with planted blocks for one comparison of each work: 140 are to give about 50.
    """

    python: str
    out: Path
    equal_pairs: int = 300
    pairs: int = 140
    calibration_pairs: int = 12
    tail_pairs: int = 28
    busy_pairs: int = 16
    asked: int = 1
    peers: tuple[str, ...] = tuple(peers.PEERS)
    packages: str | None = None
    limit: float = 0.03
    plants: tuple[float, ...] = (0.03, 0.05, 0.10)
    peer_truths: tuple[float, ...] = (0.0, 0.05)
    peer_conditions: tuple[str, ...] = tuple(CONDITIONS)
    peer_s: float = 30.0
    min_pairs: int = 2
    max_pairs: int = 8
    builds: int = 4
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
        """Which pairs it belongs to; "peer" for a question."""
        return self.key.split()[0] if self.peer is None else "peer"

    @property
    def tail(self) -> int:
        """One call in so many of b is slow; 0: none."""
        return TAIL if self.condition == TAILED else 0


def steps(options: Options) -> list[Step]:
    """Everything in the order in which it is measured: the calibration, then pairs of each pool and questions to
    peers spread over the run, so that all of them meet the same moods of the machine, and a part of the run holds a
    part of each."""

    def pairs(pool: str, count: int, condition: str = ALONE) -> list[Step]:
        return [Step(f"{pool} {number}", condition) for number in range(count)]

    lists = [
        pairs("equal", options.equal_pairs),
        pairs("quiet", options.pairs),
        _questions(options),
        pairs("still", options.tail_pairs // 2),
        pairs("tail", options.tail_pairs, TAILED),
        pairs("busy", options.busy_pairs, BUSY),
    ]
    placed = [((place + 0.5) / len(one), step) for one in lists for place, step in enumerate(one)]
    return pairs("calibration", options.calibration_pairs) + [
        step for _, step in sorted(placed, key=lambda pair: pair[0])
    ]


def _questions(options: Options) -> list[Step]:
    """Each part asks every peer once about each truth on the machine as it is, and once under each condition."""
    about = [(f"{planted:g}", ALONE, planted) for planted in options.peer_truths]
    about += [(name, CONDITIONS[name], 0.0) for name in options.peer_conditions]
    return [
        Step(f"{peer} {words} {part}", condition, peer, planted)
        for part in range(options.asked)
        for words, condition, planted in about
        for peer in options.peers
    ]


class Kept:
    """What was measured, a JSON line a step, in the folder of the results."""

    def __init__(self, options: Options) -> None:
        self.path = options.out / KEPT
        options.out.mkdir(parents=True, exist_ok=True)
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # it was stopped in the middle of a line
            self.path.write_text(whole, encoding="utf-8")
        held = [json.loads(line) for line in whole.splitlines()]
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

    def pairs(self, *pools: str) -> list[PairOf]:
        """The pairs of these pools, in the order measured."""
        return [_pair(one) for key, one in self.steps.items() if "ratios" in one and key.split()[0] in pools]


def _pair(held: dict[str, Any]) -> PairOf:
    ratios = {
        work: {metric: {float(p): v for p, v in figures.items()} for metric, figures in metrics.items()}
        for work, metrics in held["ratios"].items()
    }
    return PairOf(ratios, held["seconds"], held["timed_s"], held["load"])


def told_truths(truths: Sequence[float]) -> str:
    return ", ".join("equal" if truth == 0 else f"+{truth * 100:g} %" for truth in truths)
