"""Every warning of a spec: given where there is a reason for it, and silenced by a reason in the file."""

from __future__ import annotations

from pathlib import Path

from torchspec.check import check_spec
from torchspec.check.warnings import WARNINGS

#: No owner, no caveat, a required backend without work, a claim on another basis, a rollback with a manual step.
SPEC = """tspec 1
upgrade "torch 2.13 to 2.14" {
}
baseline torch "2.13.0"
candidate torch "2.14.1"
backend cpu
backend cuda
source notes "https://example.org/notes"  retrieved 2026-11-30
claim faster from notes {
  basis   dtype float16
  states  latency.p50 speedup 1.3 x
  check   work on cpu
}
workload work {
  kind    attention
  shape {
    seq     256
  }
  on      cpu
  gates   service
}
gates service {
  error.max_abs  <= 1e-4  against cpu.float64  else rollback
}
rollback {
  rehearse  baseline  within 10 min
  manual    "restart the queue by hand"
}
"""


def _codes(text: str, folder: Path) -> list[str]:
    path = folder / "spec.tspec"
    path.write_text(text, encoding="utf-8")
    return sorted(d.code for d in check_spec(path).diagnostics)


def _silencing(*codes: str) -> str:
    return SPEC + "".join(f'silence {code}  because "known"\n' for code in codes)


def test_each_warning_is_given(tmp_path: Path) -> None:
    assert _codes(SPEC, tmp_path) == sorted(WARNINGS)


def test_each_is_silenced_by_a_reason_and_no_other(tmp_path: Path) -> None:
    for code in WARNINGS:
        assert _codes(_silencing(code), tmp_path) == sorted(set(WARNINGS) - {code})
    assert _codes(_silencing(*WARNINGS), tmp_path) == []


def test_a_silenced_warning_stays_silent_beside_a_mistake(tmp_path: Path) -> None:
    text = _silencing(*WARNINGS).replace("seq     256", "seq     none")
    assert _codes(text, tmp_path) == ["TS309"]


def test_a_warning_says_how_to_silence_it(tmp_path: Path) -> None:
    (tmp_path / "spec.tspec").write_text(SPEC, encoding="utf-8")
    for found in check_spec(tmp_path / "spec.tspec").diagnostics:
        assert f"silence {found.code}" in (found.hint or "")
