"""When may the driver stop measuring a cell? The group-sequential rule, with the standard library alone.

The sampling unit is a pair of fresh workers. After each pair the driver asks `decide`; a failure candidate is then put
to fresh pairs, asked with `confirm`. `series` turns the rounds of a cell into the figures that both take. The judge
has its own form of the same rule on scipy and decides the outcome; this module only says when to stop, and must not
read clocks, write evidence or know of torch.
"""

from __future__ import annotations

import math
from typing import Any

#: Timed metrics that rise as times fall.
RATES = ("throughput", "comm.bus_bandwidth", "comm.algorithm_bandwidth")
#: {"a_ns": [per-call ns], "b_ns": [..]} of one round; the rounds of each build of one pair of workers.
Round = dict[str, Any]
Pair = list[list[Round]]
#: One figure a pair, the limit on the same scale, and the side of it that passes: "<=" or ">=".
Series = tuple[list[float], float, str]

#: One-sided nominal level of each look, such that the chance that any look from pair `first` to pair `last` crosses is
#: `ALPHA`: from 1.2 million simulated runs of the t statistic with P - 1 degrees of freedom, normal pair estimates.
#: {alpha: {first look: {last pair: nominal level}}}
NOMINAL = {
    0.05: {
        2: {2: 0.0498, 3: 0.0287, 4: 0.0214, 5: 0.0176, 6: 0.0153, 7: 0.0137, 8: 0.0126, 9: 0.0116, 10: 0.0109,
            12: 0.0098, 14: 0.0090, 16: 0.0084, 20: 0.0075, 24: 0.0069, 32: 0.0061, 40: 0.0056, 48: 0.0052},
        3: {3: 0.0498, 4: 0.0322, 5: 0.0246, 6: 0.0204, 7: 0.0178, 8: 0.0159, 9: 0.0145, 10: 0.0134,
            12: 0.0119, 14: 0.0107, 16: 0.0099, 20: 0.0087, 24: 0.0079, 32: 0.0069, 40: 0.0063, 48: 0.0058},
        4: {4: 0.0498, 5: 0.0342, 6: 0.0270, 7: 0.0226, 8: 0.0198, 9: 0.0177, 10: 0.0161,
            12: 0.0140, 14: 0.0125, 16: 0.0114, 20: 0.0099, 24: 0.0089, 32: 0.0077, 40: 0.0069, 48: 0.0064},
    },
    0.01: {
        2: {2: 0.0099, 3: 0.0052, 4: 0.0037, 5: 0.0030, 6: 0.00256, 7: 0.00226, 8: 0.00206, 9: 0.00190, 10: 0.00176,
            12: 0.00157, 14: 0.00142, 16: 0.00132, 20: 0.00117, 24: 0.00107, 32: 0.00094, 40: 0.00086, 48: 0.00080},
        3: {3: 0.0099, 4: 0.0057, 5: 0.0042, 6: 0.0034, 7: 0.0029, 8: 0.00257, 9: 0.00233, 10: 0.00214,
            12: 0.00186, 14: 0.00166, 16: 0.00152, 20: 0.00133, 24: 0.00121, 32: 0.00105, 40: 0.00095, 48: 0.00088},
        4: {4: 0.0099, 5: 0.0062, 6: 0.0046, 7: 0.0037, 8: 0.0032, 9: 0.0028, 10: 0.0026,
            12: 0.00219, 14: 0.00193, 16: 0.00174, 20: 0.00150, 24: 0.00134, 32: 0.00115, 40: 0.00104, 48: 0.00095},
    },
}  # fmt: skip
#: What no clock tells of a call, in ns.
SHORTEST_NS, LONGEST_NS = 1e-6, 3e18
#: The first stage and the confirmation on fresh pairs, one-sided.
ALPHA = 0.05
CONFIRM_ALPHA = 0.01
#: The spread between equal pairs is dropped where the pairs' own variance is beyond this upper point of F. With two
#: pairs at the least, and pairs three times as noisy as the equal ones, a truth at the limit passes 6 to 7 % of the
#: time at 30 % and 5 % at 50 %, by simulation with heavy-tailed noise (`tests/unit/judge/test_simulation.py`).
NOISIER = 0.50
#: The same for what lies beyond the limit, where fresh pairs have to say so again at 1 %: nothing is gained there by
#: doing without the spread of equal pairs unless it is clearly not these pairs'. By the same simulation a truth at the
#: limit fails at most 0.8 % of the time (1.4 % with normal noise), and one of 5 % is told in 5.7 pairs instead of 7.1.
NOISIER_BEYOND = 0.05
#: A calibration is dropped where a run's equal pairs are noisier than it beyond this upper point of F, or quieter
#: beyond this lower one: it is from a noisier day then, and would hide what can be seen today.
NOISIER_DAY = 0.30
QUIETER = 0.10


