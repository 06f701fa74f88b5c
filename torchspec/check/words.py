"""What each word of the language takes: one row a statement, by the block that it stands in. A table, no behaviour.

A row lists slots in order, then named values (`until 2026-12-31`) in any order. Kinds of a slot: name, string, count
(a whole number, at least 0), number, quantity (a number, perhaps with a unit), date, value (a name, string or number),
pairs (name and values, again and again, up to the next named value), relation, rest (whatever follows, unchecked).
"""

from __future__ import annotations

from typing import NamedTuple


class Slot(NamedTuple):
    """`many`: a list may stand here. `mark`: a fixed word before it (`to`, `of`). `needed`: not optional."""

    kind: str
    what: str
    many: bool = False
    mark: str | None = None
    needed: bool = True


class Row(NamedTuple):
    """`block`: name of the context inside its braces, None where it has none; `repeat`: may stand more than once."""

    word: str
    meaning: str
    slots: tuple[Slot, ...] = ()
    named: tuple[tuple[str, tuple[Slot, ...]], ...] = ()
    block: str | None = None
    repeat: bool = False
    example: str = ""


def _s(what: str, **more: bool | str) -> Slot:
    return Slot("string", what, **more)  # type: ignore[arg-type]


def _n(what: str, **more: bool | str) -> Slot:
    return Slot("name", what, **more)  # type: ignore[arg-type]


BECAUSE = ("because", (_s("the reason"),))
UNTIL = ("until", (Slot("date", "a date"),))
BY = ("by", (_s("who"),))

_TOP = (
    Row("tspec", "the version of the language", (Slot("count", "1"),), example="tspec 1"),
    Row("use", "imports gate sets and sources", (_s("a file"),), repeat=True, example='use "common/gates.tspec"'),
    Row(
        "param",
        "a value that `--set` may change",
        (_n("a name"), Slot("value", "its default")),
        (BECAUSE,),
        repeat=True,
        example='param longest 4096  because "a laptop may shorten it"',
    ),
    Row("upgrade", "the question", (_s("its title"),), block="upgrade", example='upgrade "torch 2.13 to 2.14" {'),
    Row("frozen", "what both sides share", block="frozen", example="frozen {"),
    Row(
        "baseline",
        "what runs today",
        (),
        (("torch", (_s("an exact version"),)), ("python", (_s("an interpreter"),)), ("path", (_n("a path"),))),
        repeat=True,
        example='baseline torch "2.13.0"',
    ),
    Row(
        "candidate",
        "what may run tomorrow",
        (),
        (
            ("torch", (_s("an exact version", many=True),)),
            ("python", (_s("an interpreter", many=True),)),
            ("path", (_n("a path", many=True),)),
            ("may_differ", (_s("a package", many=True),)),
        ),
        repeat=True,
        example='candidate torch "2.14.1"',
    ),
    Row(
        "backend",
        "a place where the work must run",
        (_n("a backend"),),
        (
            ("threads", (Slot("count", "a number of threads"),)),
            ("hardware", (_s("a device", many=True),)),
            ("wheels", (_s("an index URL"),)),
            ("over", (_n("a device backend"),)),
            ("ranks", (Slot("count", "a number of processes", many=True),)),
            ("launcher", (_n("a launcher"),)),
        ),
        repeat=True,
        example="backend cpu  threads 2",
    ),
    Row(
        "optional",
        "a backend that does not block the rest",
        (_n("a backend"),),
        (BECAUSE, UNTIL),
        repeat=True,
        example='optional rocm  because "two workers left"  until 2027-01-31',
    ),
    Row(
        "source",
        "where somebody else's figure stands",
        (_n("a name"), _s("a URL")),
        (("retrieved", (Slot("date", "a date"),)),),
        repeat=True,
        example='source notes "https://example.org/notes"  retrieved 2026-11-30',
    ),
    Row(
        "claim",
        "somebody else's figure: a target, never evidence",
        (_n("a name"),),
        (("from", (_n("a source"),)),),
        block="claim",
        repeat=True,
        example="claim chunked_loss from notes {",
    ),
    Row("workload", "a piece of work", (_n("a name"),), block="workload", repeat=True, example="workload reranker {"),
    Row(
        "lane",
        "prototypes: a row of their own, never better than isolate",
        (_n("a name"),),
        block="lane",
        repeat=True,
        example="lane prototype {",
    ),
    Row(
        "gates",
        "a set of gates",
        (_n("a name"),),
        (("extends", (_n("a gate set"),)),),
        block="gates",
        repeat=True,
        example="gates service {",
    ),
    Row(
        "together",
        "workloads that move as one",
        (_n("a workload", many=True),),
        (BECAUSE,),
        repeat=True,
        example='together reranker, attention  because "one image"',
    ),
    Row(
        "waive",
        "a known failure, bounded",
        (_n("a metric"), _n("a workload", mark="of")),
        (("on", (_n("a backend"),)), UNTIL, BY, BECAUSE),
        repeat=True,
        example='waive memory.driver_peak of reranker on mps  until 2026-12-31  by "ml"  because "ticket 4711"',
    ),
    Row("rollback", "the rehearsal of going back", block="rollback", example="rollback {"),
    Row("measure", "how long measuring may take", block="measure", example="measure {"),
    Row("meta", "the team's own keys", block="meta", example="meta {"),
    Row(
        "deviations",
        "what was done otherwise; it stands last and only grows",
        block="deviations",
        example="deviations {",
    ),
    Row(
        "silence",
        "a warning that is known",
        (_n("a code"),),
        (BECAUSE,),
        repeat=True,
        example='silence TS233  because "nothing is known to be missing"',
    ),
)

