"""What was found, held against what is wanted: reached, missed, or too few comparisons to say."""

from __future__ import annotations

from torchspec.bench import overhead, report
from torchspec.bench.rates import Answer, rates
from torchspec.bench.targets import targets

CONDITIONS = {"alone": "quiet", "busy": "busy", "tail": "tail"}


def _told(
    truth: float,
    verdicts: dict[str, int],
    condition: str = "quiet",
    work: str = "attention",
    metric: str = "latency.p50",
) -> list[Answer]:
    return [
        Answer("d", work, metric, condition, truth, verdict, truth, 5.0, 2, 20.0)
        for verdict, count in verdicts.items()
        for _ in range(count)
    ]


def _held(answers: list[Answer], different: dict[str, tuple[int, int]] | None = None) -> dict[str, tuple[str, str]]:
    rows = targets(rates(answers, 0.03), "d", CONDITIONS, 0.03, different or {})
    return {what.rsplit(": ", 1)[0]: (figure, verdict) for what, figure, verdict in rows}


def test_what_was_found_is_held_against_what_is_wanted() -> None:
    answers = _told(1.0, {"pass": 97, "fail": 3}) + _told(1.03, {"pass": 5, "inconclusive": 95})
    answers += _told(1.05, {"fail": 96, "inconclusive": 4}) + _told(1.10, {"fail": 98, "pass": 2})
    answers += _told(1.0, {"pass": 300}, "busy") + _told(1.0, {"pass": 300}, work="training_step")
    answers += _told(3.0, {"fail": 20}, "tail", metric="latency.p95") + _told(1.0, {"pass": 20}, "tail")
    found = _held(answers, {"attention": (5, 100), "training_step": (1, 20)})
    assert found["equal versions called a failure"] == ("3 of 400: 0.8 % [0.2, 2.2]", "reached")
    assert found["a truth at the limit passed"][1] == "reached"
    assert found["a truth at the limit called a failure"][0].startswith("0 of 100")
    assert found["attention, 5 % slower"] == ("96 % of 100", "reached")
    assert found["attention, 10 % slower"] == ("98 % of 100", "missed")
    assert found["attention, equal"][1] == found["training_step, equal"][1] == "reached"
    assert found["equal versions called a failure beside two busy processes"][1] == "reached"
    assert found["equal versions"] == ("2.00 in 400", "reached")
    assert found['equal pairs called "different" at 95 %'] == ("5.0 % of 120 [1.9, 10.6]", "reached")
    assert found["a slow tail: p95 called a failure"][1] == found["a slow tail: p50 passed"][1] == "reached"
    text = report.table([], {}, {}, {}, {}, 4, {}, targets(rates(answers, 0.03), "d", CONDITIONS, 0.03, {}))
    assert "| attention, 10 % slower: right within 30 s in at least 99 % | 98 % of 100 | missed |" in text


def test_what_was_not_measured_is_said_of_every_row_that_is_wanted() -> None:
    found = _held([])
    assert set(found.values()) == {("not measured", "not measured")}
    assert len(found) == len(_held(_told(1.0, {"pass": 300}))) == 17
    assert _held(_told(1.0, {"pass": 300}))["a slow tail: p95 called a failure"] == ("not measured", "not measured")


def test_a_few_comparisons_reach_nothing() -> None:
    """None of two is no rate: its interval goes up to 84 %."""
    answers = _told(1.0, {"pass": 2}, "busy") + _told(1.0, {"pass": 2}) + _told(1.03, {"inconclusive": 13})
    answers += _told(1.05, {"fail": 19}) + _told(1.0, {"pass": 3}, "tail")
    found = _held(answers, {"attention": (1, 30)})
    assert found["equal versions called a failure beside two busy processes"] == (
        "0 of 2: 0.0 % [0.0, 84.2]",
        "2 of 300 comparisons",
    )
    assert found["a truth at the limit passed"][1] == "13 of 50 comparisons"
    assert found["attention, 5 % slower"][1] == "19 of 20 comparisons"
    assert found["equal versions"][1] == found["attention, equal"][1] == "2 of 20 comparisons"
    assert found["a slow tail: p50 passed"][1] == "3 of 20 comparisons"
    assert found['equal pairs called "different" at 95 %'][1] == "30 of 100 comparisons"


def test_a_few_comparisons_miss_where_no_luck_explains_them() -> None:
    answers = _told(1.0, {"fail": 2}, "busy") + _told(1.03, {"pass": 4, "inconclusive": 9}) + _told(1.03, {"fail": 1})
    answers += _told(1.05, {"inconclusive": 5}) + _told(3.0, {"pass": 5}, "tail", metric="latency.p95")
    found = _held(answers, {"attention": (9, 30)})
    assert found["equal versions called a failure beside two busy processes"][1] == "missed"
    assert found["a truth at the limit passed"][1] == "missed"
    assert found["a truth at the limit called a failure"][1] == "14 of 50 comparisons"  # one of fourteen may be luck
    assert found["attention, 5 % slower"] == ("0 % of 5", "missed")
    assert found["a slow tail: p95 called a failure"][1] == "missed"
    assert found['equal pairs called "different" at 95 %'][1] == "missed"


def test_the_cost_of_timing_is_held_against_its_targets() -> None:
    shape = {"calls": 1, "bare_ns": [50.0, 60.0], "around_ns": [250.0, 900.0], "told_ns": [150.0, 700.0]}
    rows = overhead.summed({"call": [shape], "medians": {"w": [[102.0, 100.0]] * 3}})
    assert [(figure, good) for _, figure, good in rows][:2] == [("100 ns", True), ("200 ns", True)]
    assert rows[2][1].startswith("+2.00 %")
    assert not rows[2][2]
    slow = overhead.summed({"call": [shape | {"told_ns": [1500.0] * 3}], "medians": {}})
    assert not slow[0][2]
