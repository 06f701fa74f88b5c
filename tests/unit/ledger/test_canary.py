"""Canary files: taken in with their origin, judged by their groups, or refused with code, place, reason and way out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from canaries import SPEC, hour, sample, samples, told, write
from memos import run_git
from user import torchspec

from torchspec import catalog, pipeline, pipeline_canary, pipeline_run
from torchspec.core.diagnostics import Diagnostic
from torchspec.ledger import canary, read, verify
from torchspec.ledger.canary import common_s, covered
from torchspec.model.canary import canary_schema
from torchspec.model.codec import SCHEMAS
from torchspec.pipeline import Compiled
from torchspec.report import render, view

NOW = datetime(2026, 11, 20, tzinfo=UTC)


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


def put(compiled: Compiled, value: Any, name: str = "day.json") -> Path:
    return write(compiled.spec.parent / "canary" / name, value)


def taken(compiled: Compiled, *, only: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[Diagnostic, ...]]:
    result = pipeline_canary.take(compiled, only)
    assert result.value is not None
    return result.value, result.diagnostics


def judged(compiled: Compiled) -> dict[str, Any]:
    """metric -> judgement of the canary's cell."""
    result = pipeline_run.judge(compiled)
    assert result.value is not None, result.diagnostics
    cell = next(c.id for c in compiled.plan.cells if c.workload == "canary")
    return {j.metric: j for j in result.value.verdict.judgements if j.cell == cell}


def test_the_published_schema_is_made_from_the_classes(compiled: Compiled) -> None:
    published = json.loads((SCHEMAS / "canary.schema.json").read_text(encoding="utf-8"))
    assert published == canary_schema(), "write what `python -m torchspec.model.canary` prints into the file"
    good = told(compiled.plan_digest, samples(1))
    jsonschema.Draft202012Validator(published).validate(good)
    assert not jsonschema.Draft202012Validator(published).is_valid({**good, "sampels": []})


def test_figures_become_evidence_with_their_origin(compiled: Compiled) -> None:
    path = put(compiled, told(compiled.plan_digest, samples()))
    lines, said = taken(compiled)
    assert said == ()
    assert lines == ("canary cpu infer: 32 figures for candidate from canary/day.json",)
    records = list(read(compiled.ledger))
    assert verify(compiled.ledger).problems == ()
    assert [r.kind for r in records][:2] == ["run.start", "note"]
    assert [r.kind for r in records][-2:] == ["cell.done", "run.end"]
    assert {r.kind for r in records[2:-2]} == {"sample"}
    note = records[1].body
    assert (compiled.evidence / note["kept"]).read_bytes() == path.read_bytes()
    for words in ("canary/day.json", note["sha256"][:16], "made up for a test", "8 hours of the baseline", "5 %"):
        assert words in note["text"]
    first = records[2].body
    assert (first["unit"], first["meter"], first["detail"]["sha256"]) == ("1", "made up for a test", note["sha256"])
    assert first["value"] == pytest.approx(samples()[0]["value"] / 100)
    found = judged(compiled)
    assert {m: j.outcome for m, j in found.items()} == {"error.rate": "pass", "latency.p95": "pass", "runs": "pass"}
    assert "over 8 hours a side" in found["error.rate"].reason
    assert found["error.rate"].detail["interval"] == "the wider of group by group and counting"
    assert found["latency.p95"].detail["interval"] == "group by group"


@pytest.mark.parametrize(("language", "words"), [("en", "the team's own service"), ("es", "del propio servicio")])
def test_the_memo_says_where_the_figures_are_from(compiled: Compiled, language: str, words: str) -> None:
    put(compiled, told(compiled.plan_digest, samples()))
    taken(compiled)
    result = pipeline_run.judge(compiled)
    assert result.value is not None
    memo = view.view(
        compiled.plan,
        result.value.verdict,
        lock=compiled.lock,
        registration=result.value.registration,
        environments={},
        records=read(compiled.ledger),
        signer="a",
        issued="2026-12-01T00:00:00Z",
        language=language,
    )
    text = render.markdown_of(memo)
    assert "`canary` " in text
    assert words in text
    assert "from canary/day.json" in text


