"""Timing gates: latency, step time, throughput, from pairs of fresh workers by group-sequential bounds.

The upper bound below the limit is a pass; the lower bound above it makes a failure candidate, which only fresh pairs
(stage "confirm") turn into a fail; anything else is inconclusive. Must not read other kinds of records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchspec import limits
from torchspec.judge import pairs as pairing
from torchspec.judge import words
from torchspec.judge.finding import Finding, Question, better, figures, in_form
from torchspec.judge.pairs import Pair, Timed
from torchspec.judge.samples import limit_is_wrong
from torchspec.judge.stats import (
    ALPHA,
    CONFIRM_ALPHA,
    NOISIER_BEYOND,
    Bounds,
    Calibration,
    mean_bounds,
    nominal_level,
    pairs_needed,
    spread_of_equals,
    visible_shift,
)

#: Of each tail quantile q the samples a side in all below which it cannot be told (1 - q ** n is above 95 %: so often
#: the largest of them lies above the quantile), and those in each pair (n (1 - q) is 1: one of them is expected above
#: it). The harness has the same table and takes as many where it can.
TAIL_SAMPLES = {"p95": (59, 20), "p99": (299, 100)}
#: Bandwidths of a collective, and what of a build is moved.
_MOVED = {"comm.bus_bandwidth": "bus_bytes", "comm.algorithm_bandwidth": "operation_bytes"}
#: Metrics of the call itself. A collective's call is the collective.
_STEADY = ("latency.p50", "latency.p95", "latency.p99", "throughput", "step.time",
           "comm.latency_p50", "comm.latency_p95", *_MOVED)  # fmt: skip


def stem_of(metric: str) -> str | None:
    """Which timed thing a metric is about: None for the call itself, else the name in `timing.metric`."""
    return None if metric in _STEADY else metric.rsplit("_p", 1)[0]


def _moved(metric: str, build: pairing.Build) -> float | None:
    """What a call of a build gets through: its items, or for a bandwidth the bytes that count for it."""
    moved: float | None = getattr(build, _MOVED[metric]) if metric in _MOVED else build.items
    return moved


@dataclass(frozen=True, slots=True)
class Scale:
    """How log times of pairs become figures, and the limit on the same scale: at most (`upper`) or at least `tau`."""

    question: Question
    tau: float | None
    upper: bool

    @property
    def logs(self) -> bool:
        return self.question.scale != "difference"

    def out(self, value: float) -> float:
        """A figure back on the question's scale."""
        if not self.logs:
            return value
        return math.exp(value) if value < 700 else math.inf

    def values(self, pairs: Sequence[Pair], side: int = 1) -> list[float]:
        """One figure a pair: log ratio, log of the own value of `side`, or the difference in base units."""
        metric = self.question.metric.name
        rate = not limits.harm_is_up(self.question.metric)
        sign = -1.0 if rate else 1.0
        if self.question.scale == "ratio":
            return [sign * pairing.log_ratio(metric, pair) for pair in pairs]

        def own(pair: Pair, which: int) -> float:
            items = max(_moved(metric, build) or 0.0 for build in pair.builds)
            unit = math.log(items * 1e9) if rate else math.log(1e-9)
            return sign * pairing.log_level(metric, pair, which) + unit

        if self.question.scale == "value":
            return [own(pair, side) for pair in pairs]
        return [math.exp(own(pair, 1)) - math.exp(own(pair, 0)) for pair in pairs]


def scale_of(question: Question) -> Scale:
    bound = question.bound
    if bound is None:
        return Scale(question, None, True)
    if question.scale == "difference":
        return Scale(question, bound.value, bound.upper)
    return Scale(question, math.log(bound.value) if bound.value > 0 else -math.inf, bound.upper)


def side_of(found: Bounds, tau: float, upper: bool) -> str:
    """Where the bounds lie: "inside", "beyond" or "crosses"."""
    if upper:
        return "inside" if found.high <= tau else "beyond" if found.low > tau else "crosses"
    return "inside" if found.low >= tau else "beyond" if found.high < tau else "crosses"


