"""The command line of an emitted harness: probe, cells, pair, and the worker that pair starts."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

from .chain import EvidenceError
from .device import DEVICES
from .driver import Driver
from .embedded import Embedded
from .environ import host, torch_facts
from .needs import Needs
from .progress import Progress
from .worker import serve


def probe(embedded: Embedded) -> dict[str, Any]:
    """This machine, and torch of the running interpreter where it has one."""
    found: dict[str, Any] = {"backend": embedded.backend, "host": host(), "python": platform.python_version()}
    device = DEVICES[embedded.backend]()
    device.over = embedded.plan["backend"].get("over")
    try:
        found["torch"] = torch_facts()
        found["device"] = device.probe()
        found["missing"] = device.missing()
    except ImportError as error:
        found.update(torch=None, device=None, missing=f"this interpreter has no torch ({error})")
    return found


def cells(embedded: Embedded) -> dict[str, Any]:
    """What `pair` would run."""
    first = embedded.plan["candidates"][0]["id"] if embedded.plan["candidates"] else "candidate"
    rows = []
    for name, cell in embedded.cells.items():
        workload = embedded.workloads[cell["workload"]]
        needs = Needs(embedded, name, first)
        rows.append(
            {
                "id": name,
                "label": cell["label"],
                "workload": cell["workload"],
                "kind": workload["kind"],
                "mode": cell["mode"],
                "axes": cell["axes"],
                "stage": cell.get("stage"),
                "metrics": sorted(needs.metrics),
                "timed_against": [one.against for one in needs.comparisons],
                "fresh_processes": needs.processes,
            }
        )
    return {"plan": embedded.digest, "backend": embedded.backend, "budget": embedded.budget, "cells": rows}


def _parser(embedded: Embedded) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=f"The torchspec harness of plan {embedded.plan['name']} for the backend {embedded.backend}."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("probe", help="this machine, as JSON")
    commands.add_parser("cells", help="what pair would run, as JSON")
    pair = commands.add_parser("pair", help="measure a baseline and a candidate side by side")
    pair.add_argument("--baseline", required=True, metavar="PYTHON", help="the interpreter with the baseline's torch")
    pair.add_argument("--candidate", required=True, metavar="PYTHON", help="the interpreter with the candidate's torch")
    pair.add_argument("--evidence", required=True, type=Path, metavar="DIR", help="where ledger, logs and inputs go")
    pair.add_argument("--candidate-id", default="candidate", metavar="ID", help="which of the plan's candidates it is")
    pair.add_argument(
        "--only", action="append", default=[], metavar="CELL", help="measure this cell only; may be repeated"
    )
    pair.add_argument("--run", metavar="ID", help="this run's name in the ledger")
    pair.add_argument("--context", type=Path, metavar="FILE", help="JSON with git, lock and tool for the run's record")
    pair.add_argument("--progress", choices=("json", "text"), default="text")
    pair.add_argument("--stage", metavar="NAME", help="only the cells of this stage of the window")
    worker = commands.add_parser("worker")
    worker.add_argument("arguments")
    return parser


def _absolute(python: str) -> str:
    """An interpreter's path from any folder, its links kept: a venv is found by its link."""
    place = Path(python).expanduser()
    return str(place if place.is_absolute() else Path.cwd() / place)


def _pair(embedded: Embedded, given: argparse.Namespace) -> int:
    context: dict[str, Any] = {}
    if given.context is not None:
        try:
            context = json.loads(given.context.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            print(f"error: the context file cannot be read: {error}", file=sys.stderr)
            return 3
    pythons = {"baseline": _absolute(given.baseline), given.candidate_id: _absolute(given.candidate)}
    try:
        embedded.side(given.candidate_id)
        folder = given.evidence.resolve()
        driver = Driver(
            embedded, pythons, given.candidate_id, folder, given.only, given.stage, given.run, context,
            Progress(given.progress),
        )  # fmt: skip
    except KeyError as unknown:
        print(f"error: {unknown.args[0]}", file=sys.stderr)
        return 3
    except (EvidenceError, OSError) as error:
        print(f"error: the evidence folder cannot be used: {error}", file=sys.stderr)
        return 3
    return driver.go()


def main(arguments: list[str], embedded: Embedded) -> int:
    """Runs one command; gives the exit status."""
    own = DEVICES[embedded.backend].commands
    if arguments and arguments[0] in own:
        return own[arguments[0]](arguments[1:], embedded)
    given = _parser(embedded).parse_args(arguments)
    if given.command == "worker":
        return serve(embedded, json.loads(given.arguments))
    if given.command == "pair":
        return _pair(embedded, given)
    print(json.dumps(probe(embedded) if given.command == "probe" else cells(embedded), indent=2))
    return 0
