"""The engineer's commands: run, judge, memo, env, ledger, ingest."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from torchspec.cli.common import exit_for, parameters, read_sources, show
from torchspec.cli.exits import Exit, for_decision
from torchspec.cli.output import say, wants_color
from torchspec.cli.progress import Progress
from torchspec.core.diagnostics import Diagnostic
from torchspec.decide_words import counted
from torchspec.model.evidence import KINDS
from torchspec.pipeline import Compiled
from torchspec.pipeline_run import Judged
from torchspec.pipeline_seal import Sealed


def _tell(diagnostics: tuple[Diagnostic, ...], arguments: Namespace, compiled: Compiled | None = None) -> None:
    folder = compiled.spec.parent if compiled else Path()
    show(diagnostics, read_sources(diagnostics, folder), arguments)


def _find(arguments: Namespace) -> Compiled | int:
    from torchspec import pipeline_run

    found = pipeline_run.find(arguments.target, Path(arguments.out))
    _tell(found.diagnostics, arguments)
    return found.value if found.value is not None else (exit_for(found.diagnostics) or Exit.MACHINE)


def run(arguments: Namespace) -> int:
    """Provision, measure, judge, decide, and seal the memo."""
    from torchspec import pipeline_canary, pipeline_run

    compiled = _find(arguments)
    if isinstance(compiled, int):
        return compiled
    plan = compiled.plan
    chosen = pipeline_run.select(plan, arguments.only)
    if chosen.value is None:
        _tell(chosen.diagnostics, arguments)
        return Exit.SPEC
    if arguments.stage and arguments.stage not in {s.name for s in plan.upgrade.stages}:
        names = ", ".join(s.name for s in plan.upgrade.stages) or "none"
        say(f"torchspec: the window has no stage {arguments.stage!r}; it has: {names}", sys.stderr)
        return Exit.SPEC
    say(f"{plan.upgrade.title}: {counted(len(plan.cells), 'cell')}, {counted(len(plan.candidates), 'candidate')}")
    taken = pipeline_canary.take(compiled, chosen.value, arguments.stage)
    _tell(taken.diagnostics, arguments, compiled)
    if taken.value is None:
        return exit_for(taken.diagnostics) or Exit.MACHINE
    for line in taken.value:
        say(line)
    if pipeline_canary.nothing_else(plan, chosen.value):
        return _judge_and_seal(compiled, arguments)
    with Progress(sys.stdout, wants_color(sys.stdout, arguments.color)) as progress:
        made = pipeline_run.provision(compiled, progress.event)
        progress.clear()
        _tell(made.diagnostics, arguments, compiled)
        if made.value is None:
            return exit_for(made.diagnostics) or Exit.MACHINE
        for side, environment in made.value.items():
            if "@" in side and environment is made.value[side.partition("@")[0]]:
                continue
            how = "reused" if environment.reused else f"made in {environment.seconds:.0f} s"
            progress.line(f"{side}: torch {environment.lock['torch']}, environment {environment.digest[:12]} ({how})")
        measured = pipeline_run.measure(compiled, made.value, progress.event, only=chosen.value, stage=arguments.stage)
    _tell(measured.diagnostics, arguments, compiled)
    if measured.value == "interrupted":
        say("Interrupted. What was measured is kept; `torchspec run` again resumes.", sys.stderr)
        return Exit.INTERRUPTED
    if measured.value is None:
        return exit_for(measured.diagnostics) or Exit.MACHINE
    return _judge_and_seal(compiled, arguments)


def _judge_and_seal(compiled: Compiled, arguments: Namespace) -> int:
    from torchspec import pipeline_run, pipeline_seal

    judged = pipeline_run.judge(compiled)
    _tell(judged.diagnostics, arguments, compiled)
    if judged.value is None:
        return exit_for(judged.diagnostics) or Exit.MACHINE
    sealed = pipeline_seal.seal(
        compiled,
        judged.value,
        key=arguments.key,
        language=arguments.lang,
        templates=Path(arguments.templates) if arguments.templates else None,
        timestamp=arguments.timestamp,
    )
    _tell(sealed.diagnostics, arguments, compiled)
    say()
    _say_decision(compiled, judged.value, arguments)
    if sealed.value is None:
        say("No memo was written; `torchspec memo` tries again.", sys.stderr)
        return exit_for(sealed.diagnostics) or Exit.MACHINE
    _say_memo(sealed.value)
    return _exit(judged.value)


def _exit(judged: Judged) -> int:
    order = ("adopt", "isolate", "defer", "rollback")
    worst = max((f.decision for f in judged.verdict.fleet), key=order.index)
    return for_decision(worst, judged.registration.status == "confirmatory")


def _say_decision(compiled: Compiled, judged: Judged, arguments: Namespace) -> None:
    from torchspec.cli.findings import findings, wrapped
    from torchspec.cli.tables import matrix

    plan, verdict = compiled.plan, judged.verdict
    color = wants_color(sys.stdout, arguments.color)
    width = max(60, min(shutil.get_terminal_size((80, 24)).columns, 110))
    say(matrix(plan, verdict, color, width))
    several = len(verdict.fleet) > 1
    for fleet in verdict.fleet:
        found = findings(plan, verdict, fleet.candidate, color, width)
        if found:
            say()
            say(f"{fleet.candidate}\n{found}" if several else found)
    say()
    for fleet in verdict.fleet:
        name = f"{fleet.candidate}: " if several else ""
        say(wrapped(f"{name}{fleet.decision.upper()}: {fleet.reason}", width))
    registration = judged.registration
    if registration.status == "exploratory":
        say(wrapped(f"Exploratory, not confirmatory: {'; '.join(registration.reasons)}", width))


def _say_memo(sealed: Sealed) -> None:
    if sealed.new_key:
        say(f"Signed with a new key, {sealed.new_key}: self-signed, so readers do not know it yet.")
    folder = _from_here(sealed.folder)
    say(f"memo: {folder / 'memo.pdf'}")
    say(f"      torchspec verify {folder}")


def _from_here(path: Path) -> Path:
    """`path` as it is typed in this folder, where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def judge(arguments: Namespace) -> int:
    """Judge old evidence again."""
    from torchspec import pipeline_run
    from torchspec.model.codec import to_json

    compiled = _find(arguments)
    if isinstance(compiled, int):
        return compiled
    judged = pipeline_run.judge(compiled)
    _tell(judged.diagnostics, arguments, compiled)
    if judged.value is None:
        return exit_for(judged.diagnostics) or Exit.MACHINE
    if arguments.json:
        value = {"verdict": to_json(judged.value.verdict), "registration": to_json(judged.value.registration)}
        say(json.dumps(value, indent=1, ensure_ascii=False))
    else:
        _say_decision(compiled, judged.value, arguments)
    return _exit(judged.value)


