"""What a row of each table holds; the rows stand in metrics, workloads, backends and relations. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from torchspec.core.diagnostics import Diagnostic


class Unit(NamedTuple):
    """`factor` times a number in this unit is the number in the dimension's base unit; `power` of ten where exact."""

    name: str
    dimension: str  # time, bytes, ratio, factor, db, ulp, rate
    factor: float
    power: int | None = None  # the factor is exactly 10 ** power
    meaning: str = ""


class Relation(NamedTuple):
    """How a limit is put: `growth <= 3 %`. `limit` is the dimension of its number ("metric": the metric's own)."""

    form: str
    meaning: str
    needs_number: bool
    limit: str | None  # ratio, factor, metric, None
    compares: bool  # with a second side (`against`, baseline unless said)
    harm: str | None  # growth, increase: "up"; drop, decrease: "down"; None: either or none


class Metric(NamedTuple):
    """What a figure means and how it may be judged.

    `dimension`: time, bytes, count, ratio, db, ulp, number, rate, truth. `better`: lower, higher, none. `sampling`:
    timing, process, count, numeric, fact, duration. `against`: what it may be compared with: baseline, beside, eager,
    reference (`cpu.float64`); empty for what stands alone. `needs_against`: a line without `against` says nothing.
    `kinds`: workload kinds that give it; empty: every kind. `usual`: what `else` usually says. `team`: the function of
    the team's file that it comes from, with its parameters; `team_alone`: kinds that give it without a team's file.
    """

    name: str
    meaning: str
    dimension: str
    better: str
    backends: tuple[str, ...]
    modes: tuple[str, ...]
    forms: tuple[str, ...]
    usual: str
    measured: str
    sampling: str
    against: tuple[str, ...] = ("baseline",)
    needs_against: bool = False
    kinds: tuple[str, ...] = ()
    correctness: bool = False  # never waived
    team: str = ""
    team_alone: tuple[str, ...] = ()


class Axis(NamedTuple):
    """An axis of a matrix. `kind`: count (a whole number, at least 1) or name (one of `values`, any if empty).

    `default` None: the author must say it; "": left out of the matrix unless said.
    `headline`: shown in a cell's label even where it has one value.
    """

    name: str
    kind: str
    default: Any
    meaning: str
    values: tuple[str, ...] = ()
    headline: bool = False


class WorkloadKind(NamedTuple):
    """A kind of work. `entry`: required, optional or none (the team's own `path:function`), which makes the work and is
    given the axes by name; `entry_part`: it gives a part of the work, such as a mask, and need not take them.

    `beside`: the old paths it may be compared with; "*" for any dotted name. `paths`: what `path` of a side may be.
    `items_unit`: what throughput counts, None: the author says with `counts`. `options`: kind's own words, the values
    they may take ("count": whole numbers; "tolerance": a relative difference, from 0 to below 1),
    and the value where the spec says none (None: left out). `option_backends`: word, value, the backends that have it.
    `option_needs`: a word, and the word and value that it says more of.
    `free_axes`: `shape` may hold any axis, given to the team's function by name. `gives`: the only metrics that it can
    give; empty: all whose own row allows it. `weights`: whether it may have any, which a checkpoint then holds.
    """

    name: str
    meaning: str
    modes: tuple[str, ...]
    default_modes: tuple[str, ...]
    axes: tuple[Axis, ...]
    backends: tuple[str, ...]
    entry: str = "none"
    beside: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    items_unit: str | None = None
    items: tuple[str, ...] = ()  # axes whose product is the number of items per call
    options: tuple[tuple[str, tuple[str, ...], str | None], ...] = ()
    lists: tuple[str, ...] = ()  # options that take several values at once
    option_over: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # option, value, devices that ranks need for it
    option_backends: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    option_needs: tuple[tuple[str, str, str], ...] = ()
    mask_parameters: tuple[str, ...] = ()
    free_axes: bool = False
    gives: tuple[str, ...] = ()
    entry_part: bool = False
    weights: bool = True

    def can_give(self, metric: Metric) -> bool:
        """Whether work of this kind gives a metric at all."""
        named = not metric.kinds or self.name in metric.kinds
        return named and (not self.gives or metric.name in self.gives)


class Backend(NamedTuple):
    """A place where torch runs. `device`: what torch calls it. `over`: device backends below a distributed one."""

    name: str
    meaning: str
    device: str
    hardware: str
    over: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()


class Catalog(NamedTuple):
    """All tables, by name, in the order of the reference documentation. `digest` covers every row.

    `plugins`: name -> version and digest of its harness files. `works`: kind -> harness file of a plugin. `problems`:
    plugins that could not be loaded, whose rows are missing.
    """

    metrics: dict[str, Metric]
    workloads: dict[str, WorkloadKind]
    backends: dict[str, Backend]
    relations: dict[str, Relation]
    units: dict[str, Unit]
    plugins: Mapping[str, str] = MappingProxyType({})
    works: Mapping[str, Path] = MappingProxyType({})
    problems: tuple[Diagnostic, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 (64 hex digits) of the canonical JSON of every table."""
        from torchspec.core.canon import digest

        names = ("metrics", "workloads", "backends", "relations", "units")
        return digest({name: [row._asdict() for row in getattr(self, name).values()] for name in names})
