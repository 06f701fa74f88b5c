"""A data slice that lies beside the spec travels with the plan, and is the file that its digest was taken of."""

from __future__ import annotations

from pathlib import Path

from torchspec.check import check_spec
from torchspec.core.canon import sha256_hex

SPEC = """tspec 1
upgrade "slices" {{
  owner "a"
  asks "b?"
  window 2026-12-01 to 2026-12-14
  caveat "c"
}}
baseline torch "2.13.0"
candidate torch "2.14.1"
backend cpu
workload ranks {{
  kind python "code.py:build"
  data "slice.jsonl"  rows 0 to 2  digest "sha256:{digest}"
  counts 2 rows per step
  on cpu
  gates service
}}
gates service {{
  error.max_abs <= 1e-5 against cpu.float64 else rollback
}}
rollback {{
  rehearse baseline within 10 min
}}
"""
SLICE = b"one\r\ntwo\nthree\n"


def checked(folder: Path, digest: str, slice_: bytes | None = SLICE) -> tuple[list[str], dict[str, bytes]]:
    (folder / "code.py").write_text("def build(data):\n    return data\n")
    if slice_ is not None:
        (folder / "slice.jsonl").write_bytes(slice_)
    (folder / "s.tspec").write_text(SPEC.format(digest=digest))
    result = check_spec(folder / "s.tspec")
    files = {file.path: file.data for file in result.spec.files} if result.spec is not None else {}
    return [d.code for d in result.diagnostics if d.is_error], files


def test_the_slice_travels_byte_for_byte(tmp_path: Path) -> None:
    codes, files = checked(tmp_path, sha256_hex(SLICE)[:12])
    assert codes == []
    assert files["slice.jsonl"] == SLICE


def test_another_file_than_the_digest_says_is_refused(tmp_path: Path) -> None:
    codes, _ = checked(tmp_path, "0" * 12)
    assert codes == ["TS244"]


def test_a_slice_that_is_not_here_is_left_to_the_machine_that_has_it(tmp_path: Path) -> None:
    codes, files = checked(tmp_path, "0" * 12, None)
    assert codes == []
    assert "slice.jsonl" not in files


def test_a_slice_outside_of_the_folder_is_not_taken(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.jsonl").write_bytes(SLICE)
    (inner / "slice.jsonl").symlink_to(tmp_path / "secret.jsonl")
    codes, files = checked(inner, sha256_hex(SLICE)[:12], None)
    assert codes == []
    assert "slice.jsonl" not in files
