"""Codes TS7xx (evidence and judging)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = (
    Code(
        "TS701",
        "the ledger cannot be written",
        "Evidence is written while it happens. When the disk is full or the folder is not writable, measuring stops: "
        "what could not be written was not measured. The record that did not fit is taken back, so the ledger "
        "stays whole.",
    ),
    Code(
        "TS702",
        "the ledger cannot be read",
        "Without its ledger a run has no evidence, and no evidence is never a pass.",
    ),
    Code(
        "TS703",
        "a record was changed",
        "Each record holds the SHA-256 of its own content. Here the content and the hash differ, so somebody or "
        "something changed it after it was written. A correction is a new record, never an edit.",
    ),
    Code(
        "TS704",
        "records are missing or out of order",
        "Each record is numbered and names the hash of the one before it. The chain breaks where a record was removed, "
        "doubled, moved or taken from another ledger.",
    ),
    Code("TS705", "a line is not a record", "The ledger holds one record of canonical JSON a line, and nothing else."),
    Code(
        "TS706",
        "a record does not fit its kind",
        "The body of each kind of record has a published schema (`torchspec schema evidence`). A body that does not "
        "fit cannot be judged, whoever wrote it.",
    ),
    Code(
        "TS707",
        "a torn tail",
        "The program that wrote the ledger was killed in the middle of a record. The bytes after the last whole record "
        "are no evidence: they are set aside in a file beside the ledger, and a note in the ledger says so.",
    ),
    Code(
        "TS708",
        "another program writes the ledger",
        "Two writers would break the chain, so the second one has to wait.",
    ),
    Code(
        "TS711",
        "no evidence to take in",
        "`ingest` takes a folder that the emitted harness has filled on another machine: it holds `ledger.jsonl`.",
        "torchspec ingest laptop/ledger.jsonl",
        "torchspec ingest laptop",
    ),
    Code("TS712", "evidence from elsewhere does not hold", "Its chain is broken, so nothing of it is taken in."),
    Code(
        "TS713",
        "evidence for another plan",
        "A run names the digest of the plan it measured. Evidence for another plan (a limit, a shape or a version "
        "changed since) says nothing about this one.",
    ),
    Code(
        "TS714",
        "evidence of another harness",
        "A run names the SHA-256 of the harness that measured it. It must be one of the harness files that were "
        "compiled.",
    ),
    Code(
        "TS715",
        "two histories of one run",
        "A run of the same name is in the ledger already, with records that the new evidence lacks. One of the two was "
        "cut or rewritten, so neither can be added to the other.",
    ),
    Code(
        "TS716", "records of no run", "Each run begins with a `run.start` record that says what was run, and by what."
    ),
    Code(
        "TS717",
        "a log or a canary's file is missing or was changed",
        "Evidence names its logs, and the files of a canary, by digest. The record counts; the file does not.",
    ),
    Code(
        "TS718",
        "a canary's run with what only a harness gives",
        "A run that took in files of a service names no harness. It may hold figures of rows of kind `ingested`; of "
        "any other row it would be evidence that nothing measured.",
    ),
    Code(
        "TS731",
        "a calibration is of another machine or setting",
        "How much equal pairs differ depends on the machine, the packages, the threads and the shape of pairs. A "
        "calibration that was measured otherwise is not used; the run's own controls serve.",
        good="torchspec calibrate",
    ),
    Code(
        "TS732",
        "a calibration is too old",
        "A machine's noise changes. A calibration counts for a fortnight, and one from the future does not count.",
        good="torchspec calibrate",
    ),
    Code(
        "TS733",
        "a calibration cannot be read",
        "The file in the cache is not what `torchspec calibrate` writes, so nothing of it is used.",
        good="torchspec calibrate",
    ),
    Code(
        "TS741",
        "a canary without files (warning)",
        "A row of kind `ingested` is judged by files that the team's own service wrote. Without them it stays not run, "
        "and defers.",
        'kind ingested "canary/*.json"     # and the folder is empty',
        "torchspec schema canary           # what such a file holds",
    ),
    Code(
        "TS742",
        "a file that is no canary file",
        "A canary file is JSON with a published schema. One that cannot be read, is empty, or holds what the schema "
        "does not know refuses the whole row: leaving it out could leave out the bad hour.",
        '{"samples": [{"metric": "error.rate", "value": NaN}]}',
        "torchspec schema canary",
    ),
    Code(
        "TS743",
        "a canary of something else",
        "Figures count for the plan, the candidate and the torch versions that they were taken for. A file names the "
        "plan's digest, so that no limit can be chosen after its figures were seen.",
        '"torch": {"baseline": "2.13.0", "candidate": "2.14.0"}     # the plan says 2.14.1',
        '"torch": {"baseline": "2.13.0", "candidate": "2.14.1"}',
    ),
    Code(
        "TS744",
        "a figure of a canary that cannot be taken",
        "Units are types here too: a rate of errors is in %, with the number of requests that it is of; a time in ms. "
        "A figure that is not finite, or cannot be, is not taken.",
        '{"metric": "error.rate", "value": 0.12, "unit": "ms"}',
        '{"metric": "error.rate", "value": 0.12, "unit": "%", "requests": 18234}',
    ),
    Code(
        "TS745",
        "windows of a canary that contradict each other",
        "Each figure is of one group in one window of time that is over. The same group and time twice would count "
        "twice, and files that are grouped otherwise are no more of one kind.",
        '{"group": "host-11", "since": "2026-11-03T04:00Z", "until": "2026-11-03T03:00Z"}',
        '{"group": "host-11", "since": "2026-11-03T03:00Z", "until": "2026-11-03T04:00Z"}',
    ),
    Code(
        "TS746",
        "a canary smaller than the spec says",
        "`share 5 % of traffic for 24 h` was agreed before anything was seen. Files of less traffic, or of less time "
        "in which both sides served, are not what was agreed.",
        '"share": {"value": 1, "unit": "%"}',
        '"share": {"value": 5, "unit": "%"}',
    ),
    Code("TS721", "this export needs pyarrow", "Parquet files are written by pyarrow, which is an optional extra."),
)
