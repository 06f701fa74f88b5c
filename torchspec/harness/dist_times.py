"""How long a training cell's checkpoint takes to write and to read: a figure a side in each round, so three in all.

Timed is the sharded form (torch.distributed.checkpoint), from a barrier of all ranks on until the slowest rank is done:
writing ends when the folder has its name, reading when the state is in the model and the optimizer. The first turn of a
round loads code and is not counted; the figure is the median of the others. Both sides are asked the same. Must not
judge.
"""

from __future__ import annotations

import shutil
import statistics
from functools import partial
from typing import Any

from .dist_checks import CheckpointFacts
from .supervise import Unable
from .twice import asked_twice

#: Loading last: a turn that loads has saved before.
CHECKPOINT_TIMES = {"checkpoint.save_time": "save_s", "checkpoint.load_time": "load_s"}
#: Counted turns of a round, fewer where they take longer than this.
TIMED_TURNS = 3
TIMED_ENOUGH_S = 20.0


class CheckpointTimes(CheckpointFacts):
    """The times of one cell, from a round's jobs of both sides."""

    def take(self, repeat: int) -> None:
        """Asks for what the gates want of this round and the ledger lacks. What a side cannot give is unsupported."""
        for side in self.run.sides:
            todo = [metric for metric in CHECKPOINT_TIMES if self.due(metric, side, repeat)]
            if not todo:
                continue
            self.run.progress.event("doing", what="times of checkpoints", side=side)
            try:
                self._side(side, todo, repeat)
            finally:
                self.close()
                shutil.rmtree(self.root, ignore_errors=True)

    def due(self, metric: str, side: str, repeat: int) -> bool:
        """Whether a gate wants it and the ledger lacks it."""
        key = {"cell": self.cell.cell, "side": side, "metric": metric, "against": None, "repeat": repeat}
        return self.cell.needs.wants(metric) and not self.run.past.has("sample", **key)

    def _side(self, side: str, todo: list[str], repeat: int) -> None:
        found: dict[str, Any] = {}
        for metric in reversed(todo):
            if metric not in found:
                try:
                    found.update(self._timed(side, metric))
                except Unable as reason:
                    self.run.unsupported(self.cell.cell, side, metric, reason)
        for metric in todo:
            if metric in found:
                value, turns, size = found[metric]
                detail = {"form": "sharded", "bytes": size, "turns": turns, "world": self.cell.count}
                meter = "perf_counter, the slowest rank"
                self.run.write(*self.cell.figure(side, metric, value, "s", repeat, meter, **detail))

    def _timed(self, side: str, metric: str) -> dict[str, Any]:
        """{metric: (median, seconds of each turn, bytes)} of this metric and of what comes with it."""
        load = metric == "checkpoint.load_time"
        found = asked_twice(
            self.run, self.cell.cell, side, partial(self._turns, side, load), reads=("checkpoint.time",)
        )  # fmt: skip
        if "turns" not in found:
            raise Unable(f"{found['how']} while doing {found['stage']}: {found['error']}", "version")
        size, turns = found["bytes"], found["turns"]
        parts = {name: part for name, part in CHECKPOINT_TIMES.items() if part in turns[0]}
        columns = {name: [turn[part] for turn in turns] for name, part in parts.items()}
        return {name: (statistics.median(column), column, size) for name, column in columns.items()}

    def _turns(self, side: str, load: bool) -> dict[str, Any]:
        turns: list[dict[str, float]] = []
        size = 0
        for turn in range(1 + TIMED_TURNS):
            given = {"name": "checkpoint", "root": str(self.root / side / f"turn{turn}"), "load": load}
            answers = self.opened(side).each("checkpoint.time", self.run.timeout_s, given)
            size = answers[0]["bytes"]
            if turn:
                parts = [part for part in CHECKPOINT_TIMES.values() if part in answers[0]]
                turns.append({part: max(float(one[part]) for one in answers) for part in parts})
            if turns and sum(sum(one.values()) for one in turns) > TIMED_ENOUGH_S:
                break
        return {"turns": turns, "bytes": size}