def test_a_user_takes_files_in_with_run_alone(tmp_path: Path) -> None:
    """No environment is made and nothing is driven where a service gives all that was chosen."""
    (tmp_path / "small.tspec").write_text(SPEC, encoding="utf-8")
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert torchspec("compile", "small.tspec", cwd=tmp_path, env=home).returncode == 0
    plan = json.loads((tmp_path / "out" / "small" / "lock.json").read_text(encoding="utf-8"))["plan"]
    write(tmp_path / "canary" / "day.json", told(plan, samples(errors=0.3)))
    given = torchspec("run", "--only", "canary", cwd=tmp_path, env=home)
    assert given.returncode == 30, given.stdout + given.stderr
    assert "canary cpu infer: 32 figures for candidate from canary/day.json" in given.stdout
    assert "error.rate increase <= 0.1 pp fails" in " ".join(given.stdout.split())
    assert not (tmp_path / "cache").exists()
    verified = torchspec("verify", "out/small/memo/latest", "--rerender", cwd=tmp_path, env=home)
    assert "Intact: every file is as it was sealed" in verified.stdout, verified.stdout + verified.stderr


def test_the_same_files_twice_are_one_evidence(compiled: Compiled) -> None:
    put(compiled, told(compiled.plan_digest, samples()))
    taken(compiled)
    before = compiled.ledger.read_bytes()
    assert taken(compiled) == ((), ())
    assert compiled.ledger.read_bytes() == before


@pytest.mark.parametrize(("errors", "latency", "fails"), [(0.3, 0.0, "error.rate"), (0.0, 0.12, "latency.p95")])
def test_what_is_worse_in_the_canary_fails_its_gate(
    compiled: Compiled, errors: float, latency: float, fails: str
) -> None:
    put(compiled, told(compiled.plan_digest, samples(errors=errors, latency=latency)))
    taken(compiled)
    found = judged(compiled)
    assert {m for m, j in found.items() if j.outcome == "fail"} == {fails}
    assert found[fails].low > (found[fails].estimate or 0) * 0.5


def test_later_files_speak_and_a_refusal_is_no_worse_hidden_than_a_figure(compiled: Compiled) -> None:
    put(compiled, told(compiled.plan_digest, samples()))
    taken(compiled)
    assert judged(compiled)["error.rate"].outcome == "pass"
    late = [{**s, "since": s["since"].replace("11-03", "11-04"), "until": s["until"].replace("11-03", "11-04"),
             "group": f"late {s['group']}"} for s in samples(20, errors=0.6)]  # fmt: skip
    put(compiled, told(compiled.plan_digest, late), "late.json")
    taken(compiled)
    found = judged(compiled)["error.rate"]
    assert (found.outcome, found.detail["intakes"]) == ("fail", 2)
    put(compiled, told(compiled.plan_digest, samples()), "second.json")  # the same hours twice: refused
    _, said = taken(compiled)
    assert [d.code for d in said] == ["TS745"]
    found = judged(compiled)["error.rate"]
    assert (found.outcome, found.contribution) == ("not_run", "defer")
    assert "stands twice" in found.reason


def test_without_files_the_row_is_not_run_and_says_how_to_write_one(compiled: Compiled) -> None:
    lines, said = taken(compiled)
    assert lines == ()
    (one,) = said
    assert (one.code, one.is_error, one.span.file if one.span else "") == ("TS741", False, "small.tspec")
    assert compiled.plan_digest in one.notes[0]
    found = judged(compiled)
    assert {j.outcome for j in found.values()} == {"not_run"}
    assert {j.contribution for j in found.values()} == {"defer"}
    assert "canary/*.json" in found["error.rate"].reason


def test_other_cells_are_left_alone(compiled: Compiled) -> None:
    other = next(c.id for c in compiled.plan.cells if c.workload == "attention")
    assert taken(compiled, only=(other,)) == ((), ())
    assert not compiled.ledger.exists()
    assert pipeline_canary.nothing_else(compiled.plan, [c.id for c in compiled.plan.cells if c.id != other])
    assert not pipeline_canary.nothing_else(compiled.plan, ())


