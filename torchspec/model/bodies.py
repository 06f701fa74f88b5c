"""The bodies of evidence records, one class a kind: what `docs/evidence.md` says, as types.

The one source of `schemas/evidence.schema.json` (`python -m torchspec.model.bodies` prints it, a test holds the two
together). A body may carry more than its class says; what the class names must be there and fit. Bodies travel as plain
dicts: these classes only check and describe.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from torchspec.model.evidence import KINDS

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256, 64 hex digits")]
Count = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]
RunId = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="also the name of the run's logs")]
Time = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}(Z|\+00:00)$",
        description="UTC, ISO 8601 with microseconds",
    ),
]
#: A measured figure: finite, or the words for what is not.
Figure = float | Literal["nan", "inf", "-inf"]


@dataclass(frozen=True, slots=True)
class Harness:
    backend: Name
    sha256: Digest


@dataclass(frozen=True, slots=True)
class CanaryFileSeen:
    file: str
    sha256: Digest
    kept: str


@dataclass(frozen=True, slots=True)
class Canary:
    mark: Digest
    files: list[CanaryFileSeen]


@dataclass(frozen=True, slots=True)
class RunStart:
    plan: Digest
    argv: list[str]
    backend: Name
    candidate: Name
    host: dict[str, Any]
    pid: int
    harness: Harness | None = None  # left out where no harness ran: `canary` says what was taken in
    canary: Canary | None = None
    tool: str | None = None
    git: dict[str, Any] | None = None
    resumes: str | None = None
    lock: Digest | None = None


@dataclass(frozen=True, slots=True)
class CellsDone:
    done: Count
    total: Count


@dataclass(frozen=True, slots=True)
class RunEnd:
    status: Literal["completed", "interrupted", "failed"]
    wall_s: float
    cells: CellsDone
    reason: str | None = None
    timed_s: float | None = None


@dataclass(frozen=True, slots=True)
class SideEnvironment:
    side: Name
    candidate: Name
    python: Name
    torch: dict[str, Any] | None
    packages: dict[str, str]
    env: dict[str, str | None]
    threads: dict[str, Any]
    digests: dict[str, Any]
    torch_pins: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    executable: Digest | None = None
    device: dict[str, Any] | None = None
    glibc: str | None = None
    affinity: list[int] | None = None
    malloc: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FrozenMade:
    cell: Name
    inputs: Digest
    weights: Digest | None
    made_by: Name
    seed: int
    outputs_reference: Digest | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class FrozenSeen:
    cell: Name
    candidate: Name
    side: Name
    inputs: Digest
    weights: Digest | None


@dataclass(frozen=True, slots=True)
class ControlBroken:
    candidate: Name
    what: Name
    reason: str
    cell: str | None = None
    baseline: Any = None
    candidate_value: Any = None


@dataclass(frozen=True, slots=True)
class Round:
    order: Literal["ab", "ba"]
    a_ns: list[float]
    b_ns: list[float]


@dataclass(frozen=True, slots=True)
class Timing:
    cell: Name
    candidate: Name
    pair: Count
    build: Count
    stage: Literal["measure", "confirm", "same", "planted"]
    a: Name
    b: Name
    rounds: list[Round]
    calls: Annotated[int, Meta(ge=1)]
    clock: Name
    items: float | None = None
    items_unit: str | None = None
    of: dict[str, Count] | None = None
    padding: int | None = None
    preempted: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    cell: Name
    candidate: Name
    side: Name
    metric: Name
    value: Figure
    unit: str
    repeat: Count
    meter: str | None = None
    against: str | None = None
    process: Literal["fresh", "shared"] | None = None
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    cell: Name
    candidate: Name
    side: Name
    metric: Name
    holds: bool
    error: str | None = None
    detail: dict[str, Any] | None = None
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Unsupported:
    cell: Name
    candidate: Name
    side: Name
    error: str
    where: Literal["version", "backend", "machine"]
    metric: str | None = None


@dataclass(frozen=True, slots=True)
class LogFile:
    file: str | None
    sha256: Digest | None
    tail: str | None = None


@dataclass(frozen=True, slots=True)
class SideFailed:
    cell: str | None
    candidate: Name
    side: Name
    doing: str
    how: Literal["raised", "exited", "killed", "hung"]
    attempt: Count
    exit: int | None = None
    signal: str | None = None
    error: str | None = None
    log: LogFile | None = None
    other_side_ran: bool | None = None
    at: Literal["figures", "timing", "question"] | None = None


@dataclass(frozen=True, slots=True)
class CellDone:
    cell: Name
    candidate: Name
    status: Literal["measured", "failed", "not_run", "error"]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Control:
    cell: str | None
    candidate: Name
    metric: Name
    what: Literal["same", "planted"]
    planted: float | None = None
    timing: list[Count] = field(default_factory=list)
    error: str | None = None
    bytes: Count | None = None  # of a memory metric: what was planted, what the meter then gave, and its name
    value: float | None = None
    meter: str | None = None


@dataclass(frozen=True, slots=True)
class RehearsalStep:
    candidate: Name
    step: Literal[
        "rebuild.cache", "rebuild.scratch", "restore", "reload.checkpoint", "reload.export", "smoke", "switch"
    ]
    ok: bool
    seconds: float | None
    cell: str | None = None
    detail: dict[str, Any] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Noise:
    cell: str | None = None
    load: list[float] | None = None
    steal: float | None = None
    frequency_mhz: float | None = None
    throttled: bool | None = None
    memory_pressure: Any = None
    others: Any = None
    device: dict[str, Any] | None = None  # clocks, heat and slowdowns of the device, where its driver tells them


@dataclass(frozen=True, slots=True)
class Note:
    by: str | None = None
    text: str | None = None
    what: str | None = None
    about: list[Count] | None = None


BODIES: dict[str, type[Any]] = {
    "run.start": RunStart,
    "run.end": RunEnd,
    "side.environment": SideEnvironment,
    "frozen.made": FrozenMade,
    "frozen.seen": FrozenSeen,
    "control.broken": ControlBroken,
    "control": Control,
    "timing": Timing,
    "sample": Sample,
    "fact": Fact,
    "unsupported": Unsupported,
    "side.failed": SideFailed,
    "cell.done": CellDone,
    "rehearsal.step": RehearsalStep,
    "noise": Noise,
    "note": Note,
}


@dataclass(frozen=True, slots=True)
class _Line:
    v: Literal[1]
    seq: Count
    time: Time
    run: RunId
    kind: str
    body: dict[str, Any]
    prev: Digest
    hash: Digest


def line_error(record: dict[str, Any]) -> str | None:
    """What is wrong with a record's frame or body (message with the JSON path), or None."""
    try:
        line = msgspec.convert(record, _Line)
        body = BODIES.get(line.kind)
        if body is None:
            return f"there is no kind of record `{line.kind[:60]}`"
        msgspec.convert(line.body, body)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def evidence_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line of the ledger, built from the classes above."""
    kinds = list(BODIES)
    references, components = msgspec.json.schema_components([_Line, *BODIES.values()], ref_template="#/$defs/{name}")
    for component in components.values():
        component.pop("description", None)
    frame = components.pop("_Line")
    for kind, reference in zip(kinds, references[1:], strict=True):
        components[reference["$ref"].rpartition("/")[2]]["description"] = KINDS[kind]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:torchspec:evidence:1",
        "title": "One line of a torchspec evidence ledger",
        "description": "`hash` is the SHA-256 of the canonical JSON of the record without `hash`; "
        "`prev` is the hash of the line before, 64 zeros for the first; `seq` counts from 0.",
        "type": "object",
        "required": frame["required"],
        "properties": {**frame["properties"], "kind": {"enum": kinds}},
        "additionalProperties": False,
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": {"properties": {"body": reference}}}
            for kind, reference in zip(kinds, references[1:], strict=True)
        ],
        "$defs": components,
    }


if __name__ == "__main__":
    print(json.dumps(evidence_schema(), indent=1, sort_keys=True, ensure_ascii=False))
