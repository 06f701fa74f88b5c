"""What the memo says of machines and lanes, and what it keeps to itself: homes, scratch folders, secrets."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from torchspec.core.canon import canonical
from torchspec.model.codec import to_json
from torchspec.model.evidence import GENESIS, Record
from torchspec.model.memo import Memo, Section, Table
from torchspec.model.plan import Lane
from torchspec.model.registration import Deviation
from torchspec.model.verdict import Switch
from torchspec.report import private
from torchspec.report import view as viewing
from torchspec.report.language import text_of
from torchspec.report.view import view

SCRATCH = "/tmp/run-77/cache-001-baseline/inductor"
PRIVATE = ("ada", "hunter2", "customer-x", "run-77", "sk-live", "/root", "/home", "Users")


def made(invented: ModuleType, records: list[Record] | None = None, **changes: Any) -> Memo:
    plan = changes.pop("plan", None) or invented.plan()
    verdict = changes.pop("verdict", None) or invented.verdict(plan)
    given = {"records": records} if records is not None else {}
    return view(plan, verdict, **invented.arguments(**given, **changes))


def part(memo: Memo, anchor: str) -> Section:
    return next(s for s in memo.sections if s.anchor.startswith(anchor))


def words(table: Table) -> str:
    cells = [
        (c.mark.text if c.mark else "") + text_of(c.words) + " " + text_of(c.sub) for r in table.rows for c in r.cells
    ]
    return "\n".join([*cells, *(text_of(r.trace) for r in table.rows)])


def said(section: Section) -> str:
    parts = [section.heading, text_of(section.lead)]
    for b in section.blocks:
        parts += [text_of(b.words), b.code, *(text_of(i) for i in b.items), words(b.table) if b.table else ""]
    return "\n".join(parts)


def add(records: list[Record], run: str, kind: str, **body: Any) -> None:
    time = "2026-11-09T21:20:00.000000+00:00"
    records.append(Record(len(records), time, run, kind, body, GENESIS, f"{len(records):064x}"))


def test_planted_secrets_and_folders_do_not_reach_the_memo(invented: ModuleType) -> None:
    """As evidence of an older version, or of somebody else's, may hold them."""
    environments = invented.environments()
    for side in environments.values():
        side["env"] |= {
            "PATH": "/home/ada/customer-x/bin:/usr/bin",
            "LD_LIBRARY_PATH": "/root/lib",
            "HOME": "/home/ada",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "DATABASE_URL": "postgres://ada:hunter2@db/customer-x",
            "TORCHINDUCTOR_CACHE_DIR": SCRATCH,
            "TRITON_CACHE_DIR": SCRATCH,
            "CUDA_HOME": "/home/ada/cuda-13.0",
            "OPENAI_API_KEY": "sk-live",
        }
    records = invented.records()
    argv = ["cpu.py", "pair", "--baseline", "/home/ada/.cache/x/environments/" + "ab" * 10 + "/venv/bin/python"]
    argv += ["--candidate=/root/envs/b/bin/python", "--evidence", "/tmp/run-77/evidence", "--only", "cell-1"]
    argv += ["--context", "/home/ada/customer-x/context.json", "--progress", "json"]
    records = [replace(r, body=r.body | {"argv": argv}) if r.kind == "run.start" else r for r in records]
    verdict = invented.verdict()
    broken = ({"what": "env", "baseline": "/root/a", "candidate_value": "/Users/ada/b", "reason": r"C:\Users\ada\c"},)
    memo = made(invented, records, environments=environments, verdict=replace(verdict, broken_controls=broken))
    everything = canonical(to_json(memo)).decode()
    assert [word for word in PRIVATE if word in everything] == []
    assert "~/cuda-13.0" in everything
    assert "OMP_NUM_THREADS" in everything
    code = "\n".join(b.code for b in part(memo, "evidence").blocks)
    assert "cpu.py pair --baseline BASELINE/bin/python --candidate CANDIDATE/bin/python --evidence evidence" in code
    assert "--only cell-1" in code
    assert "--context" not in code
    environments["candidate"]["env"]["PATH"] = "/home/ada/elsewhere"  # that it differs is said, where it lies is not
    told = said(part(made(invented, records, environments=environments), "environment"))
    assert "env.PATH" in told
    assert "ada" not in told
    assert "1 difference is neither torch nor what it brings" in told
    assert "# BASELINE: torch 2.13.0, Python 3.11.2, environment abababababababab" in code


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/x and /home/bob", "~/x and ~"),
        ("file:/root/x", "file:~/x"),
        ("/mnt/root/x, /rooted, a/home/b", "/mnt/root/x, /rooted, a/home/b"),
        ("'/Users/ada lovelace/x'", "'~ lovelace/x'"),
        ("C:\\Users\\ada\\x", "~\\x"),
    ],
)
def test_home_folders(text: str, shown: str) -> None:
    assert private.without_homes(text) == shown


