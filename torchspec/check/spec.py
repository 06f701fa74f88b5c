"""The checked spec: what the author wrote, with every name resolved, every unit converted and a place on everything.

Values only, no behaviour; named tuples, because `check` pays for making the classes, and thirty dataclasses cost it a
third of its time. It is deliberately permissive where policy decides (a lane without an owner, an `optional`
without a reason, `else adopt`): those fields are None or as written, and `check.policy` refuses them. Numbers are in
base units as in `model.plan`: seconds, bytes, ratios (3 % is 0.03, 0.2 pp is 0.002), dB, counts, per-second rates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torchspec.core.diagnostics import Diagnostic, Span


class Text(NamedTuple):
    """A name or string as written, and its place."""

    text: str
    span: Span

    def __str__(self) -> str:
        return self.text


class Quantity(NamedTuple):
    """A number with its unit: `value` in base units, `unit` and `text` as written ("3 %")."""

    value: float
    unit: str | None
    text: str
    span: Span


class FileText(NamedTuple):
    """A file that was read, of the spec or of the team: path relative to the main spec's folder, and its bytes."""

    path: str
    data: bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes, 64 hex digits."""
        from torchspec.core.canon import sha256_hex

        return sha256_hex(self.data)

    @property
    def registered_sha256(self) -> str:
        """SHA-256 of what was registered: the bytes without the `deviations` block at their end."""
        from torchspec.core.canon import sha256_hex
        from torchspec.core.registered import registered

        return sha256_hex(registered(self.data))


class StageDecl(NamedTuple):
    name: Text
    until: Text  # ISO date
    text: str


class UpgradeDecl(NamedTuple):
    title: Text
    owner: Text | None
    asks: Text | None
    window_from: Text | None  # ISO dates
    window_to: Text | None
    stages: tuple[StageDecl, ...]
    caveats: tuple[Text, ...]
    span: Span


class DeviationDecl(NamedTuple):
    """Something that was done otherwise than planned. `date` is ISO."""

    date: Text
    text: Text
    by: Text
    because: Text


class ParamDecl(NamedTuple):
    name: Text
    default: Any  # int, float or str
    value: Any
    because: Text | None
    span: Span


class FrozenDecl(NamedTuple):
    python: Text | None
    packages: tuple[Text, ...]
    env: tuple[tuple[Text, Text], ...]
    settings: tuple[tuple[Text, Text], ...]
    seed: int
    power: Text | None
    span: Span | None  # None: the spec has no `frozen`


class SideDecl(NamedTuple):
    """One version of a `baseline` or `candidate` line (a candidate line with two versions gives two)."""

    role: str  # baseline, candidate
    torch: Text | None
    python: Text | None
    path: Text | None
    may_differ: tuple[Text, ...]
    span: Span  # the version's own place
    line: Span  # the whole line


class OptionalDecl(NamedTuple):
    backend: Text
    because: Text | None
    until: Text | None
    span: Span


class BackendDecl(NamedTuple):
    name: Text
    threads: int | None
    hardware: tuple[Text, ...]
    wheels: Text | None
    over: Text | None
    ranks: tuple[int, ...]
    launcher: Text | None
    optional: OptionalDecl | None
    span: Span


class SourceDecl(NamedTuple):
    name: Text
    url: Text
    retrieved: Text | None
    span: Span


class StatementDecl(NamedTuple):
    metric: Text
    form: str
    value: Quantity
    tolerance: Quantity | None
    at: tuple[tuple[Text, Any], ...]
    text: str
    span: Span


class ClaimDecl(NamedTuple):
    name: Text
    source: Text
    basis: tuple[tuple[Text, Any], ...]
    states: tuple[StatementDecl, ...]
    check_workload: Text
    check_backends: tuple[Text, ...]
    span: Span


class AxisDecl(NamedTuple):
    """An axis of a workload: its values in the order written. `span` is None where the catalog's default stands."""

    name: str
    values: tuple[Any, ...]
    spans: tuple[Span, ...]
    span: Span | None


class ExceptDecl(NamedTuple):
    """`except` of a workload: the axis values (a tuple of alternatives each) and backends that must all match."""

    at: tuple[tuple[Text, tuple[Any, ...]], ...]  # `mode` is among them as an axis
    on: tuple[Text, ...]
    because: Text | None
    until: Text | None
    text: str
    span: Span
    removed: tuple[int, ...] = ()  # positions in `CheckedSpec.removed`


class EntryDecl(NamedTuple):
    path: str
    function: str
    span: Span


class TeamFunction(NamedTuple):
    """Parameters of a function of the team: those that can be given by name, those without a default, `**anything`."""

    takes: tuple[str, ...]
    needs: tuple[str, ...]
    anything: bool


class TeamFile(NamedTuple):
    """What the text of a team's file tells: the names at its top level (None: not all of them can be seen), and the
    functions whose parameters can be seen."""

    names: frozenset[str] | None
    functions: dict[str, TeamFunction]


class LaneDecl(NamedTuple):
    name: Text
    owner: Text | None
    hardware: tuple[Text, ...]
    disable_env: tuple[tuple[Text, Text], ...]
    span: Span


