"""Writes what canary files give to the ledger: a run of its own, one note a file, samples, and how each cell ended.

The same files twice in a row are one evidence. Other files for the same cell are a new run: the judge hears the latest,
and holds it against those before. Must not hold a file against the plan; `canary` does.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchspec.core.canon import digest
from torchspec.core.files import write_whole
from torchspec.ledger.canary import Canary, moment
from torchspec.ledger.canary_file import File
from torchspec.ledger.errors import LedgerError, cannot
from torchspec.ledger.read import read
from torchspec.ledger.write import Writer

FOLDER = "canary"
LEDGER = "ledger.jsonl"


@dataclass(frozen=True, slots=True)
class Took:
    """What became of one cell for one candidate: "measured", "not_run", or "already" where nothing is new."""

    canary: Canary
    status: str


def take(
    canaries: list[Canary], into: Path, plan: str, new_run: Callable[[], str], context: Mapping[str, Any]
) -> list[Took]:
    """Append what is new. `into` is the evidence folder; `context` goes into each run's start. Raises LedgerError."""
    if not canaries:
        return []
    path = into / LEDGER
    known = _known(path, plan)
    took: list[Took] = []
    for one in canaries:
        mark = _mark(one)
        if known.get((one.cell.id, one.candidate)) == mark:
            took.append(Took(one, "already"))
            continue
        _keep(one.files, into)
        with Writer(path) as writer:
            _write(writer, one, mark, plan, new_run(), context)
        took.append(Took(one, "not_run" if one.refused is not None else "measured"))
    return took


def _mark(one: Canary) -> str:
    """What makes an intake the same as another: its files' digests, or why there is nothing."""
    return digest({"files": sorted(f.sha256 for f in one.files), "refused": one.refused})


def _known(path: Path, plan: str) -> dict[tuple[str, str], str]:
    """(cell, candidate) -> mark of its latest intake for this plan; "" where that was not written to its end."""
    found: dict[tuple[str, str], str] = {}
    marks: dict[str, str] = {}
    if not path.exists():
        return found
    for record in read(path):
        taken = record.body.get("canary")
        if record.kind == "run.start" and isinstance(taken, dict) and record.body.get("plan") == plan:
            marks[record.run] = str(taken.get("mark"))
        elif record.kind in ("sample", "cell.done") and record.run in marks:
            mark = marks[record.run] if record.kind == "cell.done" else ""
            found[str(record.body["cell"]), str(record.body["candidate"])] = mark
    return found


def _keep(files: tuple[File, ...], into: Path) -> None:
    for file in files:
        place = into / FOLDER / f"{file.sha256[:16]}.json"
        try:
            if not place.exists():
                write_whole(place, file.data)
        except OSError as error:
            raise cannot("write", place, error) from error


def _write(writer: Writer, one: Canary, mark: str, plan: str, run: str, context: Mapping[str, Any]) -> None:
    began = time.monotonic()
    files = [{"file": f.path, "sha256": f.sha256, "kept": f"{FOLDER}/{f.sha256[:16]}.json"} for f in one.files]
    start = {
        **context,
        "plan": plan,
        "backend": one.cell.backend,
        "candidate": one.candidate,
        "host": {"os": platform.system()},
        "pid": os.getpid(),
        "canary": {"mark": mark, "files": files},
    }
    place = {"cell": one.cell.id, "candidate": one.candidate}
    writer.append(run, "run.start", start, sync=False)
    for file, told in zip(one.files, files, strict=True):
        writer.append(run, "note", {"by": "torchspec", "what": "canary", "text": _words(one, file), **told}, sync=False)
    for body in one.samples:
        writer.append(run, "sample", body, sync=False)
    done = one.refused is None
    writer.append(
        run, "cell.done", {**place, "status": "measured" if done else "not_run", "reason": one.refused}, sync=False
    )
    end = {"status": "completed", "reason": None, "wall_s": time.monotonic() - began}
    writer.append(run, "run.end", {**end, "cells": {"done": int(done), "total": 1}})


def _words(one: Canary, file: File) -> str:
    """Where the figures are from, in one sentence for the memo."""
    told = file.told
    since = min(moment(s.since) for s in told.samples)
    until = max(moment(s.until) for s in told.samples)
    groups = {(s.side, s.group) for s in told.samples}
    counts = [sum(side == which for side, _ in groups) for which in ("baseline", one.candidate)]
    metrics = ", ".join(sorted({s.metric for s in told.samples}))
    return (
        f"{one.cell.label}: {metrics} of the team's own service, from {file.path} ({file.sha256[:16]}), by {told.by}: "
        f"{counts[0]} {told.grouped_by} of the baseline and {counts[1]} of {one.candidate}, "
        f"{told.share.value:g} % of the traffic, {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    )


__all__ = ["FOLDER", "LedgerError", "Took", "take"]