_UPGRADE = (
    Row("owner", "who asks", (_s("a team"),), example='owner "ml-platform"'),
    Row("asks", "the question in a sentence", (_s("a question"),), example='asks "Can the service move?"'),
    Row(
        "window",
        "when it is measured",
        (Slot("date", "a date"), Slot("date", "a date", mark="to")),
        example="window 2026-12-01 to 2026-12-14",
    ),
    Row(
        "stage",
        "a part of the window",
        (_n("a name"), _s("what is done", needed=False)),
        (("until", (Slot("date", "a date"), _s("what is done", needed=False))),),
        repeat=True,
        example='stage one  until 2026-12-07  "single node"',
    ),
    Row("caveat", "what was known to be missing", (_s("a caveat"),), repeat=True, example='caveat "cpu only"'),
)

_FROZEN = (
    Row("python", "major.minor of both sides", (_s("a version"),), example='python "3.12"'),
    Row("package", "pinned packages", (_s("a requirement", many=True),), repeat=True, example='package "numpy==2.4.0"'),
    Row(
        "env",
        "an environment variable",
        (_n("a variable"), _s("its value")),
        repeat=True,
        example='env OMP_NUM_THREADS "2"',
    ),
    Row(
        "setting",
        "a setting of torch",
        (_n("a setting"), Slot("value", "its value")),
        repeat=True,
        example="setting float32_matmul_precision high",
    ),
    Row(
        "compile",
        "settings of the compiler",
        (),
        (
            ("mode", (_n("a mode"),)),
            ("cache", (_n("cold or warm"),)),
            ("backend", (_n("a compiler"),)),
            ("dynamic", (_n("on or off"),)),
            ("fullgraph", (_n("on or off"),)),
        ),
        example="compile mode max_autotune  cache cold",
    ),
    Row("seed", "where random numbers begin", (Slot("count", "a whole number"),), example="seed 1234"),
    Row("power", "how the machine is fed", (_n("mains or battery"),), example="power mains"),
)

_WORKLOAD = (
    Row("owner", "who answers for it", (_s("a team"),), example='owner "search"'),
    Row(
        "kind",
        "what kind of work",
        (_n("a kind"), _s("path:function", needed=False)),
        (("beside", (_n("the old path"),)),),
        example='kind python "bench/reranker.py:build"',
    ),
    Row("model", "weights, with their commit", (_s("a model"),), (("commit", (_s("a commit"),)),)),
    Row("tokenizer", "preprocessing, with its commit", (_s("a tokenizer"),), (("commit", (_s("a commit"),)),)),
    Row(
        "data",
        "a slice of data, with its digest",
        (_s("a file"),),
        (
            ("rows", (Slot("count", "first row"), Slot("count", "row after the last", mark="to"))),
            ("digest", (_s("a digest"),)),
        ),
        example='data "slices/queries.jsonl"  digest "sha256:9c1e5ab07d"',
    ),
    Row(
        "counts",
        "what throughput counts",
        (Slot("count", "a number"), _n("what"), _n("step or call", mark="per")),
        example="counts 64 queries per step",
    ),
    Row("mask", "which positions see which", (_n("a mask", many=True), Slot("pairs", "parameters", needed=False))),
    Row("shape", "sizes", block="shape", example="shape {"),
    Row("dtype", "precisions", (_n("a dtype", many=True),), example="dtype float32, bfloat16"),
    Row(
        "mode", "infer, train, compile, train_compiled, export", (_n("a mode", many=True),), example="mode infer, train"
    ),
    Row("on", "backends", (_n("a backend", many=True),), example="on cpu, cuda"),
    Row(
        "except",
        "combinations that are not covered",
        (Slot("pairs", "axis and values", needed=False),),
        (("on", (_n("a backend", many=True),)), BECAUSE, UNTIL),
        repeat=True,
        example='except mode train on mps  because "no backward"  until 2027-01-31',
    ),
    Row("gates", "gate sets that judge it", (_n("a gate set", many=True),), example="gates service"),
    Row("stage", "the stage that measures it", (_n("a stage"),), example="stage one"),
    Row(
        "share",
        "how much of the traffic",
        (Slot("quantity", "a share"), _n("what", mark="of"), Slot("quantity", "how long", mark="for")),
        example="share 5 % of traffic for 24 h",
    ),
)

