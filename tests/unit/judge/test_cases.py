"""The corpus `tests/cases/judge`: gates and records in, judgements out. Its README says how a case is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evidence import Book, gate, plan_of

CASES = Path(__file__).resolve().parents[2] / "cases" / "judge"


def _all() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return found


def _written(book: Book, record: dict[str, Any]) -> None:
    kind = record["kind"]
    body = {key: value for key, value in record.items() if key != "kind"}
    if kind == "samples":
        book.samples(body["metric"], body["baseline"], body["candidate"], body.get("unit", "bytes"))
    elif kind == "sample":
        book.sample(body.pop("side"), body.pop("metric"), body.pop("value"), **body)
    elif kind == "fact":
        book.fact(body.pop("side"), body.pop("metric"), body.pop("holds"), body.pop("error", None), **body)
    elif kind == "side.failed":
        book.failed(body.pop("side"), body.pop("attempt", 0), **body)
    elif kind == "cell.done":
        book.done(body["status"], body.get("reason"))
    elif kind == "pairs":
        book.pairs(body.pop("logs"), **body)
    elif kind == "controls":
        book.controls(body["metric"], seen=body.get("seen", True), same=body.get("same", 0.0))
    elif kind == "environment":
        book.environment(body.pop("side"), **body)
    else:
        book.add(kind, {"cell": "c", "candidate": "candidate", **body})


@pytest.mark.parametrize("case", _all())
def test_case(case: dict[str, Any]) -> None:
    gates = [
        gate(g["metric"], g["form"], g.get("op"), g.get("value"), **{k: g[k] for k in g if k in _GATE})
        for g in case["gates"]
    ]
    book = Book(plan_of(gates, mode=case.get("mode", "infer")))
    for record in case["records"]:
        _written(book, record)
    if case.get("done", True):
        book.done()
    found = book.judged().judgements
    assert len(found) == len(case["expect"])
    for one, expected in zip(found, case["expect"], strict=True):
        for key, value in expected.items():
            if key == "says":
                assert value in one.reason, one.reason
            elif isinstance(value, float):
                assert getattr(one, key) == pytest.approx(value, rel=1e-6, abs=1e-12), key
            else:
                assert getattr(one, key) == value, (key, one.reason)


_GATE = ("against", "decision", "sees", "repeats", "unit", "text")


def test_every_part_of_the_judge_has_cases() -> None:
    assert {p.stem for p in CASES.glob("*.json")} >= {
        "memory", "counts", "errors", "facts", "endings", "controls", "durations", "timing",
    }  # fmt: skip
    assert len(_all()) >= 60
