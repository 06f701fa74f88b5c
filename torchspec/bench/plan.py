"""The benchmark's own plan: three works of the kind `python`, one cell each. Built by hand, not from a spec."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchspec import __version__
from torchspec.core.canon import sha256_hex
from torchspec.model.plan import (
    SCHEMA,
    Backend,
    Budget,
    Cell,
    Entry,
    Frozen,
    Gate,
    Limit,
    Plan,
    Side,
    SpecFile,
    TeamFile,
    Upgrade,
    Workload,
)

FILE = "work_code.py"
WORKS = ("attention", "training_step", "small_operators")


def text() -> str:
    """The source of the work, as a team's file."""
    return (Path(__file__).resolve().parent / FILE).read_text(encoding="utf-8")


def plan(works: Sequence[str]) -> Plan:
    """A plan with one cell for each work, whose id is the work's name."""
    source = text()
    limit = Limit("growth", "<=", 0.03, "%", "growth <= 3 %")
    gate = Gate("p50", "bench", "latency.p50", limit, "baseline", None, None, "isolate", None, tuple(works), "p50")
    return Plan(
        schema=SCHEMA,
        name="bench",
        compiler=__version__,
        spec=(SpecFile("bench", sha256_hex(source.encode())),),
        upgrade=Upgrade("benchmark of decision quality", "torchspec", "how often is it right?", None, None),
        params=(),
        frozen=Frozen(None, (), {}, {}, 7),
        baseline=Side("baseline", "baseline", None, None, None),
        candidates=(Side("candidate", "candidate", None, None, None),),
        backends=(Backend("cpu", "required", 1),),
        sources=(),
        claims=(),
        workloads=tuple(Workload(w, "python", None, Entry(FILE, w), None, None, {}) for w in works),
        lanes=(),
        cells=tuple(Cell(w, w, "cpu", "infer", {"dtype": "float32"}, w) for w in works),
        gates=(gate,),
        waivers=(),
        together=(),
        exclusions=(),
        rollback=None,
        budget=Budget(),
        files=(TeamFile(FILE, sha256_hex(source.encode()), source),),
        meta={},
    )
