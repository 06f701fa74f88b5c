"""The order of the stages of `torchspec calibrate`: provision the baseline, measure equal pairs, keep their spread."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchspec import __version__, calibration
from torchspec.core.canon import file_digest
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.model.plan import Gate, Plan
from torchspec.pipeline import Compiled
from torchspec.pipeline_run import OnEvent, driven, new_run_id

if TYPE_CHECKING:
    from torchspec.judge.timing import Scale
    from torchspec.model.evidence import Record
    from torchspec.provision import Environment

#: Fewer equal pairs say little of their spread.
FEWEST = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """What a calibration says of one gate: the spread, and the smallest change that pairs so spread tell from none.

    `first` is that after the fewest pairs of a comparison, `last` after the most; a gate wants to see `wanted`.
    """

    cell: str
    label: str
    metric: str
    pairs: int
    spread: float
    first: float
    last: float
    wanted: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was measured, and the cells of which nothing could be said, with the reason."""

    seen: tuple[Seen, ...]
    without: dict[str, str]
    interrupted: bool = False


def timed(plan: Plan, backend: str) -> dict[str, list[Gate]]:
    """The cells of a backend with gates that a calibration serves: timed, with a limit relative to the baseline."""
    from torchspec.catalog import load

    metrics = load().metrics
    measured = driven(plan, backend)
    found: dict[str, list[Gate]] = {}
    for cell in plan.cells:
        if cell.id in measured:
            for gate in plan.gates:
                known = metrics.get(gate.metric)
                relative = gate.limit.form in ("growth", "drop") and gate.against in (None, "baseline")
                if cell.id in gate.cells and relative and known is not None and known.sampling == "timing":
                    found.setdefault(cell.id, []).append(gate)
    return found


def provision(compiled: Compiled, on_event: OnEvent) -> Result[Environment]:
    """The baseline's environment, made or reused."""
    from torchspec import provision as environments

    plan, cache = compiled.plan, environments.cache_folder()
    return environments.ensure(plan, plan.baseline, spec_folder=compiled.spec.parent, cache=cache, on_event=on_event)


def calibrate(
    compiled: Compiled, environment: Environment, on_event: OnEvent, *, pairs: int, only: tuple[str, ...] = ()
) -> Result[Calibrated]:
    """Measure `pairs` equal pairs of each timed cell that can run here, and keep their spread in the user's cache."""
    from torchspec.provision import cache_folder

    seen: list[Seen] = []
    without: dict[str, str] = {}
    said: list[Diagnostic] = []
    cache = cache_folder()
    interrupted = False
    for backend in compiled.plan.backends:
        cells = [cell for cell in timed(compiled.plan, backend.name) if not only or cell in only]
        if not cells or interrupted:
            continue
        on_event({"event": "backend", "backend": backend.name, "candidate": "baseline"})
        calibration.folder(cache).mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="work-", dir=calibration.folder(cache)))
        try:
            result = _driven(compiled, backend.name, environment, work, on_event, pairs, cells)
            said += result.diagnostics
            interrupted = result.value == "interrupted"
            ledger = work / "ledger.jsonl"
            if ledger.exists():
                kept, why = keep(compiled.plan, ledger, cells, cache)
                seen += kept
                without |= why
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return Result(Calibrated(tuple(seen), without, interrupted), tuple(said))


def _driven(
    compiled: Compiled,
    backend: str,
    environment: Environment,
    work: Path,
    on_event: OnEvent,
    pairs: int,
    cells: list[str],
) -> Result[str]:
    from torchspec import execute

    result = execute.run_backend(
        compiled.harness(backend),
        backend=backend,
        baseline=environment.python,
        candidate=environment.python,
        candidate_id=compiled.plan.candidates[0].id,
        evidence=work,
        run=new_run_id(),
        context={"plan": compiled.plan_digest, "tool": __version__, "calibrate": pairs},
        on_event=on_event,
        only=tuple(cells),
    )
    return Result(result.value.status if result.value else None, result.diagnostics)


def keep(plan: Plan, ledger: Path, cells: list[str], cache: Path) -> tuple[list[Seen], dict[str, str]]:
    """The spread of each cell's gates from the ledger, into the cache."""
    from torchspec import ledger as ledgers
    from torchspec.judge.pairs import Timed
    from torchspec.judge.stats import spread_of_equals

    records = list(ledgers.read(ledger))
    identity = next((r.body for r in records if r.kind == "note" and r.body.get("what") == "calibrated"), None)
    if identity is None:
        return [], dict.fromkeys(cells, "the measuring did not begin")
    at = records[-1].time
    proof = file_digest(ledger)
    kept = calibration.folder(cache) / "ledgers" / f"{proof[:16]}.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ledger, kept)
    seen: list[Seen] = []
    without = _endings(records)
    gates = {cell: found for b in plan.backends for cell, found in timed(plan, b.name).items()}
    for cell in cells:
        equal = Timed([r for r in records if r.kind == "timing" and r.body.get("cell") == cell])
        metrics: dict[str, tuple[float, int]] = {}
        for gate in gates[cell]:
            scale = _scale(plan, gate, cell)
            values = scale.values(equal.pairs("same", None, _stem(gate.metric)))
            spread = spread_of_equals(values, None)
            if len(values) < FEWEST or spread is None:
                without.setdefault(cell, f"{len(values)} equal pairs were measured, and {FEWEST} are the fewest")
                continue
            metrics[gate.metric] = spread.s0, spread.n0
            seen.append(_seen(plan, gate, cell, spread.s0, spread.n0))
        if metrics:
            parts = {part: identity[part] for part in ("machine", "environment", "shape")}
            calibration.write(cache, calibration.Calibration(cell, at, parts, metrics, proof))
    return seen, without


def _endings(records: Iterable[Record]) -> dict[str, str]:
    ended = [r.body for r in records if r.kind == "cell.done" and r.body["status"] != "measured"]
    return {str(body["cell"]): str(body["reason"]) for body in ended}


def _stem(metric: str) -> str | None:
    from torchspec.judge.timing import stem_of

    return stem_of(metric)


def _scale(plan: Plan, gate: Gate, cell: str) -> Scale:
    from torchspec.catalog import load
    from torchspec.judge.finding import Question
    from torchspec.judge.timing import scale_of

    budget = plan.budget
    metric = load().metrics[gate.metric]
    return scale_of(
        Question(
            metric, gate.limit, gate.against, cell, "baseline", "", budget.min_pairs, budget.max_pairs, None, gate.sees
        )
    )


def _seen(plan: Plan, gate: Gate, cell: str, s0: float, n0: int) -> Seen:
    import math

    from torchspec.judge.stats import ALPHA, Bounds, nominal_level, visible_shift

    budget = plan.budget
    first, last = max(2, budget.min_pairs), max(2, budget.min_pairs, budget.max_pairs)
    level = nominal_level(ALPHA, first, last)

    def visible(pairs: int) -> float:
        error = s0 / math.sqrt(pairs)
        return math.expm1(visible_shift(Bounds(0.0, -1.0, 1.0, pairs, pairs - 1 + n0, level, error, s0, True, False)))

    value = float(gate.limit.value or 0.0)
    wanted = gate.sees if gate.sees is not None else value
    label = next(c.label for c in plan.cells if c.id == cell)
    return Seen(cell, label, gate.metric, n0, s0, visible(first), visible(last), wanted)
