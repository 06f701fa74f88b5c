"""What the memo says: counts, marks, reasons, missing things said plainly, from invented verdicts."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from torchspec.model.codec import from_json, schema_errors, to_json
from torchspec.model.memo import Memo, Table
from torchspec.model.plan import Side
from torchspec.report.language import text_of
from torchspec.report.view import view


def section(memo: Memo, anchor: str) -> str:
    """All words of one section."""
    found = next(s for s in memo.sections if s.anchor.startswith(anchor))
    parts = [found.heading, text_of(found.lead)]
    for block in found.blocks:
        parts += [text_of(block.words), *(text_of(i) for i in block.items), block.code]
        if block.table is not None:
            parts.append(table_words(block.table))
    return "\n".join(parts)


def table_words(table: Table) -> str:
    lines = [" ".join(c.head for c in table.columns)]
    for row in table.rows:
        cells = [" ".join([c.mark.text if c.mark else "", text_of(c.words), text_of(c.sub)]).strip() for c in row.cells]
        lines.append(" | ".join(cells) + " " + text_of(row.trace))
    return "\n".join([*lines, text_of(table.note)])


def test_memo_matches_its_schema_and_comes_back_whole(memo: Memo) -> None:
    data = to_json(memo)
    assert schema_errors("memo", data) == []
    assert from_json(Memo, data) == memo


def test_the_schema_refuses_a_link_to_a_file(memo: Memo) -> None:
    data = to_json(memo)
    data["tally"] = [{"text": "x", "style": "link", "href": "file:///etc/passwd"}]
    assert schema_errors("memo", data)


def test_page_one_says_what_to_do_and_why(memo: Memo) -> None:
    (answer,) = memo.answers
    assert answer.decision.key == "defer"
    sentence = text_of(answer.sentence)
    assert sentence.startswith("Stay on 2.13.0: fine_tune_loss needs 70.2\u202f% more driver memory at peak;")
    assert "the limit is +5\u202f%" in sentence
    assert "cuda, mps and rocm have no evidence" in sentence
    assert "Nothing was found that speaks for a rollback." in text_of(answer.beside)
    asked = text_of(answer.asked)
    assert "ml-platform" in asked
    assert "by 2026-11-14" in asked


def test_each_count_equals_the_cells_one_counts(memo: Memo) -> None:
    (matrix,) = memo.matrices
    marks = [c.mark.key for r in matrix.rows for c in r.cells if c.mark]
    assert memo.matrix_heading == f"Outcome by workload and backend: {marks.count('pass')} of {len(marks)} pass"
    assert text_of(memo.tally).startswith("1 pass, 1 fail, 1 inconclusive, 9 not run.")
    assert [marks.count(k) for k in ("pass", "fail", "inconclusive", "not_run")] == [1, 1, 1, 9]


def test_a_place_names_its_worst_gate_and_its_decision(memo: Memo) -> None:
    (matrix,) = memo.matrices
    place = matrix.rows[0].cells[1]
    assert place.mark is not None
    assert place.mark.key == "fail"
    assert text_of(place.sub) == "driver memory, peak"
    assert place.decision is not None
    assert place.decision.key == "defer"


def test_reasons_lead_with_what_decides_and_keep_a_place_for_what_is_ready(memo: Memo) -> None:
    assert [r.head for r in memo.reasons] == [
        "Peak memory on cpu: beyond the limit.",
        "The rest of the question is open.",
        "1 workload passes on its backend.",
    ]
    first = text_of(memo.reasons[0].words)
    assert "101.3 → 172.4\u202fMB, +70.2\u202f% [+64.8, +77.4]" in first
    assert text_of(memo.reasons[0].trace).startswith("E-")
    assert "Best improvement: latency p50 of reranker" in text_of(memo.reasons[2].words)


def test_a_drop_is_shown_as_a_change_with_its_limit_below(memo: Memo) -> None:
    gates = next(s for s in memo.sections if s.anchor.startswith("gates"))
    table = next(b.table for b in gates.blocks if b.table is not None and b.table.kind == "figures")
    plots = [c.plot for r in table.rows for c in r.cells if c.plot is not None and c.plot.beyond == "below"]
    assert plots
    assert all(p.limit == -3.0 for p in plots)
    throughput = next(i for i, r in enumerate(table.rows) if "Throughput" in text_of(r.cells[0].words))
    assert text_of(table.rows[throughput + 1].cells[4].words) == "+5.5\u202f%"
    assert "limit at least −3\u202f%" in text_of(table.rows[throughput].cells[0].words)


def test_mark_interval_and_word_agree(memo: Memo) -> None:
    for s in memo.sections:
        for block in s.blocks:
            for row in block.table.rows if block.table else ():
                for cell in row.cells:
                    plot = cell.plot
                    if plot is None or plot.kind != "interval" or row.key != plot.outcome:
                        continue
                    assert plot.low is not None
                    assert plot.high is not None
                    assert plot.limit is not None
                    crosses = plot.low <= plot.limit < plot.high
                    assert (plot.position == "crosses the limit") == crosses
                    assert crosses == (plot.outcome == "inconclusive")


def test_every_gate_row_shows_samples_rule_and_evidence(memo: Memo) -> None:
    gates = next(s for s in memo.sections if s.anchor.startswith("gates"))
    for block in gates.blocks:
        for row in block.table.rows if block.table and block.table.kind == "figures" else ():
            if row.kind == "row":
                assert "E-" in text_of(row.trace), text_of(row.cells[0].words)


def test_memory_says_which_meter_is_missing(memo: Memo) -> None:
    assert memo.sections[1].heading == "Peak memory on cpu: fine_tune_loss fails on every meter"
    assert "No gate on cpu reads this meter: reserved." in section(memo, "memory")


def test_differences_come_first(memo: Memo) -> None:
    words = section(memo, "environment")
    assert "only torch and what it brings differ" in words
    rows = next(s for s in memo.sections if s.anchor.startswith("environment")).blocks[0].table.rows  # type: ignore[union-attr]
    said = [text_of(r.cells[3].words) for r in rows]
    assert said == sorted(said, key=lambda w: w.startswith("same"))
    assert said[0].startswith("differs")
    assert said[-1] == "same"
    assert "packages.networkx" in words


def test_a_difference_that_nothing_explains_is_in_the_heading(invented: ModuleType) -> None:
    environments = invented.environments()
    environments["candidate"]["glibc"] = "2.42"
    plan = invented.plan()
    memo = view(plan, invented.verdict(plan), **invented.arguments(environments=environments))
    assert "1 difference is neither torch nor what it brings" in section(memo, "environment")


def test_exploratory_is_on_page_one_with_the_diff(invented: ModuleType) -> None:
    plan = invented.plan()
    memo = view(plan, invented.verdict(plan), **invented.arguments(registration=invented.exploratory()))
    assert "exploratory" in memo.kicker
    assert "Exploratory" in text_of(memo.answers[0].beside)
    rely = {f.label: text_of(f.words) for f in memo.rely}
    assert rely["Limits before evidence?"].startswith("exploratory: a limit changed")
    assert rely["Changes to the plan"].startswith("1 change")
    words = section(memo, "registration")
    assert "set after the run: it cannot pass" in words
    assert "+  memory.driver_peak  growth <= 80 %" in words


def test_no_signature_is_said(invented: ModuleType) -> None:
    plan = invented.plan()
    memo = view(plan, invented.verdict(plan), **invented.arguments(signer=None))
    assert text_of(memo.rely[-1].words) == "not signed"


def test_every_run_is_listed(memo: Memo) -> None:
    words = section(memo, "runs")
    assert "Runs: 2, completed: 1" in words
    assert "interrupted by the user" in words


def test_what_was_not_run_and_not_covered_is_said(memo: Memo) -> None:
    words = section(memo, "scope")
    assert "105 of 140 judgements were not run" in words
    assert "no exporter was asked for there" in words
    assert "no accelerator was at hand" in words


def test_adoption_names_the_gate_closest_to_its_limit(invented: ModuleType) -> None:
    plan, verdict = invented.adopted()
    memo = view(plan, verdict, **invented.arguments(lock=invented.lock(plan)))
    assert memo.answers[0].decision.key == "adopt"
    assert text_of(memo.answers[0].sentence).startswith("Move to 2.14.1: all 35 judgements pass")
    assert any("Closest to its limit: compile time, cold" in text_of(c.words) for c in memo.changes)
    assert memo.matrices[0].columns[-1].head == "Worst gate, or the one closest to its limit"


def test_a_rollback_without_rehearsal_says_so_in_its_first_sentence(invented: ModuleType) -> None:
    plan = invented.plan()
    verdict = invented.verdict(plan)
    judgements = tuple(
        replace(j, outcome="fail", contribution="rollback", estimate=0.02, low=0.02, high=0.02)
        if j.gate == "g-error" and j.outcome == "pass"
        else j
        for j in verdict.judgements
    )
    verdict = invented.decided(plan, judgements)
    rehearsal = replace(
        verdict.rehearsals["candidate"], outcome="not_run", contribution="defer", seconds=None, steps=()
    )
    verdict = replace(verdict, rehearsals={"candidate": rehearsal})
    memo = view(plan, verdict, **invented.arguments())
    sentence = text_of(memo.answers[0].sentence)
    assert sentence.startswith("Go back to 2.13.0, although the rehearsal of going back did not pass: ")
    assert "largest absolute error of" in sentence


def test_steps_of_several_backends_say_whose_they_are(invented: ModuleType) -> None:
    plan = invented.plan()
    verdict = invented.verdict(plan)
    held = verdict.rehearsals["candidate"]
    restored = held.steps[0]

    def told(*backends: str) -> list[str]:
        steps = tuple(restored | {"backend": backend} for backend in backends)
        given = replace(verdict, rehearsals={"candidate": replace(held, steps=steps)})
        section = next(s for s in view(plan, given, **invented.arguments()).sections if s.anchor == "rollback")
        (table,) = [b.table for b in section.blocks if b.table is not None]
        return [text_of(row.cells[0].sub) for row in table.rows]

    assert told("cpu", "distributed") == ["cpu", "distributed"]
    assert told("cpu", "cpu") == ["", ""]


@pytest.mark.parametrize(
    ("language", "short", "sentence"),
    [
        (
            "en",
            "does not run",
            "Determinism of outputs, forced: fine_tune_loss does not run under deterministic algorithms",
        ),
        ("es", "no se ejecuta", "no se ejecuta con algoritmos deterministas"),
        ("pt", "não roda", "não roda com algoritmos determinísticos"),
    ],
)
def test_work_that_is_refused_did_not_give_other_results(
    invented: ModuleType, language: str, short: str, sentence: str
) -> None:
    plan = invented.plan()
    gates = [replace(g, metric="determinism.output_forced") if g.id == "g-bits" else g for g in plan.gates]
    plan = replace(plan, gates=tuple(g for g in gates if g.id in ("g-bits", "g-runs")))
    found = [
        replace(j, outcome="fail", rule="does not hold", contribution="defer") if j.gate == "g-bits" else j
        for j in invented.verdict(plan).judgements
    ]
    memo = view(plan, invented.decided(plan, tuple(found)), **invented.arguments(language=language))
    told = [text_of(memo.answers[0].sentence), *(text_of(reason.words) for reason in memo.reasons)]
    assert any(sentence.lower() in one.lower() for one in told), told
    tables = [table_words(b.table) for s in memo.sections for b in s.blocks if b.table is not None]
    assert any(short in one for one in tables)


def test_two_candidates_have_two_decisions(invented: ModuleType) -> None:
    plan = invented.plan()
    verdict = invented.verdict(plan)
    more = tuple(replace(j, candidate="candidate-2") for j in verdict.judgements)
    second = invented.decided(plan, more, "candidate-2")
    plan = replace(plan, candidates=(*plan.candidates, Side("candidate-2", "candidate", "2.15.0rc1", None, None)))
    both = replace(
        verdict,
        judgements=verdict.judgements + second.judgements,
        rows=verdict.rows + second.rows,
        fleet=verdict.fleet + second.fleet,
        rehearsals=verdict.rehearsals | second.rehearsals,
        claims=verdict.claims | second.claims,
    )
    memo = view(plan, both, **invented.arguments())
    assert [a.name for a in memo.answers] == ["2.14.1", "2.15.0rc1"]
    assert len(memo.matrices) == 2


def test_one_place_shows_its_gates_and_no_matrix(invented: ModuleType) -> None:
    plan, verdict = invented.scaled(1, ("cpu",))
    memo = view(plan, verdict, **invented.arguments(lock=invented.lock(plan), records=[]))
    assert memo.matrix_heading == "work_0000 on cpu: 8 of 8 gates pass"
    assert len(memo.matrices[0].rows) == 8


@pytest.mark.parametrize("workloads", [20, 200])
def test_many_places_are_folded_and_none_is_lost(invented: ModuleType, workloads: int) -> None:
    plan, verdict = invented.scaled(workloads)
    memo = view(plan, verdict, **invented.arguments(lock=invented.lock(plan), records=[]))
    assert sum(len(t.rows) for t in memo.matrices) < 20
    places = next(s for s in memo.sections if s.anchor == "places")
    marks = [c.mark.key for b in places.blocks for r in b.table.rows for c in r.cells if c.mark]  # type: ignore[union-attr]
    assert len(marks) == len(verdict.rows)
    assert marks.count("pass") == sum(r.outcome == "pass" for r in verdict.rows)


def test_an_unknown_language_is_refused(invented: ModuleType) -> None:
    plan = invented.plan()
    with pytest.raises(ValueError, match="no memo in xx"):
        view(plan, invented.verdict(plan), **invented.arguments(), language="xx")


def test_the_same_arguments_give_the_same_memo(invented: ModuleType, memo: Memo) -> None:
    plan = invented.plan()
    assert view(plan, invented.verdict(plan), **invented.arguments()) == memo


def test_the_order_of_keys_in_a_verdict_changes_no_word(invented: ModuleType) -> None:
    """The sealed verdict has its keys sorted; the memo of it is the memo of the one in memory."""
    from torchspec.core.files import pretty, strict_json
    from torchspec.model.codec import from_json, to_json
    from torchspec.model.verdict import Verdict
    from torchspec.report.render import html_of, markdown_of

    plan = invented.plan()
    verdict = invented.verdict(plan)
    several = {"repeats": 2, "pairs": 3, "builds": 3, "iterations": 18, "rounds": 9}
    verdict = replace(verdict, judgements=tuple(replace(j, n=dict(several)) for j in verdict.judgements))
    sealed = from_json(Verdict, strict_json(pretty(to_json(verdict))))
    memos = [view(plan, v, **invented.arguments()) for v in (verdict, sealed)]
    assert markdown_of(memos[0]) == markdown_of(memos[1])
    assert html_of(memos[0]) == html_of(memos[1])