def memo(arguments: Namespace) -> int:
    """Judge, render and seal again, measuring nothing."""
    compiled = _find(arguments)
    return compiled if isinstance(compiled, int) else _judge_and_seal(compiled, arguments)


def env(arguments: Namespace) -> int:
    """Provision both sides and say where they are."""
    from torchspec import pipeline, pipeline_environments

    params = parameters(arguments.set)
    if params is None:
        return Exit.SPEC
    lowered = pipeline.lower_spec(Path(arguments.spec), params)
    show(lowered.diagnostics, lowered.sources, arguments, target=arguments.spec)
    if lowered.plan is None:
        return exit_for(lowered.diagnostics)
    with Progress(sys.stderr, wants_color(sys.stderr, arguments.color)) as progress:
        made = pipeline_environments.provision_plan(lowered.plan, Path(arguments.spec).parent, progress.event)
    show(made.diagnostics, lowered.sources, arguments, target=arguments.spec)
    if made.value is None:
        return exit_for(made.diagnostics) or Exit.MACHINE
    for side, environment in made.value.items():
        if "@" in side and environment is made.value[side.partition("@")[0]]:
            continue
        if arguments.export:
            name = re.sub("[^A-Z0-9_]", "_", side.upper())
            say(f"export TORCHSPEC_TEST_{name}={shlex.quote(str(environment.python))}")
        else:
            say(f"{side}: {environment.python}  torch {environment.lock['torch']}  {environment.digest[:16]}")
    return Exit.ADOPT


