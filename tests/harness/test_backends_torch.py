"""Emitted files of backends that are not here end each cell in `not_run` with a reason, and a lane's off switch is
thrown in a real run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from user import bodies, pair, small_spec

from torchspec import pipeline

GATE = "error.max_abs <= 1e-3 against cpu.float64 else rollback"
BACKENDS = """backend cuda
backend rocm
backend mps
backend distributed over cuda ranks 1, 2 launcher torchrun
workload step {
  kind ddp
  on distributed
  gates ranked
}
gates ranked {
  loss.one_rank <= 1e-3 else rollback
}
workload sampling {
  kind operator
  shape {
    operator softmax
    input "1x1024"
    dim "-1"
  }
  on cuda, rocm, mps
  gates service
}
workload attention {
  kind flex_attention beside sdpa
  mask causal
  shape {
    seq 64
  }
  mode infer, train
  on cuda, rocm, mps
  gates service
}
lane prototype {
  owner "kernels"
  hardware "H100"
  disable env FUSED_KERNEL "0"
  workload norm {
    kind triton "kernel.py:build" beside standard
    on cuda, rocm
    gates service
  }
  workload norm_cute {
    kind cutedsl "kernel.py:build" beside standard
    on cuda
    gates service
  }
}
workload canary {
  kind ingested "canary/*.json"
  on cuda
  gates served
}
gates served {
  error.rate increase <= 0.1 pp else rollback
}
"""
LANES = """backend cpu
workload usual {
  kind operator
  shape {
    operator softmax
    input "1x1024"
    dim "-1"
  }
  on cpu
  gates service
}
lane boring {
  owner "kernels"
  hardware "any"
  disable env FUSED_KERNEL "0"
  workload switched {
    kind python "kernel.py:build" beside standard
    on cpu
    gates service
  }
}
lane stuck {
  owner "kernels"
  hardware "any"
  disable env STUCK_KERNEL "0"
  workload unswitched {
    kind python "kernel.py:stuck" beside standard
    on cpu
    gates service
  }
}
lane misspelt {
  owner "kernels"
  hardware "any"
  disable env FUSED_KERNL "0"
  workload unseen {
    kind python "kernel.py:build" beside standard
    on cpu
    gates service
  }
}
lane wrong {
  owner "kernels"
  hardware "any"
  disable env WRONG_KERNEL "0"
  workload other_output {
    kind python "kernel.py:wrong" beside standard
    on cpu
    gates service
  }
}
"""
KERNEL = """
import os

import torch


def standard():
    return torch.nn.RMSNorm(32)


class Fused(torch.nn.Module):
    def __init__(self, variable):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(32))
        self.variable = variable

    def forward(self, rows):
        if os.environ.get(self.variable) == "0" and self.variable == "STUCK_KERNEL":
            raise RuntimeError("there is no way back")
        if os.environ.get(self.variable) == "0":
            return torch.nn.functional.rms_norm(rows, (32,), self.weight) * (1 + (self.variable == "WRONG_KERNEL"))
        scale = (rows.square().mean(-1, keepdim=True) + torch.finfo(rows.dtype).eps).rsqrt()
        return rows * scale * self.weight


def build():
    return Fused("FUSED_KERNEL"), (torch.randn(4, 32),)


def stuck():
    return Fused("STUCK_KERNEL"), (torch.randn(4, 32),)


def wrong():
    return Fused("WRONG_KERNEL"), (torch.randn(4, 32),)
"""

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def emitted(folder: Path, text: str) -> Path:
    """Compiles a spec; the folder of its harness files."""
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "s.tspec").write_text(small_spec(text, GATE))
    outcome = pipeline.compile_spec(folder / "s.tspec", folder / "out", {})
    assert outcome.compiled is not None, [d.message for d in outcome.diagnostics]
    return outcome.compiled.folder / "harness"


@pytest.mark.parametrize(("backend", "cells"), [("cuda", 6), ("rocm", 4), ("mps", 3), ("distributed", 2)])
def test_a_backend_that_is_not_here_ends_in_not_run(
    backend: str, cells: int, tmp_path: Path, baseline_python: Path, candidate_python: Path
) -> None:
    harness = emitted(tmp_path, BACKENDS) / f"{backend}.py"
    listed = subprocess.run([sys.executable, str(harness), "cells"], capture_output=True, text=True, check=True)
    assert len(json.loads(listed.stdout)["cells"]) == cells
    probed = subprocess.run([str(baseline_python), str(harness), "probe"], capture_output=True, text=True, check=True)
    if json.loads(probed.stdout).get("missing") is None:
        pytest.fail(f"this machine has {backend}: run the cells instead", pytrace=False)
    records = pair(harness, baseline_python, candidate_python, tmp_path / "evidence")
    done = bodies(records, "cell.done")
    assert [one["status"] for one in done] == ["not_run"] * cells
    served = [one for one in done if "the team's own service gives its figures" in one["reason"]]
    assert len(served) == (backend == "cuda"), "no harness can measure what a service served"
    done = [one for one in done if one not in served]
    for one in done:
        assert "was not built for" in one["reason"] or "this machine has no" in one["reason"]
    unsupported = bodies(records, "unsupported")
    assert {one["cell"] for one in unsupported} == {one["cell"] for one in done}
    assert {one["where"] for one in unsupported} == {"machine"}
    assert not bodies(records, "sample"), "nothing is measured anywhere else instead"


def test_the_off_switch_is_thrown_and_the_work_runs_another_way(
    tmp_path: Path, baseline_python: Path, candidate_python: Path
) -> None:
    harness = emitted(tmp_path, LANES) / "cpu.py"
    records = pair(harness, baseline_python, candidate_python, tmp_path / "evidence")
    assert [one["status"] for one in bodies(records, "cell.done")] == ["measured"] * 5
    switches = [one for one in bodies(records, "rehearsal.step") if one["step"] == "switch"]
    (held,) = [one for one in switches if one["ok"]]
    assert held["detail"]["env"] == ["FUSED_KERNEL"]
    assert "operators" in held["detail"]["changed"], held
    stuck, misspelt, wrong = [one["error"] for one in switches if not one["ok"]]
    assert stuck == "RuntimeError: there is no way back"
    assert "the switch changed nothing that can be seen: with FUSED_KERNL=0" in misspelt
    assert "with WRONG_KERNEL=0 the output differs from that of what stands beside it" in wrong