def nominal_level(alpha: float, first: int, last: int) -> float:
    """The one-sided level of each look when looks go from pair `first` to pair `last`. `alpha` is 0.05 or 0.01."""
    table = NOMINAL[alpha][min(max(first, 2), 4)]
    last = max(last, min(table))
    beyond = max(table)
    if last > beyond:
        return table[beyond] * beyond / last
    return table[min(k for k in table if k >= last)]


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (modified Lentz)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return h


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


def t_quantile(level: float, df: float) -> float:
    """The upper `level` point of Student's t: P(T > result) = level, for 0 < level <= 0.5 and df > 0."""
    low, high = 0.0, 1.0
    while 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + high * high)) > level:
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + middle * middle)) > level:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def f_tail(value: float, above: float, below: float) -> float:
    """P(F > value) for Fisher's F with `above` and `below` degrees of freedom."""
    return incomplete_beta(below / 2.0, above / 2.0, below / (below + above * value))


def median(values: list[float]) -> float:
    ordered = sorted(values)
    n = len(ordered)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2.0


def hodges_lehmann(values: list[float]) -> float:
    """The median of all pairwise means, each value with itself included."""
    return median([(values[i] + values[j]) / 2.0 for i in range(len(values)) for j in range(i, len(values))])


def quantile(values: list[float], p: float) -> float:
    """The `p` quantile by linear interpolation between order statistics."""
    ordered = sorted(values)
    place = p * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def usable(one: Round) -> bool:
    """Both sides have samples and every one is a time that a clock can tell: above a femtosecond, below a century."""
    samples = [*one["a_ns"], *one["b_ns"]]
    timed = all(isinstance(v, (int, float)) and SHORTEST_NS < v < LONGEST_NS for v in samples)
    return timed and bool(one["a_ns"]) and bool(one["b_ns"])


def share_of(metric: str) -> float | None:
    """0.95 for a p95, 0.99 for a p99, None for a metric of the centre."""
    return {"p95": 0.95, "p99": 0.99}.get(metric[-3:])


def levelled(rounds: list[Round]) -> tuple[list[float], list[float]]:
    """One build's log times of a and of b without the level that both share: each round's own, or the build's where
    a round has fewer than eight samples a side."""

    def level(part: list[Round]) -> float:
        return sum(median([math.log(v) for one in part for v in one[side]]) for side in ("a_ns", "b_ns")) / 2.0

    fine = all(len(one[side]) >= 8 for one in rounds for side in ("a_ns", "b_ns"))
    levels = [level([one] if fine else rounds) for one in rounds]
    a = [math.log(v) - shared for one, shared in zip(rounds, levels, strict=True) for v in one["a_ns"]]
    b = [math.log(v) - shared for one, shared in zip(rounds, levels, strict=True) for v in one["b_ns"]]
    return a, b


def _kept(builds: Pair) -> Pair:
    kept = [[one for one in rounds if usable(one)] for rounds in builds]
    return [rounds for rounds in kept if rounds]


