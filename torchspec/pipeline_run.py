"""The order of the stages from a compiled spec to a judgement: provision, execute, judge, decide.

`pipeline_seal` goes on from there, and `pipeline_canary` takes in what a team's own service measured.

Returns values and diagnostics, and says what is going on through `on_event`; printing and exit codes are `cli`'s.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torchspec import __version__, calibration
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.core.files import pretty, strict_json, write_whole
from torchspec.model.codec import to_json
from torchspec.model.plan import Plan, Side
from torchspec.model.registration import Registration
from torchspec.model.verdict import Verdict
from torchspec.pipeline import HISTORY, LATEST, POINTER, Compiled
from torchspec.pipeline_back import rebuilt_baseline
from torchspec.pipeline_environments import of as environment_of
from torchspec.pipeline_environments import provision_plan

if TYPE_CHECKING:
    from torchspec.provision import Environment

OnEvent = Callable[[dict[str, Any]], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Judged:
    """What the evidence says so far, and whether it may be called confirmatory."""

    verdict: Verdict
    registration: Registration


def find(target: str | None, out: Path) -> Result[Compiled]:
    """The compiled spec that `target` names: a name, a folder, a .tspec file, or None for the last one compiled."""
    from torchspec.provenance import lock as locking

    folder = _folder(target, out)
    if folder is None:
        known = sorted(p.parent.name for p in out.glob("*/plan.json") if not p.parent.is_symlink())
        hint = f"compiled here: {', '.join(known)}" if known else "compile a spec first: `torchspec compile SPEC`"
        what = f"nothing compiled is called {target!r}" if target else f"nothing is compiled in {out}"
        return Result(None, (Diagnostic("TS801", what, hint=hint),))
    try:
        pointer = strict_json((folder / POINTER).read_bytes())
        spec = folder / pointer["spec"]
    except (OSError, ValueError, KeyError, TypeError):
        what = f"nothing is compiled in {folder}: there is no {POINTER}"
        return Result(None, (Diagnostic("TS801", what, hint="compile first: `torchspec compile SPEC`"),))
    checked = locking.check_lock(folder, spec_folder=spec.parent)
    if checked.value is None:
        return Result(None, checked.diagnostics)
    held = checked.value
    return Result(Compiled(folder, spec, held.plan, held.plan_digest, held.lock, held.lock_digest), checked.diagnostics)


def _folder(target: str | None, out: Path) -> Path | None:
    if target is None:
        link = out / LATEST
        return link.resolve() if link.is_dir() else None
    path = Path(target)
    if path.suffix == ".tspec":
        path = out / path.stem
    for folder in (path, out / target):
        if folder.is_dir():
            return folder
    return None


def select(plan: Plan, only: Sequence[str]) -> Result[tuple[str, ...]]:
    """Cell ids from `--only` words: a workload's name, a backend's name, or a cell's id or label."""
    import difflib

    chosen: list[str] = []
    for word in only:
        cells = [c.id for c in plan.cells if word in (c.id, c.workload, c.backend, c.label)]
        if not cells:
            known = sorted({c.workload for c in plan.cells} | {c.backend for c in plan.cells})
            near = difflib.get_close_matches(word, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            return Result(
                None, (Diagnostic("TS691", f"--only {word}: no workload, backend or cell of that name", hint=hint),)
            )
        chosen += cells
    return Result(tuple(dict.fromkeys(chosen)))


def provision(compiled: Compiled, on_event: OnEvent) -> Result[dict[str, Environment]]:
    """`provision_plan` for a compiled spec."""
    return provision_plan(compiled.plan, compiled.spec.parent, on_event)


def measure(
    compiled: Compiled,
    environments: Mapping[str, Environment],
    on_event: OnEvent,
    *,
    only: tuple[str, ...] = (),
    stage: str | None = None,
) -> Result[str]:
    """Drive every backend's harness for every candidate; the value is how it ended: "completed" or "interrupted"."""
    plan = compiled.plan
    context = {**context_of(compiled), "data": str(compiled.spec.parent.resolve())}
    compiled.evidence.mkdir(parents=True, exist_ok=True)
    write_whole(
        compiled.evidence / "environments.json", pretty({side: e.lock for side, e in sorted(environments.items())})
    )
    before, said = _calibrations(plan)
    refused: list[Diagnostic] = []

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "calibration":
            refused.extend(calibration.refused(event))
        on_event(event)

    with rebuilt_baseline(compiled, environments, on_event) as rebuilt:
        told = {**context, "calibration": before, **({"rebuilt": rebuilt} if rebuilt is not None else {})}
        driven = _driven(compiled, environments, hear, told, only, stage)
    return Result(driven.value, (*said, *dict.fromkeys(refused), *driven.diagnostics))


def context_of(compiled: Compiled) -> dict[str, Any]:
    """What every run of a compiled spec says of where it comes from."""
    from torchspec.provenance import git

    plan = compiled.plan
    files = [*(Path(f.path) for f in plan.spec[1:]), *(Path(f.path) for f in plan.files)]
    return {
        "git": to_json(git.describe(compiled.spec, files)),
        "lock": compiled.lock_digest,
        "plan": compiled.plan_digest,
        "tool": __version__,
    }


def driven(plan: Plan, backend: str) -> tuple[str, ...]:
    """The cells of a backend that its harness measures: all but those whose figures a service gives."""
    served = plan.served
    return tuple(c.id for c in plan.cells if c.backend == backend and c.id not in served)


def _calibrations(plan: Plan) -> tuple[dict[str, Any], list[Diagnostic]]:
    """What the user's cache knows of the noise of this plan's cells, and what is said of what is too old."""
    from torchspec.provision import cache_folder

    found, said = calibration.usable(cache_folder(), [cell.id for cell in plan.cells], datetime.now(UTC))
    return {cell: [held.told() for held in every] for cell, every in found.items()}, said


def _driven(
    compiled: Compiled,
    environments: Mapping[str, Environment],
    on_event: OnEvent,
    context: Mapping[str, Any],
    only: tuple[str, ...],
    stage: str | None,
) -> Result[str]:
    """One harness after the other, for each candidate."""
    from torchspec import execute

    plan = compiled.plan
    said: list[Diagnostic] = []
    for side in plan.candidates:
        for backend in plan.backends:
            mine = driven(plan, backend.name)
            wanted = tuple(c for c in mine if c in only)
            if not mine or (only and not wanted):
                continue
            baseline = environment_of(environments, plan.baseline.id, backend.name)
            candidate = environment_of(environments, side.id, backend.name)
            if baseline is None or candidate is None:  # said when they were provisioned
                continue
            same = baseline is environments[plan.baseline.id]  # as the one that was rebuilt
            told = context if same else {key: value for key, value in context.items() if key != "rebuilt"}
            on_event({"event": "backend", "backend": backend.name, "candidate": side.id})
            result = execute.run_backend(
                compiled.harness(backend.name),
                backend=backend.name,
                baseline=baseline.python,
                candidate=candidate.python,
                candidate_id=side.id,
                evidence=compiled.evidence,
                run=new_run_id(),
                context=told,
                on_event=on_event,
                only=wanted,
                stage=stage,
            )
            said += result.diagnostics
            if result.value is None:
                return Result(None, tuple(said))
            if result.value.status == "interrupted":
                return Result("interrupted", tuple(said))
    return Result("completed", tuple(said))


def new_run_id() -> str:
    """`r-20261130-142233-1a2b3c`: when it began (UTC), and enough chance to be unique."""
    return f"r-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def judge(compiled: Compiled) -> Result[Judged]:
    """Judge and decide from the ledger alone; the same ledger and plan give the same verdict, bit for bit."""
    from torchspec.provenance import registration

    verdict = verdict_of(compiled.plan, compiled.ledger, compiled.plan_digest)
    if verdict.value is None:
        return Result(None, verdict.diagnostics)
    from torchspec import ledger

    repo = compiled.spec.parent if compiled.lock.git.commit else None
    registered = registration.assess(
        compiled.lock,
        compiled.plan,
        registration.runs_of(ledger.read(compiled.ledger)),
        repo=repo,
        history=compiled.folder / HISTORY,
    )
    try:
        write_whole(compiled.folder / "verdict.json", pretty(to_json(verdict.value)))
    except OSError as error:
        reason = f"the verdict cannot be written: {error.strerror or error}"
        return Result(None, (Diagnostic("TS690", reason, hint="free some space, then `torchspec judge`"),))
    return Result(Judged(verdict.value, registered), verdict.diagnostics)


def verdict_of(plan: Plan, path: Path, plan_digest: str) -> Result[Verdict]:
    """From a plan and a ledger to the verdict: what `judge`, `run` and `verify --rerender` share."""
    from torchspec import decide, ledger
    from torchspec import judge as judging

    try:
        report = ledger.verify(path)
        if report.problems:
            said = f"the ledger does not hold: {report.problems[0].message}"
            return Result(None, (Diagnostic("TS700", said, hint="`torchspec ledger verify` says where"),))
        judged = judging.judge(plan, ledger.read(path), plan_digest=plan_digest)
    except ledger.LedgerError as error:
        return Result(None, (error.diagnostic,))
    return Result(decide.decide(plan, judged, plan_digest))


def ledger_of(target: str | None, out: Path) -> Result[Path]:
    """The ledger of a compiled spec, of a memo folder, or a ledger file itself."""
    given = Path(target) if target else None
    if given is not None and given.is_file() and given.suffix == ".jsonl":
        return Result(given)
    folder = _folder(target, out)
    for place in (folder / "evidence" / "ledger.jsonl", folder / "ledger.jsonl") if folder else ():
        if place.is_file():
            return Result(place)
    what = f"there is no evidence in {folder}" if folder else f"nothing compiled is called {target!r}"
    return Result(None, (Diagnostic("TS801", what, hint="measure first: `torchspec run`"),))


def side_of(plan: Plan, name: str) -> Side:
    """The side of that id."""
    return next(s for s in (plan.baseline, *plan.candidates) if s.id == name)
