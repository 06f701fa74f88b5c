"""The tables hold together: every name, mode, form and backend that a row mentions is one, and says what it means."""

from __future__ import annotations

from torchspec import catalog
from torchspec.catalog.units import FITS
from torchspec.check.units import limit_dimensions
from torchspec.model.codec import load_schema

CATALOG = catalog.load()
MODES = {"infer", "train", "compile", "train_compiled", "export"}


def test_names_are_unique() -> None:
    from torchspec.catalog.metrics import METRICS
    from torchspec.catalog.workloads import WORKLOADS

    assert len({m.name for m in METRICS}) == len(METRICS)
    assert len({w.name for w in WORKLOADS}) == len(WORKLOADS)


def test_metrics_refer_to_rows() -> None:
    for metric in CATALOG.metrics.values():
        assert metric.meaning, metric.name
        assert metric.measured, metric.name
        assert set(metric.backends) <= set(CATALOG.backends), metric.name
        assert set(metric.modes) <= MODES, metric.name
        assert set(metric.forms) <= set(CATALOG.relations), metric.name
        assert set(metric.kinds) <= set(CATALOG.workloads), metric.name
        assert metric.dimension in FITS, metric.name
        assert metric.usual in ("isolate", "defer", "rollback"), metric.name
        assert metric.better in ("lower", "higher", "none"), metric.name
        assert set(metric.against) <= {"baseline", "beside", "eager", "reference"}, metric.name


def test_every_form_of_a_metric_has_a_unit_that_fits() -> None:
    for metric in CATALOG.metrics.values():
        for form in metric.forms:
            relation = CATALOG.relations[form]
            assert bool(limit_dimensions(metric, relation)) == relation.needs_number, (metric.name, form)


def test_forms_of_the_model_and_the_table_are_the_same() -> None:
    forms = load_schema("plan")["$defs"]["Limit"]["properties"]["form"]["enum"]
    assert set(forms) == set(CATALOG.relations)


def test_workload_kinds_refer_to_rows() -> None:
    for kind in CATALOG.workloads.values():
        assert set(kind.backends) <= set(CATALOG.backends), kind.name
        assert set(kind.modes) <= MODES, kind.name
        assert set(kind.default_modes) <= set(kind.modes), kind.name
        assert set(kind.items) <= {a.name for a in kind.axes}, kind.name
        assert kind.entry in ("required", "optional", "none"), kind.name
        for axis in kind.axes:
            assert axis.kind in ("count", "name"), (kind.name, axis.name)
            assert axis.default in (None, "") or not axis.values or axis.default in axis.values, (kind.name, axis.name)


def test_usual_decisions_are_those_of_the_decision_table() -> None:
    usual = {m.name: m.usual for m in CATALOG.metrics.values()}
    for name, decision in usual.items():
        group = name.partition(".")[0]
        if group in ("error", "loss", "task"):
            assert decision == "rollback", name
        elif name in ("compile.time", "compile.time_warm", "import.time") or group in ("latency", "step", "comm"):
            assert decision == "isolate", name
        elif group in ("determinism", "memory", "compile", "export", "fallback", "checkpoint", "recovery"):
            assert decision == "defer", name


def test_the_digest_covers_every_row() -> None:
    metric = next(iter(CATALOG.metrics.values()))
    changed = CATALOG._replace(metrics={**CATALOG.metrics, metric.name: metric._replace(usual="isolate")})
    assert CATALOG.digest == catalog.load().digest
    assert changed.digest != CATALOG.digest