def test_builds_for_different_devices_are_said_on_page_one(invented: ModuleType) -> None:
    environments = invented.environments()
    assert "not alike" not in text_of(made(invented).rely[0].words)
    environments["candidate"]["torch"] |= {"version": "2.14.1+cu130", "cuda": "13.0"}
    memo = made(invented, environments=environments)
    assert text_of(memo.rely[0].words) == "torch 2.13.0 → 2.14.1; built for cpu → CUDA 13.0: not alike"
    assert memo.rely[0].mark is not None
    section = part(memo, "environment")
    assert section.heading == "Environment: the two builds of torch are for different devices"
    assert "The two builds of torch are for different devices: cpu and CUDA 13.0." in said(section)
    environments["baseline"]["torch"] |= {"cuda": "12.6"}
    assert made(invented, environments=environments).rely[0].mark is None


def noise(load: float, steal: float, **more: Any) -> dict[str, Any]:
    body = {"cell": None, "load": [load, load, load], "steal": steal, "frequency_mhz": 2400.0, "memory_pressure": 0.0}
    return body | {"others": {"busy_share": 0.5}, "throttled": None} | more


def test_a_busy_machine_is_said_and_a_quiet_one_shown(invented: ModuleType) -> None:
    run, records = "r-20261109-2107", invented.records()
    assert "The machine while it measured" not in said(part(made(invented, records), "controls"))
    records = [replace(r, body=r.body | {"host": {"cores": 2}}) if r.kind == "run.start" else r for r in records]
    quiet = [*records]
    add(quiet, run, "noise", **noise(1.2, 0.001))
    text = said(part(made(invented, quiet), "controls"))
    assert "1.2 (1.2)" in text
    assert "2.40\u202fGHz" in text
    assert "more work was waiting" not in text
    busy = [*records]
    for load in (9.0, 12.5, 10.0):
        others = {"busy_share": 0.9, "pinned_share": load / 100}
        add(busy, run, "noise", **noise(load, 0.31, throttled=True, frequency_mhz=1900.0 + load, others=others))
    text = said(part(made(invented, busy), "controls"))
    assert f"{run}: more work was waiting than the machine has cores (10.0 on 2)." in text
    assert "the host gave up to 31.0\u202f% of the time to others." in text
    assert "slowed down" in text
    assert f"{run}: other processes took up to 12.5\u202f% of the measuring cores." in text
    assert "measured before the run" not in text
    verdict = invented.verdict()
    first = verdict.judgements[0]
    detail = {**(first.detail or {}), "calibration": {"spread": 0.004, "df": 13, "before": 10}}
    known = replace(verdict, judgements=(replace(first, detail=detail), *verdict.judgements[1:]))
    text = said(part(made(invented, busy, verdict=known), "controls"))
    assert "Cells whose noise was measured before the run too (torchspec calibrate), in agreement with its" in text
    assert "10.0 (12.5)" in text


def test_a_control_and_its_planted_twin_stand_in_one_row_and_a_failed_one_first(invented: ModuleType) -> None:
    verdict = invented.verdict()
    last = verdict.controls[-1] | {"ok": False, "reason": "it could not be seen"}
    memo = made(invented, verdict=replace(verdict, controls=(*verdict.controls[:-1], last)))
    section = part(memo, "controls")
    table = section.blocks[0].table
    assert table is not None
    assert len(table.rows) * 2 == len(verdict.controls)
    assert [r.key for r in table.rows] == ["fail"] + ["pass"] * (len(table.rows) - 1)
    assert "it could not be seen" in words(replace(table, rows=table.rows[:1]))
    assert "1 of 6 did not see" in section.heading


