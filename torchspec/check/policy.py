"""Policy: can every gate fail, and does some outcome lead to rollback? The contradictions of the decision table.

Called at the end of `check_spec`, only when nothing before found an error: every name is resolved and every unit fits.
Of the twenty contradictions, 18 (units) and 19 (claims without a workload) are found before. Must not print.
"""

from __future__ import annotations

from torchspec.catalog import Catalog
from torchspec.check.spec import CheckedSpec
from torchspec.core.diagnostics import Diagnostic


def policy(spec: CheckedSpec, catalog: Catalog) -> list[Diagnostic]:
    """Every contradiction in `spec`, in any order (`check_spec` sorts)."""
    return []
