"""Several intakes of a canary: no figure counts twice, none goes away unsaid, and each further look is stricter."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from canaries import SPEC, samples, told, write

from torchspec import pipeline, pipeline_canary, pipeline_run
from torchspec.ledger import Writer, read
from torchspec.ledger.ingest import ingest
from torchspec.model.verdict import Verdict
from torchspec.pipeline import Compiled


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    root = tmp_path_factory.mktemp("canary")
    (root / "small.tspec").write_text(SPEC, encoding="utf-8")
    made = pipeline.compile_spec(root / "small.tspec", root / "out", {})
    assert made.compiled is not None, made.diagnostics
    return made.compiled


@pytest.fixture(autouse=True)
def clean(compiled: Compiled) -> None:
    for place in (compiled.spec.parent / "canary", compiled.evidence):
        shutil.rmtree(place, ignore_errors=True)


def put(compiled: Compiled, figures: list[dict[str, Any]], name: str = "day.json") -> Path:
    return write(compiled.spec.parent / "canary" / name, told(compiled.plan_digest, figures))


def take(compiled: Compiled) -> None:
    assert pipeline_canary.take(compiled).value is not None


def verdict(compiled: Compiled) -> Verdict:
    result = pipeline_run.judge(compiled)
    assert result.value is not None, result.diagnostics
    return result.value.verdict


def judged(compiled: Compiled) -> dict[str, Any]:
    """metric -> judgement of the canary's cell."""
    cell = canary_cell(compiled)
    return {j.metric: j for j in verdict(compiled).judgements if j.cell == cell}


def canary_cell(compiled: Compiled) -> str:
    return next(c.id for c in compiled.plan.cells if c.workload == "canary")


def whys(compiled: Compiled) -> list[str]:
    return [str(run["why"]) for run in verdict(compiled).runs]


def test_files_that_were_away_for_a_run_count_once(compiled: Compiled) -> None:
    file = put(compiled, samples())
    take(compiled)
    once = judged(compiled)["error.rate"]
    bad = write(file.with_name("bad.json"), "{")
    take(compiled)
    assert judged(compiled)["error.rate"].outcome == "not_run"
    bad.unlink()
    take(compiled)
    again = judged(compiled)["error.rate"]
    assert again.detail["requests"] == once.detail["requests"] == {"candidate": 160_000.0, "baseline": 160_000.0}
    assert (again.low, again.high, again.outcome) == (once.low, once.high, "pass")
    assert again.detail["intakes"] == 1  # the same figures are no second look
    assert whys(compiled) == [
        "files were taken in again later, and the later intake speaks",
        "files were taken in again later, and the later intake speaks",
        "used",
    ]


def test_the_same_files_of_a_colleague_count_once(compiled: Compiled, tmp_path: Path) -> None:
    put(compiled, samples())
    take(compiled)
    shutil.copytree(compiled.evidence, tmp_path / "theirs")
    once = judged(compiled)["error.rate"]
    shutil.rmtree(compiled.evidence)
    take(compiled)
    cells = [canary_cell(compiled)]
    result = ingest(tmp_path / "theirs", compiled.plan_digest, compiled.lock.harness, compiled.evidence, served=cells)
    assert result.value is not None, result.diagnostics
    both = judged(compiled)["error.rate"]
    assert both.detail["requests"] == once.detail["requests"]
    assert (both.outcome, both.detail["intakes"]) == ("pass", 1)


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_a_bad_hour_does_not_go_away(compiled: Compiled, how: str) -> None:
    put(compiled, samples(), "good.json")
    late = [{**s, "group": f"late {s['group']}", "since": s["since"].replace("11-03", "11-04"),
             "until": s["until"].replace("11-03", "11-04")} for s in samples(3, errors=2.0)]  # fmt: skip
    bad = put(compiled, late, "bad.json")
    take(compiled)
    assert judged(compiled)["error.rate"].outcome != "pass"
    if how == "deleted":
        bad.unlink()
    else:
        bad.rename(bad.with_suffix(".old"))
    take(compiled)
    found = judged(compiled)["error.rate"]
    assert (found.outcome, found.rule, found.contribution) == ("inconclusive", "figures were dropped", "defer")
    assert "6 figures that were taken in before, from canary/bad.json" in found.reason
    assert found.detail["gone"]["figures"] == 6
    assert not any("another machine" in why for why in whys(compiled))
    take(compiled)  # doing it again changes nothing
    assert judged(compiled)["error.rate"].outcome == "inconclusive"
    if how == "renamed":
        bad.with_suffix(".old").rename(bad.with_name("worse.json"))  # another name is no other figure
        take(compiled)
        assert judged(compiled)["error.rate"].rule != "figures were dropped"


def test_a_metric_that_is_left_out_is_no_missing_metric(compiled: Compiled) -> None:
    put(compiled, samples())
    take(compiled)
    put(compiled, [s for s in samples() if s["metric"] != "error.rate"])
    take(compiled)
    found = judged(compiled)
    assert (found["error.rate"].outcome, found["error.rate"].rule) == ("inconclusive", "figures were dropped")
    assert found["latency.p95"].outcome == "pass"


