"""Canary files: figures that the team's own service produced while it served a share of its traffic.

The one source of `schemas/canary.schema.json` (`python -m torchspec.model.canary` prints it, a test holds the two
together). A file names the plan that it was taken for, so that no limit can be chosen after its figures. Must not hold
files against a plan: `torchspec.ledger.canary` does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

SCHEMA = "torchspec.canary/1"

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256, 64 hex digits")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Time = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})$",
        description="ISO 8601 with its offset from UTC, such as 2026-11-03T04:00Z",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number with its unit, as a spec would write it."""

    value: Annotated[float, Meta(ge=0)]
    unit: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySample:
    """One figure of one metric over one window on one side of one group.

    `group` names what was sampled independently of the others (a host, an hour, a region): the unit of the interval.
    `requests`: how many requests the figure is of; a share of requests (`error.rate`) needs it.
    """

    metric: Name
    side: Name
    group: Name
    since: Time
    until: Time
    value: float
    unit: str
    requests: Annotated[int, Meta(ge=1)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryFile:
    """One file: whose figures, for which plan and which sides, counted by what.

    `plan` is the digest of the compiled plan (`lock.json` has it). `torch` is what each side served with. `grouped_by`
    says what a group is: "host", "hour". `share` is the part of the traffic that the candidate served.
    """

    schema: Literal["torchspec.canary/1"]
    plan: Digest
    workload: Name
    backend: Name
    candidate: Name
    torch: dict[str, str]
    by: Name
    grouped_by: Name
    share: Quantity
    samples: Annotated[list[CanarySample], Meta(min_length=1, max_length=100_000)]


def canary_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a canary file, built from the classes above."""
    made = msgspec.json.schema(CanaryFile)
    for definition in made["$defs"].values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:torchspec:canary:1",
        "title": "Figures of a canary: what a team's own service measured while it served a share of its traffic",
        **made,
    }


if __name__ == "__main__":
    print(json.dumps(canary_schema(), indent=1, sort_keys=True, ensure_ascii=False))
