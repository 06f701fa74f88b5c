"""Codes TS3xx (units and types) and TS4xx (controls)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = (
    Code(
        "TS301",
        "a unit that does not fit",
        "Units are types: a time is no size, and microseconds per call are no tokens per second.",
        "memory.driver_peak <= 64 ms  else defer",
        "memory.driver_peak <= 64 MiB  else defer",
    ),
    Code(
        "TS302",
        "a relative limit without its unit",
        "Growth and drop are shares of the reference, in %; a speedup is a factor, in x; a difference of percentages "
        "is in pp.",
        "latency.p50 growth <= 3  else isolate",
        "latency.p50 growth <= 3 %  else isolate",
    ),
    Code(
        "TS303",
        "an absolute limit in per cent",
        "A share needs something to be a share of: say growth or drop, or give an absolute limit.",
        "latency.p50 <= 3 %  else isolate",
        "latency.p50 growth <= 3 %  else isolate",
    ),
    Code(
        "TS304",
        "a relation that the metric does not take",
        "Each metric's row in the catalog says how it may be judged.",
        "determinism.output growth <= 3 %  else defer",
        "determinism.output identical  else defer",
    ),
    Code(
        "TS305",
        "a backend that cannot give the metric, or do the work",
        "Where a gate does not apply is never silent: narrow it with `on`.",
        "memory.reserved_peak growth <= 5 %  else defer      # on cpu",
        "memory.reserved_peak growth <= 5 %  on mps, cuda  else defer",
    ),
    Code(
        "TS306",
        "a mode that cannot give the metric, or do the work",
        "Each metric and each kind of work has its modes.",
        "compile.time growth <= 5 %  in train  else isolate",
        "compile.time growth <= 5 %  in compile  else isolate",
    ),
    Code(
        "TS307",
        "nothing, or the wrong thing, to compare against",
        "An error is a difference from something; only work with an old path has a `beside`, and only compiled work "
        "has an `eager`.",
        "error.max_abs <= 1e-4  else rollback",
        "error.max_abs <= 1e-4  against cpu.float64  else rollback",
    ),
    Code(
        "TS308",
        "a number out of its range",
        "Counts are whole numbers, times are above 0, and ranges go upward.",
        "rehearse baseline  within 0 min",
        "rehearse baseline  within 10 min",
    ),
    Code(
        "TS309",
        "a value that an axis cannot have",
        "Sizes are whole numbers from 1 on, without a unit; dtypes, masks and the like are names.",
        "seq 512 B",
        "seq 512",
    ),
    Code(
        "TS310",
        "a limit that is no number",
        "No measurement crosses infinity, so such a gate could never fail.",
        "error.max_abs <= inf  against baseline  else rollback",
        "error.max_abs <= 1e-4  against baseline  else rollback",
    ),
    Code(
        "TS311",
        "`sees` where nothing has a size",
        "`sees` is the size of the planted change that the gate must notice; a truth has none.",
        "export.roundtrip holds  sees 5 %  else defer",
        "export.roundtrip holds  else defer",
    ),
    Code(
        "TS312",
        "`repeats` where the sampling decides",
        "Timings are sampled until they can be judged; a fixed number would bring back the noise.",
        "latency.p50 growth <= 3 %  repeats 20  else isolate",
        "determinism.output identical  repeats 20  else defer",
    ),
    Code(
        "TS313",
        "--set of another kind",
        "A parameter keeps the kind and the unit of its default.",
        "torchspec compile --set longest=long",
        "torchspec compile --set longest=4096",
    ),
    Code(
        "TS314",
        "work that cannot give the metric",
        "Some metrics come from some kinds of work only, or from a function of the team's file, such as `accuracy`; "
        "give other work a gate set of its own.",
        "latency.first_token_p95 <= 180 ms  else defer       # for attention",
        "latency.p95 <= 180 ms  else defer",
    ),
    Code(
        "TS316",
        "a word that says more of what is not chosen",
        "Some words of a workload belong to one value of another word. Beside another value they would be ignored, and "
        "the cell would not be what the spec says.",
        "options  none\nbatch_chunk_size  512",
        "options  default\nbatch_chunk_size  512",
    ),
    Code(
        "TS401",
        "a side that names no torch, or too much",
        "A side is an exact version of torch, an interpreter that is there, or both.",
        "baseline path sdpa",
        'baseline torch "2.13.0"  path sdpa',
    ),
    Code(
        "TS402",
        "two baselines",
        "Everything is compared with one baseline; a second one is another spec.",
        'baseline torch "2.13.0"\nbaseline torch "2.12.0"',
        'baseline torch "2.13.0"',
    ),
    Code(
        "TS403",
        "a package without one version",
        "Both sides share the same packages; a range would let them drift apart.",
        'package "numpy>=2"',
        'package "numpy==2.4.0"',
    ),
    Code(
        "TS404",
        "torch among the frozen packages",
        "torch is what differs.",
        'package "torch==2.13.0"',
        'baseline torch "2.13.0"',
    ),
    Code(
        "TS405",
        "a variable that a spec cannot set",
        "Both sides must load the same code from the same places, so search paths and preloads belong to the harness.",
        'env PYTHONPATH "/srv/lib"',
        'env OMP_NUM_THREADS "2"',
    ),
    Code(
        "TS406",
        "a digest of another form",
        "A digest is sha256: with 8 to 64 hexadecimal digits.",
        'digest "9c1e5ab07d"',
        'digest "sha256:9c1e5ab07d"',
    ),
    Code(
        "TS407",
        "a Python of another form",
        "Both sides run the same major and minor version of Python 3.",
        'python "3"',
        'python "3.12"',
    ),
    Code(
        "TS408", "a seed out of range", "A seed is a whole number below 2**63.", "seed 9223372036854775808", "seed 1234"
    ),
    Code(
        "TS409",
        "an unknown setting",
        "Settings are those that the harness can set on both sides and record.",
        "setting float32_matmul_precision hi",
        "setting float32_matmul_precision high",
    ),
    Code(
        "TS411",
        "a window that ends before it begins",
        "The window says when the measuring is done.",
        "window 2026-12-14 to 2026-12-01",
        "window 2026-12-01 to 2026-12-14",
    ),
    Code("TS412", "a stage outside of the window", "Stages divide the window."),
    Code(
        "TS413",
        "work that is not frozen",
        "A model or tokenizer without its commit, and data without a digest, can change between the two sides.",
        'model "acme/reranker"',
        'model "acme/reranker"  commit "4f2a9c1d"',
    ),
    Code(
        "TS414",
        "deviations that are not last",
        "Deviations are added after the evidence began and must not touch what was registered: their block stands at "
        "the end of the file, one deviation a line.",
        'deviations {\n  deviation 2026-12-03 "another machine"  by "Ana"  because "the disk failed"\n}\nmeta {',
        'meta {\n}\n\ndeviations {\n  deviation 2026-12-03 "another machine"  by "Ana"  because "the disk failed"\n}',
    ),
    Code(
        "TS415",
        "a deviation out of order",
        "The block only grows: a new deviation is written below the others, with the date on which it was written.",
        'deviation 2026-12-03 "a"  by "Ana"  because "b"\n  deviation 2026-12-01 "c"  by "Ana"  because "d"',
        'deviation 2026-12-01 "c"  by "Ana"  because "d"\n  deviation 2026-12-03 "a"  by "Ana"  because "b"',
    ),
)
