"""Intervals and tests: bounds over pairs, shifts between small samples, multiplicity. scipy lives here.

Pure functions of numbers. The bounds agree with the driver's own form of them in the harness (a test holds the two
together). The distributions come from `scipy.special`, which loads ten times as fast as `scipy.stats`. Must not know
gates, cells or records.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

#: One-sided nominal level of each look, such that any look from pair `first` to pair `last` crosses with `alpha` in
#: all. The harness carries the same table (`harness/sequential.py` says where it is from). {alpha: {first: {last: ..}}}
NOMINAL: dict[float, dict[int, dict[int, float]]] = {
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
POWER = 0.80
MOST_PAIRS = 1000


@dataclass(frozen=True, slots=True)
class Calibration:
    """A spread between equal pairs: standard deviation of log ratios, and its degrees of freedom.

    `before` of them were measured in a calibration before the run, which the record `seq` tells of.
    """

    s0: float
    n0: int
    before: int = 0
    seq: int | None = None


def spread_of_equals(equals: Sequence[float], before: Calibration | None) -> Calibration | None:
    """The spread between equal pairs, known to have no mean: this run's own `equals` and a calibration from `before`.

    Both count where they agree; where this run is noisier or quieter than that, only its own do. None: unknown.
    """
    n = len(equals)
    square = math.fsum(e * e for e in equals) / n if n else 0.0
    if before is not None and before.s0 > 0 and before.n0 > 0:
        if n == 0:
            return before
        if NOISIER_DAY <= float(special.fdtrc(n, before.n0, square / before.s0**2)) <= 1.0 - QUIETER:
            both = before.n0 + n
            return Calibration(math.sqrt((before.n0 * before.s0**2 + n * square) / both), both, before.n0, before.seq)
    return Calibration(math.sqrt(square), n) if square > 0 else None


@dataclass(frozen=True, slots=True)
class Bounds:
    """A mean over pairs with one-sided bounds at `level` each, and what they rest on."""

    mean: float
    low: float
    high: float
    n: int
    df: float
    level: float
    error: float  # standard error of the mean
    spread: float  # the pairs' own standard deviation
    calibrated: bool
    noisier: bool

    def p_beyond(self, tau: float) -> float:
        """One-sided p value of the mean not being above `tau`."""
        if self.error == 0:
            return 0.0 if self.mean > tau else 1.0
        return float(special.stdtr(self.df, (tau - self.mean) / self.error))


def t_point(level: float, df: float) -> float:
    """The upper `level` point of Student's t with `df` degrees of freedom."""
    return -float(special.stdtrit(df, level))


