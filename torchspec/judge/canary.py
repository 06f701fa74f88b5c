"""Gates on the figures of a canary: what the team's own service gave while it served a share of the traffic.

The unit is the group that the file names (a host, an hour), never a single request: the windows of a group are one
figure. Where the same five or more groups were served by both sides they are compared group by group (Wilcoxon's
signed ranks); else the two sides' groups are (Mann and Whitney's). A share of requests is no better known than its
count allows (Clopper and Pearson's bounds), so that its interval reaches as far as the wider of the two. One-sided 5 %
at each end; 5 %/k² at the k-th intake with other figures, so that all looks together stay below 8.3 %. Where figures
that were taken in once are gone, the rest decides nothing. There is no planted control: what an interval cannot tell
is inconclusive.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy import special

from torchspec.judge import words
from torchspec.judge.finding import Finding, Question, better, crossing, in_form
from torchspec.judge.samples import ENOUGH, limit_is_wrong, number
from torchspec.judge.stats import ALPHA, centre_interval, shift_ends
from torchspec.model.evidence import Record

PAIRED = 5  # groups that both sides served before they are compared one by one
EXACT = 40  # beyond so many groups a side, ranks by their normal approximation
NNBSP = "\u202f"


@dataclass(frozen=True, slots=True)
class Side:
    """One figure a group, the requests that each is of (0: not told), and the records."""

    values: dict[str, float]
    requests: dict[str, float]
    seqs: tuple[int, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values.values())

    @property
    def counted(self) -> float:
        return math.fsum(self.requests.values())

    @property
    def share(self) -> float:
        """The share over all requests."""
        return math.fsum(self.values[g] * self.requests[g] for g in self.values) / self.counted


def find(question: Question, records: Sequence[Record], earlier: Sequence[Sequence[Record]] = ()) -> Finding | None:
    """The finding from the `sample` records of one cell; None where the candidate sent none.

    `earlier`: the samples of each intake before this one.
    """
    mine = [r for r in records if r.body.get("metric") == question.metric.name]
    told = _told(mine)
    before = [_told(r for r in one if r.body.get("metric") == question.metric.name) for one in earlier]
    gone = {figure: file for one in before for figure, file in one.items() if figure not in told}
    looks = len({frozenset(one) for one in (*before, told) if one})
    new, base = _side(mine, question.candidate), _side(mine, "baseline")
    if new.values:
        found = _weighed(question, new, base, mine[-1].body, ALPHA / looks**2)
        found = replace(found, detail=found.detail | {"intakes": looks})
        if looks > 1 and found.confidence is not None:
            found = replace(found, reason=f"{found.reason} (intake {looks}: one-sided {_percent(ALPHA / looks**2)})")
        return _without(question, found, gone)
    return _without(question, Finding("inconclusive", "", "no figure of the candidate is left"), gone) if gone else None


Told = dict[tuple[str, ...], str]  # a figure as it was told, whichever file it stood in -> that file


def _told(records: Iterable[Record]) -> Told:
    told: Told = {}
    for record in records:
        detail = record.body.get("detail") or {}
        own = [detail.get(name) for name in ("group", "since", "until", "requests")]
        file = f"{detail.get('file')} ({str(detail.get('sha256'))[:16]})"
        told[tuple(str(one) for one in (record.body.get("side"), record.body.get("value"), *own))] = file
    return told


def _percent(level: float) -> str:
    return f"{level * 100:.2g}{NNBSP}%"


def _without(question: Question, found: Finding, gone: Told) -> Finding:
    """`found`, or inconclusive where figures that were taken in before are in it no more."""
    if not gone:
        return found
    files = sorted(set(gone.values()))
    more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    reason = (
        f"{len(gone)} figures that were taken in before, from {files[0]}{more}, are gone: what is left does not speak "
        f"for all that was served; put them back, or agree on another plan (what is left: {found.reason})"
    )
    found = replace(found, reason=reason, detail=found.detail | {"gone": {"figures": len(gone), "files": files}})
    if question.bound is None and found.outcome == "pass":  # a report has no vote
        return found
    return replace(found, outcome="inconclusive", rule="figures were dropped", improvement=False, p=None)


def _weighed(question: Question, new: Side, base: Side, body: dict[str, Any], alpha: float) -> Finding:
    detail = body.get("detail") or {}
    shown = _shown(question, new, base, body, detail)
    compared = question.scale != "value"
    if compared and not base.values:
        return replace(shown, outcome="error", rule="no reference", reason="the files hold no figure of the baseline")
    groups = str(detail.get("grouped_by") or "groups")
    fewest = min(len(new.values), len(base.values)) if compared else len(new.values)
    if fewest < ENOUGH:
        reason = (
            f"figures of {len(new.values)} {groups} of the candidate"
            + (f" and {len(base.values)} of the baseline" if compared else "")
            + f" are too few for an interval: {ENOUGH} of each are needed"
        )
        return replace(shown, rule="too few groups", reason=reason)
    if compared:
        if question.scale == "ratio" and _level(question, base) <= 0:
            reason = (
                f"a relative limit ({question.says}) has no meaning on a baseline of zero: give an absolute one, such "
                "as `increase <= ...`"
            )
            return replace(shown, outcome="error", rule="relative limit on a baseline of zero", reason=reason)
        interval = _compared(question, new, base, alpha)
        if interval is None:
            reason = f"{fewest} {groups} a side are too few for an interval at one-sided {_percent(alpha)}"
            return replace(shown, rule="too few groups", reason=reason)
        estimate, low, high, how = interval
    else:
        estimate, low, high, how = _own(question, new, alpha)
    value, formed_low, formed_high = in_form(question, estimate, low, high)
    half = (formed_high - formed_low) / 2
    shown = replace(
        shown,
        estimate=value,
        low=formed_low,
        high=formed_high,
        confidence=1 - 2 * alpha,
        visible=half if compared and math.isfinite(half) else None,
        detail=shown.detail | {"interval": how},
    )
    found = _concluded(question, shown, low, high, groups)
    bound = question.bound
    if found.outcome == "fail" and not compared and bound is not None and len(base.values) >= ENOUGH:
        _, low, high, _ = _own(question, base, alpha)
        if crossing(bound, low, high) == "beyond":
            return limit_is_wrong(question, found, _level(question, base))
    return found


def _side(records: Sequence[Record], side: str) -> Side:
    """One figure a group: the mean of its windows, by their requests where all say how many."""
    windows: dict[str, list[tuple[float, float]]] = {}
    seqs = []
    for record in records:
        if record.body.get("side") == side:
            detail = record.body.get("detail") or {}
            requests = float(detail.get("requests") or 0)
            windows.setdefault(str(detail.get("group")), []).append((number(record.body.get("value")), requests))
            seqs.append(record.seq)
    values, counts = {}, {}
    for group, own in windows.items():
        counts[group] = math.fsum(n for _, n in own)
        weights = [n for _, n in own] if all(n > 0 for _, n in own) else [1.0] * len(own)
        values[group] = math.fsum(v * w for (v, _), w in zip(own, weights, strict=True)) / math.fsum(weights)
    return Side(values, counts, tuple(sorted(seqs)))


def _is_share(question: Question, *sides: Side) -> bool:
    return question.metric.dimension == "ratio" and all(all(n > 0 for n in s.requests.values()) for s in sides)


def _level(question: Question, side: Side) -> float:
    """A side's own figure: over all requests for a share of them, else the median group."""
    return side.share if _is_share(question, side) else side.median


