"""What the driver does with cells of ranks before they are timed: frozen work, facts and figures, both sides in turn.

Jobs are dear to start, so the cells of a round share them: a round is one fresh job a side and rank count, each cell
opens its work in it and closes it again. Three rounds give the figures that need fresh processes, and at its end a
round's jobs are one of the pairs that are timed. Recovery and faults end their jobs and have jobs of their own. Must
not judge.
"""

from __future__ import annotations

from collections.abc import Callable

from .dist_cell import RankCell, RankPlantedMemory, RankPool
from .dist_checks import CheckpointFacts
from .dist_fault_trials import FaultTrials
from .dist_times import CheckpointTimes
from .dist_trials import RecoveryTrials
from .dist_worker import RankRun
from .fresh import CellOver
from .needs import Comparison
from .pairs import Pairs
from .progress import Estimate
from .spares import Spares
from .supervise import Worker


class RoundJobs(Spares):
    """A round's jobs, lent to a pair: whoever times with them may not end them."""

    def __init__(self, run: RankRun, pool: RankPool) -> None:
        super().__init__(run, {})
        self.pool = pool

    def take(self, side: str, purpose: str) -> Worker:
        worker = self.pool.worker(side)
        worker.lent = True
        return worker


class RankCells:
    """All open cells of a run of ranks, until they can be timed."""

    def __init__(self, run: RankRun, cells: list[str], estimate: Estimate) -> None:
        self.run, self.pool = run, RankPool(run)
        self.open = {cell: RankCell(run, cell, estimate, self.pool) for cell in cells}
        timed = [comparison for cell in self.open.values() for comparison in cell.needs.comparisons]
        self.pairs = Pairs(run, timed, estimate, RoundJobs(run, self.pool))

    def all(self) -> list[Comparison]:
        """Everything but timing; the comparisons that are still to be timed."""
        try:
            for cell in list(self.open.values()):
                self._act(cell, cell.freeze)
            self.run.end_maker()
            for repeat in range(max((cell.needs.processes for cell in self.open.values()), default=0)):
                self._round(repeat)
            self.run.end_greeters()
            for cell in list(self.open.values()):
                self._act(cell, RecoveryTrials(cell).all)
            FaultTrials(self.run, list(self.open.values())).all()
        finally:
            self.pool.end()
            self.run.end_greeters()
        comparisons: list[Comparison] = []
        for cell in self.open.values():
            cell.finish()
            comparisons += cell.needs.comparisons
            if not cell.needs.comparisons:
                self.run.cell_done(cell.cell, "measured", None)
        self.run.settled = self.run.rank_counts([one.cell for one in comparisons]) if comparisons else None
        return comparisons

    def _round(self, repeat: int) -> None:
        due = [cell for cell in self.open.values() if repeat < cell.needs.processes]
        timed = [one.cell for one in self.pairs.timed if one.cell in self.open]
        self.pool.begin(f"round{repeat}", self.run.rank_counts([*(cell.cell for cell in due), *timed]))
        for index, cell in enumerate(due, 1):
            label = self.run.embedded.cells[cell.cell]["label"]
            self.run.progress.event(
                "cell", cell=cell.cell, label=label, candidate=self.run.candidate, index=index, of=len(due)
            )

            def turn(cell: RankCell = cell) -> None:
                cell.round(repeat)
                if repeat == 0:
                    CheckpointFacts(cell).all()
                CheckpointTimes(cell).take(repeat)

            self._act(cell, turn)
        self.pairs.timed = [one for one in self.pairs.timed if one.cell in self.open]
        # In the first round the two sides are not asked the same (errors, checkpoints, the control of memory): it is
        # not timed, and what only the baseline is asked comes behind the figures of all cells.
        if repeat:
            self.pairs.early()
        else:
            for cell in [one for one in due if one.cell in self.open]:
                self._act(cell, RankPlantedMemory(cell).take)
        self.pool.end()

    def _act(self, cell: RankCell, act: Callable[[], None]) -> None:
        """Runs `act`; a cell that ends with it is closed and leaves the list."""
        try:
            if self.run.out_of_time():
                raise CellOver("error", "the time for the whole run was spent before this cell")
            act()
        except CellOver as over:
            self.run.cell_done(cell.cell, over.status, over.reason)
            del self.open[cell.cell]
