"""Evidence from another machine: taken in once, with its origin, or refused with the reason."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from torchspec.core.canon import canonical, sha256_hex
from torchspec.ledger import Writer, append, read, verify
from torchspec.ledger.ingest import Taken, identity, ingest, runs_in

PLAN, HARNESS = "ab" * 32, {"cpu": "cd" * 32, "mps": "ef" * 32}
BODIES = json.loads((Path(__file__).resolve().parents[2] / "cases" / "ledger" / "bodies.json").read_text())


def start(backend: str = "mps", plan: str = PLAN, harness: str | None = None) -> dict:
    stated = {"backend": backend, "sha256": harness or HARNESS[backend]}
    return {**BODIES["run.start"], "plan": plan, "backend": backend, "harness": stated}


def laptop(folder: Path, run: str = "r-laptop", extra: int = 0, **words) -> Path:
    with Writer(folder / "ledger.jsonl") as writer:
        writer.append(run, "run.start", start(**words))
        timing = writer.append(run, "timing", BODIES["timing"])
        writer.append(run, "control", {**BODIES["control"], "timing": [timing.seq]})
        for number in range(extra):
            writer.append(run, "sample", {**BODIES["sample"], "repeat": number})
    return folder


def records(into: Path) -> list:
    return list(read(into / "ledger.jsonl"))


def test_evidence_is_taken_in_with_its_origin(tmp_path):
    source, into = laptop(tmp_path / "laptop"), tmp_path / "evidence"
    append(into / "ledger.jsonl", "r-here", "run.start", start("cpu"))
    result = ingest(source, PLAN, HARNESS, into)
    theirs = list(read(source / "ledger.jsonl"))
    assert result.diagnostics == ()
    assert result.value == Taken(("r-laptop",), 3, 0, theirs[-1].hash)
    found = records(into)
    assert [r.kind for r in found] == ["run.start", "note", "run.start", "timing", "control"]
    assert found[1].body["head"] == theirs[-1].hash
    assert (into / found[1].body["file"]).read_bytes() == (source / "ledger.jsonl").read_bytes()
    assert found[1].body["ledger"] == sha256_hex((source / "ledger.jsonl").read_bytes())
    for ours, their in zip(found[2:], theirs, strict=True):
        assert (ours.time, ours.run, ours.kind) == (their.time, their.run, their.kind)
        assert ours.body["origin"] == {"seq": their.seq, "hash": their.hash}
    assert found[4].body["timing"] == [3]
    assert verify(into / "ledger.jsonl").problems == ()
    assert runs_in(into / "ledger.jsonl") == ("r-here", "r-laptop")


def test_a_canary_that_was_taken_in_elsewhere_comes_along(tmp_path):
    source = laptop(tmp_path / "laptop")
    files = [{"file": "canary/a.json", "sha256": "12" * 32, "kept": "canary/1212121212121212.json"}]
    start_of = {k: v for k, v in start().items() if k != "harness"}
    with Writer(source / "ledger.jsonl") as writer:
        writer.append("r-canary", "run.start", {**start_of, "canary": {"mark": "34" * 32, "files": files}})
        writer.append("r-canary", "sample", BODIES["sample"])
    (found,) = ingest(source, PLAN, HARNESS, tmp_path / "evidence").diagnostics
    assert found.code == "TS718"  # no service measures that cell
    assert "a `sample` of c" in found.message
    result = ingest(source, PLAN, HARNESS, tmp_path / "evidence", served=("c",))
    assert result.value is not None, result.diagnostics
    assert result.value.runs == ("r-laptop", "r-canary")
    assert [d.code for d in result.diagnostics] == ["TS717"]  # the canary's file did not come along
    with Writer(source / "ledger.jsonl") as writer:  # neither a harness nor a canary: nothing says who measured
        writer.append("r-nobody", "run.start", start_of)
    (found,) = ingest(source, PLAN, HARNESS, tmp_path / "other", served=("c",)).diagnostics
    assert found.code == "TS714"


def test_the_first_record_can_be_rebuilt_from_what_was_taken_in(tmp_path):
    source, into = laptop(tmp_path / "laptop"), tmp_path / "evidence"
    ingest(source, PLAN, HARNESS, into)
    body = {k: v for k, v in records(into)[1].body.items() if k != "origin"}
    origin = records(into)[1].body["origin"]
    line = {"v": 1, "seq": 0, "time": records(into)[1].time, "run": "r-laptop", "kind": "run.start"}
    assert sha256_hex(canonical({**line, "body": body, "prev": "0" * 64})) == origin["hash"]


def test_the_same_evidence_twice_is_the_same_evidence(tmp_path):
    source, into = laptop(tmp_path / "laptop"), tmp_path / "evidence"
    ingest(source, PLAN, HARNESS, into)
    before = (into / "ledger.jsonl").read_bytes()
    again = ingest(source, PLAN, HARNESS, into)
    assert (again.value.added, again.value.already) == (0, 3)
    assert (into / "ledger.jsonl").read_bytes() == before


def test_a_ledger_that_has_grown_adds_what_is_new(tmp_path):
    source, into = laptop(tmp_path / "laptop"), tmp_path / "evidence"
    ingest(source, PLAN, HARNESS, into)
    append(source / "ledger.jsonl", "r-laptop", "control", {**BODIES["control"], "timing": [1]})
    again = ingest(source, PLAN, HARNESS, into)
    assert (again.value.added, again.value.already) == (1, 3)
    assert records(into)[-1].body["timing"] == [2]
    assert len({identity(r) for r in records(into)}) == len(records(into)) == 6


def test_an_ingest_that_was_cut_short_goes_on(tmp_path):
    source, into = laptop(tmp_path / "laptop", extra=5), tmp_path / "evidence"
    ingest(source, PLAN, HARNESS, into)
    lines = (into / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (into / "ledger.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:30])
    again = ingest(source, PLAN, HARNESS, into)
    assert (again.value.added, again.value.already) == (5, 3)
    assert verify(into / "ledger.jsonl").problems == ()


def test_what_was_taken_in_elsewhere_keeps_its_first_origin(tmp_path):
    source, middle, into = laptop(tmp_path / "laptop"), tmp_path / "middle", tmp_path / "evidence"
    ingest(source, PLAN, HARNESS, middle)
    assert ingest(middle, PLAN, HARNESS, into).value.added == 4
    assert ingest(source, PLAN, HARNESS, into).value.added == 0
    assert [r.body["origin"]["seq"] for r in records(into) if r.kind == "timing"] == [1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ({"plan": "12" * 32}, "TS713", "not this one"),
        ({"harness": "12" * 32}, "TS714", "the one compiled is efefefefefef"),
        ({"backend": "mps", "harness": HARNESS["cpu"]}, "TS714", "for mps"),
        ({"backend": "rocm", "harness": "12" * 32}, "TS714", "no harness for rocm was compiled"),
    ],
)
def test_evidence_of_something_else_is_refused(tmp_path, words, code, said):
    source = laptop(tmp_path / "laptop", **words)
    (found,) = ingest(source, PLAN, HARNESS, tmp_path / "evidence").diagnostics
    assert found.code == code
    assert said in found.message
    assert found.span.line == 1
    assert not (tmp_path / "evidence").exists()


def test_a_changed_ledger_is_refused(tmp_path):
    source, file = laptop(tmp_path / "laptop"), tmp_path / "laptop" / "ledger.jsonl"
    whole = file.read_bytes()
    for edit in (whole.replace(b'"calls":4', b'"calls":5'), b"".join(whole.splitlines(keepends=True)[1:])):
        file.write_bytes(edit)
        assert [d.code for d in ingest(source, PLAN, HARNESS, tmp_path / "evidence").diagnostics] == ["TS712"]


def test_records_without_a_beginning_are_refused(tmp_path):
    append(tmp_path / "laptop" / "ledger.jsonl", "r-x", "timing", BODIES["timing"])
    found = ingest(tmp_path / "laptop", PLAN, HARNESS, tmp_path / "evidence").diagnostics
    assert [d.code for d in found] == ["TS716"]


def test_two_histories_of_one_run_are_refused(tmp_path):
    into = tmp_path / "evidence"
    ingest(laptop(tmp_path / "one", extra=2), PLAN, HARNESS, into)
    before = (into / "ledger.jsonl").read_bytes()
    other = ingest(laptop(tmp_path / "two"), PLAN, HARNESS, into)
    assert [d.code for d in other.diagnostics] == ["TS715"]
    assert (into / "ledger.jsonl").read_bytes() == before


def test_nothing_to_take_in(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank").mkdir()
    (tmp_path / "blank" / "ledger.jsonl").touch()
    own = laptop(tmp_path / "own")
    for folder, into in ((tmp_path / "empty", own), (tmp_path / "absent", own), (tmp_path / "blank", own), (own, own)):
        assert [d.code for d in ingest(folder, PLAN, HARNESS, into).diagnostics] == ["TS711"]


def test_a_harness_that_still_writes(tmp_path):
    source = laptop(tmp_path / "laptop")
    descriptor = os.open(source / "ledger.jsonl", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    found = ingest(source, PLAN, HARNESS, tmp_path / "evidence").diagnostics
    os.close(descriptor)
    assert [d.code for d in found] == ["TS708"]


@pytest.mark.parametrize("kind", ["there", "missing", "changed", "outside", "link", "frozen"])
def test_logs_come_along_where_they_are_what_was_recorded(tmp_path, kind):
    source, into = laptop(tmp_path / "laptop"), tmp_path / "evidence"
    (tmp_path / "secret").write_bytes(b"words")
    name = {"outside": "../../../secret", "frozen": "frozen/001.log"}.get(kind, "001.log")
    log = source / ("frozen" if kind == "frozen" else "logs/r-laptop") / "001.log"
    log.parent.mkdir(parents=True)
    if kind == "link":
        log.symlink_to(tmp_path / "secret")
    elif kind != "missing":
        log.write_bytes(b"other" if kind == "changed" else b"words")
    body = {**BODIES["side.failed"], "log": {"file": name, "sha256": sha256_hex(b"words"), "tail": ""}}
    append(source / "ledger.jsonl", "r-laptop", "side.failed", body)
    result = ingest(source, PLAN, HARNESS, into)
    assert result.value.added == 4
    copied = sorted(p.name for p in into.rglob("*.log"))
    if kind == "there":
        assert (copied, result.diagnostics) == (["001.log"], ())
    else:
        assert copied == []
        assert [d.code for d in result.diagnostics] == ["TS717"]
