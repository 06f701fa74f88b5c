"""Files of earlier versions are read for ever; those of a newer one are refused in words."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from torchspec import ledger
from torchspec.core.canon import canonical, sha256_hex
from torchspec.core.files import strict_json
from torchspec.ledger import upgrade
from torchspec.ledger.export import export_csv
from torchspec.ledger.read import parse_line
from torchspec.ledger.write import encode
from torchspec.model.codec import from_json, schema_errors
from torchspec.model.evidence import GENESIS, KINDS
from torchspec.model.plan import Plan
from torchspec.model.registration import Lock, Registration
from torchspec.model.verdict import Verdict
from torchspec.pipeline_seal import rejudge
from torchspec.provenance.verify import verify

OLD = Path(__file__).resolve().parents[2] / "cases" / "old"
VERSIONS = sorted(p.name for p in OLD.iterdir() if p.is_dir())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_memo_of_an_earlier_version_is_intact(version: str) -> None:
    report = verify(OLD / version)
    assert report.intact, report.words
    assert ledger.verify(OLD / version / "ledger.jsonl").ok
    assert {r.kind for r in ledger.read(OLD / version / "ledger.jsonl")} == set(KINDS)


@pytest.mark.parametrize("version", VERSIONS)
def test_its_parts_are_read_as_values_and_judged_again(version: str) -> None:
    folder = OLD / version
    for kind, name in ((Plan, "plan"), (Lock, "lock"), (Registration, "registration"), (Verdict, "verdict")):
        value = strict_json((folder / f"{name}.json").read_bytes())
        from_json(kind, value)
        if name in ("plan", "lock"):
            assert schema_errors(name, value) == []
    plan = from_json(Plan, strict_json((folder / "plan.json").read_bytes()))
    assert rejudge(plan, folder / "ledger.jsonl").ledger_head == ledger.head(folder / "ledger.jsonl")


def line(version: int, **body: Any) -> bytes:
    record = {"v": version, "seq": 0, "time": "2026-11-30T00:00:00.000000+00:00", "run": "r-1", "kind": "note"}
    record |= {"body": body, "prev": GENESIS}
    return canonical({**record, "hash": sha256_hex(canonical(record))})


def test_a_newer_version_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="of version 2, from a newer torchspec"):
        parse_line(line(2, text="x"))
    with pytest.raises(ValueError, match="of version 0, and this torchspec reads version 1"):
        parse_line(line(0, text="x"))


def test_an_upgrade_changes_the_body_and_not_the_hash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a made-up version 0, whose notes said `remark` for `text`."""
    monkeypatch.setattr(upgrade, "UPGRADES", {0: lambda kind, body: {"text": body["remark"], "by": "x"}})
    old = line(0, remark="x")
    found = parse_line(old)
    assert found.body == {"text": "x", "by": "x"}
    assert found.hash == json.loads(old)["hash"]
    (tmp_path / "ledger.jsonl").write_bytes(old + b"\n")
    assert ledger.verify(tmp_path / "ledger.jsonl").ok
    assert [r.body["text"] for r in ledger.read(tmp_path / "ledger.jsonl")] == ["x"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_records(tmp_path: Path) -> None:
    """Verified, read and exported as a stream: four times the records take no more memory."""
    body = {"cell": "c" * 12, "candidate": "candidate", "side": "baseline", "metric": "step.time", "value": 1.0}
    body |= {"unit": "s", "repeat": 0, "against": None, "meter": "x", "process": "fresh", "detail": {}}

    def peak(count: int) -> int:
        path, prev = tmp_path / f"{count}.jsonl", GENESIS
        with path.open("wb") as stream:
            for number in range(count):
                one, prev = encode(number, "2026-11-30T00:00:00.000000+00:00", "r-1", "sample", body, prev)
                stream.write(one)
        tracemalloc.start()
        try:
            assert ledger.verify(path).count == count
            assert export_csv(ledger.read(path), tmp_path / "out.csv").value == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)  # what is made once
    assert peak(4000) < peak(1000) + 200_000
