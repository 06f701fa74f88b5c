"""Puts the tables together. Must not import anything heavy: `torchspec check` pays for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from torchspec.catalog.backends import BACKENDS
from torchspec.catalog.metrics import METRICS
from torchspec.catalog.plugins import Installed, any_installed, installed
from torchspec.catalog.relations import RELATIONS
from torchspec.catalog.rows import Catalog
from torchspec.catalog.units import UNITS
from torchspec.catalog.workloads import WORKLOADS
from torchspec.core.diagnostics import Diagnostic, Severity


@cache
def load() -> Catalog:
    """The catalog that ships with torchspec, with the rows of every plugin that can be loaded."""
    shipped = Catalog(
        metrics={row.name: row for row in METRICS},
        workloads={row.name: row for row in WORKLOADS},
        backends={row.name: row for row in BACKENDS},
        relations={row.form: row for row in RELATIONS},
        units={row.name: row for row in UNITS},
    )
    return with_plugins(shipped, installed()) if any_installed() else shipped


def with_plugins(shipped: Catalog, found: list[Installed]) -> Catalog:
    """`shipped` and the rows of `found`. A plugin with a name that is taken is left out whole, and said to be."""
    metrics, workloads = dict(shipped.metrics), dict(shipped.workloads)
    works: dict[str, Path] = {}
    versions: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for name, version, plugin, problem in found:
        if plugin is None:
            problems += [] if problem is None else [problem]
            continue
        taken = [m.name for m in plugin.metrics if m.name in metrics]
        taken += [w.name for w in plugin.workloads if w.name in workloads]
        if taken or name in versions:
            message = f"plugin {name} {version}: {', '.join(taken) or name} is a name that is taken"
            hint = "rows of a plugin add to the catalog and replace none"
            problems.append(Diagnostic("TS902", message, hint=hint, severity=Severity.WARNING))
            continue
        metrics.update((m.name, m) for m in plugin.metrics)
        workloads.update((w.name, w) for w in plugin.workloads)
        works.update((kind, Path(path)) for kind, path in plugin.works.items())
        from torchspec.core.canon import digest, file_digest  # its hashes cost `check` too much where no plugin is

        files = {kind: file_digest(Path(path)) for kind, path in sorted(plugin.works.items())}
        versions[name] = f"{version} sha256:{digest(files)}"
    return shipped._replace(
        metrics=metrics, workloads=workloads, plugins=versions, works=works, problems=tuple(problems)
    )


def plugins() -> dict[str, str]:
    """Name -> version and digest of every plugin whose rows are in the catalog."""
    return dict(load().plugins)
