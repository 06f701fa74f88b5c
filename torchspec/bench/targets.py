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
TAIL_CAUGHT, TAIL_UNCHANGED = 0.95, 0.95
#: So many comparisons decide a row; with fewer, only what no luck explains.
ENOUGH, ENOUGH_AT_LIMIT, ENOUGH_DIFFERENT, ENOUGH_RIGHT = 300, 50, 100, 20
UNMEASURED = ("not measured", "not measured")
Row = tuple[str, str, str]


def targets(
    rates: Sequence[Rate],
    design: str,
    conditions: Mapping[str, str],
    limit: float,
    different: Mapping[str, tuple[int, int]],
) -> list[Row]:
    """(what is wanted, what was found, verdict) of one design, for every figure that is wanted, measured or not.

    `conditions` says what "alone", "busy" and "tail" are called in the rates. The verdict is "reached", "missed", "n of
    N comparisons" where these are too few to tell, or "not measured".
    """
    alone, busy = conditions["alone"], conditions["busy"]
    mine = [r for r in rates if r.design == design]
    centre = [r for r in mine if r.metric == "latency.p50"]

    def held(condition: str, truth: float) -> list[Rate]:
        return [r for r in centre if r.condition == condition and abs(r.truth - truth) < 1e-9]

    equal, at_limit = held(alone, 1.0), held(alone, 1.0 + limit)
    beside = "equal versions called a failure beside two busy processes"
    rows = [
        _at_most(equal, "fail", FALSE_ALARMS, "equal versions called a failure", ENOUGH),
        _at_most(at_limit, "fail", AT_THE_LIMIT, "a truth at the limit called a failure", ENOUGH_AT_LIMIT),
        _at_most(at_limit, "pass", AT_THE_LIMIT, "a truth at the limit passed", ENOUGH_AT_LIMIT),
        _at_most(held(busy, 1.0), "fail", FALSE_ALARMS, beside, ENOUGH),
    ]
    for work, truth, share, seconds in CAUGHT:
        one = [r for r in held(alone, truth) if r.work == work]
        rows.append(_right(one, f"{work}, {(truth - 1) * 100:g} % slower", share, seconds))
    for work, seconds in PASSED:
        rows.append(_right([r for r in equal if r.work == work], f"{work}, equal", PASS_SHARE, seconds))
    rows.append(_pairs([r for r in equal if r.pairs is not None]))
    rows.append(_different(different))
    tailed = [r for r in mine if r.condition == conditions["tail"]]
    p95, p50 = ([r for r in tailed if r.metric == f"latency.{name}"] for name in ("p95", "p50"))
    rows.append(_at_least(p95, "fail", TAIL_CAUGHT, "a slow tail: p95 called a failure"))
    rows.append(_at_least(p50, "pass", TAIL_UNCHANGED, "a slow tail: p50 passed"))
    return rows


def _verdict(good: bool, n: int, enough: int, certain: bool = False) -> str:
    """`certain`: the whole interval lies on that side."""
    if n >= enough or certain:
        return "reached" if good else "missed"
    return f"{n} of {enough} comparisons"


def _counted(rates: Sequence[Rate], verdict: str) -> tuple[int, int]:
    """(hits, of how many) over all works."""
    return round(sum(r.shares[verdict][0] * r.n for r in rates)), sum(r.n for r in rates)


def _figure(hits: int, n: int) -> str:
    low, high = interval(hits, n)
    return f"{hits} of {n}: {hits / n * 100:.1f} % [{low * 100:.1f}, {high * 100:.1f}]"


def _at_most(rates: Sequence[Rate], verdict: str, most: float, what: str, enough: int) -> Row:
    """The share of one verdict over all works. With fewer comparisons than `enough` it can only be missed."""
    wanted = f"{what}: at most {most * 100:g} %, of at least {enough}"
    hits, n = _counted(rates, verdict)
    if n == 0:
        return wanted, *UNMEASURED
    certain = interval(hits, n)[0] > most
    return wanted, _figure(hits, n), _verdict(hits / n <= most, n, enough, certain)


def _at_least(rates: Sequence[Rate], verdict: str, least: float, what: str) -> Row:
    wanted = f"{what}: at least {least * 100:g} %, of at least {ENOUGH_RIGHT}"
    hits, n = _counted(rates, verdict)
    if n == 0:
        return wanted, *UNMEASURED
    return wanted, _figure(hits, n), _verdict(hits / n >= least, n, ENOUGH_RIGHT, interval(hits, n)[1] < least)


def _right(rates: Sequence[Rate], what: str, share: float, seconds: float) -> Row:
    wanted = f"{what}: right within {seconds:g} s in at least {share * 100:g} %"
    within = rates[0].within.get(seconds) if rates else None
    if within is None:
        return wanted, *UNMEASURED
    n = rates[0].n
    certain = interval(round(within * n), n)[1] < share
    return wanted, f"{within * 100:.0f} % of {n}", _verdict(within >= share, n, ENOUGH_RIGHT, certain)


def _pairs(equal: Sequence[Rate]) -> Row:
    wanted = f"equal versions: pairs on average, at most {PASS_PAIRS:g}"
    n = sum(r.n for r in equal)
    if n == 0:
        return wanted, *UNMEASURED
    pairs = sum((r.pairs or 0.0) * r.n for r in equal) / n
    return wanted, f"{pairs:.2f} in {n}", _verdict(pairs <= PASS_PAIRS, n, ENOUGH_RIGHT)


def _different(different: Mapping[str, tuple[int, int]]) -> Row:
    wanted = 'equal pairs called "different" at 95 %: 5 ± 2 %'
    hits, n = (sum(pair[place] for pair in different.values()) for place in (0, 1))
    if n == 0:
        return wanted, *UNMEASURED
    low, high = interval(hits, n)
    found = f"{hits / n * 100:.1f} % of {n} [{low * 100:.1f}, {high * 100:.1f}]"
    good = DIFFERENT[0] <= hits / n <= DIFFERENT[1]
    if not good and n >= ENOUGH_DIFFERENT and low <= 0.05 <= high:
        return wanted, found, "not told apart from 5 %"
    return wanted, found, _verdict(good, n, ENOUGH_DIFFERENT, low > DIFFERENT[1] or high < DIFFERENT[0])
