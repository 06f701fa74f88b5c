"""Limits: each can be crossed and met, points at harm, contradicts no other, and none hides another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from torchspec.catalog import Catalog
from torchspec.check.policy_words import against_of, bound_of, limit_text, lines, metric_of, rank
from torchspec.check.spec import CheckedGate, CheckedSpec, GateLine
from torchspec.core.diagnostics import Diagnostic, Label, Span
from torchspec.limits import Bound, bound, harm_is_up, points_at_harm, reach


def find(spec: CheckedSpec, catalog: Catalog) -> list[Diagnostic]:
    judged = _judged(spec, catalog)
    found, blamed = _contradictions(judged)
    timeout = float(spec.budget["timeout_s"])
    wrong: set[Span] = set()
    for line in lines(spec):
        if line.span in blamed:
            continue
        own = _line(line, catalog, timeout)
        if own:
            wrong.add(line.span)
        found += own
    return found + _hidden(judged, blamed | wrong) + _rehearsal(spec)


@dataclass(frozen=True, slots=True)
class _Judged:
    """One written line over every cell that it judges, in whichever sets it stands."""

    line: GateLine
    bound: Bound
    cells: frozenset[int]
    against: str | None


def _judged(spec: CheckedSpec, catalog: Catalog) -> dict[tuple[str, str | None], list[_Judged]]:
    cells: dict[Span, set[int]] = defaultdict(set)
    first: dict[Span, CheckedGate] = {}
    for gate in spec.gates:
        if not gate.implicit:
            cells[gate.line.span].update(gate.cells)
            first.setdefault(gate.line.span, gate)
    groups: dict[tuple[str, str | None], list[_Judged]] = defaultdict(list)
    for span, gate in first.items():
        found = bound_of(catalog, gate.line)
        if found is not None:
            against = against_of(catalog, gate.line)
            groups[gate.line.metric.text, against].append(_Judged(gate.line, found, frozenset(cells[span]), against))
    return groups


def _line(line: GateLine, catalog: Catalog, timeout: float) -> list[Diagnostic]:
    metric, found = metric_of(catalog, line), bound_of(catalog, line)
    if found is None or found.scale == "truth" or line.limit is None:
        return []
    text = limit_text(line)
    if not points_at_harm(metric, found):
        other = "<=" if line.op == ">=" else ">="
        worse = "rises" if harm_is_up(metric) else "falls"
        return [
            Diagnostic(
                "TS523",
                f"`{text}` cannot catch harm: {metric.name} is worse when it {worse}",
                line.limit_span,
                hint=_turned(line, harm_is_up(metric), other),
            )
        ]
    can = reach(metric, found.scale, timeout)
    never, why = (found.value >= can.most, can.why_most) if found.upper else (found.value <= can.least, can.why_least)
    if never:
        return [
            Diagnostic(
                "TS503",
                f"no measurement can cross `{metric.name} {text}`: {why}",
                line.limit_span,
                hint="write a limit that a bad candidate would break, or `report` the metric",
            )
        ]
    always, why = (found.value < can.least, can.why_least) if found.upper else (found.value > can.most, can.why_most)
    if always:
        return [
            Diagnostic(
                "TS524",
                f"no measurement can meet `{metric.name} {text}`: {why}",
                line.limit_span,
                hint="write a limit that a good candidate would meet",
            )
        ]
    return _sees(line, catalog, found)


def _turned(line: GateLine, up: bool, other: str) -> str:
    """What the author probably meant."""
    value = line.limit.text if line.limit is not None else ""
    if line.form in ("absolute", "speedup"):
        return f"write `{'' if line.form == 'absolute' else 'speedup '}{other} {value}`"
    opposite = {"growth": "drop", "drop": "growth", "increase": "decrease", "decrease": "increase"}[line.form]
    if line.op == "<=":
        return f"write `{opposite} <= {value}`"
    harm = {"growth", "increase"} if up else {"drop", "decrease"}
    return f"write `{line.form if line.form in harm else opposite} <= {value}`"


def _sees(line: GateLine, catalog: Catalog, limit: Bound) -> list[Diagnostic]:
    if line.sees is None:
        return []
    planted = bound(metric_of(catalog, line), line.form, line.op, line.sees.value)
    if planted is None or (not planted.at_least_as_strict(limit) and planted.comparable(limit)):
        return []
    return [
        Diagnostic(
            "TS516",
            f"`sees {line.sees.text}` is not beyond the limit `{limit_text(line)}`",
            line.sees.span,
            labels=(Label(line.limit_span, "a planted change of that size would pass"),),
            hint="the control plants this change and must see it fail: write a larger one than the limit",
        )
    ]


def _contradictions(groups: dict[tuple[str, str | None], list[_Judged]]) -> tuple[list[Diagnostic], set[Span]]:
    found: list[Diagnostic] = []
    blamed: set[Span] = set()
    for (metric, _), group in groups.items():
        for index, later in enumerate(group):
            for earlier in group[:index]:
                if not later.bound.contradicts(earlier.bound) or not later.cells & earlier.cells:
                    continue
                blamed |= {later.line.span, earlier.line.span}
                found.append(
                    Diagnostic(
                        "TS507",
                        f"no {metric} can meet both `{limit_text(earlier.line)}` and `{limit_text(later.line)}`",
                        later.line.limit_span,
                        labels=(Label(earlier.line.limit_span, "the other limit, on the same cells"),),
                        hint="keep one of the two, or let `on`, `at` and `in` give them different cells",
                    )
                )
                break
    return found, blamed


def _hidden(groups: dict[tuple[str, str | None], list[_Judged]], skip: set[Span]) -> list[Diagnostic]:
    found = []
    for group in groups.values():
        sound = [j for j in group if j.line.span not in skip and j.cells]
        for index, inner in enumerate(sound):
            hiders = [o for at, o in enumerate(sound) if at != index and _hides(o, inner, at < index)]
            covering = [o for o in hiders if o.cells & inner.cells]
            if covering and not inner.cells - _union(o.cells for o in covering):
                first = covering[0].line
                found.append(
                    Diagnostic(
                        "TS506",
                        f"`{inner.line.metric} {limit_text(inner.line)}  else {inner.line.decision}` never decides: "
                        f"wherever it fails, `{limit_text(first)}  else {first.decision}` fails too",
                        inner.line.limit_span,
                        labels=tuple(Label(o.line.limit_span, "decides first, and no more weakly") for o in covering),
                        hint="remove it, or give the stricter limit the milder answer",
                    )
                )
    return found


def _hides(outer: _Judged, inner: _Judged, earlier: bool) -> bool:
    """Wherever `inner` fails `outer` fails, with an answer at least as hard; of two alike the earlier one stays."""
    if not outer.bound.at_least_as_strict(inner.bound) or rank(outer.line) < rank(inner.line):
        return False
    if (outer.line.repeats or 0) < (inner.line.repeats or 0):
        return False
    alike = (
        inner.bound.at_least_as_strict(outer.bound)
        and rank(outer.line) == rank(inner.line)
        and (outer.line.repeats or 0) == (inner.line.repeats or 0)
    )
    return earlier or not alike


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)


def _rehearsal(spec: CheckedSpec) -> list[Diagnostic]:
    day = 86400.0
    if spec.rollback is None or spec.rollback.within.value < day:
        return []
    return [
        Diagnostic(
            "TS503",
            f"no rehearsal takes `{spec.rollback.within.text}`: a run ends before that",
            spec.rollback.within.span,
            hint="write the time within which going back must be over, such as 10 min",
        )
    ]
