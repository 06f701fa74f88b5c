"""Codes TS5xx (policy): contradictions of the decision table, and what a reviewer would miss."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = (
    Code(
        "TS501",
        "a failure that adopts",
        "A gate whose failure means adopt decides nothing. `report` shows a figure without judging it.",
        "latency.p50  growth <= 3 %  else adopt",
        "report latency.p50",
    ),
    Code(
        "TS502",
        "nothing leads to rollback",
        "A spec in which no outcome on a required row leads to rollback cannot say that an upgrade did harm.",
        'error.max_abs  <= 1e-4  against cpu.float64  else defer  because "..."',
        "error.max_abs  <= 1e-4  against cpu.float64  else rollback",
    ),
    Code(
        "TS503",
        "a limit that no measurement can cross",
        "A gate must be able to fail. Times end where a worker counts as hung, shares end at 100 %, nothing falls by "
        "more than 100 %, and a hundredfold change is not a measurement any more.",
        "latency.p50  growth <= 1000000 %  else isolate",
        "latency.p50  growth <= 3 %  else isolate",
    ),
    Code(
        "TS504",
        "a gate without a cell",
        "A gate that judges no cell of the matrix never fails and never passes. Its metric is not given in the modes "
        "of the workloads that use the set, or `on`, `at` and `in` select nothing, or nobody uses the set.",
        "determinism.gradient  identical  in train  else defer     # no workload trains",
        "mode  infer, train",
    ),
    Code(
        "TS505",
        "a cell without a gate",
        "Work that is measured and judged by nothing would count as if it had passed. Reports and the implicit gate "
        "`runs` judge nothing.",
        "mode  infer, export     # and the set has no gate for export",
        "export.roundtrip  holds  else defer",
    ),
    Code(
        "TS506",
        "a gate that another one hides",
        "Wherever the hidden gate fails, the other one fails too and answers at least as hard. A reader would take the "
        "hidden line for a second threshold, which it is not.",
        "latency.p50  growth <= 3 %  else rollback\nlatency.p50  growth <= 5 %  else isolate",
        "latency.p50  growth <= 3 %  else isolate\nlatency.p50  growth <= 10 %  else rollback",
    ),
    Code(
        "TS507",
        "limits that contradict each other",
        "No measurement can meet both limits, so one of the two gates always fails.",
        "latency.p50  growth <= 3 %  else isolate\nlatency.p50  growth >= 5 %  else isolate",
        "latency.p50  growth <= 3 %  else isolate",
    ),
    Code(
        "TS508",
        "no required row",
        "Optional rows and lanes cannot carry a decision: where nothing has to pass, the fleet always defers.",
        'optional cpu  because "..."  until 2027-01-31     # the only backend',
        "backend cpu",
    ),
    Code(
        "TS509",
        "a required backend that only lanes use",
        "A lane is never better than isolate and has no vote, so nothing would be decided about this backend.",
        "lane prototype { ... on cuda }     # and nothing else on cuda",
        'optional cuda  because "kernels only"  until 2027-01-31',
    ),
    Code(
        "TS510",
        "an exception without a reason",
        "Optional, waive, except, together, a silenced warning and an `else` that is weaker than usual are exceptions. "
        "The memo prints their reason.",
        "loss.final  growth <= 0.1 %  else defer",
        'loss.final  growth <= 0.1 %  else defer  because "a smoke run of ten steps"',
    ),
    Code(
        "TS511",
        "an exception without an end",
        "An optional backend and a waiver end on a day, so that somebody looks at them again.",
        'optional rocm  because "two workers left"',
        'optional rocm  because "two workers left"  until 2027-01-31',
    ),
    Code(
        "TS512",
        "an end before the window opens",
        "The exception would be over before anything is measured.",
        'window  2026-12-01 to 2026-12-14\noptional rocm  because "..."  until 2026-11-01',
        'optional rocm  because "..."  until 2027-01-31',
    ),
    Code(
        "TS513",
        "a waiver that changes nothing",
        "A waived failure isolates. Where no gate judges the metric, or its failure isolates already, the line only "
        "hides what is going on.",
        "waive latency.p50 of reranker on cpu  ...     # its gate says else isolate",
        "waive memory.driver_peak of reranker on mps  ...     # its gate says else defer",
    ),
    Code(
        "TS514",
        "a waiver that is not allowed",
        "Correctness is never waived, and neither is a failure that means rollback.",
        "waive error.max_abs of reranker on cpu  ...",
        'except  mode train  on mps  because "..."  until 2027-01-31',
    ),
    Code(
        "TS515",
        "an `except` that removes nothing, or everything",
        "An exception that matches no combination misleads; one that takes all of a workload should take its lines.",
        "except  mode export     # the workload has no mode export",
        'except  mode train  on mps  because "no backward for this mask"',
    ),
    Code(
        "TS516",
        "`sees` is not beyond the limit",
        "The control plants a change of that size and must see it fail. A change inside the limit passes, so the "
        "control could never work.",
        "latency.p50  growth <= 3 %  sees 3 %  else isolate",
        "latency.p50  growth <= 3 %  sees 5 %  else isolate",
    ),
    Code(
        "TS517",
        "a candidate that is the same",
        "Baseline and candidate, or two candidates, differ in nothing that was declared: version, path or interpreter.",
        'baseline   torch "2.14.1"\ncandidate  torch "2.14.1"',
        'baseline   torch "2.14.1"  path sdpa\ncandidate  torch "2.14.1"  path flex_attention',
    ),
    Code(
        "TS518",
        "a version that moves",
        "Evidence about `nightly` or `>=2.14` is about another version tomorrow. Versions are exact.",
        'candidate  torch "nightly"',
        'candidate  torch "2.16.0.dev20261101"',
    ),
    Code(
        "TS519",
        "a lane that is not complete",
        "A prototype names who owns it, on what hardware it runs, what it is compared with and how to switch it off.",
        'lane prototype {\n  owner  "kernels"\n}',
        'lane prototype {\n  owner     "kernels"\n  hardware  "H100"\n  disable   env FUSED_KERNEL "0"\n}',
    ),
    Code(
        "TS520",
        "a rollback that nobody rehearses",
        "Where a failure means rollback, going back is rehearsed and timed in the same run.",
        "error.max_abs  <= 1e-4  against cpu.float64  else rollback     # and no rollback block",
        "rollback {\n  rehearse  baseline  within 10 min\n}",
    ),
    Code(
        "TS521",
        "a shared gate that is loosened without a reason",
        "A set that extends another one may loosen or drop a gate, and says why where a reviewer sees it.",
        "gates training extends service {\n  latency.p95  growth <= 10 %  else isolate\n}",
        'latency.p95  growth <= 10 %  else isolate  because "nobody waits for one step"',
    ),
    Code(
        "TS522",
        "a `together` that binds nothing",
        "`together` binds two or more workloads that share one image. A lane has its own row and binds nobody.",
        'together reranker  because "one image"',
        'together reranker, sparse_attention  because "one image"',
    ),
    Code(
        "TS523",
        "a limit that points the wrong way",
        "A limit catches harm: at most for what is worse when it rises, at least for what is worse when it falls. One "
        "that points the other way fails on an improvement and passes on a regression.",
        "throughput  growth <= 3 %  else isolate",
        "throughput  drop <= 3 %  else isolate",
    ),
    Code(
        "TS524",
        "a limit that no measurement can meet",
        "A gate that always fails decides before anything is measured.",
        "error.cosine  >= 1.5  against baseline  else rollback",
        "error.cosine  >= 0.999  against baseline  else rollback",
    ),
    Code(
        "TS525",
        "a reload of what nothing writes",
        "The rehearsal of going back reads what the candidate wrote: a checkpoint of work that has weights, a program "
        "of a cell in the mode export. Where no cell of the spec writes it, the rehearsal could never pass.",
        "mode    infer                  # and no workload exports\nreload  checkpoint, export",
        "mode    infer, export\nreload  checkpoint, export",
    ),
    Code(
        "TS526",
        "a gate over shapes, of which there is one",
        "Recompiles, and an export with dynamic shapes, are about the sizes that `shape` declares: the cells of a "
        "workload in one mode that differ in whole numbers alone. With one size nothing is asked of the compiler, and "
        "the gate could never be decided.",
        "seq  256                       # and compile.recompiles increase <= 0",
        "seq  256, 512",
    ),
    Code(
        "TS533",
        "a rollback with a manual step (warning)",
        "Going back must be boring. A step by hand makes the rehearsal fail, so the fleet can never adopt.",
        'manual  "restart the queue by hand"',
        "rehearse  baseline  within 10 min",
    ),
    Code(
        "TS590",
        "nothing of that name to explain",
        "`torchspec explain` knows diagnostic codes, metrics, workload kinds, backends, limits, units and decisions.",
        "torchspec explain latency.p59",
        "torchspec explain latency.p95",
    ),
)
