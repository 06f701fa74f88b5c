"""From a checked spec to a Plan: no names left to look up, every number in base units, ids that are digests.

The same spec gives the same bytes in any folder: paths are relative to the main spec's folder. Must not check anything
that `check` could have said.
"""

from __future__ import annotations

from typing import Any

from torchspec.catalog import Catalog
from torchspec.check.spec import (
    BackendDecl,
    CheckedCell,
    CheckedGate,
    CheckedSpec,
    ClaimDecl,
    GateLine,
    Quantity,
    SideDecl,
    StatementDecl,
    Text,
    WorkloadDecl,
)
from torchspec.core.canon import digest
from torchspec.core.diagnostics import Result, Span
from torchspec.model import plan as model


def lower(spec: CheckedSpec, catalog: Catalog, compiler: str) -> Result[model.Plan]:
    """The plan of a spec that has no mistakes. `compiler`: torchspec's version."""
    return Result(_Lowering(spec, catalog, compiler).plan())


def _text(value: Text | None) -> str | None:
    return None if value is None else value.text


def _texts(values: tuple[Text, ...]) -> tuple[str, ...]:
    return tuple(v.text for v in values)


def _id(value: Any) -> str:
    return digest(value)[:12]


class _Lowering:
    def __init__(self, spec: CheckedSpec, catalog: Catalog, compiler: str) -> None:
        self.spec = spec
        self.catalog = catalog
        self.compiler = compiler
        self.main = spec.sources[0].path
        self.lanes = {w.name.text for w in spec.workloads if w.lane is not None}
        self.workload_keys = {w.name.text: self._workload_key(w) for w in spec.workloads}

    def place(self, span: Span) -> model.Place:
        """The place in the plan's own terms: the main spec by its file name, wherever it was read from."""
        return model.Place(self.main if span.file == self.spec.file else span.file, span.line, span.column)

    def plan(self) -> model.Plan:
        spec = self.spec
        cells = tuple(self._cell(c) for c in spec.cells)
        upgrade = spec.upgrade
        return model.Plan(
            schema=model.SCHEMA,
            name=spec.name,
            compiler=self.compiler,
            spec=tuple(model.SpecFile(s.path, s.registered_sha256) for s in spec.sources),
            upgrade=model.Upgrade(
                title=upgrade.title.text,
                owner=_text(upgrade.owner) or "",
                asks=_text(upgrade.asks) or "",
                window_from=_text(upgrade.window_from),
                window_to=_text(upgrade.window_to),
                stages=tuple(model.Stage(s.name.text, s.until.text, s.text) for s in upgrade.stages),
                caveats=_texts(upgrade.caveats),
            ),
            params=tuple(model.Param(p.name.text, p.default, p.value, _text(p.because) or "") for p in spec.params),
            frozen=self._frozen(),
            baseline=self._side(spec.baseline, "baseline"),
            candidates=tuple(
                self._side(c, "candidate" if i == 1 else f"candidate-{i}") for i, c in enumerate(spec.candidates, 1)
            ),
            backends=tuple(self._backend(b) for b in spec.backends),
            sources=tuple(model.Source(s.name.text, s.url.text, _text(s.retrieved)) for s in spec.source_list),
            claims=tuple(self._claim(c) for c in spec.claims),
            workloads=tuple(self._workload(w) for w in spec.workloads),
            lanes=tuple(
                model.Lane(
                    lane.name.text,
                    _text(lane.owner) or "",
                    _texts(lane.hardware),
                    {name.text: value.text for name, value in lane.disable_env},
                )
                for lane in spec.lanes
            ),
            cells=cells,
            gates=self._gates(cells),
            waivers=tuple(
                model.Waiver(
                    w.metric.text,
                    w.workload.text,
                    _text(w.backend) or "",
                    _text(w.until) or "",
                    _text(w.by) or "",
                    _text(w.because) or "",
                    self.place(w.span),
                )
                for w in spec.waivers
            ),
            together=tuple(model.Together(_texts(t.workloads), _text(t.because) or "") for t in spec.togethers),
            exclusions=tuple(
                model.Exclusion(w.name.text, e.text, _text(e.because) or "", _text(e.until), len(e.removed))
                for w in spec.workloads
                for e in w.excepts
            ),
            rollback=self._rollback(),
            budget=model.Budget(**spec.budget),
            files=tuple(
                model.TeamFile(f.path, f.sha256, f.data.decode("utf-8"))
                for f in sorted(spec.files, key=lambda f: f.path)
            ),
            meta=spec.meta,
        )

    def _frozen(self) -> model.Frozen:
        frozen = self.spec.frozen
        return model.Frozen(
            _text(frozen.python),
            _texts(frozen.packages),
            {name.text: value.text for name, value in frozen.env},
            {name.text: value.text for name, value in frozen.settings},
            frozen.seed,
            _text(frozen.power),
        )

    def _side(self, side: SideDecl, name: str) -> model.Side:
        return model.Side(
            id=name,
            role="baseline" if side.role == "baseline" else "candidate",
            torch=_text(side.torch),
            python=_text(side.python),
            path=_text(side.path),
            may_differ=_texts(side.may_differ),
            place=self.place(side.span),
        )

    def _backend(self, backend: BackendDecl) -> model.Backend:
        optional = backend.optional
        users = [w for w in self.spec.workloads if backend.name.text in _texts(w.backends)]
        lane = bool(users) and all(w.lane is not None for w in users)
        return model.Backend(
            name=backend.name.text,
            requirement="optional" if optional else "lane" if lane else "required",
            threads=backend.threads,
            hardware=_texts(backend.hardware),
            wheels=_text(backend.wheels),
            over=_text(backend.over),
            ranks=backend.ranks,
            launcher=_text(backend.launcher),
            because=_text(optional.because) if optional else None,
            until=_text(optional.until) if optional else None,
            place=self.place(backend.span),
        )

    def _claim(self, claim: ClaimDecl) -> model.Claim:
        backends = _texts(claim.check_backends)
        if not backends:
            target = next(w for w in self.spec.workloads if w.name.text == claim.check_workload.text)
            backends = _texts(target.backends)
        return model.Claim(
            claim.name.text,
            claim.source.text,
            {key.text: value for key, value in claim.basis},
            tuple(self._statement(s) for s in claim.states),
            claim.check_workload.text,
            backends,
            self.place(claim.span),
        )

    def _statement(self, stated: StatementDecl) -> model.Statement:
        tolerance = stated.tolerance
        form: Any = None
        if tolerance is not None:
            form = {"%": "ratio", "pp": "pp"}.get(tolerance.unit or "", "absolute")
        return model.Statement(
            metric=stated.metric.text,
            form=stated.form,  # type: ignore[arg-type]
            value=stated.value.value,
            unit=stated.value.unit or "1",
            tolerance=None if tolerance is None else tolerance.value,
            tolerance_form=form,
            at={key.text: value for key, value in stated.at},
            text=stated.text,
        )

    def _workload_key(self, workload: WorkloadDecl) -> dict[str, Any]:
        entry = workload.entry
        return {
            "workload": workload.name.text,
            "kind": workload.kind.text,
            "beside": _text(workload.beside),
            "entry": None if entry is None else f"{entry.path}:{entry.function}",
            "options": workload.options,
        }

    def _workload(self, workload: WorkloadDecl) -> model.Workload:
        entry = workload.entry
        return model.Workload(
            name=workload.name.text,
            kind=workload.kind.text,
            beside=_text(workload.beside),
            entry=None if entry is None else model.Entry(entry.path, entry.function),
            owner=_text(workload.owner),
            lane=None if workload.lane is None else workload.lane.name.text,
            options=workload.options,
            place=self.place(workload.span),
            gate_sets=_texts(workload.gate_sets),
        )

    def _cell(self, cell: CheckedCell) -> model.Cell:
        key = {**self.workload_keys[cell.workload], "backend": cell.backend, "mode": cell.mode, "axes": cell.axes}
        return model.Cell(
            _id(key),
            cell.workload,
            cell.backend,
            cell.mode,  # type: ignore[arg-type]
            cell.axes,
            cell.label,
            cell.stage,
        )

    def _gates(self, cells: tuple[model.Cell, ...]) -> tuple[model.Gate, ...]:
        taken: dict[str, int] = {}
        made: list[model.Gate] = []
        for gate in self.spec.gates:
            if not gate.cells:  # the line judges cells through another set, or policy has refused it
                continue
            lowered = self._gate(gate, cells)
            count = taken[lowered.id] = taken.get(lowered.id, 0) + 1
            if count > 1:
                raise AssertionError(f"two gates of one id: {lowered.gate_set} {lowered.text}")
            made.append(lowered)
        return tuple(made)

    def _gate(self, gate: CheckedGate, cells: tuple[model.Cell, ...]) -> model.Gate:
        line = gate.line
        relation = self.catalog.relations[line.form]
        metric = self.catalog.metrics[line.metric.text]
        against = _text(line.against)
        if against is None and (relation.compares or (metric.sampling == "numeric" and metric.needs_against)):
            against = "baseline"
        only: dict[str, tuple[Any, ...]] = {key.text: values for key, values in line.at}
        if line.modes:
            only["mode"] = _texts(line.modes)
        if line.backends:
            only["backend"] = _texts(line.backends)
        decision: Any = _text(line.decision)
        key = {
            "set": gate.gate_set,
            "metric": line.metric.text,
            "form": line.form,
            "op": line.op,
            "limit": None if line.limit is None else line.limit.value,
            "against": against,
            "only": {name: list(values) for name, values in only.items()},
            "else": decision,
            "sees": None if line.sees is None else line.sees.value,
            "repeats": line.repeats,
        }
        return model.Gate(
            id=_id(key),
            gate_set=gate.gate_set,
            metric=line.metric.text,
            limit=_limit(line),
            against=against,
            sees=None if line.sees is None else line.sees.value,
            repeats=line.repeats,
            decision=decision,
            because=_text(line.because),
            cells=tuple(cells[i].id for i in gate.cells),
            text=line.text,
            place=None if gate.implicit else self.place(line.span),
            implicit=gate.implicit,
            only=only,
        )

    def _rollback(self) -> model.Rollback | None:
        back = self.spec.rollback
        if back is None:
            return None
        return model.Rollback(
            back.rehearse.text,
            back.within.value,
            _texts(back.reload),  # type: ignore[arg-type]
            _texts(back.manual),
            self.place(back.span),
        )


def _limit(line: GateLine) -> model.Limit:
    limit: Quantity | None = line.limit
    words = {"absolute": ""}.get(line.form, line.form)
    parts = [words, line.op or "", limit.text if limit else ""]
    return model.Limit(
        line.form,  # type: ignore[arg-type]
        line.op,  # type: ignore[arg-type]
        None if limit is None else limit.value,
        None if limit is None else limit.unit or "1",
        " ".join(p for p in parts if p),
    )
