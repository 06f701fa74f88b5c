"""The ledger under any body, any cut and any change; and the harness's own writer beside it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from torchspec.core.canon import canonical
from torchspec.harness import chain
from torchspec.ledger import Writer, read, recover, verify
from torchspec.ledger.write import encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
BODY = st.dictionaries(TEXT, JSON, max_size=5)


@given(seq=st.integers(0, 10**9), body=BODY, kind=TEXT, run=TEXT)
def test_harness_and_ledger_write_the_same_bytes(seq, body, kind, run):
    when, prev = "2026-12-01T09:00:00.000001+00:00", "ab" * 32
    ours, digest = encode(seq, when, run, kind, body, prev)
    theirs = chain.seal(seq, when, run, kind, body, prev)
    assert chain.canonical(theirs) + b"\n" == ours
    assert theirs["hash"] == digest
    assert chain.canonical(body) == canonical(body)


@settings(max_examples=30, deadline=None)
@given(bodies=st.lists(BODY, min_size=1, max_size=5))
def test_each_goes_on_where_the_other_stopped(bodies):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        for body in bodies:
            harness = chain.Ledger(path, "r-1")
            harness.append("note", body)
            harness.close()
            with Writer(path) as writer:
                writer.append("r-1", "note", body)
        assert verify(path, bodies=False).problems == ()
        assert [record.body for record in read(path)] == [body for body in bodies for _ in "ab"]
        harness = chain.Ledger(path, "r-1")
        assert harness.seq == 2 * len(bodies)
        harness.close()


@settings(max_examples=60, deadline=None)
@given(bodies=st.lists(BODY, min_size=1, max_size=4), cut=st.floats(0, 1))
def test_whatever_a_killed_writer_leaves_is_recovered(bodies, cut):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        with Writer(path) as writer:
            for body in bodies:
                writer.append("r-1", "note", body)
        whole = path.read_bytes()
        kept = whole[: round(cut * len(whole))]
        path.write_bytes(kept)
        complete = kept.count(b"\n")
        torn = recover(path)
        assert (torn is not None) == bool(kept and not kept.endswith(b"\n"))
        records = list(read(path))
        assert [record.body for record in records[:complete]] == bodies[:complete]
        assert len(records) == complete + (torn is not None)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300))
def test_no_bytes_make_verify_raise(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(data)
        report = verify(path)
        assert report.count + bool(report.torn_tail) >= bool(data)
        assert not data or report.problems or report.warnings
