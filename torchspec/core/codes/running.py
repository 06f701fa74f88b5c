"""Codes TS6xx (provisioning and running) and TS9xx (plugins and the tool)."""

from __future__ import annotations

from torchspec.core.codes._row import Code

TABLE: tuple[Code, ...] = (
    Code(
        "TS601",
        "there is no such interpreter",
        "A side that names `python` uses an interpreter that is there already. Its path is relative to the spec.",
        'candidate python "nightly"',
        'candidate python "../envs/nightly/bin/python"',
    ),
    Code(
        "TS602",
        "the interpreter cannot be run",
        "It is asked for its version and packages before anything is measured.",
    ),
    Code("TS603", "the interpreter has no torch", "torch is what is measured. torchspec installs nothing into it."),
    Code(
        "TS604",
        "another torch than the spec names",
        "Evidence about another version says nothing about the one in the spec: a broken control, never a result.",
        'candidate torch "2.14.1"  python "env-of-2.13/bin/python"',
        'candidate torch "2.13.0"  python "env-of-2.13/bin/python"',
    ),
    Code(
        "TS605",
        "another Python than the spec freezes",
        "Both sides run the Python that `frozen` names. Another one is a difference that was not declared.",
        'frozen {\n  python "3.12"\n}',
    ),
    Code(
        "TS606",
        "a frozen package is missing or another version",
        "`frozen` says which packages both sides have. torchspec installs nothing into an interpreter that was there.",
    ),
    Code(
        "TS607",
        "the sides differ in more than torch",
        "torch and what torch itself pins are the only difference between the sides; anything else could be the cause "
        "of what is measured. `may_differ` declares a difference that is meant.",
        'candidate torch "2.14.1"',
        'candidate torch "2.14.1"  may_differ "triton", "nvidia-*"',
    ),
    Code(
        "TS610",
        "no such Python on this machine",
        "An environment is made with the Python that `frozen` names. It has to be on PATH; torchspec installs none.",
        'frozen {\n  python "3.19"\n}',
        'frozen {\n  python "3.12"\n}',
    ),
    Code(
        "TS611",
        "no such torch",
        "pip finds no such version for this Python and this machine in the indexes it is configured for.",
        'baseline torch "9.9.9"',
        'baseline torch "2.13.0"',
    ),
    Code(
        "TS612",
        "no such package",
        "pip finds no such version for this Python and this machine in the indexes it is configured for.",
        'frozen {\n  package "numpy==99"\n}',
        'frozen {\n  package "numpy==2.4.0"\n}',
    ),
    Code("TS613", "the frozen packages do not go with torch", "Their requirements contradict those of torch itself."),
    Code("TS614", "the package index cannot be reached", "pip could not connect. What is in the cache still works."),
    Code(
        "TS615",
        "the disk is full",
        "An environment takes 1 to 8 GB. What was half made has been removed; nothing of it is taken for whole.",
    ),
    Code("TS616", "pip failed", "pip ended with an error of its own; its output is in the log."),
    Code(
        "TS617",
        "an archive is not the one in the lock",
        "The lock holds the SHA-256 of each archive that was measured. The one that is offered now is another.",
    ),
    Code("TS618", "a folder cannot be used", "Environments are made in a folder that can be written and starts empty."),
    Code(
        "TS619",
        "the restored environment is another one",
        "Going back means going back to exactly what ran before: each package of the lock, in its version.",
    ),
    Code("TS620", "no virtual environment could be made", "It takes a Python with its modules venv and ensurepip."),
    Code(
        "TS630", "there is no harness to run", "`torchspec compile` writes one harness file a backend; `run` starts it."
    ),
    Code(
        "TS631",
        "another run is measuring",
        "Two runs on one machine disturb each other and would write one ledger, so one at a time has the folder.",
    ),
    Code("TS632", "the harness could not do anything", "It ended before it had measured a cell. Its log says why."),
    Code(
        "TS633",
        "the time for the run is over",
        "A run has a time limit, so that a machine that hangs holds up nothing else. What was measured is kept.",
    ),
    Code(
        "TS634", "the harness was killed", "A signal ended it, as when memory runs out. `run` again goes on from there."
    ),
    Code(
        "TS635",
        "processes could not be ended",
        "They are stuck in the system (a device, a network disk). They keep memory.",
    ),
)
