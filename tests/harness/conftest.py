"""Plans for the harness's tests, and an emitted harness file from one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchspec.core.canon import digest, sha256_hex
from torchspec.emit.bundle import emit
from torchspec.model.plan import (
    Backend,
    Budget,
    Cell,
    Entry,
    Frozen,
    Gate,
    Limit,
    Plan,
    Rollback,
    Side,
    TeamFile,
    Upgrade,
    Workload,
)

LIMITS = {
    "latency.p50": Limit("growth", "<=", 0.5, "%", "growth <= 50 %"),
    "throughput": Limit("drop", "<=", 0.5, "%", "drop <= 50 %"),
    "memory.driver_peak": Limit("growth", "<=", 0.1, "%", "growth <= 10 %"),
    "memory.allocated_peak": Limit("growth", "<=", 0.1, "%", "growth <= 10 %"),
    "determinism.output": Limit("identical", None, None, None, "identical"),
    "determinism.output_forced": Limit("identical", None, None, None, "identical"),
    "determinism.gradient_forced": Limit("identical", None, None, None, "identical"),
    "runs": Limit("holds", None, None, None, "holds"),
    "export.roundtrip": Limit("holds", None, None, None, "holds"),
    "compile.time": Limit("growth", "<=", 0.25, "%", "growth <= 25 %"),
    "compile.graph_breaks": Limit("increase", "<=", 0.0, "1", "increase <= 0"),
}
QUICK = Budget(cell_s=4.0, run_s=1800.0, min_pairs=2, max_pairs=2, builds=2, rounds=3, block_ms=2.0, timeout_s=600.0)


def _cell(workload: str, mode: str, axes: dict[str, Any], backend: str) -> Cell:
    label = f"{workload} {backend} {mode}"
    return Cell(digest([workload, mode, axes, backend])[:12], workload, backend, mode, axes, label)  # type: ignore[arg-type]


def _gates(cells: Iterable[Cell], metrics: Iterable[str]) -> tuple[Gate, ...]:
    ids = tuple(cell.id for cell in cells)
    made = []
    for metric in metrics:
        limit = LIMITS.get(metric, Limit("absolute", "<=", 1e-4, "1", "<= 1e-4"))
        against = "cpu.float64" if metric.startswith("error.") else None
        repeats = 4 if metric.startswith("determinism.") else None
        made.append(Gate(metric, "all", metric, limit, against, None, repeats, "defer", None, ids, metric))
    return tuple(made)


def build_plan(
    workloads: Iterable[tuple[str, str, str, dict[str, Any]]],
    metrics: Iterable[str] = ("runs",),
    *,
    team: dict[str, str] | None = None,
    options: dict[str, Any] | None = None,
    budget: Budget = QUICK,
    backends: tuple[str, ...] = ("cpu",),
    torch: tuple[str | None, str | None] = (None, None),
    reload: tuple[str, ...] | None = None,
) -> Plan:
    """A plan of `workloads` (name, kind, mode, axes); python takes its entry from the team file `name`.py."""
    rows = list(workloads)
    files = tuple(TeamFile(path, sha256_hex(text.encode()), text) for path, text in (team or {}).items())
    cells = tuple(_cell(name, mode, axes, backend) for backend in backends for name, _, mode, axes in rows)
    kinds = {name: kind for name, kind, _, _ in rows}
    return Plan(
        schema="torchspec.plan/1",
        name="sample",
        compiler="0.0.0",
        spec=(),
        upgrade=Upgrade("title", "owner", "asks", None, None),
        params=(),
        frozen=Frozen(None, (), {}, {}, 7),
        baseline=Side("baseline", "baseline", torch[0], None, None),
        candidates=(Side("candidate", "candidate", torch[1], None, None, ("*",)),),
        backends=tuple(Backend(name, "required", 1) for name in backends),
        sources=(),
        claims=(),
        workloads=tuple(
            Workload(n, k, None, Entry(f"{n}.py", "build") if k == "python" else None, None, None, options or {})
            for n, k in kinds.items()
        ),
        lanes=(),
        cells=cells,
        gates=_gates(cells, metrics),
        waivers=(),
        together=(),
        exclusions=(),
        rollback=None if reload is None else Rollback("baseline", 600.0, reload),  # type: ignore[arg-type]
        budget=budget,
        files=files,
        meta={},
    )


RANKS_QUICK = Budget(
    cell_s=30.0, run_s=1800.0, min_pairs=2, max_pairs=2, builds=1, rounds=3, block_ms=2.0, timeout_s=90.0
)


def build_ranks_plan(
    workloads: list[tuple[str, str, str, dict[str, Any]]],
    limits: dict[str, Limit],
    options: dict[str, Any] | None = None,
) -> Plan:
    """A plan of the backend distributed with one gate a metric, on the cells of the kinds that can give it."""
    plan = build_plan(workloads, budget=RANKS_QUICK, backends=("distributed",), options=options)
    ranks = tuple(sorted({cell.axes["ranks"] for cell in plan.cells}))
    collective = {cell.id for cell in plan.cells if "operation" in cell.axes}

    def cells_of(metric: str) -> tuple[str, ...]:
        either = metric.startswith("error.")
        own = metric.startswith(("collective.", "comm.latency_", "comm.bus_", "comm.algorithm_"))
        return tuple(cell.id for cell in plan.cells if either or (cell.id in collective) == own)

    gates = tuple(
        Gate(name, "all", name, limit, None, None, None, "defer", None, cells_of(name), name)
        for name, limit in limits.items()
    )
    backend = Backend("distributed", "required", 1, over="cpu", ranks=ranks, launcher="torchrun")
    return replace(plan, backends=(backend,), gates=(*plan.gates, *gates))


def listening_ports(pids: list[int] | None = None) -> set[int]:
    """Ports that somebody listens on; of these processes only, where they are given."""
    inodes = None
    if pids is not None:
        links = [link for pid in pids if Path(f"/proc/{pid}").exists() for link in Path(f"/proc/{pid}/fd").iterdir()]
        targets = [os.readlink(link) for link in links if link.is_symlink()]
        inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and (inodes is None or parts[9] in inodes):
                ports.add(int(parts[1].rsplit(":", 1)[1], 16))
    return ports


@pytest.fixture
def ranks_plan() -> Callable[..., Plan]:
    return build_ranks_plan


@pytest.fixture
def ports_of() -> Callable[..., set[int]]:
    return listening_ports


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    return build_plan


@pytest.fixture
def harness_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes the harness of a plan's first backend and gives its path."""

    def write(plan: Plan, backend: str | None = None) -> Path:
        name = backend or plan.backends[0].name
        path = tmp_path / f"{name}.py"
        path.write_text(emit(plan)[name], encoding="utf-8")
        return path

    return write
