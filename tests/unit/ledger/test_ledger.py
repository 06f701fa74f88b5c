"""The ledger: written whole or not at all, every change found and named once."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from torchspec.core.canon import canonical, sha256_hex
from torchspec.ledger import LedgerError, Writer, append, head, read, recover, verify
from torchspec.ledger import write as writing
from torchspec.model.evidence import GENESIS

ROOT = Path(__file__).resolve().parents[3]
DONE = {"cell": "c1", "candidate": "candidate", "status": "measured", "reason": None}


def fill(path: Path, count: int) -> list[bytes]:
    with Writer(path) as writer:
        for number in range(count):
            writer.append("r-1", "note", {"by": "test", "text": f"é {number}"}, sync=False)
    return path.read_bytes().splitlines(keepends=True)


def codes(path: Path) -> list[str]:
    return [problem.code for problem in verify(path).problems]


def test_records_are_canonical_lines_in_a_chain(tmp_path):
    path = tmp_path / "evidence" / "ledger.jsonl"
    first = append(path, "r-1", "cell.done", DONE)
    second = append(path, "r-1", "note", {"by": "me", "text": "two"})
    assert (first.seq, first.prev, second.seq, second.prev) == (0, GENESIS, 1, first.hash)
    for line in path.read_bytes().splitlines():
        value = json.loads(line)
        assert canonical(value) == line
        stated = value.pop("hash")
        assert sha256_hex(canonical(value)) == stated
    assert list(read(path)) == [first, second]
    report = verify(path)
    assert (report.count, report.head, report.problems, report.torn_tail) == (2, second.hash, (), 0)
    assert head(path) == second.hash


def test_a_ledger_that_is_not_there_is_empty(tmp_path):
    path = tmp_path / "ledger.jsonl"
    assert list(read(path)) == []
    assert verify(path).count == 0
    assert head(path) == GENESIS
    assert recover(path) is None
    assert not path.exists()


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda lines: [*lines[:3], lines[3].replace(b"3", b"4", 1), *lines[4:]], ["TS703"]),
        (lambda lines: [*lines[:3], *lines[4:]], ["TS704"]),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], ["TS704", "TS704", "TS704"]),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], ["TS704"]),
        (lambda lines: lines[1:], ["TS704"]),
        (lambda lines: [*lines[:3], b"{}\n", *lines[4:]], ["TS705", "TS704"]),
        (lambda lines: [*lines[:3], b"\n", *lines[3:]], ["TS705", "TS704"]),
        (lambda lines: [*lines[:3], b"[" * 5000 + b"\n", *lines[3:]], ["TS705", "TS704"]),
        (lambda lines: [*lines[:3], lines[3].replace(b",", b", ", 1), *lines[4:]], ["TS705"]),
        (lambda lines: [*lines[:3], lines[3].replace(b'"v":1', b'"v":2'), *lines[4:]], ["TS705"]),
    ],
    ids=["edited", "dropped", "swapped", "doubled", "beheaded", "foreign", "blank", "deep", "respaced", "version"],
)
def test_each_change_is_named(tmp_path, edit, expected):
    path = tmp_path / "ledger.jsonl"
    lines = fill(path, 8)
    path.write_bytes(b"".join(edit(lines)))
    assert codes(path) == expected
    with pytest.raises(LedgerError) as raised:
        list(read(path))
    assert raised.value.diagnostic.code == expected[0]
    assert raised.value.diagnostic.span is not None


def test_every_flipped_byte_is_found(tmp_path):
    path = tmp_path / "ledger.jsonl"
    fill(path, 4)
    whole = path.read_bytes()
    for position in range(len(whole)):
        data = bytearray(whole)
        data[position] ^= 0x01
        path.write_bytes(data)
        report = verify(path)
        assert report.problems or report.torn_tail, position


def test_a_body_that_does_not_fit_its_kind(tmp_path):
    path = tmp_path / "ledger.jsonl"
    append(path, "r-1", "cell.done", {**DONE, "status": "great"})
    append(path, "r-1", "gossip", {})
    append(path, "r-1", "cell.done", DONE)
    report = verify(path)
    assert [(p.code, p.span.line) for p in report.problems if p.span] == [("TS706", 1), ("TS706", 2)]
    assert "$.status" in report.problems[0].message
    assert "gossip" in report.problems[1].message
    assert verify(path, bodies=False).ok


def test_a_torn_tail_is_set_aside_and_said(tmp_path):
    path = tmp_path / "ledger.jsonl"
    lines = fill(path, 3)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:-7])
    report = verify(path)
    assert (report.count, report.torn_tail, report.ok) == (2, len(lines[2]) - 7, True)
    assert report.problems == ()
    assert [p.code for p in report.warnings] == ["TS707"]
    assert len(list(read(path))) == 2
    torn = recover(path)
    assert torn is not None
    assert torn.file == tmp_path / "ledger.torn-1"
    assert torn.file.read_bytes() == lines[2][:-7]
    after = list(read(path))
    assert [r.kind for r in after] == ["note"] * 3
    assert after[2].body["sha256"] == torn.sha256
    assert verify(path).problems == ()
    assert recover(path) is None


def test_append_goes_on_after_a_torn_tail(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"body":')
    record = append(path, "r-1", "note", {"by": "me", "text": "next"})
    assert record.seq == 1
    assert verify(path).problems == ()
    path.write_bytes(path.read_bytes() + b"\x00" * 100)
    append(path, "r-1", "note", {"by": "me", "text": "next"})
    assert (tmp_path / "ledger.torn-2").read_bytes() == b"\x00" * 100
    assert verify(path).problems == ()


def test_nothing_follows_a_damaged_last_record(tmp_path):
    path = tmp_path / "ledger.jsonl"
    lines = fill(path, 3)
    path.write_bytes(b"".join(lines[:2]) + lines[2].replace(b"2", b"3", 1))
    with pytest.raises(LedgerError) as raised:
        append(path, "r-1", "note", {"by": "me", "text": "next"})
    assert raised.value.diagnostic.code == "TS703"


def test_a_body_that_json_cannot_hold_adds_nothing(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(ValueError, match="JSON"):
        append(path, "r-1", "note", {"by": "me", "text": float("nan")})
    assert path.read_bytes() == b""


def test_a_full_device_leaves_nothing_half_written(tmp_path):
    """A limit on file sizes stands in for the full disk: the same partial write, without a file system of one's own."""
    path = tmp_path / "ledger.jsonl"
    fill(path, 3)
    before = path.read_bytes()
    text = f"""
    import resource, signal, sys
    sys.path.insert(0, {str(ROOT)!r})
    from pathlib import Path
    from torchspec.ledger import LedgerError, append
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 50}, {len(before) + 50}))
    try:
        append(Path({str(path)!r}), "r-1", "note", {{"by": "me", "text": "x" * 500}})
    except LedgerError as error:
        print(error.diagnostic.code, error.diagnostic.message)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=True)
    assert out.stdout.startswith("TS701 cannot write")
    assert path.read_bytes() == before


@pytest.fixture
def tiny_disk(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    made = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)], capture_output=True
    )
    if not made or made.returncode:
        pytest.skip("mounting a tiny file system needs root; the limit on file sizes is tested in any case")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_a_whole_ledger(tiny_disk):
    path = tiny_disk / "ledger.jsonl"
    written = []

    def fill_up() -> None:
        for _ in range(1000):
            written.append(append(path, "r-1", "note", {"by": "me", "text": "x" * 300}))

    with pytest.raises(LedgerError) as raised:
        fill_up()
    assert raised.value.diagnostic.code == "TS701"
    assert "the disk is full" in raised.value.diagnostic.message
    report = verify(path)
    assert (report.count, report.problems, report.torn_tail) == (len(written), (), 0)
    assert len(written) > 5


def test_an_error_of_fsync_takes_the_record_back(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    fill(path, 2)

    def failing_fsync(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(writing.os, "fsync", failing_fsync)
    with pytest.raises(LedgerError, match="input/output error"):
        append(path, "r-1", "note", {"by": "me", "text": "lost"})
    monkeypatch.undo()
    assert verify(path).count == 2


def test_a_folder_or_pipe_is_not_a_ledger(tmp_path):
    (tmp_path / "ledger.jsonl").mkdir()
    for act in (verify, lambda p: list(read(p)), lambda p: append(p, "r-1", "note", {"by": "a", "text": "b"})):
        with pytest.raises(LedgerError):
            act(tmp_path / "ledger.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError):
        verify(tmp_path / "pipe")


def test_a_second_writer_waits_and_then_says_so(tmp_path):
    path = tmp_path / "ledger.jsonl"
    fill(path, 1)
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(LedgerError) as raised:
        Writer(path, patience_s=0.1)
    assert raised.value.diagnostic.code == "TS708"
    os.close(descriptor)
    Writer(path, patience_s=0.1).__exit__(None, None, None)


def test_many_writers_make_one_chain(tmp_path):
    path = tmp_path / "ledger.jsonl"

    def work(name: int) -> None:
        for number in range(25):
            append(path, f"r-{name}", "note", {"by": "me", "text": str(number)})

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = verify(path)
    assert (report.count, report.problems) == (100, ())


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_records(tmp_path):
    path = tmp_path / "ledger.jsonl"
    text = f"""
    import resource, sys, time
    sys.path.insert(0, {str(ROOT)!r})
    from pathlib import Path
    from torchspec.ledger import Writer, read, verify
    path, count = Path({str(path)!r}), int(sys.argv[1])
    body = {{"cell": "0123456789ab", "candidate": "candidate", "side": "baseline", "metric": "memory.driver_peak",
             "value": 1.5, "unit": "B", "repeat": 0, "detail": {{"words": "x" * 200}}}}
    with Writer(path) as writer:
        for _ in range(count):
            writer.append("r-1", "sample", body, sync=False)
    verify(path)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, verify(path).count, sum(1 for _ in read(path)))
    """

    def peak(count: int) -> int:
        path.unlink(missing_ok=True)
        argv = [sys.executable, "-c", textwrap.dedent(text), str(count)]
        out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
        assert out[1:] == [str(count), str(count)]
        return int(out[0]) // (1 if sys.platform == "linux" else 1024)

    small, large = peak(1_000), peak(200_000)
    assert large - small < 4 * 1024, (small, large)