def _shown(question: Question, new: Side, base: Side, body: dict[str, Any], detail: dict[str, Any]) -> Finding:
    told: dict[str, Any] = {
        "meter": body.get("meter"),
        "grouped_by": detail.get("grouped_by"),
        "share": detail.get("share"),
        "candidate_values": list(new.values.values()),
    }
    n = {"repeats": min(len(new.values), len(base.values)) if base.values else len(new.values)}
    if base.values:
        told["baseline_values"] = list(base.values.values())
    if _is_share(question, new):
        told["requests"] = {"candidate": new.counted, "baseline": base.counted}
    return Finding(
        "inconclusive",
        "",
        "",
        baseline=_level(question, base) if base.values else None,
        candidate_value=_level(question, new),
        unit=body.get("unit"),
        n=n,
        detail=told,
        evidence=tuple(sorted((*new.seqs, *base.seqs))),
    )


# Intervals: (estimate, low, high, how).

Interval = tuple[float, float, float, str]


def _own(question: Question, side: Side, alpha: float) -> Interval:
    low, high = centre_interval(list(side.values.values()), alpha)
    level = _level(question, side)
    if not _is_share(question, side):
        return level, min(low, level), max(high, level), "between groups"
    least, most = count_bounds(side.share * side.counted, side.counted, alpha)
    return level, max(0.0, min(low, least)), min(1.0, max(high, most)), "the wider of between groups and counting"