def test_there_and_back_is_a_second_look(compiled: Compiled) -> None:
    put(compiled, samples(seed=1))
    take(compiled)
    put(compiled, samples(seed=2))
    take(compiled)
    put(compiled, samples(seed=1))
    take(compiled)
    found = judged(compiled)["error.rate"]
    assert found.detail["intakes"] == 2
    assert found.detail["requests"]["candidate"] == 160_000
    assert found.outcome == "inconclusive"


def test_each_further_day_is_a_stricter_look(compiled: Compiled) -> None:
    for number, hours in enumerate((8, 10, 12), 1):
        put(compiled, samples(12)[: 4 * hours])
        take(compiled)
        found = judged(compiled)["latency.p95"]
        assert found.detail["intakes"] == number
        assert found.confidence == pytest.approx(1 - 2 * 0.05 / number**2)
        assert ("intake" in found.reason) is (number > 1)
    assert found.outcome == "pass"
    assert math.pi**2 / 6 * 0.05 < 0.083  # all looks together, as the docs say


def test_too_few_groups_for_a_stricter_look(compiled: Compiled) -> None:
    put(compiled, samples(6))
    take(compiled)
    assert judged(compiled)["latency.p95"].outcome == "pass"
    more = samples(6) + [{**samples(7)[-3], "group": "hour 5", "side": side} for side in ("baseline", "candidate")]
    put(compiled, more)
    take(compiled)
    found = judged(compiled)["latency.p95"]
    assert (found.outcome, found.rule) == ("inconclusive", "too few groups")  # 1 of 64 is beyond the least of six
    assert "1.2" in found.reason


def forged(compiled: Compiled, cell: str, kind: str, folder: Path) -> Path:
    """Evidence of a run that says it took files in, with a record of `cell`."""
    first = next(read(compiled.ledger)).body
    shutil.copytree(compiled.evidence, folder)
    body = {"cell": cell, "candidate": "candidate"}
    bodies: dict[str, dict[str, Any]] = {
        "sample": {**next(r.body for r in read(compiled.ledger) if r.kind == "sample"), **body},
        "cell.done": {**body, "status": "measured", "reason": None},
        "control.broken": {**body, "reason": "made up"},
    }
    with Writer(folder / "ledger.jsonl") as writer:
        writer.append("r-forged", "run.start", {**first, "canary": {"mark": "ab" * 32, "files": []}})
        writer.append("r-forged", kind, bodies[kind])
    return folder


@pytest.mark.parametrize("kind", ["sample", "cell.done"])
def test_a_canary_speaks_for_no_cell_that_a_harness_measures(compiled: Compiled, kind: str, tmp_path: Path) -> None:
    put(compiled, samples())
    take(compiled)
    other = next(c.id for c in compiled.plan.cells if c.workload == "attention")
    before = {(j.cell, j.metric): (j.outcome, j.reason) for j in verdict(compiled).judgements}
    folder = forged(compiled, other, kind, tmp_path / "theirs")
    cells = [canary_cell(compiled)]
    result = ingest(folder, compiled.plan_digest, compiled.lock.harness, tmp_path / "into", served=cells)
    (said,) = result.diagnostics
    assert (said.code, result.value) == ("TS718", None)
    assert kind in said.message
    shutil.copyfile(folder / "ledger.jsonl", compiled.ledger)  # and where it got in all the same
    assert {(j.cell, j.metric): (j.outcome, j.reason) for j in verdict(compiled).judgements} == before
    assert whys(compiled)[-1].startswith("1 records left out: no harness ran")


@pytest.mark.parametrize("kind", ["there", "missing", "changed", "elsewhere"])
def test_files_come_along_where_they_are_what_was_recorded(compiled: Compiled, kind: str, tmp_path: Path) -> None:
    file = put(compiled, samples())
    take(compiled)
    theirs, into = tmp_path / "theirs", tmp_path / "into"
    shutil.copytree(compiled.evidence, theirs)
    (kept,) = (theirs / "canary").iterdir()
    if kind == "missing":
        kept.unlink()
    elif kind == "changed":
        kept.write_bytes(b"{}")
    elif kind == "elsewhere":
        file.rename(tmp_path / "secret")
        kept.unlink()
        kept.symlink_to(tmp_path / "secret")
    cells = [canary_cell(compiled)]
    result = ingest(theirs, compiled.plan_digest, compiled.lock.harness, into, served=cells)
    assert result.value is not None
    if kind == "there":
        note = next(r.body for r in read(into / "ledger.jsonl") if r.body.get("what") == "canary")
        assert (into / note["kept"]).read_bytes() == file.read_bytes()
        assert result.diagnostics == ()
    else:
        assert not list(into.rglob("canary/*"))
        assert [d.code for d in result.diagnostics] == ["TS717"]
        assert "canary/day.json" in result.diagnostics[0].message


def test_an_intake_that_was_cut_short_is_taken_in_again(compiled: Compiled) -> None:
    put(compiled, samples())
    take(compiled)
    first = compiled.ledger.read_bytes()
    put(compiled, samples(10), "day.json")
    take(compiled)
    lines = compiled.ledger.read_bytes()[len(first) :].splitlines(keepends=True)
    compiled.ledger.write_bytes(first + b"".join(lines[:4]))  # a start, its note, and two figures
    put(compiled, samples())
    take(compiled)
    found = judged(compiled)["error.rate"]
    assert (found.outcome, found.detail["requests"]["candidate"]) == ("pass", 160_000)