Change = Callable[[dict[str, Any]], Any]


def with_sample(index: int, **words: Any) -> Change:
    def change(file: dict[str, Any]) -> dict[str, Any]:
        file["samples"][index] |= words
        return file

    return change


def without(*names: str) -> Change:
    return lambda file: {k: v for k, v in file.items() if k not in names}


REFUSED: list[tuple[str, Change, str, str, bool]] = [
    # what, how, code, words of the message, whether the place is the third sample's line
    ("empty", lambda f: "  \n", "TS742", "is empty", False),
    ("not JSON", lambda f: "{", "TS742", "is not JSON", False),
    ("NaN", lambda f: json.dumps(f).replace('"value": 0.1', '"value": NaN'), "TS742", "NaN", False),
    ("no samples", lambda f: {**f, "samples": []}, "TS742", "length >= 1", False),
    ("no author", without("by"), "TS742", "by", False),
    ("a text for a figure", with_sample(2, value="0.1"), "TS742", "samples[2].value", True),
    ("an unknown key", with_sample(2, request=7), "TS742", "nothing is called `request`", True),
    ("another format", lambda f: {**f, "schema": "torchspec.canary/2"}, "TS742", "schema", False),
    ("another plan", lambda f: {**f, "plan": "ab" * 32}, "TS743", "was taken for the plan abababababab", False),
    ("another candidate", lambda f: {**f, "candidate": "candidate-2"}, "TS743", "candidate-2", False),
    ("another workload", lambda f: {**f, "workload": "attention"}, "TS743", "attention", False),
    ("another backend", lambda f: {**f, "backend": "cuda"}, "TS743", "cuda", False),
    ("another torch", lambda f: {**f, "torch": {**f["torch"], "candidate": "2.14.0"}}, "TS743", "2.14.0", False),
    ("a torch unsaid", lambda f: {**f, "torch": {"candidate": "2.14.1"}}, "TS743", "does not say which torch", False),
    ("an unknown side", with_sample(2, side="canary"), "TS743", "no side", True),
    ("an unknown metric", with_sample(2, metric="error.max_abs"), "TS744", "gives no `error.max_abs`", True),
    ("a wrong unit", with_sample(2, unit="ms"), "TS744", "does not fit", True),
    ("an infinite figure", with_sample(3, value=1e308, unit="h"), "TS744", "not a finite number", False),
    ("a share above all", with_sample(2, value=101.0), "TS744", "cannot be", True),
    ("a negative time", with_sample(3, value=-1.0), "TS744", "cannot be", False),
    ("a share of nobody knows how many", with_sample(2, requests=None), "TS744", "of how many requests", True),
    ("a day that is none", with_sample(2, until="2026-02-31T00:00Z"), "TS745", "is no time", True),
    ("a window that ends first", with_sample(2, until=hour(0), since=hour(1)), "TS745", "not after", True),
    ("a window to come", with_sample(2, until="2126-01-01T00:00Z"), "TS745", "still to come", True),
    ("a share unit", lambda f: {**f, "share": {"value": 5, "unit": "ms"}}, "TS744", 'the share is in "ms"', False),
    ("too small a share", lambda f: {**f, "share": {"value": 4, "unit": "%"}}, "TS746", "asks for 5 %", False),
    ("too short", lambda f: {**f, "samples": samples(5)}, "TS746", "covers 5 h, and the spec asks for 6 h", False),
    (
        "a baseline of another day",
        lambda f: {**f, "samples": [s if s["side"] != "baseline" else {**s, "since": "2026-11-10T00:00Z",
                   "until": "2026-11-10T01:00Z"} for s in f["samples"]]},
        "TS746", "of the time that candidate served", False,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("how", "code", "words", "third"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_cannot_be_taken_in_is_refused(
    compiled: Compiled, how: Change, code: str, words: str, third: bool
) -> None:
    path = put(compiled, how(told(compiled.plan_digest, samples())))
    lines, said = taken(compiled)
    assert lines == ()
    assert said[0].code == code, said
    assert words in said[0].message
    assert said[0].is_error
    place = said[0].span
    assert place is not None
    assert place.file == "canary/day.json"
    if third:
        text = path.read_text().splitlines()
        assert place.line == [n for n, line in enumerate(text, 1) if line == "  {"][2]
    kinds = {r.kind for r in read(compiled.ledger)}
    assert "sample" not in kinds
    found = judged(compiled)["error.rate"]
    assert (found.outcome, found.contribution) == ("not_run", "defer")
    assert said[0].message in found.reason or said[0].message[:60] in found.reason


def test_one_bad_file_refuses_the_good_one_beside_it(compiled: Compiled) -> None:
    put(compiled, told(compiled.plan_digest, samples()), "a.json")
    put(compiled, "{", "b.json")
    _, said = taken(compiled)
    assert [d.code for d in said] == ["TS742"]
    assert judged(compiled)["error.rate"].outcome == "not_run"


def test_files_that_are_not_grouped_alike(compiled: Compiled) -> None:
    put(compiled, told(compiled.plan_digest, samples(6)), "a.json")
    more = [sample("error.rate", "candidate", 7, 0.1)]
    put(compiled, told(compiled.plan_digest, more, grouped_by="hosts"), "b.json")
    assert [d.code for d in taken(compiled)[1]] == ["TS745"]


def test_rates_count_one_thing(compiled: Compiled) -> None:
    rates = [sample("throughput", s, n, 40.0, unit="tokens/s") for n in range(6) for s in ("baseline", "candidate")]
    put(compiled, told(compiled.plan_digest, samples(6) + rates))
    assert taken(compiled)[1] == ()
    rates[-1]["unit"] = "requests/s"
    put(compiled, told(compiled.plan_digest, samples(6) + rates))
    (one,) = taken(compiled)[1]
    assert (one.code, one.message) == ("TS744", "throughput is in requests/s here and in tokens/s before")


@pytest.mark.parametrize(("committed", "status"), [("2026-11-01", "confirmatory"), ("2026-11-05", "exploratory")])
def test_limits_that_were_fixed_after_the_canary_served_confirm_nothing(
    committed: str, status: str, tmp_path: Path
) -> None:
    run_git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "small.tspec").write_text(SPEC, encoding="utf-8")
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "commit", "-q", "-m", "state the limits", at=f"{committed}T12:00:00Z")
    made = pipeline.compile_spec(tmp_path / "small.tspec", tmp_path / "out", {}).compiled
    assert made is not None
    write(tmp_path / "canary" / "day.json", told(made.plan_digest, samples()))
    assert taken(made)[1] == ()
    result = pipeline_run.judge(made)
    assert result.value is not None
    assert result.value.registration.status == status, result.value.registration.reasons
    assert (result.value.registration.first_evidence_at or "").startswith("2026-11-03T00:00:00")


def test_a_file_outside_of_the_spec_s_folder_is_not_read(compiled: Compiled, tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.json", told(compiled.plan_digest, samples()))
    link = compiled.spec.parent / "canary" / "link.json"
    link.parent.mkdir()
    link.symlink_to(secret)
    (one,) = taken(compiled)[1]
    assert (one.code, "leads out" in one.message) == ("TS742", True)


def test_many_mistakes_are_counted(compiled: Compiled) -> None:
    bad = [{**s, "unit": "GiB"} for s in samples()]
    put(compiled, told(compiled.plan_digest, bad))
    found, said = canary.examine(compiled.plan, compiled.plan_digest, catalog.load(), compiled.spec.parent, NOW)
    assert len(said) == canary.MOST_SAID + 1
    assert "27 more samples" in said[-1].message
    assert found[0].refused is not None


def test_time_that_is_covered() -> None:
    assert covered([(5, 6), (0, 2), (1, 3)]) == [(0, 3), (5, 6)]
    assert common_s([(0, 3), (5, 6)], [(2, 5.5)]) == pytest.approx(1.5)