def _log_level(metric: str, samples: list[float]) -> float:
    return math.log(sum(samples) / len(samples) if metric == "throughput" else median(samples))


def pair_ratio(metric: str, builds: Pair) -> float | None:
    """The log ratio of times, b to a, of one pair of workers; None when no round is usable.

    `builds` is a list of builds, each a list of rounds {"a_ns": [..], "b_ns": [..]}.
    """
    kept = _kept(builds)
    share = share_of(metric)
    if not kept:
        return None
    if share is not None:
        parts = [levelled(rounds) for rounds in kept]
        a, b = [v for part in parts for v in part[0]], [v for part in parts for v in part[1]]
        return quantile(b, share) - quantile(a, share)
    each = [
        hodges_lehmann([_log_level(metric, one["b_ns"]) - _log_level(metric, one["a_ns"]) for one in rounds])
        for rounds in kept
    ]
    return hodges_lehmann(each)


def pair_level(metric: str, builds: Pair, side: str = "b_ns") -> float | None:
    """The log of one side's own time in ns per call, of one pair of workers; None when no round is usable."""
    kept = _kept(builds)
    share = share_of(metric)
    if not kept:
        return None
    if share is not None:
        return math.log(quantile([v for rounds in kept for one in rounds for v in one[side]], share))
    each = [hodges_lehmann([_log_level(metric, one[side]) for one in rounds]) for rounds in kept]
    return hodges_lehmann(each)


def series(metric: str, limit: dict[str, Any], pairs: list[Pair], items: float = 1.0) -> Series | None:
    """What a timing gate compares: one figure a pair, the limit on the same scale, and which side of it passes.

    `metric` is latency.p50, latency.p95, latency.p99, step.time or throughput; `limit` is the plan's
    {form, op, value}; `pairs` holds pairs of builds of rounds; `items` is the count of items a call. None for a form
    without a limit (`report`). Ratios and absolute limits are log values, `increase` and `decrease` in base units.
    """
    form, op, value = limit["form"], limit["op"], limit["value"]
    if value is None or op is None:
        return None
    flipped = {"<=": ">=", ">=": "<="}[op]
    rate = metric in RATES
    sign = -1.0 if rate else 1.0
    if form in ("growth", "drop", "speedup"):
        ratios = [r for r in (pair_ratio(metric, builds) for builds in pairs) if r is not None]
        turned = form == "drop" or (form == "speedup" and not rate)
        factor = {"growth": 1.0 + value, "drop": 1.0 - value, "speedup": value}[form]
        tau = math.log(factor) if factor > 0 else -math.inf
        tau = -tau if form == "speedup" and not rate else tau
        return [sign * r for r in ratios], tau, flipped if turned else op
    levels = [(pair_level(metric, builds, "a_ns"), pair_level(metric, builds, "b_ns")) for builds in pairs]
    both = [(sign * a, sign * b) for a, b in levels if a is not None and b is not None]
    unit = math.log(items * 1e9) if rate else math.log(1e-9)
    if form == "absolute":
        return [b + unit for _, b in both], math.log(value) if value > 0 else -math.inf, op
    changes = [math.exp(b + unit) - math.exp(a + unit) for a, b in both]
    if form == "increase":
        return changes, value, op
    if form == "decrease":
        return changes, -value, flipped
    return None


def spread_of_equals(equals: list[float], before: tuple[float, int] | None) -> tuple[float, int] | None:
    """The spread between equal pairs, known to have no mean: (standard deviation, degrees of freedom); None: unknown.

    `equals` are this run's own, `before` a calibration. Both count where they agree; where this run is noisier or
    quieter than it was calibrated for, only its own do.
    """
    n = len(equals)
    square = math.fsum(e * e for e in equals) / n if n else 0.0
    if before is not None and before[0] > 0 and before[1] > 0:
        s0, n0 = before
        if n == 0:
            return before
        if NOISIER_DAY <= f_tail(square / (s0 * s0), n, n0) <= 1.0 - QUIETER:
            return math.sqrt((n0 * s0 * s0 + n * square) / (n0 + n)), n0 + n
    return (math.sqrt(square), n) if square > 0 else None


