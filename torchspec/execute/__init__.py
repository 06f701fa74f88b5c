"""Drives an emitted harness: starts it, passes its progress on, limits its time, and leaves no process of it behind.

Must not measure, judge or print. The harness writes the evidence; this room writes to the ledger only where the harness
could not (it was killed before its last record).
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torchspec import ledger
from torchspec.core.diagnostics import Diagnostic, Result, Severity
from torchspec.execute.folder import Busy, Log, only_run
from torchspec.ledger.errors import reason as os_reason
from torchspec.supervise import Ending
from torchspec.supervise import run as run_program

__all__ = ["RunResult", "Status", "run_backend"]

OnEvent = Callable[[dict[str, Any]], None]
Status = Literal["completed", "interrupted", "timed_out", "failed", "killed"]

#: A run that takes longer has hung, whatever its own budget says.
LIMIT_S = 12 * 3600.0
#: How long a harness may take to end its workers and write its last record.
GRACE_S = 60.0
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


@dataclass(frozen=True, slots=True)
class RunResult:
    """How one run of one backend's harness ended. The evidence is in the ledger, whatever the status.

    `exit` is the harness's exit status, None where a signal ended it (`signal` is its name). `reason`: why it is not
    "completed", in the harness's own words where it said some.
    """

    run: str
    backend: str
    status: Status
    exit: int | None
    signal: str | None
    wall_s: float
    log: Path
    reason: str | None = None


@dataclass(slots=True)
class _Heard:
    """What the harness said while it ran."""

    on_event: OnEvent
    log: Log
    cells: int = 0
    done: int = 0
    end: dict[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def line(self, stream: str, data: bytes) -> None:
        event = parse_event(data) if stream == "out" else None
        if event is None:
            self.log.line(data)
            if stream == "err" and data.strip():
                self.errors.append(data.decode("utf-8", "replace").strip()[:500])
                del self.errors[:-20]
            return
        kind = event["event"]
        if kind == "plan":
            self.cells = int(event["cells"]) if isinstance(event.get("cells"), int) else 0
        elif kind == "done":
            self.done += 1
        elif kind == "end":
            self.end = event
        self.on_event(event)


def parse_event(line: bytes) -> dict[str, Any] | None:
    """A progress event, or None where the line is something else (a print of torch's or of the team's code)."""
    if not line.startswith(b"{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def run_backend(
    harness: Path,
    *,
    backend: str,
    baseline: Path,
    candidate: Path,
    candidate_id: str,
    evidence: Path,
    run: str,
    context: Mapping[str, Any],
    on_event: OnEvent,
    only: Sequence[str] = (),
    stage: str | None = None,
    limit_s: float = LIMIT_S,
    grace_s: float = GRACE_S,
) -> Result[RunResult]:
    """Run `harness`'s `pair` for one candidate, with evidence in the folder `evidence`.

    A run that was interrupted goes on when it is called again: the harness skips what its ledger holds. Ctrl-C is
    passed on once, and the harness ends in order; a second one kills it. After `limit_s` it is interrupted, and killed
    `grace_s` later. There is no value where the harness could not begin or not write (TS630 to TS632, TS701 to TS708).
    Where it began and did not complete, the value says how, and a warning says why.
    """
    if not harness.is_file():
        message = f"there is no harness at `{harness}`"
        hint = "compile the spec again: `torchspec compile SPEC`"
        return Result(None, (Diagnostic("TS630", message, hint=hint),))
    if not RUN_ID.match(run):
        raise ValueError(f"not a run ID: {run!r}")
    logs = evidence / "logs" / run
    try:
        with only_run(evidence, run) as hold:
            torn = _recover(evidence / "ledger.jsonl")
            logs.mkdir(parents=True, exist_ok=True)
            note = logs / "context.json"
            note.write_text(json.dumps(dict(context), sort_keys=True), encoding="utf-8")
            argv = [sys.executable, "-I", str(harness), "pair"]
            argv += ["--baseline", str(baseline), "--candidate", str(candidate), "--candidate-id", candidate_id]
            argv += ["--evidence", str(evidence), "--run", run, "--context", str(note), "--progress", "json"]
            argv += [word for cell in only for word in ("--only", cell)]
            argv += ["--stage", stage] if stage is not None else []
            with Log(logs / "driver.log") as log:
                heard = _Heard(on_event, log)
                ending = run_program(argv, heard.line, limit_s=limit_s, grace_s=grace_s, hold=hold)
            result = _result(run, backend, ending, heard, log.path)
            close = _close(evidence / "ledger.jsonl", result, heard) if result.status != "completed" else []
    except Busy as busy:
        return Result(None, (busy.diagnostic,))
    except ledger.LedgerError as error:
        return Result(None, (error.diagnostic,))
    except OSError as error:
        message = f"the evidence folder `{evidence}` cannot be used: {os_reason(error)}"
        hint = "make it writable, free some space, or choose another one"
        return Result(None, (Diagnostic("TS701", message, hint=hint),))
    said = [*torn, *close, *_said(result, ending, heard)]
    began = bool(heard.cells or heard.end) or result.status != "failed"
    return Result(result if began and not any(d.is_error for d in said) else None, tuple(said))


def _recover(path: Path) -> list[Diagnostic]:
    torn = ledger.recover(path)
    if torn is None:
        return []
    message = f"the run before was killed while it wrote record {torn.seq}: its {torn.size} bytes are in `{torn.file}`"
    hint = "nothing needs to be done: the record is measured again"
    return [Diagnostic("TS707", message, hint=hint, severity=Severity.WARNING)]


def _result(run: str, backend: str, ending: Ending, heard: _Heard, log: Path) -> RunResult:
    reason = heard.end.get("reason") or next((e for e in reversed(heard.errors) if e.startswith("error:")), None)
    status: Status
    if ending.interrupted:
        status, reason = "interrupted", "Ctrl-C, or a request to end"
    elif ending.timed_out:
        status, reason = "timed_out", "the time limit for the run was reached"
    elif ending.signal is not None:
        status, reason = "killed", f"the harness was ended by {_signal(ending.signal)}"
    elif ending.exit == 0 and not ending.error:
        status, reason = "completed", None
    elif ending.exit == 130:
        status = "interrupted"
    else:
        status = "failed"
        reason = ending.error or reason or (heard.errors[-1] if heard.errors else f"exit status {ending.exit}")
    name = _signal(ending.signal) if ending.signal is not None else None
    return RunResult(run, backend, status, ending.exit, name, ending.wall_s, log, str(reason) if reason else None)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _close(path: Path, result: RunResult, heard: _Heard) -> list[Diagnostic]:
    """After a harness that did not end in order: set its torn tail aside and write the `run.end` that it could not."""
    said = _recover(path)
    started = ended = False
    for record in ledger.read(path):
        if record.run == result.run:
            started |= record.kind == "run.start"
            ended |= record.kind == "run.end"
    if started and not ended:
        status = "interrupted" if result.status == "interrupted" else "failed"
        cells = {"done": heard.done, "total": max(heard.cells, heard.done)}
        body = {"status": status, "reason": result.reason, "wall_s": result.wall_s, "timed_s": None, "cells": cells}
        ledger.append(path, result.run, "run.end", body)
    return said


def _said(result: RunResult, ending: Ending, heard: _Heard) -> list[Diagnostic]:
    """What the user must know of a run that did not complete, or left something behind."""
    said = []
    if ending.left:
        numbers = ", ".join(map(str, ending.left))
        message = f"{len(ending.left)} process(es) of the run on {result.backend} could not be ended: {numbers}"
        said.append(Diagnostic("TS635", message, hint=f"kill -9 {numbers.replace(',', '')}", severity=Severity.WARNING))
    notes = (f"its log is {result.log}",)
    if result.status == "timed_out":
        message = f"the run on {result.backend} was ended after {result.wall_s:.0f} s: {result.reason}"
        hint = "run again to go on where it stopped"
        said.append(Diagnostic("TS633", message, hint=hint, notes=notes, severity=Severity.WARNING))
    elif result.status == "killed":
        message = f"the run on {result.backend} did not complete: {result.reason}"
        hint = "if memory ran out, free some; then run again, it goes on where it stopped"
        said.append(Diagnostic("TS634", message, hint=hint, notes=notes, severity=Severity.WARNING))
    elif result.status == "failed":
        refused = not heard.end or any(e.startswith("error:") for e in heard.errors)
        words = tuple(f"it said: {e}" for e in heard.errors[-3:])
        message = f"the harness for {result.backend} ended without doing its work: {result.reason}"
        severity = Severity.ERROR if refused else Severity.WARNING
        hint = "the log says more; when the cause is mended, run again"
        said.append(Diagnostic("TS632", message, hint=hint, notes=(*words, *notes), severity=severity))
    return said
