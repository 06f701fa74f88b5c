"""A figure that is reported and stands alone is printed, although there is nothing to compare it with."""

from __future__ import annotations

from torchspec.model.plan import Gate, Limit
from torchspec.model.verdict import Judgement
from torchspec.report.figure import figure
from torchspec.report.language import Language

GATE = Gate(
    "g",
    "all",
    "error.ulp",
    Limit("report", None, None, None, "report"),
    "baseline",
    None,
    None,
    None,
    None,
    ("c",),
    "g",
)


def judged(baseline: float | None, value: float | None) -> Judgement:
    return Judgement(
        "g", "c", "candidate", "error.ulp", "pass", None, "report", "reported, not judged",
        baseline=baseline, candidate_value=value, unit="ulp",
    )  # fmt: skip


def test_a_reported_figure_without_a_second_side_is_shown() -> None:
    assert figure(Language(), GATE, judged(None, 62.0)).change.replace("\u202f", " ") == "62 ulp"


def test_no_figure_is_made_up() -> None:
    assert figure(Language(), GATE, judged(None, None)).change == ""
    assert figure(Language(), GATE, judged(3.0, 62.0)).change == "", "two sides are shown as a pair, not as one figure"