def _compared(question: Question, new: Side, base: Side, alpha: float) -> Interval | None:
    ratio = question.scale == "ratio"
    between = _between_groups(new.values, base.values, ratio, alpha)
    if between is None:
        return None
    low, high, how = between
    one, two = _level(question, new), _level(question, base)
    estimate = one / two if ratio else one - two
    if not _is_share(question, new, base):
        return estimate, min(low, estimate), max(high, estimate), how
    least, most = _by_count(new, base, ratio, alpha)
    return estimate, min(low, least, estimate), max(high, most, estimate), f"the wider of {how} and counting"


def _between_groups(
    new: dict[str, float], base: dict[str, float], ratio: bool, alpha: float
) -> tuple[float, float, str] | None:
    """Bounds at one-sided `alpha`; None where so few groups have none."""
    logs = not ratio or all(v > 0 for v in (*new.values(), *base.values()))
    if set(new) == set(base) and len(new) >= PAIRED and logs:
        each = [math.log(new[g] / base[g]) if ratio else new[g] - base[g] for g in sorted(new)]
        bounds = signed_rank_interval(each, alpha)
        if bounds is None:
            return None
        low, high = bounds
        return (math.exp(low), math.exp(high), "group by group") if ratio else (low, high, "group by group")
    one, two = list(new.values()), list(base.values())
    if ratio:
        shifts = sorted((c / b if b > 0 else (1.0 if c == 0 else math.inf)) for b in two for c in one)
    else:
        shifts = sorted(c - b for b in two for c in one)
    k = _outside(len(two), len(one), alpha)
    if k is None:
        return None
    return shifts[k], shifts[len(shifts) - 1 - k], "between the sides' groups"


def _outside(n: int, m: int, alpha: float) -> int | None:
    """How many of the n*m sorted shifts lie outside each end; both are at least three."""
    if max(n, m) <= EXACT:
        return shift_ends(n, m, alpha)
    k = math.floor(n * m / 2 + float(special.ndtri(alpha)) * math.sqrt(n * m * (n + m + 1) / 12) - 0.5)
    return k if k >= 0 else None


def signed_rank_interval(values: Sequence[float], alpha: float) -> tuple[float, float] | None:
    """Distribution-free bounds of the centre of differences from their pairwise means, `alpha` at each end.

    None where so few have none.
    """
    n = len(values)
    means = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    k = _signed_rank_outside(n, alpha)
    if k < 0:
        return None
    return means[k], means[len(means) - 1 - k]


