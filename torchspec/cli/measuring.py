"""Commands that measure without deciding: `calibrate` (how noisy is it here), `bench` (how good is the measuring)."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from torchspec.cli.common import exit_for, show
from torchspec.cli.exits import Exit
from torchspec.cli.output import say, wants_color
from torchspec.core.diagnostics import Diagnostic

if TYPE_CHECKING:
    from torchspec.pipeline import Compiled
    from torchspec.pipeline_calibrate import Calibrated


def calibrate(arguments: Namespace) -> int:
    """Measure the noise of this machine for the timed cells of a compiled spec, or say what is known of it."""
    from torchspec import pipeline_calibrate, pipeline_run
    from torchspec.cli.progress import Progress

    if arguments.pairs < pipeline_calibrate.FEWEST:
        say(f"torchspec: --pairs takes {pipeline_calibrate.FEWEST} or more, not {arguments.pairs}", sys.stderr)
        return Exit.SPEC
    found = pipeline_run.find(arguments.target, Path(arguments.out))
    show(found.diagnostics, {}, arguments)
    if found.value is None:
        return exit_for(found.diagnostics) or Exit.MACHINE
    chosen = pipeline_run.select(found.value.plan, arguments.only)
    if chosen.value is None:
        show(chosen.diagnostics, {}, arguments)
        return Exit.SPEC
    if arguments.show:
        return _known(found.value, chosen.value, arguments)
    with Progress(sys.stdout, wants_color(sys.stdout, arguments.color)) as progress:
        made = pipeline_calibrate.provision(found.value, progress.event)
        progress.clear()
        show(made.diagnostics, {}, arguments)
        if made.value is None:
            return exit_for(made.diagnostics) or Exit.MACHINE
        measured = pipeline_calibrate.calibrate(
            found.value, made.value, progress.event, pairs=arguments.pairs, only=chosen.value
        )
    show(measured.diagnostics, {}, arguments)
    return _seen(measured.value, exit_for(measured.diagnostics))


def _seen(measured: Calibrated | None, status: int) -> int:
    if measured is None:
        return status or Exit.MACHINE
    for one in measured.seen:
        enough = "enough" if one.last <= one.wanted else "too little"
        say(
            f"{one.label} {one.metric}: equal pairs differ by {one.spread * 100:.2f} % ({one.pairs} pairs); a change "
            f"of {one.first * 100:.1f} % would be seen in the fewest pairs, of {one.last * 100:.1f} % in the most; "
            f"{one.wanted * 100:g} % is asked for: {enough}"
        )
    for cell, why in measured.without.items():
        say(f"{cell}: no calibration: {why}", sys.stderr)
    if measured.interrupted:
        return Exit.INTERRUPTED
    if not measured.seen:
        say("Nothing was calibrated: no timed cell with a limit relative to the baseline was measured.", sys.stderr)
        return status or Exit.MACHINE
    say("The next runs on this machine rest on it too, for a fortnight.")
    return status or Exit.ADOPT


def _known(compiled: Compiled, only: tuple[str, ...], arguments: Namespace) -> int:
    from datetime import UTC, datetime

    from torchspec import calibration, pipeline_calibrate
    from torchspec.provision import cache_folder

    plan = compiled.plan
    cells = {cell for b in plan.backends for cell in pipeline_calibrate.timed(plan, b.name)}
    now = datetime.now(UTC)
    found, said = calibration.usable(cache_folder(), [c for c in cells if not only or c in only], now)
    show(tuple(said), {}, arguments)
    for cell in plan.cells:
        if cell.id in cells and (not only or cell.id in only):
            if cell.id not in found:
                say(f"{cell.label}: none")
            for held in found.get(cell.id, ()):
                spreads = ", ".join(f"{m} {s0 * 100:.2f} % in {n} pairs" for m, (s0, n) in held.metrics.items())
                where = "".join(f", {part} {str(held.identity.get(part))[:8]}" for part in ("machine", "environment"))
                say(f"{cell.label}: {spreads}; measured {held.at[:16]}, {held.age(now).days} days ago{where}")
    return Exit.ADOPT


def bench(arguments: Namespace) -> int:
    """Measure how good the measuring is."""
    python = arguments.python or sys.executable
    packages = str(Path(arguments.packages).resolve()) if arguments.packages else None
    without = _without_torch(python)
    if without is not None:
        show((without,), {}, arguments)
        return Exit.MACHINE
    if arguments.what == "overhead":
        from torchspec.bench import overhead

        say(overhead.run(python, Path(arguments.out), _progress))
        return Exit.ADOPT
    from torchspec.bench import quality
    from torchspec.bench.course import Options, OtherRun

    options = Options(
        python=python,
        out=Path(arguments.out),
        equal_pairs=arguments.equal_pairs,
        pairs=arguments.pairs,
        tail_pairs=arguments.tail_pairs,
        busy_pairs=arguments.busy_pairs,
        asked=arguments.asked,
        peer_truths=tuple(percent / 100.0 for percent in dict.fromkeys(arguments.peer_truths)),
        peer_conditions=tuple(dict.fromkeys(arguments.peer_conditions)),
        peer_s=arguments.peer_s,
        packages=packages,
        seed=arguments.seed,
        for_s=arguments.for_s,
    )
    try:
        text = quality.run(options, _progress)
    except OtherRun as other:
        hint = "give the options of that run to go on with it, or another folder with --out"
        message = f"`{other}` holds a benchmark with other options; figures of two runs are never mixed"
        show((Diagnostic("TS692", message, hint=hint),), {}, arguments)
        return Exit.MACHINE
    except OSError as error:
        message = f"cannot write the benchmark to `{arguments.out}`: {error.strerror}"
        show((Diagnostic("TS690", message, hint="give a folder that can be written with --out"),), {}, arguments)
        return Exit.MACHINE
    if text is not None:
        say(text)
    return Exit.ADOPT


def _progress(line: str) -> None:
    say(line, sys.stderr)


def _without_torch(python: str) -> Diagnostic | None:
    """Why `python` cannot be measured, or None."""
    try:
        done = subprocess.run(
            [python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"],
            env={"PATH": os.environ.get("PATH", "")},
            check=False,
            capture_output=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Diagnostic("TS601", f"`{python}` cannot be run as a Python", hint="--python PYTHON names an interpreter")
    if done.returncode == 0:
        return None
    hint = "--python PYTHON names an interpreter with torch; `torchspec env SPEC` says where a spec's are"
    return Diagnostic("TS603", f"`{python}` has no torch to measure", hint=hint)
