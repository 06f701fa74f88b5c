"""A commented spec to start from, out of a few answers. It passes `check` as it is.

The answers of `else` are the catalog's usual ones. Must not write files, and must not look at the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchspec import catalog as catalog_tables
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.core.near import nearest
from torchspec.core.versions import is_exact
from torchspec.syntax.format import format_source

_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}

_HEAD = """\
# A question, asked before anything is measured: may this work move to another torch, workload by workload and backend
# by backend? Review it in a pull request. One line is one statement; a unit belongs to its number.
tspec 1

upgrade {title} {{
{owner}
  asks    {asks}
  # When it is measured. Evidence is held against dates of exceptions, so a window makes them checkable.
  # window  2026-12-01 to 2026-12-14
  # What is known to be missing, said before the run. The memo prints it.
  caveat  "Only the workloads and backends of this file are measured."
}}

# What both sides share. Any other difference than torch and what torch itself pins is a broken control.
frozen {{
  # python   "3.12"
  # package  "numpy==2.4.0"
  seed  1234
}}

baseline   torch {baseline}
candidate  torch {candidate}
"""

_ATTENTION = """\
workload attention {{
  kind   attention
  mask   causal
  shape {{
    heads     4
    seq       256
    head_dim  64
  }}
  dtype  float32
  mode   infer
  on     {on}
  gates  service
}}
"""

_OWN = """\
# The team's own code: the function returns (module, inputs).
workload own_code {{
  kind    python {entry}
  # What throughput counts: the number in one call, and its name.
  counts  1 items per call
  mode    infer
  on      {on}
  gates   service
}}
"""

_RANKS = """\
workload shard_step {
  kind   ddp
  shape {
    layers  2
    hidden  256
    batch   8
  }
  mode   train
  on     distributed
  gates  ranks
}
"""

#: (metric, limit and what follows, backends that the line narrows to; empty: all)
_SERVICE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("error.max_abs", "<= 1e-4  against cpu.float64", ()),
    ("latency.p50", "growth <= 3 %  sees 5 %", ()),
    ("latency.p95", "growth <= 5 %", ()),
    ("throughput", "drop <= 3 %", ()),
    ("memory.driver_peak", "growth <= 5 %", ()),
    ("memory.reserved_peak", "growth <= 5 %", ("cuda", "rocm", "mps")),
    ("memory.allocated_peak", "growth <= 5 %", ()),
    ("determinism.output", "identical  repeats 20", ()),
    ("fallback.operators", "<= 0", ("mps",)),
)
_RANK_GATES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("loss.final", "growth <= 0.1 %", ()),
    ("step.time", "growth <= 5 %", ()),
    ("comm.wait", "growth <= 10 %", ()),
    ("checkpoint.candidate_to_baseline", "holds", ()),
)

_TAIL = """\
# The rehearsal of going back: the old environment restored, its output compared with its own, and what the candidate
# wrote read by the baseline. Anything but a pass defers.
rollback {{
  rehearse  baseline  within 10 min
{reload}
}}
"""
_RELOAD = "  reload    checkpoint"
_NO_RELOAD = """\
  # For work that has weights, or exports a program:
  # reload  checkpoint, export"""


def quoted(text: str) -> str:
    """`text` as a string of the language; characters that it does not take as they are become escapes."""
    out = []
    for character in text:
        if character in _NAMED:
            out.append(_NAMED[character])
        elif character.isprintable():
            out.append(character)
        else:
            code = ord(character)
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def starting_spec(
    *,
    baseline: str,
    candidate: str,
    owner: str = "",
    backends: Sequence[str] = (),
    entry: str = "",
) -> Result[str]:
    """The text of a spec that asks whether `backends` (cpu, where none is named) may move to torch `candidate`.

    `entry` is the team's own code, "path.py:function" beside the spec. Refuses versions that are not exact (TS518), a
    candidate that is the baseline (TS517), unknown backends (TS211) and an entry of another form (TS226).
    """
    found = _mistakes(baseline, candidate, backends, entry)
    if found:
        return Result(None, tuple(found))
    names = tuple(dict.fromkeys(backends)) or ("cpu",)
    single = tuple(name for name in names if name != "distributed")
    parts = [
        _HEAD.format(
            title=quoted(f"torch {baseline} to {candidate}"),
            owner=f"  owner   {quoted(owner)}"
            if owner
            else '  # Who answers for the question and the decision.\n  # owner   "..."',
            asks=quoted(f"May our work move from torch {baseline} to torch {candidate}?"),
            baseline=quoted(baseline),
            candidate=quoted(candidate),
        ),
        _backends(names),
    ]
    if single:
        parts.append(
            _OWN.format(entry=quoted(entry), on=", ".join(single)) if entry else _ATTENTION.format(on=", ".join(single))
        )
    if "distributed" in names:
        parts.append(_RANKS)
    if single:
        parts.append(_gates("service", _SERVICE, single))
    if "distributed" in names:
        parts.append(_gates("ranks", _RANK_GATES, ("distributed",)))
    parts.append(_TAIL.format(reload=_RELOAD if entry or "distributed" in names else _NO_RELOAD))
    return format_source("\n".join(parts), "start.tspec")


def _mistakes(baseline: str, candidate: str, backends: Sequence[str], entry: str) -> list[Diagnostic]:
    found = []
    for side, version in (("baseline", baseline), ("candidate", candidate)):
        if not is_exact(version):
            hint = f"write it in full: --{side} 2.14.1"
            found.append(Diagnostic("TS518", f"`{version}` is not one version of torch", hint=hint))
    if baseline == candidate:
        found.append(Diagnostic("TS517", "baseline and candidate are the same version", hint="name another candidate"))
    known = catalog_tables.load().backends
    for name in backends:
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean `{close}`?" if close else f"there are: {', '.join(known)}"
            found.append(Diagnostic("TS211", f"there is no backend `{name}`", hint=hint))
    path, colon, function = entry.rpartition(":")
    if entry and not (colon and path.endswith(".py") and function.isidentifier()):
        hint = "for example: --entry bench/work.py:build"
        found.append(Diagnostic("TS226", f"`{entry}` is not a Python file and a function", hint=hint))
    return found


def _backends(names: Sequence[str]) -> str:
    lines = ["# Each backend is required: what was not run there defers. One that may stay behind says so:"]
    lines.append('# optional rocm  because "two workers left"  until 2027-01-31')
    over = next((n for n in names if n in ("cuda", "rocm")), "cpu")
    for name in names:
        lines.append(
            f"backend distributed  over {over}  ranks 1, 2  launcher torchrun"
            if name == "distributed"
            else f"backend {name}"
        )
    return "\n".join(lines) + "\n"


def _gates(name: str, lines: Sequence[tuple[str, str, tuple[str, ...]]], backends: Sequence[str]) -> str:
    """A gate set with the lines that some of `backends` can give, each with the catalog's usual answer."""
    metrics = catalog_tables.load().metrics
    out = [
        "# metric  limit  [against reference]  [in modes]  [on backends]  else what a failure means",
        f"gates {name} {{",
    ]
    for metric, limit, only in lines:
        on = [b for b in backends if not only or b in only]
        if not on:
            continue
        narrow = f"  on {', '.join(on)}" if len(on) < len(backends) else ""
        out.append(f"  {metric}  {limit}{narrow}  else {metrics[metric].usual}")
    return "\n".join([*out, "}"]) + "\n"
