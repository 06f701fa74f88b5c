"""Are three fresh processes a side enough? Where their range holds a gate's limit, one look at more of them follows.

One process of six that loads something more, or is disturbed, makes an interval of three against three cross a limit
that five of them are far from; eight a side leave one odd process out. The judge holds the second look to a stricter
level (1 %), so that two looks together are wrong little more often than one. Must not measure.
"""

from __future__ import annotations

import math
from typing import Any

from .needs import MEMORY

#: Processes a side at the second look: the fewest whose interval at 1 % leaves one odd process out.
MORE_PROCESSES = 8
#: What one process gives once, without compiling anything.
LOOKED_AT_AGAIN = (*MEMORY, "import.time", "latency.first_call")


def undecided(limit: dict[str, Any], base: list[float], new: list[float]) -> bool:
    """Whether the range of what three processes a side say holds the limit; figures that all agree decide."""
    form, bound = limit["form"], limit["value"]
    if bound is None or not base or not new or not all(math.isfinite(v) for v in (*base, *new)):
        return False
    if len(set(base)) == len(set(new)) == 1:
        return False
    if form == "growth" and min(base) > 0:
        low, high, bound = min(new) / max(base), max(new) / min(base), 1.0 + bound
    elif form == "increase":
        low, high = min(new) - max(base), max(new) - min(base)
    elif form == "absolute":
        low, high = min(new), max(new)
    else:
        return False
    return bool(low <= bound < high)


def look_again(gates: list[dict[str, Any]], base: dict[str, list[float]], new: dict[str, list[float]]) -> bool:
    """Whether any of a cell's gates against the baseline is undecided. `base` and `new` hold figures by metric."""
    return any(
        undecided(gate["limit"], base.get(gate["metric"], []), new.get(gate["metric"], []))
        for gate in gates
        if gate["metric"] in LOOKED_AT_AGAIN and gate["against"] in (None, "baseline")
    )
