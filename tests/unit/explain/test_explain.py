"""Explanations come from the tables and from the functions that decide."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plans import make_plan

from torchspec import catalog, reference
from torchspec.core.codes import CODES
from torchspec.decide_algebra import RULES
from torchspec.explain import explain_decisions, explain_gates, explain_word, ranges
from torchspec.model.plan import Cell, Exclusion, Waiver

TABLES = catalog.load()


@pytest.mark.parametrize(
    "name", [*CODES, *TABLES.metrics, *TABLES.workloads, *TABLES.backends, *TABLES.relations, *TABLES.units]
)
def test_every_row_is_explained(name: str) -> None:
    text = explain_word(name).value
    assert text is not None
    assert name in text
    assert all(len(line) <= 120 for line in text.split("\n"))


def test_a_code_is_found_in_small_letters() -> None:
    assert explain_word("ts501").value == explain_word("TS501").value


def test_a_misspelled_word_gets_the_nearest() -> None:
    result = explain_word("latency.p59")
    assert result.value is None
    assert result.diagnostics[0].code == "TS590"
    assert "latency.p" in (result.diagnostics[0].hint or "")


def test_decision_table() -> None:
    plan = make_plan(
        {"cpu": "required", "mps": "optional"},
        {"a": ["cpu", "mps"], "b": ["cpu"], "proto": ["cpu"]},
        {"error.max_abs": "rollback", "memory.driver_peak": "defer", "memory.fragmentation": None},
        lanes={"prototype": ["proto"]},
        together=[["a", "b"]],
        waivers=[Waiver("memory.driver_peak", "a", "mps", "2026-12-31", "ml", "ticket")],
        implicit=True,
    )
    plan = replace(
        plan,
        exclusions=(
            Exclusion("a", 'except mode train on mps until 2027-01-31 because "no backward"', "no backward", None, 2),
        ),
    )
    text = explain_decisions(plan)
    lines = [line.split() for line in text.split("\n")]
    assert ["error.max_abs", "<=", "1", "adopt", "rollback", "defer", "defer", "defer"] in lines
    assert ["runs", "(implicit)", "adopt", "defer", "defer", "defer", "defer"] in lines
    assert ["going", "back", "adopt", "defer", "defer", "defer", "defer"] in lines
    assert ["memory.driver_peak", "<=", "1", "adopt", "isolate*", "defer", "defer", "defer"] in lines
    assert "* memory.driver_peak: isolate until 2026-12-31, then defer" in text
    assert "a on mps (optional" in text
    assert "proto on cpu (lane" in text
    assert "together: a, b" in text
    assert "not covered: a mode train on mps (2 cells): no backward" in text


def test_gates_by_cells_give_a_reason_for_each_hole() -> None:
    plan = make_plan({"cpu": "required"}, {"a": ["cpu"]}, {"latency.p50": "isolate", "compile.time": "isolate"})
    extra = (
        Cell("c2", "a", "cpu", "train", {"dtype": "bfloat16"}, "a cpu train"),
        Cell("c3", "a", "cpu", "export", {"dtype": "float32"}, "a cpu export"),
    )
    first = replace(plan.cells[0], axes={"dtype": "float32"})
    narrow, compiled = plan.gates
    narrow = replace(narrow, cells=(first.id,), only={"dtype": ("float32",)})
    compiled = replace(compiled, cells=())
    workload = replace(plan.workloads[0], gate_sets=("service",))
    text = explain_gates(replace(plan, cells=(first, *extra), gates=(narrow, compiled), workloads=(workload,)))
    assert "+..  latency.p50 <= 1  at dtype float32  else isolate" in text
    assert "cell 2: the line says `at dtype float32`" in text
    assert "cell 3: export does not give latency.p50 (infer, train, compile and train_compiled do)" in text
    assert "...  compile.time <= 1  else isolate" in text
    assert "cell 1: infer does not give compile.time (compile and train_compiled do)" in text


def test_ranges() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"


def test_reference_names_every_row() -> None:
    made = {name: make() for name, make in reference.topics().items()}
    assert all(f"`{m}`" in made["metrics"] for m in TABLES.metrics)
    assert all(f"`{w}`" in made["workloads"] for w in TABLES.workloads)
    assert all(f"`{b}`" in made["backends"] for b in TABLES.backends)
    assert all(f"`{u}`" in made["limits"] for u in TABLES.units)
    assert all(rule in made["decisions"] for rule in RULES)
    assert all(code in made["diagnostics"] for code in CODES)
    assert "1,215,000" in made["decisions"]


def test_reference_tables_have_equal_columns() -> None:
    for make in reference.topics().values():
        columns = None
        for line in make().split("\n"):
            if not line.startswith("|"):
                columns = None
                continue
            count = line.replace("\\|", "").count("|")
            assert columns in (None, count), line
            columns = count
