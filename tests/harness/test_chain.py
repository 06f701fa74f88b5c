"""The ledger that the harness writes: the chain, torn tails, a full disk, one writer."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from torchspec import ledger as tool_ledger
from torchspec.core import canon
from torchspec.harness.chain import EvidenceError, Ledger, canonical, plain, seal


def written(path: Path, count: int) -> Ledger:
    ledger = Ledger(path, "r-1")
    for number in range(count):
        ledger.append("note", {"number": number, "text": "naïve ✓ \u2028"})
    ledger.sync()
    return ledger


def test_tool_and_harness_share_one_canonical_form() -> None:
    value = {"b": [1, 2.5, None, True, 'é\u2028"\\'], "a": {"z": -0.0, "y": 1e-300, "x": 10**30}}
    assert canonical(value) == canon.canonical(value)
    assert seal(0, "t", "r", "note", value, "0" * 64)["hash"] == canon.digest(
        {"v": 1, "seq": 0, "time": "t", "run": "r", "kind": "note", "body": value, "prev": "0" * 64}
    )


def test_the_tool_verifies_what_the_harness_wrote(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path, 5).close()
    report = tool_ledger.verify(path)
    assert report.count == 5
    assert not report.problems


def test_a_torn_tail_is_kept_beside_the_ledger_as_the_tool_keeps_it(tmp_path: Path) -> None:
    path, theirs = tmp_path / "ledger.jsonl", tmp_path / "tool" / "ledger.jsonl"
    written(path, 3).close()
    whole = path.read_bytes()
    torn = whole[:-20][len(b"".join(whole.splitlines(keepends=True)[:2])) :]
    path.write_bytes(whole[:-20])
    theirs.parent.mkdir()
    theirs.write_bytes(whole[:-20])
    Ledger(path, "r-2").close()
    tool_ledger.recover(theirs)
    assert (tmp_path / "ledger.torn-1").read_bytes() == torn
    assert (theirs.parent / "ledger.torn-1").read_bytes() == torn
    ours, tools = list(tool_ledger.read(path)), list(tool_ledger.read(theirs))
    assert [r.seq for r in ours] == [0, 1, 2]
    assert (ours[2].kind, ours[2].run) == (tools[2].kind, tools[2].run) == ("note", "r-1")
    assert {**ours[2].body, "by": ""} == {**tools[2].body, "by": ""}
    assert (ours[2].body["what"], ours[2].body["bytes"]) == ("torn tail", len(torn))
    assert not tool_ledger.verify(path).problems


def test_a_second_torn_tail_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for number, torn in enumerate((b'{"body":{"a', b"\x00" * 100), 1):
        with path.open("ab") as stream:
            stream.write(torn)
        Ledger(path, "r-1").close()
        assert (tmp_path / f"ledger.torn-{number}").read_bytes() == torn
    assert (tmp_path / "ledger.torn-1").read_bytes() == b'{"body":{"a'
    assert [r.kind for r in tool_ledger.read(path)] == ["note", "note"]


@pytest.mark.parametrize("damage", ["changed", "not json", "empty line"])
def test_a_whole_last_line_that_is_damaged_is_refused_and_kept(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path, 3).close()
    data = path.read_bytes()
    last = data.splitlines(keepends=True)[-1]
    bad = {"changed": last.replace(b'"number":2', b'"number":7'), "not json": b"x" * 40 + b"\n", "empty line": b"\n"}
    path.write_bytes(data[: -len(last)] + bad[damage])
    before = path.read_bytes()
    with pytest.raises(EvidenceError, match=r"does not hold at record 2: .* choose another evidence folder"):
        Ledger(path, "r-2")
    with pytest.raises(tool_ledger.LedgerError):
        tool_ledger.recover(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", [30, 200, -300])
def test_a_changed_byte_before_the_tail_is_refused(tmp_path: Path, place: int) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path, 4).close()
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(EvidenceError, match="does not hold at record"):
        Ledger(path, "r-2")
    assert path.read_bytes() == bytes(data)


def test_a_record_that_holds_but_belongs_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path, 3).close()
    lines = path.read_bytes().splitlines(keepends=True)
    stranger = canonical(seal(1, "t", "r-9", "note", {}, "0" * 64)) + b"\n"
    path.write_bytes(lines[0] + stranger + lines[2])
    with pytest.raises(EvidenceError, match="does not hold at record 1"):
        Ledger(path, "r-2")


def test_two_writers_do_not_share_a_ledger(tmp_path: Path) -> None:
    first = written(tmp_path / "ledger.jsonl", 1)
    with pytest.raises(EvidenceError, match="another run is writing"):
        Ledger(tmp_path / "ledger.jsonl", "r-2")
    first.close()
    Ledger(tmp_path / "ledger.jsonl", "r-2").close()


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    ledger = written(tmp_path / "ledger.jsonl", 2)
    ours, ledger._fd = ledger._fd, os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(EvidenceError, match="no space left"):
        ledger.append("note", {})
    os.close(ledger._fd)
    ledger._fd = ours
    assert ledger.append("note", {})["seq"] == 2
    ledger.close()
    assert not tool_ledger.verify(tmp_path / "ledger.jsonl").problems


def test_floats_that_are_not_finite_travel_as_words() -> None:
    assert plain({"a": float("nan"), "b": [float("inf"), -float("inf")], "c": (1, "\ud800")}) == {
        "a": "nan",
        "b": ["inf", "-inf"],
        "c": [1, "?"],
    }


class Stopped(BaseException):
    pass


def test_a_signal_never_breaks_a_record(tmp_path: Path) -> None:
    """The handler is the driver's; with one that always raises at once the chain breaks within hundreds of signals."""
    ledger = Ledger(tmp_path / "ledger.jsonl", "r-1")

    def stop(number: int, frame: object) -> None:
        if ledger.writing == threading.get_ident():
            ledger.pending = Stopped()
        else:
            raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    stops = 0
    try:
        for number in range(3000):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.000_02 + (number % 100) * 0.000_002)
                ledger.append("note", {"number": number, "long": "x" * 2000})
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stopped:
                stops += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        ledger.close()
    assert stops > 100
    assert not tool_ledger.verify(tmp_path / "ledger.jsonl").problems
