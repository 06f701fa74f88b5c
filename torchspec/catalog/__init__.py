"""The catalog: tables of what can be measured, on what, and how it is judged. Pure data; must not measure or print."""

from torchspec.catalog.plugins import Plugin
from torchspec.catalog.rows import Axis, Backend, Catalog, Metric, Relation, Unit, WorkloadKind
from torchspec.catalog.tables import load, plugins

__all__ = ["Axis", "Backend", "Catalog", "Metric", "Plugin", "Relation", "Unit", "WorkloadKind", "load", "plugins"]
