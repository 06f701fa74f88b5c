"""The Plan: everything a run needs, after all checks, with no trace of syntax.

After `lower` nobody sees the AST. All numbers are in base units: seconds, bytes, ratios (3 % is 0.03; 0.2 pp is
0.002), dB, counts, per-second rates. `text` fields keep the author's own words for the memo. Ids are digests of
canonical JSON (12 hex digits), so that the same spec gives the same bytes in any folder. Published as
`schemas/plan.schema.json`; checked before it is written and again when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Decision = Literal["adopt", "isolate", "defer", "rollback"]
Mode = Literal["infer", "train", "compile", "train_compiled", "export"]
Form = Literal["absolute", "growth", "drop", "increase", "decrease", "speedup", "identical", "holds", "report"]
Requirement = Literal["required", "optional", "lane"]

SCHEMA = "torchspec.plan/1"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the author wrote it (1-based)."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    until: str  # ISO date
    text: str


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The question: who asks what, when, and what was known to be missing before anything ran."""

    title: str
    owner: str
    asks: str
    window_from: str | None  # ISO dates
    window_to: str | None
    stages: tuple[Stage, ...] = ()
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frozen:
    """What both sides share. Any other difference is a broken control."""

    python: str | None  # "3.12": major.minor that both environments must have
    packages: tuple[str, ...]  # pip requirements, pinned: "numpy==2.4.0"
    env: dict[str, str]
    settings: dict[str, str]  # float32_matmul_precision: high; compile.mode: max_autotune; compile.cache: cold
    seed: int
    power: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """Baseline or a candidate. `id` is "baseline", or "candidate" (the first), "candidate-2", …"""

    id: str
    role: Literal["baseline", "candidate"]
    torch: str | None  # the exact version; None only where `python` alone was named
    python: str | None  # an interpreter that is already there, relative to the spec or absolute, as written
    path: str | None  # which path of a workload with several: "sdpa", "flex_attention"
    may_differ: tuple[str, ...] = ()  # glob patterns of packages that may differ beside torch and its own pins
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    name: str  # cpu, cuda, rocm, mps, distributed
    requirement: Requirement
    threads: int | None  # per worker; None: the harness's default of 1
    hardware: tuple[str, ...] = ()
    wheels: str | None = None  # index URL for pip
    over: str | None = None  # distributed: the device backend below it
    ranks: tuple[int, ...] = ()
    launcher: str | None = None
    because: str | None = None  # why optional
    until: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    url: str
    retrieved: str | None  # ISO date


@dataclass(frozen=True, slots=True)
class Statement:
    """One stated figure of a claim: metric, form and value, tolerance, and the axis values it was stated for."""

    metric: str
    form: Form
    value: float
    unit: str
    tolerance: float | None
    tolerance_form: Literal["ratio", "pp", "absolute"] | None
    at: dict[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody else's figure: a target to reproduce here, never evidence."""

    name: str
    source: str
    basis: dict[str, Any]
    states: tuple[Statement, ...]
    check_workload: str
    check_backends: tuple[str, ...]
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class TeamFile:
    """A file of the team that travels inside the harness as data: path relative to the spec, digest, text."""

    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The team's own code, `path:function`; the file is one of the plan's `files`."""

    path: str
    function: str


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    kind: str  # a row of the catalog: attention, flex_attention, linear_cross_entropy, python, …
    beside: str | None  # the old path that stays until the new one has earned its place
    entry: Entry | None
    owner: str | None
    lane: str | None  # name of its lane
    options: dict[str, Any]  # kind's own words: model, tokenizer, data, counts, mask parameters, options …
    place: Place | None = None
    gate_sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    owner: str
    hardware: tuple[str, ...]
    disable_env: dict[str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the matrix: a workload on a backend in a mode at one value of each axis.

    `axes` holds every axis but mode: {"dtype": "float32", "seq": 512, "mask": "causal", "ranks": 2}. Values are strings
    and integers. A cell is measured once for each candidate.
    """

    id: str
    workload: str
    backend: str
    mode: Mode
    axes: dict[str, Any]
    label: str  # for people, unique in the plan: "attention cpu infer float32 seq 256"
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """`op` is None for `identical`, `holds` and `report`. `value` in base units (see module); `text` as written."""

    form: Form
    op: Literal["<=", ">="] | None
    value: float | None
    unit: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Gate:
    """One line of a gate set, applied to the cells it judges.

    `against` is "baseline" for relative forms without another word; else "cpu.float64", "cuda.float32", "beside",
    "eager"; None for an absolute limit on the candidate alone. `sees` is the change that the planted control must show,
    in the limit's base unit. `decision` is what `else` says (None only for `report`). `gate_set` is the set that the
    workloads name. `only` holds how the line narrows: "mode", "backend" or an axis -> the values it asks for.
    """

    id: str
    gate_set: str
    metric: str
    limit: Limit
    against: str | None
    sees: float | None
    repeats: int | None
    decision: Decision | None
    because: str | None
    cells: tuple[str, ...]
    text: str
    place: Place | None = None
    implicit: bool = False  # `runs`, where the spec did not write it
    only: dict[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiver:
    metric: str
    workload: str
    backend: str
    until: str
    by: str
    because: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Together:
    workloads: tuple[str, ...]
    because: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An `except`: combinations removed from the matrix, printed in the memo as not covered."""

    workload: str
    text: str
    because: str
    until: str | None
    removed: int  # number of cells


@dataclass(frozen=True, slots=True)
class Rollback:
    """The rehearsal of going back: within how long, and what the candidate writes that the baseline must read."""

    rehearse: str  # "baseline"
    within_s: float
    reload: tuple[Literal["checkpoint", "export"], ...]
    manual: tuple[str, ...] = ()  # manual steps: each makes the rehearsal fail
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """How long measuring may take. Defaults are the catalog's; `measure {}` in a spec sets them."""

    cell_s: float = 60.0
    run_s: float = 3600.0
    min_pairs: int = 2
    max_pairs: int = 8
    builds: int = 4
    rounds: int = 10
    block_ms: float = 10.0
    timeout_s: float = 600.0  # for one request to a worker, before it counts as hung
    tuned_malloc: bool = True


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    default: Any
    value: Any
    because: str


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A source file of the plan: the main spec first, then its imports."""

    path: str  # relative to the main spec's folder
    sha256: str  # of what was registered: the file without the `deviations` block at its end


@dataclass(frozen=True, slots=True)
class Plan:
    schema: str
    name: str  # the main spec's file name without suffix; names the folder below out/
    compiler: str  # torchspec's version
    spec: tuple[SpecFile, ...]
    upgrade: Upgrade
    params: tuple[Param, ...]
    frozen: Frozen
    baseline: Side
    candidates: tuple[Side, ...]
    backends: tuple[Backend, ...]
    sources: tuple[Source, ...]
    claims: tuple[Claim, ...]
    workloads: tuple[Workload, ...]
    lanes: tuple[Lane, ...]
    cells: tuple[Cell, ...]
    gates: tuple[Gate, ...]
    waivers: tuple[Waiver, ...]
    together: tuple[Together, ...]
    exclusions: tuple[Exclusion, ...]
    rollback: Rollback | None
    budget: Budget
    files: tuple[TeamFile, ...]
    meta: dict[str, Any]

    @property
    def served(self) -> frozenset[str]:
        """Ids of the cells that the team's own service measures, and no harness."""
        ingested = {workload.name for workload in self.workloads if workload.kind == "ingested"}
        return frozenset(cell.id for cell in self.cells if cell.workload in ingested)