def test_notes_and_runs_from_elsewhere_are_shown(invented: ModuleType) -> None:
    records = invented.records()
    first = records[0]
    records[0] = replace(first, body=first.body | {"origin": {"seq": 0, "hash": "0" * 64}})
    add(records, "r-20261109-2107", "note", by="Ana Ruiz", text="record 3 was taken on battery", about=[3])
    text = said(part(made(invented, records), "runs"))
    assert text.count("taken in from another machine") == 1
    assert "record 3 was taken on battery" in text
    assert "Ana Ruiz" in text
    assert "E-0003" in text


def lanes(invented: ModuleType, outcome: str) -> Memo:
    plan = invented.plan()
    lane = Lane("prototype", "kernels", ("H100",), {"FUSED_KERNEL": "0"})
    workloads = (replace(plan.workloads[0], lane="prototype"), *plan.workloads[1:])
    plan = replace(plan, lanes=(lane,), workloads=workloads)
    switch = Switch("prototype", "cpu", "candidate", outcome, "the work raised", (7,))  # type: ignore[arg-type]
    return made(invented, plan=plan, verdict=replace(invented.verdict(plan), switches=(switch,)))


def test_a_lane_says_whether_its_switch_was_thrown(invented: ModuleType) -> None:
    assert not [s for s in made(invented).sections if s.anchor == "lanes"]
    good, bad = part(lanes(invented, "pass"), "lanes"), part(lanes(invented, "fail"), "lanes")
    assert good.heading == "Lanes: the off switch was thrown, and the work still ran"
    assert bad.heading == "Lanes: 0 of 1 off switches are shown to work"
    for text in ("FUSED_KERNEL=0", "needs H100", "kernels", "fine_tune_loss", "E-0007"):
        assert text in said(good)
    assert "the work raised" in said(bad)
    assert "the work raised" not in said(good)


def test_chance_is_the_judge_s_own(invented: ModuleType) -> None:
    chance = {"weighed": 40.0, "false_passes": 2.0, "false_failures": 0.5}
    memo = made(invented, verdict=replace(invented.verdict(), chance=chance))
    assert "at most about 2.0 of them pass and 0.5" in said(part(memo, "scope"))
    assert "chance alone" not in said(part(made(invented), "scope"))


@pytest.mark.parametrize(("language", "words"), [("en", "signed tag v1 (its"), ("es", "etiqueta firmada v1 (su firma")])
def test_what_strengthens_and_what_deviates_is_said(invented: ModuleType, language: str, words: str) -> None:
    strong = ("signed tag v1 (its signature could not be checked here)",)
    strong += ("RFC 3161 timestamp of the plan, 2026-11-06T10:00:00Z, by Test authority", "something newer")
    registration = replace(invented.confirmatory(), strengthened_by=strong)
    lock = replace(invented.lock(), deviations=(Deviation("2026-11-07", "another machine", "Ana", "the disk failed"),))
    memo = made(invented, registration=registration, lock=lock, language=language)
    text = said(part(memo, "registration"))
    for found in (words, "2026-11-06 10:00 UTC", "Test authority", "something newer", "another machine", "disk failed"):
        assert found in text
    assert ("1 deviation" if language == "en" else "1 desviación") in text_of(memo.rely[4].words)
    assert memo.rely[4].mark is not None


@pytest.mark.parametrize(
    "text", ["\u202e", "\x07", "\x7f", "a\tb", "a\rb", "\u200b", "\xad", "/root/x", "\u2066", "\ud7ff"]
)
def test_looking_at_all_words_at_once_hides_nothing(
    invented: ModuleType, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    plan = invented.plan()
    plan = replace(plan, upgrade=replace(plan.upgrade, caveats=(f"x{text}y", "plain")))
    fast = made(invented, plan=plan)
    monkeypatch.setattr(viewing, "_harmless", lambda memo: False)
    assert made(invented, plan=plan) == fast