class WorkloadDecl(NamedTuple):
    name: Text
    kind: Text
    beside: Text | None
    entry: EntryDecl | None
    owner: Text | None
    lane: LaneDecl | None
    axes: tuple[AxisDecl, ...]  # every axis but mode and backend, in the catalog's order
    modes: tuple[Text, ...]
    backends: tuple[Text, ...]
    gate_sets: tuple[Text, ...]
    excepts: tuple[ExceptDecl, ...]
    options: dict[str, Any]
    items_unit: str | None  # what throughput counts: "tokens", "queries"
    stage: Text | None
    span: Span
    team: TeamFile | None = None  # what was seen of the entry's file


class GateLine(NamedTuple):
    """One line of a gate set. The same line in an extending set is the same object.

    `op` is "<=" or ">=" or None (`identical`, `holds`, `report`). `limit` is None where there is none. `decision` is
    what `else` says, as written, `adopt` included; None only for `report`. `at`, `modes` and `backends` are empty where
    the line does not narrow.
    """

    metric: Text
    form: str
    op: str | None
    limit: Quantity | None
    limit_span: Span  # relation and value together
    against: Text | None
    at: tuple[tuple[Text, tuple[Any, ...]], ...]
    modes: tuple[Text, ...]
    backends: tuple[Text, ...]
    sees: Quantity | None
    repeats: int | None
    decision: Text | None
    because: Text | None
    text: str
    span: Span
    gate_set: str  # the set in which it is written


class WithoutDecl(NamedTuple):
    metric: Text
    because: Text | None
    removed: tuple[GateLine, ...]
    span: Span


class OverrideDecl(NamedTuple):
    """A line of an extending set that takes the place of inherited lines of the same metric and scope."""

    line: GateLine
    replaced: tuple[GateLine, ...]


class GateSetDecl(NamedTuple):
    name: Text
    extends: Text | None
    own: tuple[GateLine, ...]
    lines: tuple[GateLine, ...]  # own and inherited, after `without` and overrides
    withouts: tuple[WithoutDecl, ...]
    overrides: tuple[OverrideDecl, ...]
    used: bool  # by some workload, or extended by a set that is
    span: Span


class WaiverDecl(NamedTuple):
    metric: Text
    workload: Text
    backend: Text | None
    until: Text | None
    by: Text | None
    because: Text | None
    span: Span


class TogetherDecl(NamedTuple):
    workloads: tuple[Text, ...]
    because: Text | None
    span: Span


class RollbackDecl(NamedTuple):
    rehearse: Text
    within: Quantity  # seconds
    reload: tuple[Text, ...]
    manual: tuple[Text, ...]
    span: Span


class CheckedCell(NamedTuple):
    """One point of the matrix. `axes` as in `model.plan.Cell`: every axis but mode, in the catalog's order."""

    workload: str
    backend: str
    mode: str
    axes: dict[str, Any]
    label: str
    stage: str | None


class CheckedGate(NamedTuple):
    """A line as it stands in one gate set, with the cells that it judges (positions in `CheckedSpec.cells`)."""

    line: GateLine
    gate_set: str  # the set that the workloads name; `line.gate_set` is where the line is written
    cells: tuple[int, ...]
    implicit: bool = False  # `runs`, which every cell has


class CheckedSpec(NamedTuple):
    """Everything of a spec after all checks. Tuples are in the order of the file; imports come where `use` stands."""

    name: str  # the main spec's file name without suffix
    file: str  # as given
    folder: str  # the main spec's folder, where relative paths start
    sources: tuple[FileText, ...]
    upgrade: UpgradeDecl
    params: tuple[ParamDecl, ...]
    frozen: FrozenDecl
    baseline: SideDecl
    candidates: tuple[SideDecl, ...]
    backends: tuple[BackendDecl, ...]
    optionals: tuple[OptionalDecl, ...]
    source_list: tuple[SourceDecl, ...]
    claims: tuple[ClaimDecl, ...]
    workloads: tuple[WorkloadDecl, ...]
    lanes: tuple[LaneDecl, ...]
    gate_sets: tuple[GateSetDecl, ...]
    waivers: tuple[WaiverDecl, ...]
    togethers: tuple[TogetherDecl, ...]
    rollback: RollbackDecl | None
    cells: tuple[CheckedCell, ...]
    removed: tuple[CheckedCell, ...]  # by `except`
    gates: tuple[CheckedGate, ...]  # one for each used set and line, a set without a matching cell included
    budget: dict[str, Any]  # fields of model.plan.Budget that `measure {}` sets
    files: tuple[FileText, ...]  # the team's own code
    meta: dict[str, Any]
    silenced: tuple[tuple[Text, Text], ...]  # warning code, reason
    deviations: tuple[DeviationDecl, ...]
    span: Span  # the `tspec` line


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What `check_spec` returns: `spec` is None where there was an error. `sources`: file name as in spans -> text."""

    spec: CheckedSpec | None
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.spec is not None and not any(d.is_error for d in self.diagnostics)
