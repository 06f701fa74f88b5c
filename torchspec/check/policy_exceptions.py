"""Exceptions: optional, waive, except, together and lanes name their reason, their end and what they are about."""

from __future__ import annotations

from collections.abc import Iterator

from torchspec.catalog import Catalog
from torchspec.check.spec import CheckedSpec, LaneDecl, Text, WaiverDecl
from torchspec.core.diagnostics import Diagnostic, Label, Span


def find(spec: CheckedSpec, catalog: Catalog) -> list[Diagnostic]:
    return [
        *_reasons(spec),
        *_ends(spec),
        *(d for waiver in spec.waivers for d in _waiver(waiver, spec, catalog)),
        *_repeated_waivers(spec),
        *_togethers(spec),
        *(d for lane in spec.lanes for d in _lane(lane, spec)),
    ]


def _blank(text: Text | None) -> bool:
    return text is None or not text.text.strip()


def _reasons(spec: CheckedSpec) -> Iterator[Diagnostic]:
    lines: list[tuple[Text | None, str, Span]] = []
    lines += [(o.because, f"`optional {o.backend}` is without a reason", o.span) for o in spec.optionals]
    lines += [(w.because, f"`waive {w.metric}` is without a reason", w.span) for w in spec.waivers]
    lines += [(e.because, "`except` is without a reason", e.span) for w in spec.workloads for e in w.excepts]
    lines += [(t.because, "`together` is without a reason", t.span) for t in spec.togethers]
    for because, message, span in lines:
        if _blank(because):
            yield Diagnostic("TS510", message, span, hint='say why, for whoever reads the memo: because "..."')
    for waiver in spec.waivers:
        if _blank(waiver.by):
            hint = 'name who answers for it: by "..."'
            yield Diagnostic("TS510", f"`waive {waiver.metric}` does not say by whom", waiver.span, hint=hint)


def _ends(spec: CheckedSpec) -> Iterator[Diagnostic]:
    for what, until, span in (
        *((f"`optional {o.backend}`", o.until, o.span) for o in spec.optionals),
        *((f"`waive {w.metric}`", w.until, w.span) for w in spec.waivers),
    ):
        if until is None:
            hint = "an exception ends some day: until 2027-01-31"
            yield Diagnostic("TS511", f"{what} has no end", span, hint=hint)
    opens = spec.upgrade.window_from
    if opens is None:
        return
    ends = [
        *(o.until for o in spec.optionals),
        *(w.until for w in spec.waivers),
        *(e.until for w in spec.workloads for e in w.excepts),
    ]
    for until in ends:
        if until is not None and until.text < opens.text:
            yield Diagnostic(
                "TS512",
                f"this ended on {until}, before the window opens on {opens}",
                until.span,
                labels=(Label(opens.span, "the window opens here"),),
                hint="write a later date, or remove the line: it would be void from the first day",
            )


def _waiver(waiver: WaiverDecl, spec: CheckedSpec, catalog: Catalog) -> Iterator[Diagnostic]:
    cells = {
        i
        for i, c in enumerate(spec.cells)
        if c.workload == waiver.workload.text and (waiver.backend is None or c.backend == waiver.backend.text)
    }
    gates = [g for g in spec.gates if g.line.metric.text == waiver.metric.text and cells & set(g.cells)]
    answers = {g.line.decision.text: g.line for g in gates if g.line.decision is not None}
    metric = catalog.metrics[waiver.metric.text]
    where = f"{waiver.workload}" + (f" on {waiver.backend}" if waiver.backend is not None else "")
    if metric.correctness or metric.usual == "rollback":
        hint = "fix it, or take the combination out with `except`, where everybody sees that it is not covered"
        yield Diagnostic("TS514", f"{waiver.metric} is correctness and cannot be waived", waiver.metric.span, hint=hint)
    elif not answers:
        hint = "remove the line, or name the metric, workload and backend of a gate"
        message = f"this waiver changes nothing: no gate judges {waiver.metric} of {where}"
        yield Diagnostic("TS513", message, waiver.metric.span, hint=hint)
    elif "defer" in answers:
        return
    elif "rollback" in answers:
        line = answers["rollback"]
        hint = "only a failure that means defer can be waived"
        labels = (Label(line.limit_span, "means rollback"),)
        message = f"a failure of {waiver.metric} of {where} means rollback and cannot be waived"
        yield Diagnostic("TS514", message, waiver.metric.span, labels, hint)
    else:
        line = answers.get("isolate") or next(iter(answers.values()))
        labels = (Label(line.limit_span, "its failure isolates already"),)
        message = f"this waiver changes nothing: a waived {waiver.metric} isolates, and so does the gate of {where}"
        yield Diagnostic("TS513", message, waiver.metric.span, labels, "remove the line")


def _repeated_waivers(spec: CheckedSpec) -> Iterator[Diagnostic]:
    seen: dict[tuple[str, str, str], WaiverDecl] = {}
    for waiver in spec.waivers:
        backend = waiver.backend.text if waiver.backend is not None else ""
        place = (waiver.metric.text, waiver.workload.text, backend)
        first = seen.get(place) or seen.get((*place[:2], ""))
        if first is not None:
            labels = (Label(first.span, "waived here already"),)
            message = f"{waiver.metric} of {waiver.workload} is waived twice"
            yield Diagnostic("TS513", message, waiver.metric.span, labels, "keep one of the two lines")
        seen[place] = waiver


def _togethers(spec: CheckedSpec) -> Iterator[Diagnostic]:
    lanes = {w.name.text: w.lane for w in spec.workloads if w.lane is not None}
    for line in spec.togethers:
        for name in line.workloads:
            if name.text in lanes:
                hint = "a lane has its own row and at best isolate; only workloads outside of lanes share an image"
                yield Diagnostic("TS522", f"`together` names `{name}`, which is in a lane", name.span, hint=hint)
        if len({name.text for name in line.workloads}) < 2:
            hint = "name the workloads that share one image: together a, b"
            yield Diagnostic("TS522", "`together` needs two workloads", line.span, hint=hint)


def _lane(lane: LaneDecl, spec: CheckedSpec) -> Iterator[Diagnostic]:
    missing = []
    if _blank(lane.owner):
        missing.append(("an owner", 'owner "..."'))
    if not lane.hardware:
        missing.append(("its hardware", 'hardware "..."'))
    if not lane.disable_env:
        missing.append(("an off switch", 'disable env NAME "value"'))
    for what, write in missing:
        yield Diagnostic(
            "TS519", f"lane `{lane.name}` does not name {what}", lane.name.span, hint=f"add a line: {write}"
        )
    for workload in spec.workloads:
        if workload.lane is not None and workload.lane.name.text == lane.name.text and workload.beside is None:
            hint = "name the standard path that it is measured against: kind ...  beside ..."
            message = f"`{workload.name}` of lane `{lane.name}` has nothing to compare with"
            yield Diagnostic("TS519", message, workload.name.span, hint=hint)
