"""Differences of the frame: versions, frozen work, waivers, together, rollback, claims, the question, the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchspec.model.plan import Budget, Claim, Plan, Side, Waiver
from torchspec.model.registration import Deviation
from torchspec.specdiff_change import Change, Severity, by_name, changed_keys, listed, time_text


def frame_changes(old: Plan, new: Plan) -> list[Change]:
    return [
        *_sides(old, new),
        *_frozen(old, new),
        *_waivers(old, new),
        *_together(old, new),
        *_rollback(old, new),
        *_claims(old, new),
        *_question(old, new),
        *_budget(old, new),
    ]


def _side_text(side: Side) -> str:
    parts = [f"torch {side.torch}" if side.torch else "", f"python {side.python}" if side.python else ""]
    parts.append(f"path {side.path}" if side.path else "")
    return " ".join(p for p in parts if p)


def _sides(old: Plan, new: Plan) -> Iterator[Change]:
    before = {s.id: s for s in (old.baseline, *old.candidates)}
    after = {s.id: s for s in (new.baseline, *new.candidates)}
    for name in changed_keys(before, after):
        one, other = before.get(name), after.get(name)
        a, b = (_side_text(s) if s is not None else None for s in (one, other))
        if a != b:
            said = f"{b}, before {a}" if a and b else f"{b}, new" if b else f"gone, was {a}"
            yield Change("version", "neutral", name, a, b, f"{name}: {said}")
        if one is not None and other is not None and set(one.may_differ) != set(other.may_differ):
            more = set(other.may_differ) - set(one.may_differ)
            severity: Severity = "weaker" if more else "stronger"
            x, y = listed(one.may_differ), listed(other.may_differ)
            text = f"what may differ beside torch in {name}: {y}, before {x}"
            yield Change("version", severity, f"{name}: may_differ", x, y, text)


def _frozen(old: Plan, new: Plan) -> Iterator[Change]:
    one, other = old.frozen, new.frozen
    before = {p.partition("==")[0]: p for p in one.packages}
    after = {p.partition("==")[0]: p for p in other.packages}
    for name in changed_keys(before, after):
        a, b = before.get(name), after.get(name)
        severity: Severity = "weaker" if b is None else "stronger" if a is None else "neutral"
        said = f"{b}, before {a}" if a and b else f"{b}, new" if b else f"not frozen any more, was {a}"
        yield Change("frozen", severity, f"package {name}", a, b, f"frozen package {name}: {said}")
    for what, x, y in (("env", one.env, other.env), ("setting", one.settings, other.settings)):
        for key in changed_keys(x, y):
            text = f"frozen {what} {key}: {y.get(key, 'not set')}, before {x.get(key, 'not set')}"
            yield Change("frozen", "neutral", f"{what} {key}", x.get(key), y.get(key), text)
    for what, c, d in (
        ("python", one.python, other.python),
        ("seed", str(one.seed), str(other.seed)),
        ("power", one.power, other.power),
    ):
        if c != d:
            yield Change("frozen", "neutral", what, c, d, f"frozen {what}: {d or 'not said'}, before {c or 'not said'}")
    set_before, set_after = by_name(old.params), by_name(new.params)
    for name in changed_keys(set_before, set_after):
        e, f = (str(p[name].value) if name in p else None for p in (set_before, set_after))
        yield Change(
            "frozen", "neutral", f"param {name}", e, f, f"parameter {name}: {f or 'gone'}, before {e or 'none'}"
        )


def _waivers(old: Plan, new: Plan) -> Iterator[Change]:
    def named(plan: Plan) -> dict[str, Waiver]:
        return {f"{w.metric} of {w.workload} on {w.backend}": w for w in plan.waivers}

    before, after = named(old), named(new)
    for name in changed_keys(before, after):
        one, other = before.get(name), after.get(name)
        if one is None and other is not None:
            text = f"waived: {name} until {other.until}, by {other.by}: {other.because}"
            yield Change("waiver", "weaker", name, None, other.until, text)
        elif other is None and one is not None:
            yield Change("waiver", "stronger", name, one.until, None, f"not waived any more: {name}")
        elif one is not None and other is not None and one.until != other.until:
            severity: Severity = "weaker" if other.until > one.until else "stronger"
            text = f"waiver of {name} until {other.until}, before {one.until}"
            yield Change("waiver", severity, name, one.until, other.until, text)


def _together(old: Plan, new: Plan) -> Iterator[Change]:
    before = {listed(sorted(t.workloads)) for t in old.together}
    after = {listed(sorted(t.workloads)) for t in new.together}
    for names in sorted(before - after):
        yield Change("together", "weaker", names, names, None, f"not bound together any more: {names}")
    for names in sorted(after - before):
        yield Change("together", "stronger", names, None, names, f"bound together: {names}")


def _rollback(old: Plan, new: Plan) -> Iterator[Change]:
    one, other = old.rollback, new.rollback
    if one is None or other is None:
        if one is not None:
            yield Change("rollback", "weaker", "rollback", "rehearsed", None, "going back is not rehearsed any more")
        elif other is not None:
            yield Change("rollback", "stronger", "rollback", None, "rehearsed", "going back is rehearsed")
        return
    if one.within_s != other.within_s:
        severity: Severity = "weaker" if other.within_s > one.within_s else "stronger"
        a, b = time_text(one.within_s), time_text(other.within_s)
        yield Change("rollback", severity, "rollback: within", a, b, f"going back may take {b}, before {a}")
    lost = [r for r in one.reload if r not in other.reload]
    gained = [r for r in other.reload if r not in one.reload]
    x, y = listed(one.reload), listed(other.reload)
    if lost:
        text = f"the baseline need not read the candidate's {listed(lost)} any more"
        yield Change("rollback", "weaker", "rollback: reload", x, y, text)
    if gained:
        text = f"the baseline must read the candidate's {listed(gained)}"
        yield Change("rollback", "stronger", "rollback: reload", x, y, text)
    if one.manual != other.manual:
        x, y = listed(one.manual), listed(other.manual)
        yield Change("rollback", "neutral", "rollback: manual", x, y, f"manual steps of going back: {y}, before {x}")


def _states(claim: Claim) -> str:
    return listed(f"{s.metric} {s.text}" for s in claim.states)


def _claims(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = by_name(old.claims), by_name(new.claims)
    for name in changed_keys(before, after):
        if name not in after:
            yield Change("claim", "neutral", name, _states(before[name]), None, f"claim dropped: {name}")
        elif name not in before:
            yield Change("claim", "neutral", name, None, _states(after[name]), f"claim added: {name}")
        else:
            one, other = before[name], after[name]
            for what, a, b in (
                ("figure", _states(one), _states(other)),
                ("basis", str(one.basis), str(other.basis)),
                ("source", one.source, other.source),
                (
                    "check",
                    f"{one.check_workload} on {listed(one.check_backends)}",
                    f"{other.check_workload} on {listed(other.check_backends)}",
                ),
            ):
                if a != b:
                    yield Change(
                        "claim", "neutral", f"{name}: {what}", a, b, f"{what} of claim {name}: {b}, before {a}"
                    )


def _question(old: Plan, new: Plan) -> Iterator[Change]:
    one, other = old.upgrade, new.upgrade
    for what, a, b in (
        ("title", one.title, other.title),
        ("owner", one.owner, other.owner),
        ("question", one.asks, other.asks),
        ("window", f"{one.window_from} to {one.window_to}", f"{other.window_from} to {other.window_to}"),
    ):
        if a != b:
            yield Change("question", "neutral", what, a, b, f"{what}: {b}, before {a}")
    for caveat in (c for c in one.caveats if c not in other.caveats):
        yield Change("question", "weaker", "caveat", caveat, None, f"caveat dropped: {caveat}")
    for caveat in (c for c in other.caveats if c not in one.caveats):
        yield Change("question", "neutral", "caveat", None, caveat, f"caveat added: {caveat}")


def deviation_changes(old: Sequence[Deviation], new: Sequence[Deviation]) -> Iterator[Change]:
    """The block of deviations only grows: a line that was taken out or edited is told as a weakening."""
    kept = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    for gone in old[kept:]:
        said = f"deviation of {gone.date} by {gone.by}"
        if gone not in new:
            text = f"{said} taken out or edited, though the block only grows: {gone.text}"
            yield Change("deviation", "weaker", said, gone.text, None, text)
    for added in (d for d in new[kept:] if d not in old):
        said = f"deviation of {added.date} by {added.by}"
        yield Change("deviation", "neutral", said, None, added.text, f"{said}: {added.text}, because {added.because}")
    if set(old) <= set(new) and tuple(new[: len(old)]) != tuple(old):
        text = "the deviations stand in another order, though the block only grows"
        yield Change("deviation", "weaker", "deviations", None, None, text)


def _budget(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = _budget_texts(old.budget), _budget_texts(new.budget)
    for word in changed_keys(before, after):
        a, b = before[word], after[word]
        yield Change("budget", "neutral", word, a, b, f"measuring, {word}: {b}, before {a}")


def _budget_texts(budget: Budget) -> dict[str, str]:
    """What `measure {}` says, by its words."""
    return {
        "cell": time_text(budget.cell_s),
        "run": time_text(budget.run_s),
        "pairs": f"{budget.min_pairs} to {budget.max_pairs}",
        "builds": str(budget.builds),
        "rounds": str(budget.rounds),
        "block": time_text(budget.block_ms / 1e3),
        "timeout": time_text(budget.timeout_s),
        "malloc": "tuned" if budget.tuned_malloc else "default",
    }
