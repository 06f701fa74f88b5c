"""Driving a harness: progress, endings, limits, resuming. The harnesses here are stand-ins of a few lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from torchspec import execute, ledger
from torchspec.execute import folder

ROOT = Path(__file__).resolve().parents[3]

#: What the stand-ins share: the command line of `pair`, and the ledger written as a harness writes it.
FAKE_HARNESS = """
import argparse, json, os, signal, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from torchspec.harness.chain import Ledger
parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["pair"])
for name in ("baseline", "candidate", "candidate-id", "evidence", "run", "context", "progress", "stage"):
    parser.add_argument("--" + name)
parser.add_argument("--only", action="append", default=[])
given = parser.parse_args()
evidence = Path(given.evidence)
book = Ledger(evidence / "ledger.jsonl", given.run)
done = {{r["body"]["cell"] for r in book.records() if r["kind"] == "cell.done"}}
def say(event, **more):
    print(json.dumps({{"event": event, **more}}), flush=True)
def write(kind, **body):
    book.append(kind, body)
    book.sync()
cells = [c for c in ("c1", "c2", "c3") if c not in done]
def start():
    hexes = "ab" * 32
    write("run.start", plan=hexes, harness={{"backend": "cpu", "sha256": hexes}}, argv=sys.argv, backend="cpu",
          candidate=given.candidate_id, host={{}}, pid=os.getpid())
    say("plan", cells=len(cells))
def finish(cell):
    write("cell.done", cell=cell, candidate=given.candidate_id, status="measured", reason=None)
    say("done", cell=cell, status="measured")
def end(status="completed", code=0):
    write("run.end", status=status, reason=None, wall_s=0.1, timed_s=0.0,
          cells={{"done": len(done), "total": len(cells)}})
    say("end", status=status)
    sys.exit(code)
"""


@pytest.fixture
def fake(tmp_path):
    """Writes a stand-in harness with `text` as its work, and gives a function that runs it."""
    evidence = tmp_path / "evidence"

    def make(text: str):
        file = tmp_path / "cpu.py"
        file.write_text(FAKE_HARNESS.format(root=str(ROOT)) + textwrap.dedent(text))
        events: list[dict] = []

        def go(run: str = "r-1", **more):
            return execute.run_backend(
                file,
                backend="cpu",
                baseline=Path("/a/bin/python"),
                candidate=Path("/b/bin/python"),
                candidate_id="candidate",
                evidence=evidence,
                run=run,
                context={"git": None, "tool": "0.1.0"},
                **{"on_event": events.append, **more},
            )

        go.events, go.evidence, go.file = events, evidence, file
        return go

    return make


WORK = """
start()
for cell in cells:
    finish(cell)
