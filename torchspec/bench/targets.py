"""What the design is meant to reach, held against what was measured. Must not measure.

The numbers are for two cores with a load below 2 and three works that share their workers; the comparisons of three
works from the same pairs are counted as three, although what disturbs a pair disturbs all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchspec.bench.rates import Rate, interval

#: (work, truth, share wanted, seconds for all works together)
CAUGHT = (
    ("attention", 1.05, 0.95, 30.0),
    ("training_step", 1.05, 0.85, 30.0),
    ("small_operators", 1.05, 0.80, 60.0),
    ("attention", 1.10, 0.99, 30.0),
    ("training_step", 1.10, 0.99, 30.0),
    ("small_operators", 1.10, 0.99, 30.0),
)
PASSED = (("attention", 30.0), ("training_step", 30.0), ("small_operators", 60.0))
PASS_SHARE, PASS_PAIRS = 0.95, 3.0
FALSE_ALARMS, AT_THE_LIMIT, DIFFERENT = 0.01, 0.06, (0.03, 0.07)
ENOUGH = 300


def targets(
    rates: Sequence[Rate], design: str, alone: str, busy: str, limit: float, different: Mapping[str, tuple[int, int]]
) -> list[tuple[str, str, str]]:
    """(what is wanted, what was found, reached or missed) of one design's p50; nothing of what was not measured."""
    mine = [r for r in rates if r.design == design and r.metric == "latency.p50"]
    rows = [
        _pooled(
            mine, alone, 1.0, "fail", FALSE_ALARMS, f"equal versions called a failure, of at least {ENOUGH}", ENOUGH
        ),
        _pooled(mine, alone, 1.0 + limit, "fail", AT_THE_LIMIT, "a truth at the limit called a failure", 0),
        _pooled(mine, alone, 1.0 + limit, "pass", AT_THE_LIMIT, "a truth at the limit passed", 0),
        _pooled(mine, busy, 1.0, "fail", FALSE_ALARMS, "equal versions called a failure beside two busy processes", 0),
    ]
    by_place = {(r.work, round(r.truth, 6), r.condition): r for r in mine}
    for work, truth, share, seconds in CAUGHT:
        rows.append(
            _right(by_place.get((work, truth, alone)), f"{work}, {(truth - 1) * 100:g} % slower", share, seconds)
        )
    for work, seconds in PASSED:
        rows.append(_right(by_place.get((work, 1.0, alone)), f"{work}, equal", PASS_SHARE, seconds))
    equal = [r for r in mine if r.truth == 1.0 and r.condition == alone and r.pairs is not None]
    if equal:
        pairs = sum((r.pairs or 0.0) * r.n for r in equal) / sum(r.n for r in equal)
        rows.append(("equal versions: pairs on average, at most 3", f"{pairs:.1f}", _said(pairs <= PASS_PAIRS)))
    hits, n = (sum(pair[place] for pair in different.values()) for place in (0, 1))
    if n:
        low, high = interval(hits, n)
        within = DIFFERENT[0] <= hits / n <= DIFFERENT[1]
        verdict = "reached" if within else "not told apart from 5 %" if low <= 0.05 <= high else "missed"
        found = f"{hits / n * 100:.1f} % of {n} [{low * 100:.1f}, {high * 100:.1f}]"
        rows.append(('equal pairs called "different" at 95 %: 5 ± 2 %', found, verdict))
    return [row for row in rows if row is not None]


def _said(good: bool) -> str:
    return "reached" if good else "missed"


def _pooled(
    rates: Sequence[Rate], condition: str, truth: float, verdict: str, most: float, what: str, enough: int
) -> tuple[str, str, str] | None:
    """The share of one verdict over all works. Reached where the share is, and the comparisons are as many as asked."""
    held = [r for r in rates if r.condition == condition and abs(r.truth - truth) < 1e-9]
    n = sum(r.n for r in held)
    if n == 0:
        return None
    hits = round(sum(r.shares[verdict][0] * r.n for r in held))
    low, high = interval(hits, n)
    reached = _said(hits / n <= most) if n >= enough else f"{n} of {enough} comparisons"
    found = f"{hits} of {n}: {hits / n * 100:.1f} % [{low * 100:.1f}, {high * 100:.1f}]"
    return f"{what}: at most {most * 100:g} %", found, reached


def _right(rate: Rate | None, what: str, share: float, seconds: float) -> tuple[str, str, str] | None:
    if rate is None or rate.within.get(seconds) is None:
        return None
    found = rate.within[seconds] or 0.0
    wanted = f"{what}: right within {seconds:g} s in at least {share * 100:g} %"
    return wanted, f"{found * 100:.0f} % of {rate.n}", _said(found >= share)