def nominal_level(alpha: float, first: int, last: int) -> float:
    """The one-sided level of each look when looks go from pair `first` to pair `last`. `alpha` is 0.05 or 0.01."""
    table = NOMINAL[alpha][min(max(first, 2), 4)]
    last = max(last, min(table))
    beyond = max(table)
    if last > beyond:
        return table[beyond] * beyond / last
    return table[min(k for k in table if k >= last)]


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of all pairwise means, each value with itself included."""
    n = len(values)
    return statistics.median([(values[i] + values[j]) / 2.0 for i in range(n) for j in range(i, n)])


def mean_bounds(
    values: Sequence[float], level: float, calibration: Calibration | None = None, above: float = NOISIER
) -> Bounds:
    """Bounds of the mean over pairs. Infinite with fewer than two pairs.

    `calibration` is blended with the pairs' own spread, unless that is beyond its upper point `above` of F.
    """
    n = len(values)
    if n < 2:
        return Bounds(values[0] if n else math.nan, -math.inf, math.inf, n, 0, level, math.inf, math.nan, False, False)
    mean = math.fsum(values) / n
    df: float = n - 1
    own = math.fsum((v - mean) ** 2 for v in values) / df
    variance, used, noisier = own, False, False
    if calibration is not None and calibration.n0 > 0 and calibration.s0 > 0:
        noisier = float(special.fdtrc(df, calibration.n0, own / calibration.s0**2)) < above
        if not noisier:
            variance = (calibration.n0 * calibration.s0**2 + df * own) / (calibration.n0 + df)
            df += calibration.n0
            used = True
    error = math.sqrt(variance / n)
    reach = t_point(level, df) * error
    return Bounds(mean, mean - reach, mean + reach, n, df, level, error, math.sqrt(own), used, noisier)


def visible_shift(found: Bounds) -> float:
    """The smallest true change that such pairs would tell from none four times out of five."""
    if not math.isfinite(found.error) or found.df <= 0:
        return math.inf
    return (t_point(found.level, found.df) + t_point(1 - POWER, found.df)) * found.error


def pairs_needed(found: Bounds, tau: float, first: int, alpha: float = ALPHA) -> int | None:
    """How many pairs would decide if estimate and spread stay as they are; None where more than a thousand."""
    if not math.isfinite(found.error) or found.mean == tau:
        return None
    spread = found.error * math.sqrt(found.n)
    gap = abs(found.mean - tau)
    n = found.n + 1
    while n <= MOST_PAIRS:
        if t_point(nominal_level(alpha, first, n), n - 1) * spread / math.sqrt(n) < gap:
            return n
        n += max(1, n // 10)
    return None


def rank_sum_counts(n: int, m: int) -> list[int]:
    """Number of arrangements of n and m samples with each value 0 .. n*m of Mann and Whitney's U."""
    counts = {(0, j): [1] for j in range(m + 1)} | {(i, 0): [1] for i in range(n + 1)}
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            with_last, without = counts[i - 1, j], counts[i, j - 1]
            total = [0] * (i * j + 1)
            for u, c in enumerate(with_last):
                total[u + j] += c
            for u, c in enumerate(without):
                total[u] += c
            counts[i, j] = total
    return counts[n, m]


def shift_ends(n: int, m: int, alpha: float) -> int | None:
    """How many of the n*m sorted differences lie outside each end of the exact interval; None where none exists.

    One-sided `alpha` at each end, after Mann and Whitney: 3 against 3 gives 0, the extreme differences, at exactly 5 %.
    """
    counts = rank_sum_counts(n, m)
    total = math.comb(n + m, n)
    below, k = 0, -1
    for u, c in enumerate(counts):
        below += c
        if below > alpha * total * (1 + 1e-12):
            break
        k = u
    return k if k >= 0 else None


def shift_interval(
    base: Sequence[float], new: Sequence[float], alpha: float, ratio: bool
) -> tuple[float, float] | None:
    """Distribution-free interval of the shift (or factor) from `base` to `new`; None with too few samples.

    With `ratio`, a base of zero gives an infinite factor where `new` is above it, and 1 where both are zero.
    """
    k = shift_ends(len(base), len(new), alpha)
    if k is None:
        return None
    if ratio:
        each = sorted((c / b if b > 0 else (1.0 if c == 0 else math.inf)) for b in base for c in new)
    else:
        each = sorted(c - b for b in base for c in new)
    return each[k], each[len(each) - 1 - k]


_LARGEST_LOG = 709.0


def centre_interval(values: Sequence[float], alpha: float) -> tuple[float, float]:
    """One-sided bounds of the centre of a few samples by Student's t, on logs where all are positive."""
    if len(values) < 2:
        return -math.inf, math.inf
    if all(v > 0 for v in values):
        found = mean_bounds([math.log(v) for v in values], alpha)
        return raised(found.low), raised(found.high)
    size = max(abs(v) for v in values) or 1.0  # so that no square leaves the numbers that there are
    found = mean_bounds([v / size for v in values], alpha)
    return found.low * size, found.high * size


def raised(value: float) -> float:
    """e to `value`; infinite where no number holds it."""
    return math.exp(value) if value < _LARGEST_LOG else math.inf


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for place, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = highest
    return adjusted
