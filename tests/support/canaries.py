"""A spec with a canary, and files of made-up figures for it: no service has given any of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deviations import WHOLE

SPEC = (
    WHOLE
    + """
workload canary {
  kind   ingested  "canary/*.json"
  share  5 % of traffic  for 6 h
  on     cpu
  gates  canary
}

gates canary {
  error.rate   increase <= 0.1 pp   else rollback
  latency.p95  growth <= 5 %        else isolate
}
"""
)


def hour(number: int) -> str:
    return f"2026-11-{3 + number // 24:02d}T{number % 24:02d}:00Z"


def sample(metric: str, side: str, number: int, value: float, **words: Any) -> dict[str, Any]:
    """One figure of the hour `number`; error.rate in %, of 20,000 requests, else ms."""
    rate = {"unit": "%", "requests": 20_000} if metric == "error.rate" else {"unit": "ms"}
    told = {"metric": metric, "side": side, "group": f"hour {number}", "value": value, **rate}
    return {**told, "since": hour(number), "until": hour(number + 1), **words}


def samples(hours: int = 8, errors: float = 0.0, latency: float = 0.0, seed: int = 1) -> list[dict[str, Any]]:
    """Both metrics on both sides; the candidate's differ by `errors` (pp) and `latency` (a ratio) beside noise."""
    noise = random.Random(seed)
    made = []
    for number in range(hours):
        level = 1 + noise.random()  # the hour's own traffic, which both sides serve
        for side, more in (("baseline", 0.0), ("candidate", 1.0)):
            rate = 0.1 * level + more * errors + noise.gauss(0, 0.002)
            made.append(sample("error.rate", side, number, max(0.0, rate)))
            time = 180 * level * (1 + more * latency) * (1 + noise.gauss(0, 0.004))
            made.append(sample("latency.p95", side, number, time))
    return made


def told(plan: str, figures: Sequence[dict[str, Any]], **words: Any) -> dict[str, Any]:
    """A whole file."""
    return {
        "schema": "torchspec.canary/1",
        "plan": plan,
        "workload": "canary",
        "backend": "cpu",
        "candidate": "candidate",
        "torch": {"baseline": "2.13.0", "candidate": "2.14.1"},
        "by": "made up for a test",
        "grouped_by": "hours",
        "share": {"value": 5, "unit": "%"},
        "samples": list(figures),
        **words,
    }


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return path
