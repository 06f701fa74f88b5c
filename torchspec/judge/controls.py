"""Broken controls and the bench's own controls: may this evidence be judged, and could it have shown the change?

A broken control is a difference between the sides that was not declared; whatever was measured under it is an error.
The bench's controls are the baseline against itself, which must not fail, and a planted regression, which must be seen.
Must not judge a candidate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import median
from typing import Any

from torchspec import limits
from torchspec.judge import samples, words
from torchspec.judge.finding import Question, in_form
from torchspec.judge.pairs import Timed
from torchspec.judge.records import Evidence, Run
from torchspec.judge.stats import ALPHA, CONFIRM_ALPHA, NOISIER_BEYOND, mean_bounds, visible_shift
from torchspec.judge.timing import Scale, equal_spread, scale_of, side_of, stem_of
from torchspec.model.evidence import Record
from torchspec.model.plan import Plan

#: Part of every environment, and not of the work.
INSTALLERS = ("pip", "uv", "wheel")
OWN_FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
#: Facts of a device that are the machine's; the rest of a probe is torch's own.
MACHINES_OWN = ("name", "memory_bytes", "processors", "architecture", "devices", "driver", "macos")
MEASURED = ("timing", "sample", "fact")
USUAL_SEES = 0.05
#: Metrics whose control plants bytes.
MEMORY = ("memory.driver_peak", "memory.reserved_peak", "memory.allocated_peak")


@dataclass(frozen=True, slots=True)
class Control:
    """What one control says of one gate. `outcome` is pass or fail, error where it could not be measured."""

    what: str
    outcome: str
    reason: str
    shown: dict[str, Any]


# The bench's own controls.


def planted_change(question: Question) -> float | None:
    """The ratio of extra time that the bench plants for a gate; None for a gate that has no control of this kind.

    Without `sees` it goes as far beyond the limit as the limit itself, and at least 5 %. The harness plants the same.
    """
    form, value, sees = question.limit.form, question.limit.value, question.sees
    if value is None or question.against not in (None, "baseline"):
        return None
    change = sees if sees is not None else value + max(value, USUAL_SEES)
    rate = not limits.harm_is_up(question.metric)
    if form == "growth" and not rate:
        return change
    if form == "drop" and rate:
        return 1.0 / (1.0 - min(change, max(0.95, (1.0 + value) / 2.0))) - 1.0
    return None


def of_gate(question: Question, recorded: Sequence[Record], timed: Timed) -> list[Control]:
    """The two controls of a timing gate on its cell, judged with the gate's own limit; none where it has none."""
    planted = planted_change(question)
    if planted is None or question.bound is None:
        return []
    planted = _nearest(question, planted, timed)
    mine = [r for r in recorded if r.body.get("metric") == question.metric.name]
    return [_control(question, what, planted, mine, timed) for what in ("same", "planted")]


def of_memory(question: Question, recorded: Sequence[Record], sampled: Sequence[Record]) -> list[Control]:
    """The control of a memory gate: the baseline with so many bytes more, held against the gate's own limit; none for a
    gate that has none. Of several processes the median counts. One that was not taken could not be measured."""
    if question.against not in (None, "baseline") or question.limit.form not in ("growth", "increase"):
        return []
    mine = [r for r in recorded if r.body.get("metric") == question.metric.name and r.body.get("bytes")]
    body = mine[-1].body if mine else {"error": "it is not in the ledger"}
    alike = [r.body["value"] for r in mine if r.body["bytes"] == body["bytes"] and r.body.get("value") is not None]
    shown: dict[str, Any] = {
        "cell": question.cell,
        "candidate": question.candidate,
        "metric": question.metric.name,
        "limit": question.says,
        "what": "planted",
        "planted": None,
        "evidence": [r.seq for r in mine],
    }
    base = samples.take(sampled, question.metric.name, "baseline", None, True)
    if not alike or not base.values or base.odd:
        why = words.sentence(str(body.get("error") or "the baseline has no figure to compare with"))
        return [Control("planted", "error", f"the control (planted memory) could not be measured: {why}", shown)]
    plain, planted, value = base.median, float(body["bytes"]), median(float(value) for value in alike)
    if plain > 0:
        shown |= {"planted": planted / plain, "estimate": value / plain - 1.0}
    bound = question.limit.value or 0.0
    beyond = value > plain * (1.0 + bound) if question.limit.form == "growth" else value > plain + bound
    figures = f"{words.plain(plain, 'bytes')} without it and {words.plain(value, 'bytes')} with it"
    if len(alike) > 1:
        figures += f" (the median of {len(alike)} processes)"
    if beyond:
        return [Control("planted", "pass", f"{words.plain(planted, 'bytes')} planted were seen: {figures}", shown)]
    reason = (
        f"this meter does not see {words.plain(planted, 'bytes')} here today: so much was planted and is not beyond "
        f"the limit ({question.says}): {figures}"
    )
    return [Control("planted", "fail", reason, shown)]