def ledger(arguments: Namespace) -> int:
    """Show, verify or export the evidence."""
    from torchspec import ledger as ledgers
    from torchspec import pipeline_run

    if arguments.kind is not None and arguments.kind not in KINDS:
        say(f"torchspec: no record is of the kind {arguments.kind!r}; the kinds: {', '.join(KINDS)}", sys.stderr)
        return Exit.SPEC
    found = pipeline_run.ledger_of(arguments.target, Path(arguments.out))
    _tell(found.diagnostics, arguments)
    if found.value is None:
        return Exit.MACHINE
    path = found.value
    try:
        if arguments.action == "verify":
            return _verify_ledger(path)
        if arguments.action == "export":
            return _export_ledger(path, arguments)
        for record in ledgers.read(path):
            if arguments.kind in (None, record.kind):
                say(_line(record))
    except ledgers.LedgerError as error:
        _tell((error.diagnostic,), arguments)
        return Exit.BROKEN
    return Exit.ADOPT


def _line(record: Any) -> str:
    body = record.body
    words = [str(body[k]) for k in ("candidate", "side", "metric", "status", "what", "step") if body.get(k)]
    if "value" in body:
        words.append(f"{body['value']} {body.get('unit', '')}".strip())
    if "holds" in body:
        words.append("holds" if body["holds"] else f"does not hold: {body.get('error')}")
    cell = f" {body['cell']}" if body.get("cell") else ""
    return f"{record.seq:>6} {record.time[:19]} {record.kind:<16}{cell} {' '.join(words)}".rstrip()


def _verify_ledger(path: Path) -> int:
    from torchspec import ledger as ledgers

    report = ledgers.verify(path)
    for problem in report.problems:
        say(f"{path}: {problem.message}", sys.stderr)
    if report.problems:
        return Exit.BROKEN
    say(f"{path}: {report.count} records, chain intact, head {report.head[:16]}")
    for warning in report.warnings:
        say(f"{path}: {warning.message}; {warning.hint}", sys.stderr)
    return Exit.ADOPT


def _export_ledger(path: Path, arguments: Namespace) -> int:
    from torchspec import ledger as ledgers
    from torchspec.ledger import export

    if not arguments.to:
        say("torchspec: `ledger export` needs --to FILE", sys.stderr)
        return Exit.SPEC
    if arguments.format == "intoto":
        return _export_test_results(path, arguments)
    write = export.export_csv if arguments.format == "csv" else export.export_parquet
    result = write(ledgers.read(path), Path(arguments.to))
    _tell(result.diagnostics, arguments)
    if result.value is None:
        return Exit.MACHINE
    say(f"{arguments.to}: {result.value} records")
    return Exit.ADOPT


def _export_test_results(path: Path, arguments: Namespace) -> int:
    """One in-toto Statement with the test-result predicate a candidate, a JSON line each."""
    from torchspec import pipeline_run
    from torchspec.core.canon import canonical, file_digest
    from torchspec.core.files import write_whole
    from torchspec.ledger.export import in_toto_test_result

    compiled = _find(arguments)
    if isinstance(compiled, int):
        return compiled
    judged = pipeline_run.judge(compiled)
    _tell(judged.diagnostics, arguments, compiled)
    if judged.value is None:
        return exit_for(judged.diagnostics) or Exit.MACHINE
    subjects = [{"name": path.name, "digest": {"sha256": file_digest(path)}}]
    configuration = [{"name": "plan.json", "digest": {"sha256": compiled.plan_digest}}]
    lines = [
        canonical(in_toto_test_result(compiled.plan, judged.value.verdict, side.id, subjects, configuration)) + b"\n"
        for side in compiled.plan.candidates
    ]
    write_whole(Path(arguments.to), b"".join(lines))
    say(f"{arguments.to}: {len(lines)} statement(s)")
    return Exit.ADOPT


def ingest(arguments: Namespace) -> int:
    """Take in evidence from another machine."""
    from torchspec.ledger.ingest import ingest as take

    compiled = _find(arguments)
    if isinstance(compiled, int):
        return compiled
    compiled.evidence.mkdir(parents=True, exist_ok=True)
    harness, served = compiled.lock.harness, compiled.plan.served
    result = take(Path(arguments.folder), compiled.plan_digest, harness, compiled.evidence, served)
    _tell(result.diagnostics, arguments)
    if result.value is None:
        return exit_for(result.diagnostics) or Exit.MACHINE
    say(f"{arguments.folder}: {result.value.added} records taken in, {result.value.already} were here already")
    return Exit.ADOPT
