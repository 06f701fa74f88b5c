"""What else the machines did while they measured: load, stolen time, clock, pressure, from the ledger's noise records.

Says what was seen and judges nothing: whether a gate could be told from noise is the controls' to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from torchspec.model.memo import Block, Words
from torchspec.report import build, numbers
from torchspec.report.context import Context, evidence_words
from torchspec.report.language import code, soft

_BUSY = 1.0  # waiting processes a core, above which something else wanted the processor
_SHARED = 0.05  # share of the measuring cores that other processes took, above which timings are in doubt
_STOLEN = 0.02  # share of time that the host gave to others, above which timings are in doubt


def blocks(ctx: Context) -> tuple[Block, ...]:
    """A table with a row a run; empty where no run recorded noise."""
    t = ctx.t
    rows = []
    doubts: list[Words] = []
    for run, bodies in ctx.evidence.noise.items():
        cores = _cores(ctx, run)
        loads = [float(b["load"][0]) for b in bodies if b.get("load")]
        stolen = _figures(bodies, "steal")
        busy = [
            f for b in bodies if isinstance(b.get("others"), Mapping) for f in _figures([b["others"]], "busy_share")
        ]
        clock = _figures(bodies, "frequency_mhz")
        pressure = _figures(bodies, "memory_pressure")
        throttled = any(b.get("throttled") is True for b in bodies)
        if loads and cores and median(loads) > _BUSY * cores + 1:
            doubts.append(
                t.words(
                    "`{run}`: more work was waiting than the machine has cores ({load} on {cores}).",
                    run=code(run),
                    load=_one(ctx, median(loads)),
                    cores=cores,
                )
            )
        if stolen and max(stolen) > _STOLEN:
            doubts.append(
                t.words(
                    "`{run}`: the host gave up to {share} of the time to others.",
                    run=code(run),
                    share=_share(ctx, max(stolen)),
                )
            )
        shared = [
            f for b in bodies if isinstance(b.get("others"), Mapping) for f in _figures([b["others"]], "pinned_share")
        ]
        if shared and max(shared) > _SHARED:
            doubts.append(
                t.words(
                    "`{run}`: other processes took up to {share} of the measuring cores.",
                    run=code(run),
                    share=_share(ctx, max(shared)),
                )
            )
        if throttled:
            doubts.append(
                t.words("`{run}`: the processor or the device slowed down from heat or power.", run=code(run))
            )
        seq = ctx.evidence.first_seq.get(run)
        rows.append(
            build.row(
                build.cell(code(run), sub=evidence_words([seq] if seq is not None else ())),
                build.cell(
                    f"{_one(ctx, median(loads))} ({_one(ctx, max(loads))})" if loads else t.text("not known"),
                    sub=soft(t.counted(cores, "{n} core", "{n} cores") if cores else ""),
                ),
                f"{_share(ctx, median(busy))} ({_share(ctx, max(busy))})" if busy else t.text("not known"),
                _share(ctx, max(stolen)) if stolen else t.text("not known"),
                _clock(ctx, clock),
                _share(ctx, max(pressure) / 100) if pressure else t.text("not known"),
            )
        )
    if not rows:
        return ()
    columns = [
        build.column(t.text("Run")),
        build.column(t.text("Load"), "right", sub=t.text("median (highest)")),
        build.column(t.text("Processors busy"), "right", sub=t.text("median (highest)")),
        build.column(t.text("Stolen by the host"), "right", sub=t.text("highest")),
        build.column(t.text("Clock"), "right"),
        build.column(t.text("Waiting for memory"), "right", sub=t.text("highest")),
    ]
    out = [
        build.heading(t.text("The machine while it measured")),
        build.table("plain", t.text("The machine while it measured"), columns, rows),
    ]
    known = _calibrated(ctx)
    said = [*doubts, *([known] if known else [])]
    return (*out, build.listing(said)) if said else tuple(out)


def _calibrated(ctx: Context) -> Words:
    """How many cells rest on a calibration from before the run as well as on its own controls."""
    details = [(j.cell, j.detail.get("calibration")) for j in ctx.verdict.judgements if j.detail]
    cells = {cell for cell, held in details if isinstance(held, Mapping) and held.get("before")}
    if not cells:
        return ()
    return ctx.t.words(
        "Cells whose noise was measured before the run too (`torchspec calibrate`), in agreement with its own "
        "controls: {n}.",
        n=len(cells),
    )


def _figures(bodies: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    found = (b.get(name) for b in bodies)
    return [float(v) for v in found if isinstance(v, int | float) and not isinstance(v, bool)]


def _cores(ctx: Context, run: str) -> int:
    host = ctx.evidence.starts.get(run, {}).get("host")
    cores = host.get("cores") if isinstance(host, Mapping) else None
    return cores if isinstance(cores, int) and cores > 0 else 0


def _one(ctx: Context, value: float) -> str:
    return f"{value:.1f}".replace(".", ctx.t.locale.decimal)


def _share(ctx: Context, value: float) -> str:
    return f"{_one(ctx, 100 * value)}{numbers.NNBSP}%"


def _clock(ctx: Context, found: Sequence[float]) -> str:
    if not found:
        return ctx.t.text("not known")
    low, high = (f"{v / 1000:.2f}".replace(".", ctx.t.locale.decimal) for v in (min(found), max(found)))
    return f"{low}{numbers.NNBSP}GHz" if low == high else f"{low}–{high}{numbers.NNBSP}GHz"
