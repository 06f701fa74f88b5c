"""The controls of timing: pairs of the baseline against itself, plain and with planted extra work.

They show whether this machine could see a change at all, and give the spread between equal pairs. Must not compare
versions.
"""

from __future__ import annotations

from typing import Any

from .measure import FEWEST_ROUNDS
from .noise import Noise
from .sequential import decide, series, spread_of_equals
from .sides import Sides, Timed, pair_weight, planted_change
from .timer import PairTimer

FEWEST_CONTROL_PAIRS = 2
#: The share of a cell's time that its controls may take.
CONTROL_SHARE = 0.5
#: However slow a step is, a control's pair has this many rounds.
FEWEST_CONTROL_ROUNDS = 2


def cells_of(number: int) -> str:
    return "1 cell" if number == 1 else f"{number} cells"


class Controls(PairTimer):
    """The controls of a list of comparisons."""

    def take_controls(self, timed: list[Timed]) -> None:
        """The baseline against itself and with planted work, until the planted work is seen or the time is over."""
        for one in timed:
            one.spent_s = 0.0
        while True:
            active = [one for one in timed if self._control_wants_more(one)]
            if not active:
                break
            self.run.progress.event("doing", what=f"controls of {cells_of(len(active))}", side="baseline")
            self.control_pair(active)
        for one in timed:
            self._conclude_control(one)

    def control_pair(self, active: list[Timed]) -> None:
        """One pair of workers of the baseline, in which each of these cells has its turn."""
        noise = Noise(self.run.clocks)
        sides: Sides | None = None
        try:
            ahead = self._after_control(active)
            for one in sorted(active, key=lambda one: one.place):
                sides = self._ready(sides, "baseline", "baseline", "control", one)
                if sides is not None and ahead is not None and not one.tail:
                    self.spares.prepare(self.shuffled(ahead), sides.cores)
                if sides is not None and not self._control_turn(sides, one):
                    sides.close()
                    sides = None
        finally:
            noise.stop()
            if sides is not None:
                sides.close()
        self.run.write("noise", noise.told(sides.pinned if sides is not None else None))
        self.estimate.done(pair_weight(len(active)))

    def _after_control(self, active: list[Timed]) -> tuple[str, str] | None:
        """The sides of the pair after this pair of controls; None: there is none."""
        taken = [len(self.run.past.pairs(one.cell, one.against, "same")) + 1 for one in active]
        return "baseline", "baseline" if min(taken) < self.run.control_pairs else self.run.candidate

    def _plants(self, one: Timed) -> list[tuple[dict[str, Any], float]]:
        """Each gate that has controls, with the ratio to plant for it. Two gates may judge one metric."""
        wanted = [(gate, planted_change(gate)) for gate in one.comparison.gates]
        return [(gate, ratio) for gate, ratio in wanted if ratio is not None]

    def _control_wants_more(self, one: Timed) -> bool:
        done = all(
            (one.cell, gate["metric"], "planted", ratio) in self.run.past.controls for gate, ratio in self._plants(one)
        )
        if one.over is not None or self.run.out_of_time() or done:
            return False
        pairs = len(self.run.past.pairs(one.cell, one.against, "same"))
        in_time = one.spent_s < float(self.budget["cell_s"]) * CONTROL_SHARE
        if pairs < self.run.control_pairs:
            return in_time or pairs < FEWEST_CONTROL_PAIRS
        return in_time and pairs < int(self.budget["max_pairs"]) and not self._planted_seen(one)

    def _planted_seen(self, one: Timed) -> bool:
        """Whether the stopping rule calls every planted regression a failure candidate. As in the judge, the spread
        between the plain equal pairs counts: without it two pairs have a single degree of freedom."""
        for gate, plant in self._plants(one):
            held = self.run.past.pairs(one.cell, one.against, "planted", plant)
            found = series(gate["metric"], gate["limit"], held)
            if found is None:
                continue
            estimates, tau, direction = found
            equals = series(gate["metric"], gate["limit"], self.run.past.pairs(one.cell, one.against, "same"))
            s0, n0 = spread_of_equals(equals[0], None) or (None, 0) if equals is not None else (None, 0)
            limits = {"min_pairs": self.run.control_pairs, "max_pairs": int(self.budget["max_pairs"])}
            if decide(estimates, tau, direction, s0=s0, n0=n0, **limits) != "fail-candidate":
                return False
        return True

    def _control_turn(self, sides: Sides, one: Timed) -> bool:
        pair = self.run.past.next_pair(one.cell, one.against, "same")
        plants = sorted({ratio for _, ratio in self._plants(one)})
        return self.turn(sides, one, lambda build: self._control_build(sides, one, pair, build, plants))

    def _control_build(self, sides: Sides, one: Timed, pair: int, build: int, plants: list[float]) -> None:
        """Rounds of a block of each side, plain, and of a block of each side behind whose calls planted work is done:
        within the time of b's calls, behind that of a's. So both turns are as when versions are compared (were b asked
        more often than a, it would look faster by what a switch costs), and what the planted work does to the call
        behind it, it does to both."""
        if build:
            self._lay_out(sides, one)
            sides.both("warm", {"name": "a", "again": True}, {"name": "b", "again": True})
        preempted = {"a": 0, "b": 0}
        same: list[Any] = []
        planted: dict[float, list[Any]] = {plant: [] for plant in plants}
        of = one.rounds if one.rounds > FEWEST_ROUNDS else FEWEST_CONTROL_ROUNDS
        for _ in range(of):
            turns: list[list[float]] = [[], [0.0, *plants]] if plants else [[]]
            self.random.shuffle(turns)
            for asked in turns:
                order = sides.order()
                taken = {name: self._block(sides, one, name, asked, preempted) for name in order}
                if not asked:
                    same.append({"order": order, "a_ns": taken["a"][0], "b_ns": taken["b"][0]})
                for plant, times in zip(asked[1:], taken["b"][1:], strict=True):
                    planted[plant].append({"order": order, "a_ns": taken["a"][0], "b_ns": times})
        self._record(one, "same", pair, build, sides.names, same, preempted, None, of)
        for plant, rounds in planted.items():
            self._record(one, "planted", pair, build, sides.names, rounds, preempted, plant, of)

    def _conclude_control(self, one: Timed) -> None:
        """Writes what the judge needs to hold the controls, and keeps the spread between equal pairs."""
        past = self.run.past
        for gate, plant in self._plants(one):
            metric = gate["metric"]
            same = past.pairs(one.cell, one.against, "same")
            for what, ratio in (("same", None), ("planted", plant)):
                if (one.cell, metric, what, ratio) in past.controls:
                    continue
                few = len(past.pairs(one.cell, one.against, what, ratio)) < FEWEST_CONTROL_PAIRS
                error = one.over or "no control could be measured in the time there was" if few else None
                seqs = past.seqs(one.cell, one.against, what, ratio)
                body = {"cell": one.cell, "candidate": self.run.candidate, "metric": metric, "what": what}
                self.run.write("control", {**body, "planted": ratio, "timing": seqs, "error": error})
            found = series(metric, gate["limit"], same)
            equals = found[0] if found is not None else []
            known = spread_of_equals(equals, self.run.calibration.get((one.cell, metric)))
            if known is not None:
                one.spreads[metric] = known
