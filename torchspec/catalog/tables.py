"""Puts the tables together. Must not import anything heavy: `torchspec check` pays for it."""

from __future__ import annotations

from functools import cache

from torchspec.catalog.backends import BACKENDS
from torchspec.catalog.metrics import METRICS
from torchspec.catalog.relations import RELATIONS
from torchspec.catalog.rows import Catalog
from torchspec.catalog.units import UNITS
from torchspec.catalog.workloads import WORKLOADS


@cache
def load() -> Catalog:
    """The catalog that ships with torchspec."""
    return Catalog(
        metrics={row.name: row for row in METRICS},
        workloads={row.name: row for row in WORKLOADS},
        backends={row.name: row for row in BACKENDS},
        relations={row.form: row for row in RELATIONS},
        units={row.name: row for row in UNITS},
    )


def plugins() -> dict[str, str]:
    """Name -> version of every plugin whose rows are in the catalog. None can be loaded yet."""
    return {}