def bounds(
    estimates: list[float], level: float, s0: float | None = None, n0: int = 0, noisier: float = NOISIER
) -> tuple[float, float, float]:
    """Mean over pairs with its one-sided lower and upper bound at `level`; infinite with fewer than two pairs.

    `s0` is a calibrated standard deviation between pairs with `n0` degrees of freedom. It is blended with the pairs'
    own, unless they are noisier than it allows for: beyond the upper point `noisier` of F.
    """
    n = len(estimates)
    if n < 2:
        return (estimates[0] if n else math.nan), -math.inf, math.inf
    mean = math.fsum(estimates) / n
    df = n - 1
    variance = math.fsum((e - mean) ** 2 for e in estimates) / df
    if s0 is not None and s0 > 0 and n0 > 0 and f_tail(variance / (s0 * s0), df, n0) >= noisier:
        variance = (n0 * s0 * s0 + df * variance) / (n0 + df)
        df += n0
    reach = t_quantile(level, df) * math.sqrt(variance / n)
    return mean, mean - reach, mean + reach


def _crossed(
    estimates: list[float], tau: float, direction: str, levels: tuple[float, float], s0: float | None, n0: int
) -> tuple[bool, bool]:
    """Whether the mean is (inside, beyond) the limit, at the levels of the two."""
    _, low, high = bounds(estimates, levels[0], s0, n0)
    inside = high <= tau if direction == "<=" else low >= tau
    _, low, high = bounds(estimates, levels[1], s0, n0, NOISIER_BEYOND)
    return inside, not inside and (low > tau if direction == "<=" else high < tau)


def decide(
    estimates: list[float],
    tau: float,
    direction: str = "<=",
    *,
    min_pairs: int = 3,
    max_pairs: int = 8,
    s0: float | None = None,
    n0: int = 0,
) -> str:
    """What the pairs so far allow: "continue", "pass", "fail-candidate" or "budget" (no more pairs, nothing decided).

    `estimates` holds one figure a pair, `tau` the limit on the same scale; `direction` says on which side of `tau`
    the passing values lie. Looks are taken after each pair from `min_pairs` (at least 2) to `max_pairs`. Pairs that
    agree to the last digit have no spread to judge by and never decide.
    """
    n = len(estimates)
    first = max(2, min_pairs)
    if n >= first and max(estimates) > min(estimates):
        level = nominal_level(ALPHA, first, max(max_pairs, n))
        inside, beyond = _crossed(estimates, tau, direction, (level, level), s0, n0)
        if inside:
            return "pass"
        if beyond:
            return "fail-candidate"
    return "budget" if n >= max_pairs else "continue"


def confirm(
    estimates: list[float],
    tau: float,
    direction: str = "<=",
    *,
    min_pairs: int = 3,
    max_pairs: int = 8,
    s0: float | None = None,
    n0: int = 0,
) -> str:
    """What fresh pairs say of a failure candidate: "continue", "confirmed" (at 1 %), or "not confirmed".

    `estimates` are of the stage "confirm" alone. It ends early when they pass on their own.
    """
    n = len(estimates)
    first = max(2, min_pairs)
    if n >= first and max(estimates) > min(estimates):
        last = max(max_pairs, n)
        levels = nominal_level(ALPHA, first, last), nominal_level(CONFIRM_ALPHA, first, last)
        inside, beyond = _crossed(estimates, tau, direction, levels, s0, n0)
        if beyond:
            return "confirmed"
        if inside:
            return "not confirmed"
    return "not confirmed" if n >= max_pairs else "continue"