_GATE_NAMED = (
    ("at", (Slot("pairs", "axis and value"),)),
    ("against", (_n("a reference"),)),
    ("in", (_n("a mode", many=True),)),
    ("on", (_n("a backend", many=True),)),
    ("sees", (Slot("quantity", "a change"),)),
    ("repeats", (Slot("count", "a number"),)),
    ("else", (_n("a decision"),)),
    BECAUSE,
)

_DEVIATIONS = (
    Row(
        "deviation",
        "something that was done otherwise, written down when it was",
        (Slot("date", "a date"), _s("what was done otherwise")),
        (BY, BECAUSE),
        repeat=True,
        example='deviation 2026-12-03 "run 2 was on another machine"  by "Ana Ruiz"  because "the disk failed"',
    ),
)

WORDS: dict[str, tuple[Row, ...]] = {
    "file": _TOP,
    "upgrade": _UPGRADE,
    "deviations": _DEVIATIONS,
    "frozen": _FROZEN,
    "claim": (
        Row("basis", "what the figure was measured on", (Slot("pairs", "key and value"),), repeat=True),
        Row(
            "states",
            "the figure",
            (_n("a metric"), Slot("rest", "a figure")),
            (("within", (Slot("quantity", "a tolerance"),)), ("at", (Slot("pairs", "axis and value"),))),
            repeat=True,
            example="states latency.p50 speedup 12.29 x  within 15 %  at seq 32768",
        ),
        Row("check", "what would reproduce it", (_n("a workload"),), (("on", (_n("a backend", many=True),)),)),
    ),
    "workload": _WORKLOAD,
    "lane": (
        Row("owner", "who answers for it", (_s("a team"),), example='owner "kernels"'),
        Row("hardware", "what it needs", (_s("a device", many=True),), example='hardware "H100"'),
        Row(
            "disable",
            "the off switch",
            (_n("a variable", mark="env"), _s("its value")),
            repeat=True,
            example='disable env FUSED_KERNEL "0"',
        ),
        Row("workload", "a piece of work", (_n("a name"),), block="workload", repeat=True),
    ),
    "gates": (
        Row("report", "a figure that is shown and not judged", (_n("a metric"),), _GATE_NAMED[:4], repeat=True),
        Row("without", "drops inherited lines of a metric", (_n("a metric"),), (BECAUSE,), repeat=True),
    ),
    "rollback": (
        Row(
            "rehearse",
            "going back, timed",
            (_n("baseline"),),
            (("within", (Slot("quantity", "a time"),)),),
            example="rehearse baseline  within 10 min",
        ),
        Row(
            "reload",
            "what the baseline must read",
            (_n("checkpoint or export", many=True),),
            example="reload checkpoint",
        ),
        Row("manual", "a step by hand: it fails the rehearsal", (_s("a step"),), repeat=True),
    ),
    "measure": (
        Row(
            "cell",
            "time for the pairs of one cell, again for confirming, and half of it for controls (60 s unless said)",
            (Slot("quantity", "a time"),),
            example="cell 60 s",
        ),
        Row("run", "time for a whole run (1 h)", (Slot("quantity", "a time"),), example="run 1 h"),
        Row(
            "pairs", "pairs of fresh workers (2 to 8)", (Slot("count", "at least"), Slot("count", "at most", mark="to"))
        ),
        Row("builds", "rebuilds in a pair (4)", (Slot("count", "a number"),), example="builds 6"),
        Row("rounds", "rounds in a build (10)", (Slot("count", "a number"),), example="rounds 10"),
        Row("block", "length of a block (10 ms)", (Slot("quantity", "a time"),), example="block 10 ms"),
        Row("timeout", "for one request to a worker (600 s)", (Slot("quantity", "a time"),), example="timeout 600 s"),
        Row("malloc", "tuned or default (tuned)", (_n("tuned or default"),), example="malloc default"),
    ),
}

#: The line of a gate: a metric, then this.
GATE = Row(
    "",
    "a gate",
    (Slot("rest", "a relation"),),
    _GATE_NAMED,
    repeat=True,
    example="latency.p50 growth <= 3 % else isolate",
)
