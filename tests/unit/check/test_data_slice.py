"""A data slice that lies beside the spec is the file that its digest was taken of, and stays where it is."""

from __future__ import annotations

from pathlib import Path

from user import small_spec

from torchspec import pipeline
from torchspec.check import check_spec
from torchspec.core.canon import sha256_hex

WORKLOAD = """backend cpu
workload ranks {{
  kind python "code.py:build"
  data "slice.jsonl"  rows 0 to 2  digest "sha256:{digest}"
  counts 2 rows per step
  on cpu
  gates service
}}"""
SLICE = b"one\r\ntwo\nthree\n"


def checked(folder: Path, digest: str, slice_: bytes | None = SLICE) -> list[str]:
    (folder / "code.py").write_text("def build(data):\n    return data\n")
    if slice_ is not None:
        (folder / "slice.jsonl").write_bytes(slice_)
    (folder / "s.tspec").write_text(small_spec(WORKLOAD.format(digest=digest)))
    return [d.code for d in check_spec(folder / "s.tspec").diagnostics if d.is_error]


def test_the_slice_of_the_digest_is_fine(tmp_path: Path) -> None:
    assert checked(tmp_path, sha256_hex(SLICE)[:12]) == []


def test_another_file_than_the_digest_says_is_refused(tmp_path: Path) -> None:
    assert checked(tmp_path, "0" * 12) == ["TS244"]


def test_a_slice_that_is_not_here_is_left_to_the_machine_that_has_it(tmp_path: Path) -> None:
    assert checked(tmp_path, "0" * 12, None) == []


def test_a_slice_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.jsonl").write_bytes(SLICE)
    (inner / "slice.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert checked(inner, "0" * 12, None) == []


def test_neither_plan_nor_harness_holds_the_data(tmp_path: Path) -> None:
    secret = b"a label that nobody may read\n"
    assert checked(tmp_path, sha256_hex(secret)[:12], secret) == []
    out = tmp_path / "out"
    outcome = pipeline.compile_spec(tmp_path / "s.tspec", out, {})
    assert outcome.compiled is not None
    written = [p for p in out.rglob("*") if p.is_file()]
    assert {p.name for p in written} >= {"plan.json", "lock.json", "cpu.py"}
    assert not any(secret.strip() in p.read_bytes() for p in written)
    assert sha256_hex(secret)[:12] in (out / "s" / "plan.json").read_text()
