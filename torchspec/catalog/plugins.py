"""Rows that installed packages add to the catalog, by the entry point group `torchspec.catalog`.

A package names an object of type `Plugin` in its metadata:

    [project.entry-points."torchspec.catalog"]
    norms = "our_norms:PLUGIN"

    PLUGIN = Plugin(workloads=(WorkloadKind("rms_norm", …),), works={"rms_norm": HERE / "work_rms_norm.py"})

A row goes through the same checks as ours and can replace none. A plugin that cannot be loaded is a diagnostic and its
rows are missing; it never takes the tool down. Metadata is read only where some package has such an entry point: asking
for it costs as much as a whole `torchspec check`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from torchspec.catalog.metric_forms import EVERY
from torchspec.catalog.rows import Metric, WorkloadKind
from torchspec.core.diagnostics import Diagnostic, Severity

GROUP = "torchspec.catalog"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_MODES = set(EVERY)
_DIMENSIONS = {"time", "bytes", "count", "ratio", "db", "ulp", "number", "rate", "bandwidth", "truth"}
_SAMPLING = {"timing", "process", "count", "numeric", "fact", "duration"}


class Plugin(NamedTuple):
    """What a package adds. `works`: workload kind -> the harness file with its `Work` (see `harness/work.py`)."""

    metrics: tuple[Metric, ...] = ()
    workloads: tuple[WorkloadKind, ...] = ()
    works: Mapping[str, Path] = MappingProxyType({})


class Installed(NamedTuple):
    """A plugin as found: the entry point's name, its package's version, and its object, or why there is none."""

    name: str
    version: str
    plugin: Plugin | None
    problem: Diagnostic | None


def any_installed() -> bool:
    """Whether some package on the path has an entry point of the group, by a look at its metadata's file."""
    wanted = f"[{GROUP}]".encode()
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as stream:
                        if wanted in stream.read():
                            return True
                except OSError:
                    continue
    return False


def installed() -> list[Installed]:
    """Every plugin, by name. Loading runs the package's own code, which may fail in any way."""
    from importlib.metadata import entry_points

    found: list[Installed] = []
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        version = point.dist.version if point.dist is not None else "unknown"
        try:
            loaded = point.load()
        except (
            Exception,
            SystemExit,
        ) as error:  # a package's own mistake, whatever it is, is reported and not ours to raise
            message = f"plugin {point.name} {version} cannot be loaded: {type(error).__name__}: {error}"
            problem = _warning("TS901", message, f"mend or remove the package that gives {point.value}")
            found.append(Installed(point.name, version, None, problem))
            continue
        found.append(_judged(point.name, version, loaded))
    return found


def _warning(code: str, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic(code, message, hint=hint, severity=Severity.WARNING)


def _judged(name: str, version: str, loaded: object) -> Installed:
    if not isinstance(loaded, Plugin):
        message = f"plugin {name} {version} gives a {type(loaded).__name__}, not a torchspec.catalog.plugins.Plugin"
        return Installed(name, version, None, _warning("TS902", message))
    wrong = _wrong(loaded)
    problem = None if wrong is None else _warning("TS902", f"plugin {name} {version}: {wrong}")
    return Installed(name, version, None if problem else loaded, problem)


def _wrong(plugin: Plugin) -> str | None:
    """What is wrong with a plugin's rows by themselves, None where nothing is."""
    for metric in plugin.metrics:
        if not isinstance(metric, Metric):
            return f"{metric!r} is no Metric"
        if not _NAME.fullmatch(metric.name) or "." not in metric.name:
            return f"{metric.name!r} is no name of a metric, such as group.figure"
        odd = (set(metric.modes) - _MODES) | ({metric.dimension} - _DIMENSIONS) | ({metric.sampling} - _SAMPLING)
        if odd or not metric.forms or metric.usual not in ("isolate", "defer", "rollback"):
            return f"the row of {metric.name} is not sound: {', '.join(sorted(odd)) or 'forms and usual'}"
    for kind in plugin.workloads:
        if not isinstance(kind, WorkloadKind):
            return f"{kind!r} is no WorkloadKind"
        if not _NAME.fullmatch(kind.name) or set(kind.modes) - _MODES or not set(kind.default_modes) <= set(kind.modes):
            return f"the row of {kind.name} is not sound"
        work = plugin.works.get(kind.name)
        if work is None or not Path(work).is_file():
            return f"there is no harness file for {kind.name} in `works`"
    return None