def whole_pairs(metric: str, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs that can tell `metric`: for a tail those with enough samples, which one that ended early has not."""
    _, fewest = TAIL_SAMPLES.get(metric[-3:], (0, 0))
    return [pair for pair in pairs if pair.samples >= fewest]


def equal_spread(scale: Scale, same: Sequence[Pair], before: Calibration | None) -> Calibration | None:
    """The spread between pairs of the baseline against itself: this run's, and where they agree a calibration's."""
    if scale.question.scale != "ratio":
        return None
    return spread_of_equals(scale.values(same) if len(same) >= 2 else (), before)


def find(question: Question, timed: Timed, calibration: Calibration | None) -> Finding | None:
    """The finding from the `timing` records of one cell; None where there are none for this question."""
    stem = stem_of(question.metric.name)
    name = question.metric.name
    everything = timed.pairs("measure", question.against, stem)
    confirming = timed.pairs("confirm", question.against, stem)
    measured, fresh = whole_pairs(name, everything), whole_pairs(name, confirming)
    kept = {id(pair) for pair in (*measured, *fresh)}
    short = [pair for pair in (*everything, *confirming) if id(pair) not in kept]
    measured = measured or everything  # which are then too few
    if not measured:
        mine = timed.of("measure", question.against, stem)
        if not mine:
            return None
        return Finding(
            "error",
            "no usable time",
            "no round of it holds a time above zero on both sides, so nothing can be compared",
            evidence=tuple(r.seq for r in mine),
        )
    if _rate_of_nothing(question, [*measured, *fresh]):
        reason = "a call moves no items, or fewer than none: it has no rate"
        return Finding("error", "negative figure", reason, evidence=tuple(s for pair in measured for s in pair.seqs))
    if name in _MOVED and not all(_moved(name, build) for pair in measured for build in pair.builds):
        return None  # one rank, or a barrier: no bytes move
    scale = scale_of(question)
    equals = whole_pairs(name, timed.pairs("same", question.against, stem))
    calibration = equal_spread(scale, equals, calibration)
    lost = sum(timed.lost(stage, question.against, stem) for stage in ("measure", "confirm"))
    base = _figures_of(scale, measured, fresh, lost)
    cut = [p for s in ("measure", "confirm") for p in timed.every(s, question.against, stem) if not p.whole]
    cut = [pair for pair in cut if pair not in everything and pair not in confirming]
    if cut:
        base = replace(base, detail=base.detail | {"pairs_cut_short": [{"run": p.run, "pair": p.number} for p in cut]})
    if short:
        told = [{"run": pair.run, "pair": pair.number, "samples": pair.samples} for pair in short]
        base = replace(base, detail=base.detail | {"pairs_too_short_for_a_tail": told})
    if calibration is not None:
        seqs = [seq for pair in equals for seq in pair.seqs]
        seqs += [calibration.seq] if calibration.seq is not None else []
        spread = {"spread": calibration.s0, "df": calibration.n0, "before": calibration.before, "records": sorted(seqs)}
        base = replace(base, detail=base.detail | {"calibration": spread})
    little = _too_little(question, measured, base)
    if little is not None:
        return little
    if scale.tau is None:
        return _report(scale, base, measured, calibration)
    found = _judged(scale, scale.tau, base, measured, fresh, calibration)
    if found.outcome == "fail" and found.baseline is not None and _baseline_fails_too(scale, scale.tau, measured):
        return limit_is_wrong(question, found, found.baseline)
    return found


def _figures_of(scale: Scale, measured: Sequence[Pair], fresh: Sequence[Pair], lost: int) -> Finding:
    """What every outcome carries: absolute values, counts, evidence, and what was left out: `lost` rounds with their
    whole pairs, and those of the pairs that are here."""
    question = scale.question
    everything = [*measured, *fresh]
    own = Scale(replace(question, limit=replace(question.limit, form="absolute")), None, True)
    levels = [own.values(everything, side) for side in (0, 1)]
    n = pairing.counted(everything)
    dropped = lost + sum(build.dropped for pair in everything for build in pair.builds)
    preempted = sum(build.preempted for pair in everything for build in pair.builds)
    detail: dict[str, Any] = {"preempted_share": min(1.0, preempted / n["iterations"]) if n["iterations"] else 0.0}
    if dropped:
        detail["rounds_without_a_time"] = dropped
    return Finding(
        "inconclusive",
        "",
        "",
        baseline=math.exp(math.fsum(levels[0]) / len(everything)),
        candidate_value=math.exp(math.fsum(levels[1]) / len(everything)),
        unit=_unit_of(question, everything),
        n=n | {"confirming_pairs": len(fresh)} if fresh else n,
        detail=detail,
        evidence=tuple(seq for pair in everything for seq in pair.seqs),
    )


def _rate_of_nothing(question: Question, pairs: Sequence[Pair]) -> bool:
    """Whether items a second are asked for, and some build counted none."""
    rate = not limits.harm_is_up(question.metric) and question.metric.name not in _MOVED
    return rate and any(build.items <= 0 for pair in pairs for build in pair.builds)


def _unit_of(question: Question, pairs: Sequence[Pair]) -> str:
    """Seconds; for a rate, its items a second; for a bandwidth, bytes a second."""
    if limits.harm_is_up(question.metric):
        return "s"
    return "B/s" if question.metric.name in _MOVED else f"{pairs[0].builds[0].items_unit}/s"


def _too_little(question: Question, measured: Sequence[Pair], base: Finding) -> Finding | None:
    """Why these pairs cannot be judged at all, or None."""
    n = base.n or {}
    dropped = base.detail.get("rounds_without_a_time", 0)
    if dropped > n["rounds"] / 10:
        reason = (
            f"{dropped} of {dropped + n['rounds']} rounds hold a time that is zero, negative or not a number: "
            "the clock of this machine cannot be trusted"
        )
        return replace(base, outcome="error", rule="clock", reason=reason)
    left_out = len(base.detail.get("pairs_too_short_for_a_tail", ()))
    besides = f"; {words.count_of(left_out, 'pair')} with too few samples for a tail left out" if left_out else ""
    if question.metric.name[-3:] in TAIL_SAMPLES:
        in_all, of_a_pair = TAIL_SAMPLES[question.metric.name[-3:]]
        fewest, total = min(pair.samples for pair in measured), sum(pair.samples for pair in measured)
        if fewest < of_a_pair or total < in_all:
            reason = (
                f"{words.count_of(total, 'sample')} a side in all and {fewest} in one pair: "
                f"a {question.metric.name[-3:]} cannot be told from fewer than {in_all} in all and {of_a_pair} in each "
                f"pair; give the cell more time{besides if fewest >= of_a_pair else ''}"
            )
            return replace(base, rule="too few samples for a tail", reason=reason)
    if len(measured) < 2:
        reason = f"one pair of workers has no spread to judge by: at least two are needed{besides}"
        return replace(base, rule="too few pairs", reason=reason)
    return None


def _report(scale: Scale, base: Finding, measured: Sequence[Pair], calibration: Calibration | None) -> Finding:
    question = scale.question
    level = nominal_level(ALPHA, max(2, question.first), max(question.last, len(measured)))
    found = mean_bounds(scale.values(measured), level, calibration if question.scale == "ratio" else None)
    shown = _shown(scale, base, found, ALPHA)
    text = figures(question, shown)
    return replace(shown, outcome="pass", rule="report", reason=f"{text}: reported, not judged")


def _shown(scale: Scale, base: Finding, found: Bounds, alpha: float) -> Finding:
    """`base` with the estimate and interval of `found` in the form's terms."""
    question = scale.question
    estimate, low, high = in_form(question, scale.out(found.mean), scale.out(found.low), scale.out(found.high))
    shift = visible_shift(found)
    if question.scale == "difference":
        visible = shift
    elif question.scale == "value":
        visible = scale.out(found.mean) * math.expm1(min(shift, 700.0))
    else:
        visible = math.expm1(min(shift, 700.0))
    detail = base.detail | {
        "spread": found.spread,
        "level": found.level,
        "df": found.df,
        "calibrated": found.calibrated,
    }
    if found.noisier:
        detail["noisier_than_calibrated"] = True
    return replace(
        base,
        estimate=estimate,
        low=low,
        high=high,
        confidence=1 - 2 * alpha,
        visible=visible,
        detail=detail,
    )


def _judged(
    scale: Scale,
    tau: float,
    base: Finding,
    measured: Sequence[Pair],
    fresh: Sequence[Pair],
    calibration: Calibration | None,
) -> Finding:
    question = scale.question
    first = max(2, question.first)
    last = max(question.last, len(measured))
    values = scale.values(measured)
    blend = calibration if question.scale == "ratio" else None
    found = mean_bounds(values, nominal_level(ALPHA, first, last), blend)
    if max(values) == min(values):
        reason = (
            f"all {len(values)} pairs agree to the last digit, which no real clock does: "
            "the clock is too coarse for this work, or the times are not measured"
        )
        return replace(_shown(scale, base, found, ALPHA), rule="no spread", reason=reason)
    far = mean_bounds(values, nominal_level(ALPHA, first, last), blend, NOISIER_BEYOND)
    side = side_of(found, tau, scale.upper)
    if side != "inside":
        found, side = (far, "beyond") if side_of(far, tau, scale.upper) == "beyond" else (found, "crosses")
    if side == "crosses" and fresh:
        everything = [*values, *scale.values(fresh)]
        pooled = mean_bounds(everything, nominal_level(ALPHA, first, 2 * max(last, len(everything))), blend)
        if side_of(pooled, tau, scale.upper) == "inside":
            found, side = pooled, "inside"
    shown = _shown(scale, base, found, ALPHA)
    text = figures(question, shown)
    if side == "inside":
        bound = "upper bound below limit" if scale.upper else "lower bound above limit"
        careful = mean_bounds(values, nominal_level(CONFIRM_ALPHA, first, last), blend)
        real = better(question, scale.out(careful.low), scale.out(careful.high))
        says = ", a real change for the better" if real else ""
        return replace(
            shown,
            outcome="pass",
            rule=bound,
            improvement=real,
            reason=f"{text}: inside the limit ({question.says}){says}",
        )
    if side == "crosses":
        more = pairs_needed(far if (far.mean > tau) is scale.upper else found, tau, first)
        tell = f"about {more} pairs would tell" if more else "more than a thousand pairs would be needed to tell"
        reason = f"{text}: the interval crosses the limit ({question.says}); {tell}"
        return replace(
            shown, rule="interval crosses limit", reason=reason, detail=shown.detail | {"pairs_needed": more}
        )
    return _confirmed(scale, tau, shown, text, fresh, blend)


def _confirmed(
    scale: Scale, tau: float, first_stage: Finding, text: str, fresh: Sequence[Pair], blend: Calibration | None
) -> Finding:
    """A failure candidate, held against fresh pairs at 1 %."""
    question = scale.question
    stage = {"estimate": first_stage.estimate, "low": first_stage.low, "high": first_stage.high}
    if len(fresh) < 2:
        reason = f"{text}: beyond the limit ({question.says}) in the first pairs, but no fresh pairs were measured"
        return replace(first_stage, rule="not confirmed on fresh pairs", reason=reason)
    first = max(2, question.first)
    last = max(question.last, len(fresh))
    values = scale.values(fresh)
    found = mean_bounds(values, nominal_level(CONFIRM_ALPHA, first, last), blend, NOISIER_BEYOND)
    shown = _shown(scale, first_stage, found, CONFIRM_ALPHA)
    shown = replace(shown, detail=shown.detail | {"first_stage": stage})
    again = figures(question, shown)
    if max(values) > min(values) and side_of(found, tau, scale.upper) == "beyond":
        careful = mean_bounds(values, found.level, blend)
        p = careful.p_beyond(tau) if scale.upper else replace(careful, mean=-careful.mean).p_beyond(-tau)
        bound = "lower bound above limit" if scale.upper else "upper bound below limit"
        reason = f"{again}: beyond the limit ({question.says}), and fresh pairs confirm it"
        return replace(shown, outcome="fail", rule=f"{bound}, confirmed on fresh pairs", reason=reason, p=p)
    reason = (
        f"{text} in the first pairs and {again} in fresh ones: beyond the limit ({question.says}), but not confirmed"
    )
    return replace(shown, outcome="inconclusive", rule="not confirmed on fresh pairs", reason=reason)


def _baseline_fails_too(scale: Scale, tau: float, measured: Sequence[Pair]) -> bool:
    """Whether the baseline alone crosses an absolute limit, by the same bounds."""
    question = scale.question
    if question.scale != "value":
        return False
    level = nominal_level(ALPHA, max(2, question.first), max(question.last, len(measured)))
    return side_of(mean_bounds(scale.values(measured, 0), level), tau, scale.upper) == "beyond"
