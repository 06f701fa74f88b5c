"""The real emitted harness under `run_backend`, with the two real torch versions: completed, interrupted, killed."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchspec import execute, ledger
from torchspec.core.canon import digest
from torchspec.emit.bundle import emit
from torchspec.ledger.ingest import ingest
from torchspec.model.codec import to_json
from torchspec.pipeline import lower_spec

pytestmark = [pytest.mark.torch, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[3]

SPEC = """tspec 1
upgrade "drive" {{
  owner  "tests"
  asks   "Does it run to its end?"
}}
frozen {{
  seed  1
}}
baseline torch "2.13.0"  python "{baseline}"
candidate torch "2.14.1"  python "{candidate}"
backend cpu  threads 1
workload attention {{
  kind   attention
  mask   causal
  shape {{
    batch     1
    heads     2
    seq       64
    head_dim  32
  }}
  dtype  float32
  mode   infer
  on     cpu
  gates  plain
}}
gates plain {{
  error.max_abs          <= 1e-4        against baseline  else rollback
  memory.allocated_peak  growth <= 5 %  else defer
}}
rollback {{
  rehearse  baseline  within 10 min
}}
measure {{
  cell  5 s
  run   2 min
}}
"""


class Drive:
    """A compiled spec on disk, and one run of its harness after another into one evidence folder."""

    def __init__(self, folder: Path, baseline: Path, candidate: Path) -> None:
        spec = folder / "drive.tspec"
        spec.write_text(SPEC.format(baseline=baseline, candidate=candidate))
        lowered = lower_spec(spec, {})
        assert lowered.plan is not None, lowered.diagnostics
        text = emit(lowered.plan)["cpu"]
        self.plan = digest(to_json(lowered.plan))
        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        self.harness = folder / "cpu.py"
        self.harness.write_text(text)
        self.evidence = folder / "evidence"
        self.ledger = self.evidence / "ledger.jsonl"
        self.words = {"baseline": baseline, "candidate": candidate, "harness": self.harness, "evidence": self.evidence}

    def go(self, run: str) -> tuple[execute.RunResult, list[dict]]:
        events: list[dict] = []
        result = execute.run_backend(
            self.harness,
            backend="cpu",
            baseline=self.words["baseline"],
            candidate=self.words["candidate"],
            candidate_id="candidate",
            evidence=self.evidence,
            run=run,
            context={"git": None, "tool": "0.1.0", "lock": None},
            on_event=events.append,
        )
        assert result.value is not None, result.diagnostics
        return result.value, events

    def elsewhere(self, run: str) -> subprocess.Popen[str]:
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            "from pathlib import Path\nfrom torchspec import execute\n"
            f"execute.run_backend(Path({str(self.harness)!r}), backend='cpu', candidate_id='candidate',"
            f" baseline=Path({str(self.words['baseline'])!r}), candidate=Path({str(self.words['candidate'])!r}),"
            f" evidence=Path({str(self.evidence)!r}), run={run!r}, context={{}}, on_event=lambda event: None)"
        )
        return subprocess.Popen([sys.executable, "-c", code])

    def processes(self) -> list[int]:
        """Processes that were started for this evidence folder."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.evidence).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def endings(self) -> list[str]:
        return [r.body["status"] for r in ledger.read(self.ledger) if r.kind == "cell.done"]


@pytest.fixture
def drive(tmp_path, baseline_python, candidate_python):
    return Drive(tmp_path, baseline_python, candidate_python)


def test_it_completes_and_every_record_fits_the_published_schema(drive, tmp_path):
    result, events = drive.go("r-1")
    assert result.status == "completed", result.log.read_text()
    assert {"plan", "cell", "doing", "done", "end"} <= {e["event"] for e in events}
    report = ledger.verify(drive.ledger)
    assert (report.problems, report.torn_tail) == ((), 0)
    assert drive.endings() == ["measured"]
    kinds = {record.kind for record in ledger.read(drive.ledger)}
    assert {"run.start", "side.environment", "frozen.made", "frozen.seen", "sample", "cell.done", "run.end"} <= kinds
    again, _ = drive.go("r-2")
    assert again.status == "completed"
    assert drive.endings() == ["measured"]
    assert drive.processes() == []
    taken = ingest(drive.evidence, drive.plan, {"cpu": drive.sha256}, tmp_path / "elsewhere")
    assert taken.value is not None, taken.diagnostics
    assert taken.value.added == report.count + sum(r.run == "r-2" for r in ledger.read(drive.ledger))


def test_killed_at_random_moments_it_loses_nothing_and_leaves_nothing(drive):
    chance = random.Random(3)
    for number in range(4):
        process = drive.elsewhere(f"r-{number}")
        time.sleep(chance.uniform(1.0, 8.0))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGINT]))
        process.wait(timeout=90)
        end = time.monotonic() + 10
        while drive.processes() and time.monotonic() < end:
            time.sleep(0.05)
        assert drive.processes() == []
    result, _ = drive.go("r-last")
    assert result.status == "completed"
    assert ledger.verify(drive.ledger).problems == ()
    assert drive.endings() == ["measured"]
    figures = [
        tuple(r.body.get(k) for k in ("cell", "side", "metric", "against", "repeat"))
        for r in ledger.read(drive.ledger)
        if r.kind == "sample"
    ]
    assert len(figures) == len(set(figures))
    assert not any(name.endswith(".partial") for name in os.listdir(drive.evidence / "frozen"))