end()
"""


def test_a_run_that_completes(fake):
    go = fake(WORK)
    result = go(only=("c1", "c2"), stage="one")
    assert result.diagnostics == ()
    assert (result.value.status, result.value.exit, result.value.signal) == ("completed", 0, None)
    assert [e["event"] for e in go.events] == ["plan", "done", "done", "done", "end"]
    report = ledger.verify(go.evidence / "ledger.jsonl")
    assert (report.count, report.problems) == (5, ())
    start = next(iter(ledger.read(go.evidence / "ledger.jsonl")))
    argv = start.body["argv"]
    assert argv[argv.index("--baseline") + 1] == "/a/bin/python"
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "--only"] == ["c1", "c2"]
    assert argv[argv.index("--stage") + 1] == "one"
    assert json.loads(Path(argv[argv.index("--context") + 1]).read_text()) == {"git": None, "tool": "0.1.0"}


def test_garbage_on_its_output_is_logged_and_passed_over(fake):
    go = fake(
        """
        start()
        print("torch says hello"); print('{"event": 5}'); print('{"event"'); print("[1]"); print("{" * 100_000)
        sys.stdout.buffer.write(b"\\xff\\x00\\n"); print("x" * 1_000_000); print("warning", file=sys.stderr)
        finish("c1")
        end()
        """
    )
    result = go()
    assert result.value.status == "completed"
    assert [e["event"] for e in go.events] == ["plan", "done", "end"]
    said = result.value.log.read_bytes()
    assert b"torch says hello" in said
    assert b"warning" in said
    assert len(said) < 400_000


def test_a_log_has_an_end(fake, monkeypatch):
    monkeypatch.setattr(folder, "LOG_LIMIT", 1000)
    result = fake("start()\nfor _ in range(1000): print('noise')\nend()\n")()
    assert result.value.log.stat().st_size < 1100
    assert result.value.log.read_bytes().endswith(b"the log ends here)\n")


def test_there_is_no_harness(fake):
    go = fake("")
    go.file.unlink()
    assert [d.code for d in go().diagnostics] == ["TS630"]


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ("print('error: the evidence folder cannot be used', file=sys.stderr); sys.exit(3)", "cannot be used"),
        ("raise RuntimeError('a bug')", "RuntimeError: a bug"),
        ("sys.exit(3)", "exit status 3"),
        ("start(); print('error: no space left', file=sys.stderr); end('failed', 3)", "no space left"),
    ],
)
def test_a_harness_that_could_do_nothing(fake, work, words):
    result = fake(work)()
    assert result.value is None
    (found,) = result.diagnostics
    assert found.code == "TS632"
    assert found.is_error
    assert words in found.message
    assert any("driver.log" in note for note in found.notes)


def test_a_run_that_failed_in_order_is_evidence(fake):
    result = fake("start(); say('end', status='failed', reason='python differs'); sys.exit(3)")()
    assert (result.value.status, result.value.reason) == ("failed", "python differs")
    assert [(d.code, d.is_error) for d in result.diagnostics] == [("TS632", False)]


def test_a_harness_that_is_killed_mid_record_leaves_a_whole_ledger(fake):
    go = fake(
        """
        start()
        finish(cells[0])
        if given.run == "r-1":
            os.write(book._fd, b'{"body":{"half')
            os.kill(os.getpid(), 9)
        finish(cells[1]); finish(cells[2]) if len(cells) > 2 else None
        end()
        """
    )
    result = go()
    assert (result.value.status, result.value.signal) == ("killed", "SIGKILL")
    assert sorted(d.code for d in result.diagnostics) == ["TS634", "TS707"]
    assert not any(d.is_error for d in result.diagnostics)
    records = list(ledger.read(go.evidence / "ledger.jsonl"))
    assert [r.kind for r in records] == ["run.start", "cell.done", "note", "run.end"]
    assert records[-1].body["status"] == "failed"
    assert "SIGKILL" in records[-1].body["reason"]
    assert ledger.verify(go.evidence / "ledger.jsonl").problems == ()
    assert go("r-2").value.status == "completed"
    cells = [r.body["cell"] for r in ledger.read(go.evidence / "ledger.jsonl") if r.kind == "cell.done"]
    assert cells == ["c1", "c2", "c3"]


def test_a_torn_tail_of_before_is_told(fake):
    go = fake(WORK)
    go.evidence.mkdir()
    (go.evidence / "ledger.jsonl").write_bytes(b'{"body":')
    result = go()
    assert [d.code for d in result.diagnostics] == ["TS707"]
    assert (go.evidence / "ledger.torn-1").exists()


def test_a_damaged_ledger_stops_the_run_before_it_begins(fake):
    go = fake(WORK)
    go.evidence.mkdir()
    (go.evidence / "ledger.jsonl").write_bytes(b"{}\n")
    result = go()
    assert result.value is None
    assert [d.code for d in result.diagnostics] == ["TS703"]
    assert go.events == []


def test_the_time_limit(fake):
    result = fake("start(); time.sleep(60)")(limit_s=1.0, grace_s=5)
    assert result.value.status == "timed_out"
    assert result.value.wall_s < 10
    assert [d.code for d in result.diagnostics] == ["TS633"]


def test_no_worker_is_left(fake):
    go = fake(
        """
        start()
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        say("doing", what=str(worker.pid))
        end()
        """
    )
    assert go().value.status == "completed"
    pid = next(int(e["what"]) for e in go.events if e["event"] == "doing")
    assert not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def test_an_exception_of_the_listener_ends_the_run(fake):
    class Wrong(Exception):
        pass

    pids = []

    def listener(event):
        pids.append(event)
        raise Wrong

    go = fake("start(); time.sleep(60)")
    with pytest.raises(Wrong):
        go(on_event=listener)
    assert go("r-2", limit_s=0.5, on_event=lambda _: None).value.status == "timed_out"  # the folder is free again


RUN = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from torchspec import execute
result = execute.run_backend(Path({file!r}), backend="cpu", baseline=Path("/a"), candidate=Path("/b"),
    candidate_id="candidate", evidence=Path({evidence!r}), run="r-1", context={{}},
    on_event=lambda event: print(event["event"], flush=True))
print("result", result.value.status if result.value else [d.code for d in result.diagnostics], flush=True)
"""


def elsewhere(go) -> subprocess.Popen[str]:
    code = RUN.format(root=str(ROOT), file=str(go.file), evidence=str(go.evidence))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "plan\n"
    return process


POLITE = """
def stop(*_):
    end("interrupted", 130)
signal.signal(signal.SIGINT, stop)
start()
finish(cells[0])
if given.run == "r-1":
    time.sleep(60)
for cell in cells[1:]:
    finish(cell)
end()
"""


def test_two_runs_at_once(fake):
    go = fake(POLITE)
    other = elsewhere(go)
    result = go("r-2")
    assert result.value is None
    (found,) = result.diagnostics
    assert found.code == "TS631"
    assert f"run r-1, process {other.pid}" in found.message
    other.kill()
    other.communicate()


def test_ctrl_c_ends_in_order_and_the_next_run_goes_on(fake):
    go = fake(POLITE)
    other = elsewhere(go)
    time.sleep(0.3)
    other.send_signal(signal.SIGINT)
    out, _ = other.communicate(timeout=20)
    assert out.endswith("result interrupted\n")
    assert go("r-2").value.status == "completed"
    records = list(ledger.read(go.evidence / "ledger.jsonl"))
    assert [r.body["cell"] for r in records if r.kind == "cell.done"] == ["c1", "c2", "c3"]
    assert [r.body["status"] for r in records if r.kind == "run.end"] == ["interrupted", "completed"]


def test_torchspec_killed_leaves_nothing_and_the_next_run_goes_on(fake):
    go = fake(POLITE)
    other = elsewhere(go)
    time.sleep(0.3)
    other.kill()
    other.wait()
    end = time.monotonic() + 10
    result = go("r-2")
    while [d.code for d in result.diagnostics] == ["TS631"] and time.monotonic() < end:
        time.sleep(0.05)
        result = go("r-2")
    assert result.value.status == "completed"
    records = list(ledger.read(go.evidence / "ledger.jsonl"))
    assert [r.body["cell"] for r in records if r.kind == "cell.done"] == ["c1", "c2", "c3"]
    assert ledger.verify(go.evidence / "ledger.jsonl").problems == ()


def test_a_folder_that_cannot_be_used(fake):
    go = fake(WORK)
    go.evidence.write_text("a file")
    assert [d.code for d in go().diagnostics] == ["TS701"]


def test_a_run_id_is_a_plain_name(fake):
    with pytest.raises(ValueError, match="run ID"):
        fake(WORK)("../up")
    assert os.listdir(fake(WORK).file.parent) == ["cpu.py"]
