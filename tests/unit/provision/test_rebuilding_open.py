"""Whether making the baseline again is still to be shown, read from the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torchspec import ledger
from torchspec.model.plan import Plan, Rollback
from torchspec.pipeline_back import rebuilding_open


def test_it_is_open_until_both_ways_held_in_the_last_runs_of_every_backend(
    tmp_path: Path, make_plan: Callable[..., Plan]
) -> None:
    plan = replace(make_plan({"torch": "2.13.0"}), rollback=Rollback("baseline", 60.0, ()))
    path = tmp_path / "ledger.jsonl"
    compiled: Any = SimpleNamespace(plan=plan, ledger=path, plan_digest="p" * 64)
    path.touch()
    candidate = plan.candidates[0].id

    def run(number: int, backend: str) -> None:
        body = {"plan": "p" * 64, "harness": {"backend": backend, "sha256": "a" * 64}, "argv": [], "backend": backend}
        ledger.append(path, f"r-{number}", "run.start", {**body, "candidate": candidate, "host": {}, "pid": 1})

    def step(number: int, way: str, ok: bool = True) -> bool:
        body = {"candidate": candidate, "step": f"rebuild.{way}", "cell": None, "ok": ok, "seconds": 1.0}
        ledger.append(path, f"r-{number}", "rehearsal.step", {**body, "detail": {}, "error": None if ok else "no"})
        return rebuilding_open(compiled)

    assert rebuilding_open(compiled)
    run(1, "cpu")
    assert step(1, "cache")
    assert step(1, "scratch", ok=False)
    run(2, "distributed")
    assert step(2, "cache")
    assert step(2, "scratch"), "on cpu it did not hold, and the judge says so"
    run(3, "cpu")
    assert not step(3, "scratch")