def _nearest(question: Question, wanted: float, timed: Timed) -> float:
    """The largest ratio in the ledger that is not above `wanted` and still beyond the limit; `wanted` where none is.

    Two gates of one metric may plant one change: whoever sees the smaller one sees the larger one too.
    """
    scale = scale_of(question)
    sign = -1.0 if not limits.harm_is_up(question.metric) else 1.0
    ratios = {float(r.body["planted"]) for r in timed.records if r.body.get("planted") is not None}

    def beyond(ratio: float) -> bool:
        log = sign * math.log1p(ratio)
        return scale.tau is not None and (log > scale.tau if scale.upper else log < scale.tau)

    return max((r for r in ratios if r <= wanted * (1 + 1e-9) and beyond(r)), default=wanted)


def _control(question: Question, what: str, planted: float, recorded: Sequence[Record], timed: Timed) -> Control:
    mine = [r for r in recorded if r.body.get("what") == what]
    shown: dict[str, Any] = {
        "cell": question.cell,
        "candidate": question.candidate,
        "metric": question.metric.name,
        "limit": question.says,
        "what": what,
        "planted": planted if what == "planted" else None,
        "evidence": [r.seq for r in mine],
    }
    scale = scale_of(question)
    stem = stem_of(question.metric.name)
    found = timed.pairs(what, None, stem, planted if what == "planted" else None)
    if len(found) < 2 or scale.tau is None:
        error = next((r.body["error"] for r in reversed(mine) if r.body.get("error")), None)
        why = words.sentence(error) if error else "fewer than two pairs of it are in the ledger"
        name = "planted regression" if what == "planted" else "baseline against itself"
        return Control(what, "error", f"the control ({name}) could not be measured: {why}", shown)
    shown["evidence"] += [seq for pair in found for seq in pair.seqs]
    values = scale.values(found)
    spread = equal_spread(scale, timed.pairs("same", None, stem), None) if what == "planted" else None
    bounds = mean_bounds(values, CONFIRM_ALPHA if what == "same" else ALPHA, spread, NOISIER_BEYOND)
    estimate, low, high = in_form(question, scale.out(bounds.mean), scale.out(bounds.low), scale.out(bounds.high))
    visible = math.expm1(min(visible_shift(bounds), 700.0))
    shown |= {"estimate": estimate, "low": low, "high": high, "pairs": len(found), "visible": visible}
    beyond = side_of(bounds, scale.tau, scale.upper) == "beyond"
    return _same(shown, beyond, scale) if what == "same" else _planted(question, shown, beyond)


def _same(shown: dict[str, Any], beyond: bool, scale: Scale) -> Control:
    estimate = float(shown["estimate"])
    text = words.percent(-estimate if scale.question.limit.form == "drop" else estimate)
    if beyond:
        reason = (
            f"the baseline against itself is beyond the limit, at {text}: this machine shows changes that are not there"
        )
        return Control("same", "fail", reason, shown)
    return Control("same", "pass", f"the baseline against itself: {text}, not beyond the limit", shown)


def _planted(question: Question, shown: dict[str, Any], beyond: bool) -> Control:
    planted = words.percent(float(shown["planted"] or 0.0))
    if beyond:
        return Control("planted", "pass", f"a planted change of {planted} was seen", shown)
    can = f"it could have told a change of {words.percent(shown['visible'])} from none"
    if not shown["visible"] <= 1.0:
        can = "it could not have told even twice the time from none"
    reason = (
        f"this machine cannot see {planted} today: a planted change of that size was not told from the limit "
        f"({question.says}); {can}"
    )
    return Control("planted", "fail", reason, shown)


# Differences that were not declared.


def broken(plan: Plan, evidence: Evidence) -> list[dict[str, Any]]:
    """Every broken control: those the harness recorded, and those the judge finds in what both sides recorded."""
    found = [
        {**record.body, "run": record.run, "seq": record.seq}
        for kinds in (*evidence.by_place.values(), *evidence.by_candidate.values())
        for record in kinds.get("control.broken", [])
    ]
    for run in evidence.runs:
        if run.used:
            found += _environments(plan, run)
    for (cell, candidate), kinds in evidence.by_place.items():
        found += _frozen(cell, candidate, kinds, evidence.frozen.get(cell, []))
    unique: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        key = (one["run"], one.get("candidate"), one.get("cell"), one["what"])
        unique.setdefault(key, one)
    return sorted(unique.values(), key=lambda one: one["seq"])


def breaks(one: dict[str, Any], cell: str, candidate: str, kinds: dict[str, list[Record]]) -> bool:
    """Whether a broken control spoils what was measured of a cell: the same run gave evidence of it or its ending."""
    if one.get("candidate") not in (candidate, None) or one.get("cell") not in (cell, None):
        return False
    runs = {record.run for kind in MEASURED for record in kinds.get(kind, [])}
    runs |= {record.run for record in kinds.get("cell.done", [])[-1:]}
    return one["run"] in runs


