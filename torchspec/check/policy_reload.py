"""What going back reloads: some cell must write it, or the rehearsal could never pass."""

from __future__ import annotations

from torchspec.catalog import Catalog
from torchspec.check.spec import CheckedCell, CheckedSpec
from torchspec.core.diagnostics import Diagnostic

#: thing to reload -> why nothing writes it, and the way out
_SAID = {
    "checkpoint": (
        "no workload of this spec has weights that a checkpoint could hold",
        "add work that has weights, such as a training or the team's own model, or take `checkpoint` out of `reload`",
    ),
    "export": (
        "no cell of this spec exports a program",
        "add the mode export to a workload on a single device (ranks export nothing), or take `export` out of `reload`",
    ),
}


def find(spec: CheckedSpec, catalog: Catalog) -> list[Diagnostic]:
    if spec.rollback is None or not spec.cells:
        return []
    kinds = {w.name.text: catalog.workloads[w.kind.text] for w in spec.workloads}

    def writes(what: str, cell: CheckedCell) -> bool:
        if what == "checkpoint":
            return kinds[cell.workload].weights
        return cell.mode == "export" and not catalog.backends[cell.backend].over

    return [
        Diagnostic("TS525", f"going back cannot read it: {_SAID[what.text][0]}", what.span, hint=_SAID[what.text][1])
        for what in spec.rollback.reload
        if not any(writes(what.text, cell) for cell in spec.cells)
    ]
