"""Differences of gates: limits loosened or tightened, lines dropped or added, answers weakened, scopes narrowed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchspec import decide_algebra as algebra
from torchspec.catalog import Catalog
from torchspec.decide_words import gate_name
from torchspec.limits import Bound, bound
from torchspec.model.plan import Gate, Plan
from torchspec.specdiff_change import Change, Severity, listed


def gate_changes(old: Plan, new: Plan, catalog: Catalog) -> list[Change]:
    """All differences of gate lines; the same difference in a set and in one that extends it is said once."""
    before, after = _groups(old), _groups(new)
    found: list[Change] = []
    for key in dict.fromkeys([*before, *after]):
        for one, other in _pairs(before.get(key, []), after.get(key, []), catalog):
            found += _compare(one, other, old, new, catalog)
    return _merged(found)


def _groups(plan: Plan) -> dict[tuple[str, str], list[Gate]]:
    groups: dict[tuple[str, str], list[Gate]] = defaultdict(list)
    for gate in plan.gates:
        if not gate.implicit:
            groups[gate.gate_set, gate.metric].append(gate)
    return groups


def _bound(gate: Gate, catalog: Catalog) -> Bound | None:
    return bound(catalog.metrics[gate.metric], gate.limit.form, gate.limit.op, gate.limit.value)


def _likeness(one: Gate, other: Gate, catalog: Catalog) -> int:
    """How alike two lines of a set and metric are: how they narrow counts most, then reference, scale and answer."""
    a, b = _bound(one, catalog), _bound(other, catalog)
    score = 8 if one.only == other.only else 0
    score += 4 if one.against == other.against else 0
    score += 2 if a is not None and b is not None and a.comparable(b) else 0
    return score + (1 if one.decision == other.decision else 0)


def _pairs(old: Sequence[Gate], new: Sequence[Gate], catalog: Catalog) -> Iterator[tuple[Gate | None, Gate | None]]:
    """Lines of one set and metric matched with each other, the most alike first; what is left stands alone."""
    one, other = list(old), list(new)
    while one and other:
        a, b = max(((x, y) for x in one for y in other), key=lambda pair: _likeness(pair[0], pair[1], catalog))
        one.remove(a)
        other.remove(b)
        yield a, b
    yield from ((a, None) for a in one)
    yield from ((None, b) for b in other)


def _compare(one: Gate | None, other: Gate | None, old: Plan, new: Plan, catalog: Catalog) -> Iterator[Change]:
    if one is None and other is not None:
        said = _line(other)
        yield Change("gate", "stronger", _subject(other), None, said, f"gate added: {said}")
        return
    if other is None and one is not None:
        said = _line(one)
        yield Change("gate", "weaker", _subject(one), said, None, f"gate dropped: {said}")
        return
    if one is None or other is None:
        return
    yield from _limit(one, other, catalog)
    yield from _answer(one, other)
    yield from _scope(one, other, old, new)
    if one.against != other.against:
        a, b = one.against or "nothing", other.against or "nothing"
        yield Change("limit", "weaker", _subject(other), a, b, f"{gate_name(other)} is compared with {b}, before {a}")
    yield from _control(one, other, catalog)


def _subject(gate: Gate) -> str:
    return f"{gate.gate_set}: {gate.metric}"


def _line(gate: Gate) -> str:
    answer = f", else {gate.decision}" if gate.decision is not None else ""
    scope = f", {_narrowed(gate)}" if gate.only else ""
    return f"{gate_name(gate)}{scope}{answer}"


def _limit(one: Gate, other: Gate, catalog: Catalog) -> Iterator[Change]:
    before, after = _bound(one, catalog), _bound(other, catalog)
    if before == after:
        return
    subject, a, b = _subject(other), one.limit.text, other.limit.text
    if before is None or after is None:
        severity: Severity = "weaker" if after is None else "stronger"
        what = "only reported now, no gate any more" if after is None else "a gate now, only reported before"
        yield Change("limit", severity, subject, a, b, f"{other.metric}: {what}")
    elif not before.comparable(after):
        text = f"limit of {other.metric} is another one, and the two cannot be compared: {a} to {b}"
        yield Change("limit", "weaker", subject, a, b, text)
    elif after.at_least_as_strict(before):
        yield Change("limit", "stronger", subject, a, b, f"limit of {other.metric} tightened: {a} to {b}")
    else:
        yield Change("limit", "weaker", subject, a, b, f"limit of {other.metric} loosened: {a} to {b}")


def _answer(one: Gate, other: Gate) -> Iterator[Change]:
    if one.decision == other.decision or one.decision is None or other.decision is None:
        return
    a, b = one.decision, other.decision
    severity: Severity = "weaker" if algebra.RANK[b] < algebra.RANK[a] else "stronger"
    said = "weakened" if severity == "weaker" else "strengthened"
    yield Change(
        "answer", severity, _subject(other), a, b, f"what a failure of {gate_name(other)} means is {said}: {a} to {b}"
    )


def _narrowed(gate: Gate) -> str:
    words = {"mode": "in", "backend": "on"}
    return "; ".join(f"{words.get(k, f'at {k}')} {listed(v)}" for k, v in gate.only.items()) or "everywhere"


def _points(plan: Plan) -> dict[str, str]:
    """Where a cell stands in the matrix, in words that do not depend on the workload's options -> its id."""
    return {f"{c.workload} {c.backend} {c.mode} {sorted(c.axes.items())}": c.id for c in plan.cells}