def _environments(plan: Plan, run: Run) -> Iterator[dict[str, Any]]:
    """Differences between the two environments of one run that the plan does not declare."""
    for candidate in [side for side in plan.candidates if (side.id, "baseline") in run.environments]:
        one = run.environments[candidate.id, "baseline"]
        two = run.environments.get((candidate.id, candidate.id))
        if two is None:
            continue

        def difference(what: str, a: Any, b: Any, reason: str, seq: int = two.seq, who: str = candidate.id) -> Any:
            shown = {"candidate": who, "cell": None, "what": what, "baseline": a, "candidate_value": b}
            return {**shown, "reason": reason, "run": run.id, "seq": seq}

        for side, record in ((plan.baseline, one), (candidate, two)):
            have = str((record.body.get("torch") or {}).get("version", "")).split("+")[0]
            if side.torch is not None and have != side.torch.split("+")[0]:
                reason = f"the plan names torch {side.torch}; {side.id} holds {have or 'none'}"
                yield difference(f"torch of {side.id}", side.torch, have, reason)
            python = str(record.body.get("python", ""))
            wanted = plan.frozen.python
            if wanted and ".".join(python.split(".")[:2]) != wanted:
                reason = f"{side.id} runs Python {python}, and the plan freezes Python {wanted}"
                yield difference(f"python of {side.id}", wanted, python, reason)
        for side, record in ((plan.baseline, one), (candidate, two)):
            named = next((b.hardware for b in plan.backends if b.name == run.backend), ())
            called, other = _other_hardware(named, record.body.get("device") or {})
            if other is not None:
                yield difference(f"hardware of {side.id}", list(named), called, other)
        for part in ("python", "implementation", "env", "threads", "settings", "digests", "glibc", "malloc"):
            a, b = _comparable(part, one.body.get(part)), _comparable(part, two.body.get(part))
            if a != b:
                yield difference(part, a, b, f"the two sides differ in {part}")
        for what, a, b in _devices(one.body.get("device") or {}, two.body.get("device") or {}):
            yield difference(what, a, b, f"{what} is {a} in the baseline and {b} in the candidate")
        allowed = {"torch", *INSTALLERS, *(one.body.get("torch_pins") or []), *(two.body.get("torch_pins") or [])}
        here, there = one.body.get("packages") or {}, two.body.get("packages") or {}
        patterns = [_normal(pattern) for pattern in candidate.may_differ]
        for name in sorted({*here, *there}):
            declared = name in allowed or any(fnmatchcase(_normal(name), pattern) for pattern in patterns)
            if here.get(name) != there.get(name) and not declared:
                words_of = (
                    f"{here.get(name) or 'absent'} in the baseline and {there.get(name) or 'absent'} in the candidate"
                )
                yield difference(f"package {name}", here.get(name), there.get(name), f"package {name} is {words_of}")


def _devices(one: dict[str, Any], two: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(what, the baseline's, the candidate's) of the device and its switches of precision, where both sides tell."""
    switches = [side.get("precision") or {} for side in (one, two)]
    told = [(f"device {part}", one.get(part), two.get(part)) for part in MACHINES_OWN]
    names = sorted({*switches[0], *switches[1]})
    told += [(f"precision {name}", switches[0].get(name), switches[1].get(name)) for name in names]
    for what, a, b in told:
        if a is not None and b is not None and a != b:
            yield what, a, b


def _other_hardware(named: Sequence[str], device: dict[str, Any]) -> tuple[str | None, str | None]:
    """(what the device is called, why it is none of those that the plan names); no reason where it is one of them.

    A device that tells nothing is missing there, and its cells say so; the harness refuses one without a name.
    """
    called = [str(device[part]) for part in ("name", "architecture") if device.get(part)]
    if not named or not called or any(_words(name) in _words(text) for name in named for text in called):
        return None, None
    return called[0], f"the plan names {' or '.join(named)}, and the machine had {called[0]}"


def _words(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', re.sub(r'[(](?:r|tm|c)[)]', ' ', text.lower())))} "


def _comparable(part: str, value: Any) -> Any:
    if part == "env" and isinstance(value, dict):
        return {name: text for name, text in value.items() if name not in OWN_FOLDERS}
    return value


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _frozen(
    cell: str, candidate: str, kinds: dict[str, list[Record]], made: Sequence[Record]
) -> Iterator[dict[str, Any]]:
    """Inputs or weights that a side loaded and that nobody froze."""
    known = [(r.body.get("inputs"), r.body.get("weights")) for r in made]
    for record in kinds.get("frozen.seen", []):
        seen = (record.body.get("inputs"), record.body.get("weights"))
        if seen not in known:
            side = record.body.get("side")
            yield {
                "candidate": candidate,
                "cell": cell,
                "what": "frozen work",
                "baseline": known[-1] if known else None,
                "candidate_value": seen,
                "reason": f"{side} holds other inputs or weights than those that were frozen",
                "run": record.run,
                "seq": record.seq,
            }
