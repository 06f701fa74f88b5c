"""A real repository, compiled folder, ledger and sealed memo for tests of provenance. Nothing is measured: the ledger's
figures are made up and say so, everything else (git, keys, signatures, PDF) is real.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from plans import make_judged, make_plan

from torchspec import ledger as ledgers
from torchspec.core.canon import digest, file_digest, sha256_hex
from torchspec.core.files import pretty
from torchspec.core.registered import registered
from torchspec.decide import decide
from torchspec.model.codec import to_json
from torchspec.model.plan import Plan, SpecFile
from torchspec.model.registration import Lock, LockedFile, Registration
from torchspec.model.verdict import Verdict
from torchspec.provenance import bundle, git, keyfile, keys, lock, registration, terms
from torchspec.provenance.keys import SigningKey

SPEC = 'tspec 1\nupgrade "small" {\n  owner "team"\n}\n'
HARNESS = "print('not a harness: provenance only digests it')\n"
NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


def run_git(folder: Path, *arguments: str, at: str | None = None) -> str:
    """Runs git with an author and no configuration of this machine; `at` sets both dates."""
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_{what}": "team@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    if at:
        env |= {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_key(folder: Path, name: str = "default", person: str = "Ana Example", **options: Any) -> SigningKey:
    """A new key in `folder`."""
    made = keys.new_key(name, person, folder=folder, **options)
    assert made.value is not None, made.diagnostics
    loaded = keyfile.load_key(name, folder=folder)
    assert loaded.value is not None, loaded.diagnostics
    return loaded.value


@cache
def small_pdf() -> bytes:
    """A real PDF of two pages, made by WeasyPrint."""
    from weasyprint import HTML

    pages = "<h1>Decision: adopt</h1><p>It may.</p><h2 style='break-before: page'>Gates</h2><p>All inside.</p>"
    made: bytes = HTML(string=f"<html lang=en><title>memo</title><body>{pages}</body></html>").write_pdf()
    return made


def render(folder: Path, words: str = "adopt") -> None:
    """Writes what the report would write, in a few words."""
    (folder / "memo.md").write_text(f"**Decision: {words}.**\n", encoding="utf-8")
    (folder / "memo.html").write_text(f"<!doctype html><title>memo</title><p>{words}</p>\n", encoding="utf-8")
    (folder / "memo.json").write_bytes(pretty({"decision": words}))
    (folder / "memo.pdf").write_bytes(small_pdf())


@dataclass
class Project:
    """A team's project: a repository with a spec, `out/small` beside it, and a key."""

    root: Path
    key: SigningKey

    @property
    def spec(self) -> Path:
        return self.root / "specs" / "small.tspec"

    @property
    def out(self) -> Path:
        return self.root / "out" / "small"

    @property
    def ledger(self) -> Path:
        return self.out / "evidence" / "ledger.jsonl"

    def write_spec(self, text: str, *, commit: bool = True, at: str | None = "2020-01-02T12:00:00Z") -> None:
        self.spec.parent.mkdir(exist_ok=True)
        self.spec.write_text(text, encoding="utf-8")
        if commit:
            run_git(self.root, "add", "specs")
            run_git(self.root, "commit", "-q", "-m", "state the limits", at=at)

    def plan(self, limit: float = 1.0) -> Plan:
        """The plan that a compiler would make of the spec as it is on disk; its limits are `limit`."""
        plan = make_plan({"cpu": "required"}, {"attention": ["cpu"]}, {"latency.p50": "isolate", "runs": "defer"})
        ids = {c.id: digest(c.id)[:12] for c in plan.cells}
        gates = tuple(
            replace(
                gate,
                id=digest(gate.id)[:12],
                cells=tuple(ids[c] for c in gate.cells),
                limit=gate.limit
                if gate.limit.value is None
                else replace(gate.limit, value=limit, text=f"<= {limit:g}"),
            )
            for gate in plan.gates
        )
        cells = tuple(replace(c, id=ids[c.id]) for c in plan.cells)
        spec = (SpecFile("small.tspec", sha256_hex(registered(self.spec.read_bytes()))),)
        return replace(plan, gates=gates, cells=cells, spec=spec)

    def compile(self, limit: float = 1.0) -> lock.Locked:
        """Writes plan, harness and lock as `torchspec compile` would, and remembers the plan."""
        plan = self.plan(limit)
        plan_digest = digest(to_json(plan))
        (self.out / "harness").mkdir(parents=True, exist_ok=True)
        (self.out / "plan.json").write_bytes(pretty(to_json(plan)))
        (self.out / "harness" / "cpu.py").write_text(HARNESS, encoding="utf-8")
        whole = (LockedFile("small.tspec", file_digest(self.spec)),)
        made = lock.make_lock(plan, plan_digest, {"cpu": HARNESS}, "0" * 64, git.describe(self.spec), {}, spec=whole)
        lock.write_lock(made, self.out / "lock.json")
        registration.remember(self.out, plan, plan_digest)
        checked = lock.check_lock(self.out)
        assert checked.value is not None, checked.diagnostics
        return checked.value

    def run(self, locked: lock.Locked, name: str = "r-1", *, evidence: bool = True) -> None:
        """Appends a run whose figures are made up."""
        body = {
            "plan": locked.plan_digest,
            "harness": {"backend": "cpu", "sha256": locked.lock.harness["cpu"]},
            "argv": ["cpu.py", "pair"],
            "backend": "cpu",
            "candidate": "candidate",
            "git": git.context(git.describe(self.spec)),
            "host": {"machine": "made up"},
            "pid": 1,
            "lock": locked.lock_digest,
        }
        ledgers.append(self.ledger, name, "run.start", body)
        cell = locked.plan.cells[0].id
        if evidence:
            sample = {"cell": cell, "candidate": "candidate", "side": "candidate", "metric": "latency.p50"}
            for repeat in range(3):
                figure = {**sample, "value": 0.001 + repeat, "unit": "s", "repeat": repeat}
                ledgers.append(self.ledger, name, "sample", figure)
        end = {"status": "completed", "wall_s": 1.0, "cells": {"done": 1, "total": 1}}
        ledgers.append(self.ledger, name, "run.end", end)

    def verdict(self, locked: lock.Locked) -> Verdict:
        judged = replace(make_judged(locked.plan), ledger_head=ledgers.head(self.ledger))
        return decide(locked.plan, judged, locked.plan_digest)

    def registration(self, locked: lock.Locked) -> Registration:
        runs = registration.runs_of(ledgers.read(self.ledger))
        return registration.assess(
            locked.lock, locked.plan, runs, repo=self.root, history=self.out / terms.HISTORY_FOLDER
        )

    def seal(self, locked: lock.Locked, **options: Any) -> Path:
        """Seals a memo; the folder."""
        given: dict[str, Any] = {
            "render": render,
            "compiled": self.out,
            "locked": locked,
            "spec_folder": self.spec.parent,
            "ledger": self.ledger,
            "key": self.key,
            "tool": "0.1.0",
            "now": datetime.now(UTC),
        }
        given |= options
        given.setdefault("verdict", self.verdict(locked))
        given.setdefault("registration", self.registration(locked))
        sealed = bundle.seal(self.out / "memo", **given)
        assert sealed.value is not None, sealed.diagnostics
        return sealed.value.folder


def make_project(root: Path, *, repository: bool = True) -> Project:
    """A project with a committed spec; nothing compiled yet."""
    root.mkdir(parents=True, exist_ok=True)
    project = Project(root, make_key(root.parent / f"{root.name}-keys"))
    if repository:
        run_git(root, "init", "-q", "-b", "main")
        (root / ".gitignore").write_text("out/\n", encoding="utf-8")
        run_git(root, "add", ".gitignore")
    project.write_spec(SPEC, commit=repository)
    return project


__all__ = ["HARNESS", "NOW", "SPEC", "Lock", "Project", "make_key", "make_project", "render", "run_git", "small_pdf"]
