"""Exports: CSV, Parquet where pyarrow is there, the in-toto test result."""

from __future__ import annotations

import builtins
import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from torchspec.ledger import Writer, read
from torchspec.ledger.export import COLUMNS, export_csv, export_parquet, in_toto_test_result

BODIES = json.loads((Path(__file__).resolve().parents[2] / "cases" / "ledger" / "bodies.json").read_text())


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with Writer(path) as writer:
        for kind, body in BODIES.items():
            writer.append("r-1", kind, body)
        writer.append("r-1", "sample", {**BODIES["sample"], "value": 1.5, "meter": 'a "b",\nc ü'})
    return path


def test_csv_holds_every_record(tmp_path, path):
    out = tmp_path / "out.csv"
    assert export_csv(read(path), out).value == 17
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == list(COLUMNS)
    assert [json.loads(row["body"]) for row in rows] == [record.body for record in read(path)]
    last = rows[-1]
    assert (last["metric"], last["value"], last["unit"], last["side"]) == ("error.max_abs", "1.5", "1", "baseline")
    assert [r["value"] for r in rows if r["kind"] == "sample"] == ["nan", "1.5"]


def test_a_ledger_that_does_not_hold_is_not_exported(tmp_path, path):
    path.write_bytes(path.read_bytes().replace(b"1.5", b"2.5"))
    result = export_csv(read(path), tmp_path / "out.csv")
    assert [d.code for d in result.diagnostics] == ["TS703"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.jsonl"]


def test_a_folder_that_is_not_there(tmp_path, path):
    assert [d.code for d in export_csv(read(path), tmp_path / "no" / "out.csv").diagnostics] == ["TS701"]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, path, monkeypatch):
    real = builtins.__import__

    def without_pyarrow(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    (found,) = export_parquet(read(path), tmp_path / "out.parquet").diagnostics
    assert found.code == "TS721"
    assert "torchspec[parquet]" in found.hint


def test_parquet_holds_every_record(tmp_path, path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an optional extra")
    assert export_parquet(read(path), tmp_path / "out.parquet", batch=4).value == 17
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [json.loads(row["body"]) for row in rows] == [record.body for record in read(path)]
    assert rows[-1]["value"] == 1.5
    assert [row["seq"] for row in rows] == list(range(17))


def judgement(gate: str, outcome: str, waived: str | None = None, candidate: str = "candidate") -> SimpleNamespace:
    return SimpleNamespace(gate=gate, cell="c", candidate=candidate, outcome=outcome, waived=waived)


@pytest.mark.parametrize(
    ("judgements", "result", "counts"),
    [
        ([("g", "pass", None)], "PASSED", (1, 0, 0)),
        ([("g", "pass", None), ("g", "fail", "until 2027")], "WARNED", (1, 1, 0)),
        ([("g", "pass", None), ("g", "inconclusive", None)], "FAILED", (1, 0, 1)),
        ([("g", "not_run", None)], "FAILED", (0, 0, 1)),
        ([("g", "error", "until 2027")], "FAILED", (0, 0, 1)),
        ([("reporting", "pass", None)], "FAILED", (0, 0, 0)),
        ([], "FAILED", (0, 0, 0)),
    ],
)
def test_only_a_pass_is_a_passed_test(judgements, result, counts):
    plan = SimpleNamespace(
        gates=[
            SimpleNamespace(id="g", text="latency.p50 growth <= 3 %", decision="isolate"),
            SimpleNamespace(id="reporting", text="report x", decision=None),
        ],
        cells=[SimpleNamespace(id="c", label="attention cpu infer")],
    )
    others = [judgement("g", "fail", candidate="candidate-2")]
    verdict = SimpleNamespace(judgements=[judgement(*one) for one in judgements] + others)
    subject = {"name": "ledger.jsonl", "digest": {"sha256": "ab" * 32}}
    statement = in_toto_test_result(plan, verdict, "candidate", [subject])
    predicate = statement["predicate"]
    assert predicate["result"] == result
    assert tuple(len(predicate[k]) for k in ("passedTests", "warnedTests", "failedTests")) == counts
    assert statement["subject"] == [subject]
    assert all("attention cpu infer: latency.p50" in t for t in predicate["passedTests"])
