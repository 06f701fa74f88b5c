"""Bits under deterministic algorithms on two real versions of torch: where the switch is on, and what torch refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchspec import ledger as tool_ledger
from torchspec.judge import judge
from torchspec.model.plan import Plan

pytestmark = [pytest.mark.torch, pytest.mark.slow]

OUTPUT, GRADIENT = "determinism.output_forced", "determinism.gradient_forced"
#: Gives other numbers where the switch is on.
SWITCHED = """
import torch

class Work(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x) + float(torch.are_deterministic_algorithms_enabled())

def build():
    return Work(), (torch.randn(4, 8),)
"""
#: The backward pass has an operator without a deterministic implementation; the forward pass has none.
REFUSED = """
import torch

class Last(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, found):
        return found.clone().put_(torch.tensor([0]), torch.ones(1, dtype=found.dtype))

class Work(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x):
        return Last.apply(self.inner(x))

def build():
    return Work(), (torch.randn(4, 8),)
"""


def test_the_switch_is_on_in_processes_of_its_own_and_a_refusal_is_told_in_torchs_words(
    make_plan: Callable[..., Plan], harness_file: Callable[..., Path], baseline_python: Path, candidate_python: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    plan = make_plan(
        [("switched", "python", "train", {}), ("refused", "python", "train", {})],
        (OUTPUT, GRADIENT),
        team={"switched.py": SWITCHED, "refused.py": REFUSED},
    )
    sides = ["--baseline", str(baseline_python), "--candidate", str(candidate_python)]
    command = [sys.executable, "-I", str(harness_file(plan)), "pair", *sides, "--evidence", str(tmp_path / "ev")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    path = tmp_path / "ev" / "ledger.jsonl"
    assert not tool_ledger.verify(path).problems
    held = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def bodies(kind: str, workload: str) -> list[dict[str, Any]]:
        (cell,) = (c.id for c in plan.cells if c.workload == workload)
        return [r["body"] for r in held if r["kind"] == kind and r["body"].get("cell") == cell]

    assert [b["status"] for w in ("switched", "refused") for b in bodies("cell.done", w)] == ["measured"] * 2
    for side in ("baseline", "candidate"):
        by_metric = {
            metric: [b for b in bodies("sample", "switched") if (b["side"], b["metric"]) == (side, metric)]
            for metric in ("process", "process.digests_forced")
        }
        assert len(by_metric["process"]) == 1, "the plain work is not repeated for it"
        forced = by_metric["process.digests_forced"]
        assert [b["repeat"] for b in forced] == [0, 1, 2]
        assert all(b["detail"]["switches"]["deterministic_algorithms"] is True for b in forced)
        plain = by_metric["process"][0]["detail"]["digests"]
        digests = [d for b in forced for d in b["detail"]["digests"]["output"]]
        assert len(digests) == 6
        assert len(set(digests)) == 1
        assert plain["output"] != digests[0], "off in the plain process, on in the others"
        facts = {b["metric"]: b for b in bodies("fact", "refused") if b["side"] == side}
        assert facts[OUTPUT]["holds"] is True
        assert facts[GRADIENT]["holds"] is False
        assert "put_ does not have a deterministic implementation" in facts[GRADIENT]["error"]
        assert facts[GRADIENT]["detail"]["how"] == "raised"
    assert [r for r in held if r["kind"] == "side.failed"] == []
    cells = {cell.id: cell.workload for cell in plan.cells}
    found = {(cells[j.cell], j.metric): j for j in judge(plan, tool_ledger.read(path)).judgements}
    for name, metric in (("switched", OUTPUT), ("switched", GRADIENT), ("refused", OUTPUT)):
        assert found[name, metric].outcome == "pass", found[name, metric].reason
    assert "under torch.use_deterministic_algorithms(True)" in found["switched", OUTPUT].reason
    refused = found["refused", GRADIENT]
    assert (refused.outcome, refused.rule) == ("inconclusive", "baseline fails too")
    assert "put_ does not have a deterministic implementation" in refused.reason