def _scope(one: Gate, other: Gate, old: Plan, new: Plan) -> Iterator[Change]:
    if one.only == other.only:
        return
    shared = _points(old).keys() & _points(new).keys()
    before, after = (
        {point for point, cell in _points(plan).items() if point in shared and cell in gate.cells}
        for plan, gate in ((old, one), (new, other))
    )
    severity: Severity = "weaker" if before - after else "stronger" if after - before else "neutral"
    a, b = _narrowed(one), _narrowed(other)
    said = {"weaker": "judges less", "stronger": "judges more", "neutral": "judges the same"}[severity]
    yield Change("scope", severity, _subject(other), a, b, f"{gate_name(other)} {said}: {b}, before {a}")


def _control(one: Gate, other: Gate, catalog: Catalog) -> Iterator[Change]:
    if one.repeats != other.repeats:
        a, b = one.repeats or 0, other.repeats or 0
        severity: Severity = "weaker" if b < a else "stronger"
        yield Change(
            "control", severity, _subject(other), str(a), str(b), f"{other.metric} is repeated {b} times, before {a}"
        )
    if one.sees != other.sees and one.limit.form == other.limit.form:
        a_text, b_text = (_seen(gate, catalog) for gate in (one, other))
        severity = "neutral"
        if one.sees is not None and (other.sees is None or _farther(other, one)):
            severity = "weaker"
        elif other.sees is not None:
            severity = "stronger"
        text = f"the control of {gate_name(other)} plants {b_text}, before {a_text}"
        yield Change("control", severity, _subject(other), a_text, b_text, text)


def _seen(gate: Gate, catalog: Catalog) -> str:
    """The planted change in the unit of the limit, as its author writes it."""
    if gate.sees is None:
        return "nothing"
    unit = gate.limit.unit
    known = catalog.units.get(unit) if unit else None
    value = f"{gate.sees / known.factor if known is not None else gate.sees:g}"
    return f"{value} {unit}" if unit else value


def _farther(one: Gate, other: Gate) -> bool:
    """Whether the change that `one` plants lies farther beyond the limit than that of `other`."""
    a, b = one.sees or 0.0, other.sees or 0.0
    return a < b if one.limit.op == ">=" else a > b


def _merged(changes: Sequence[Change]) -> list[Change]:
    """The same change in several gate sets as one, whose subject names them all."""
    found: dict[tuple[str, str | None, str | None, str], Change] = {}
    for change in changes:
        key = (change.kind, change.before, change.after, change.text)
        first = found.get(key)
        if first is None:
            found[key] = change
        else:
            names, metric = first.subject.rsplit(": ", 1)
            found[key] = replace(first, subject=f"{names}, {change.subject.rsplit(': ', 1)[0]}: {metric}")
    return list(found.values())
