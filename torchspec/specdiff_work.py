"""Differences of the work: workloads dropped, axes shrunk, backends made optional, combinations left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torchspec.decide_words import excluded
from torchspec.model.plan import Backend, Plan, Workload
from torchspec.specdiff_change import Change, Severity, by_name, changed_keys, listed


def work_changes(old: Plan, new: Plan) -> list[Change]:
    return [*_workloads(old, new), *_backends(old, new), *_exclusions(old, new), *_lanes(old, new), *_code(old, new)]


def _points(plan: Plan, workload: str) -> dict[str, list[Any]]:
    """Axis (with `mode` and `backend`) -> the values that the workload has, in order."""
    points: dict[str, dict[Any, None]] = {"backend": {}, "mode": {}}
    for cell in plan.cells:
        if cell.workload == workload:
            for axis, value in {"backend": cell.backend, "mode": cell.mode, **cell.axes}.items():
                points.setdefault(axis, {})[value] = None
    return {axis: list(values) for axis, values in points.items()}


def _workloads(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = by_name(old.workloads), by_name(new.workloads)
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            yield Change("workload", "weaker", name, name, None, f"workload dropped: {name}")
        elif name not in before:
            yield Change("workload", "stronger", name, None, name, f"workload added: {name}")
        else:
            yield from _axes(old, new, name)
            yield from _words(before[name], after[name])


def _axes(old: Plan, new: Plan, name: str) -> Iterator[Change]:
    before, after = _points(old, name), _points(new, name)
    for axis in changed_keys(before, after):
        a, b = before.get(axis, []), after.get(axis, [])
        lost, gained = [v for v in a if v not in b], [v for v in b if v not in a]
        if not lost and not gained:
            continue
        said = f"{listed(a)} to {listed(b)}"
        if _numbers(a) and _numbers(b):
            if max(b) < max(a):
                text = f"{name} shrunk: largest {axis} {max(b)}, before {max(a)}"
                yield Change("axis", "weaker", f"{name}: {axis}", listed(a), listed(b), text)
            elif max(b) > max(a):
                text = f"{name} grown: largest {axis} {max(b)}, before {max(a)}"
                yield Change("axis", "stronger", f"{name}: {axis}", listed(a), listed(b), text)
            else:
                severity: Severity = "weaker" if lost else "stronger"
                yield Change("axis", severity, f"{name}: {axis}", listed(a), listed(b), f"{name}: {axis} {said}")
            continue
        if lost:
            text = f"{name} no longer covers {axis} {listed(lost)}"
            yield Change("axis", "weaker", f"{name}: {axis}", listed(a), listed(b), text)
        if gained:
            text = f"{name} now covers {axis} {listed(gained)}"
            yield Change("axis", "stronger", f"{name}: {axis}", listed(a), listed(b), text)


def _numbers(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(v, int | float) for v in values)


def _words(one: Workload, other: Workload) -> Iterator[Change]:
    name = other.name
    for what, a, b in (
        ("kind", one.kind, other.kind),
        ("entry", _entry(one), _entry(other)),
        ("owner", one.owner, other.owner),
    ):
        if a != b:
            yield Change("workload", "neutral", f"{name}: {what}", a, b, f"{what} of {name}: {b}, before {a}")
    if one.beside != other.beside:
        severity: Severity = "weaker" if other.beside is None else "neutral"
        text = f"{name} is compared with {other.beside or 'no old path'}, before {one.beside or 'none'}"
        yield Change("workload", severity, f"{name}: beside", one.beside, other.beside, text)
    if one.lane != other.lane:
        severity = "weaker" if other.lane is not None else "stronger"
        text = f"{name} is in lane {other.lane} now" if other.lane is not None else f"{name} has left lane {one.lane}"
        yield Change("lane", severity, f"{name}: lane", one.lane, other.lane, text)
    if one.gate_sets != other.gate_sets:
        a, b = listed(one.gate_sets), listed(other.gate_sets)
        lost = set(one.gate_sets) - set(other.gate_sets)
        severity = "weaker" if lost else "stronger"
        yield Change("gate", severity, f"{name}: gates", a, b, f"{name} is judged by {b}, before by {a}")
    for key in changed_keys(one.options, other.options):
        a_text, b_text = (str(o[key]) if key in o else None for o in (one.options, other.options))
        text = f"{key} of {name}: {b_text or 'none'}, before {a_text or 'none'}"
        severity = _tolerance(one.options, other.options) if key == "resume_tolerance" else "neutral"
        yield Change("workload", severity, f"{name}: {key}", a_text, b_text, text)


def _tolerance(one: Mapping[str, Any], other: Mapping[str, Any]) -> Severity:
    """Losses within a tolerance pass, and without one they are not weighed."""
    before, after = (float(options.get("resume_tolerance", "inf")) for options in (one, other))
    return "weaker" if after > before else "stronger"


def _entry(workload: Workload) -> str | None:
    return f"{workload.entry.path}:{workload.entry.function}" if workload.entry is not None else None


def _backends(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = by_name(old.backends), by_name(new.backends)
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            yield Change("backend", "weaker", name, before[name].requirement, None, f"backend dropped: {name}")
        elif name not in before:
            yield Change("backend", "stronger", name, None, after[name].requirement, f"backend added: {name}")
        else:
            yield from _backend(before[name], after[name])


def _backend(one: Backend, other: Backend) -> Iterator[Change]:
    name = other.name
    if one.requirement != other.requirement:
        severity: Severity = "weaker" if other.requirement == "optional" else "stronger"
        why = f" ({other.because})" if other.because else ""
        text = f"backend {name} is {other.requirement} now, before {one.requirement}{why}"
        yield Change("backend", severity, name, one.requirement, other.requirement, text)
    elif one.until != other.until:
        text = f"backend {name} is optional until {other.until}, before {one.until}"
        severity = "weaker" if (other.until or "") > (one.until or "") else "stronger"
        yield Change("backend", severity, name, one.until, other.until, text)
    for what, a, b in (
        ("threads", one.threads, other.threads),
        ("hardware", listed(one.hardware), listed(other.hardware)),
        ("wheels", one.wheels, other.wheels),
        ("over", one.over, other.over),
        ("launcher", one.launcher, other.launcher),
    ):
        if a != b:
            a_text, b_text = (str(v) if v is not None else "the default" for v in (a, b))
            text = f"{what} of {name}: {b_text}, before {a_text}"
            yield Change("backend", "neutral", f"{name}: {what}", a_text, b_text, text)


def _exclusions(old: Plan, new: Plan) -> Iterator[Change]:
    before = {f"{e.workload} {excluded(e)}": e for e in old.exclusions}
    after = {f"{e.workload} {excluded(e)}": e for e in new.exclusions}
    for name in changed_keys(before, after):
        if name not in before:
            text = f"not covered any more: {name}, because {after[name].because}"
            yield Change("coverage", "weaker", name, None, after[name].text, text)
        elif name not in after:
            yield Change("coverage", "stronger", name, before[name].text, None, f"covered again: {name}")
        elif before[name].until != after[name].until:
            a, b = before[name].until, after[name].until
            text = f"{name} is not covered until {b or 'further notice'}, before until {a or 'further notice'}"
            severity: Severity = "stronger" if b is not None and (a is None or b < a) else "weaker"
            yield Change("coverage", severity, name, a, b, text)


def _lanes(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = by_name(old.lanes), by_name(new.lanes)
    for name in changed_keys(before, after):
        if name not in after:
            yield Change("lane", "neutral", name, name, None, f"lane dropped: {name}")
        elif name not in before:
            yield Change("lane", "neutral", name, None, name, f"lane added: {name}")
        else:
            one, other = before[name], after[name]
            for what, a, b in (
                ("owner", one.owner, other.owner),
                ("hardware", listed(one.hardware), listed(other.hardware)),
                ("off switch", _switch(one.disable_env), _switch(other.disable_env)),
            ):
                if a != b:
                    yield Change("lane", "neutral", f"{name}: {what}", a, b, f"{what} of lane {name}: {b}, before {a}")


def _switch(env: dict[str, str]) -> str:
    return listed(f"{key}={value}" for key, value in env.items())


def _code(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = by_name(old.files, "path"), by_name(new.files, "path")
    for path in changed_keys(before, after):
        a, b = (files[path].sha256[:12] if path in files else None for files in (before, after))
        said = "is new" if a is None else "is gone" if b is None else "changed"
        yield Change("code", "neutral", path, a, b, f"the team's file {path} {said}")