def _signed_rank_outside(n: int, alpha: float) -> int:
    """How many pairwise means lie outside each end, by the exact distribution of the signed ranks; -1: no end."""
    if n > EXACT:
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return math.floor(n * (n + 1) / 4 + float(special.ndtri(alpha)) * spread - 0.5)
    ways = [1]
    for rank in range(1, n + 1):
        ways = [
            (ways[s] if s < len(ways) else 0) + (ways[s - rank] if s >= rank else 0) for s in range(len(ways) + rank)
        ]
    below, k = 0, -1
    for count in ways:
        below += count
        if below > alpha * 2**n * (1 + 1e-12):
            break
        k += 1
    return k


def count_bounds(count: float, of: float, alpha: float = ALPHA) -> tuple[float, float]:
    """Clopper and Pearson's one-sided bounds of a share, `alpha` at each end."""
    low = float(special.betaincinv(count, of - count + 1, alpha)) if count > 0 else 0.0
    high = float(special.betaincinv(count + 1, of - count, 1 - alpha)) if count < of else 1.0
    return low, high


def _by_count(new: Side, base: Side, ratio: bool, alpha: float) -> tuple[float, float]:
    """What counting alone leaves open of the change of a share (Newcombe's way of joining two intervals)."""
    one, two = new.share, base.share
    low1, high1 = count_bounds(one * new.counted, new.counted, alpha)
    low2, high2 = count_bounds(two * base.counted, base.counted, alpha)
    if ratio:
        return low1 / high2, high1 / low2 if low2 > 0 else math.inf
    return one - two - math.hypot(one - low1, high2 - two), one - two + math.hypot(high1 - one, two - low2)


# The outcome.


def _concluded(question: Question, shown: Finding, low: float, high: float, groups: str) -> Finding:
    text = _figures(question, shown, groups)
    bound = question.bound
    real = better(question, low, high, mirrored=True)
    if bound is None:
        return replace(shown, outcome="pass", rule="report", improvement=real, reason=f"{text}: reported, not judged")
    place = crossing(bound, low, high)
    if place == "inside":
        says = f"{text}: inside the limit ({question.says})" + (", a real change for the better" if real else "")
        return replace(shown, outcome="pass", rule="interval inside limit", improvement=real, reason=says)
    if place == "beyond":
        says = f"{text}: beyond the limit ({question.says})"
        return replace(shown, outcome="fail", rule="interval beyond limit", reason=says, p=ALPHA)
    reason = f"{text}: the interval crosses the limit ({question.says}); more {groups} or more requests would be needed"
    return replace(shown, rule="interval crosses limit", reason=reason)


def _figures(question: Question, shown: Finding, groups: str) -> str:
    """`0.120 % → 0.131 %, +0.011 pp [−0.004, +0.026], 12 host a side`."""
    share = question.metric.dimension == "ratio"

    def own(value: float) -> str:
        return f"{value * 100:.3f}{NNBSP}%" if share else words.plain(value, shown.unit)

    form = {"report": "growth", "drop": "growth", "decrease": "increase"}.get(question.limit.form, question.limit.form)
    values = [v if v is not None else math.nan for v in (shown.estimate, shown.low, shown.high)]
    if question.limit.form in ("drop", "decrease"):
        values = [-values[0], -values[2], -values[1]]
    if share and form in ("increase", "absolute"):
        unit = "pp" if form == "increase" else "%"
        each = [words.signed(v * 100, 3) if form == "increase" else f"{v * 100:.3f}" for v in values]
        text = f"{each[0]}{NNBSP}{unit} [{each[1]}, {each[2]}]"
    else:
        text = f"{words.figure(form, values[0], shown.unit)} {words.interval(form, values[1], values[2], shown.unit)}"
    if question.scale != "value" and shown.baseline is not None and shown.candidate_value is not None:
        text = f"{own(shown.baseline)} → {own(shown.candidate_value)}, {text}"
    n = (shown.n or {}).get("repeats", 0)
    return f"{text} over {n} {groups}{' a side' if question.scale != 'value' else ''}"
