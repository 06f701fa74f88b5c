"""A whole small spec, and deviations to put at its end."""

from __future__ import annotations

ONE = 'deviation 2020-01-03 "run 2 was on another machine"  by "Ana"  because "the disk failed"'
TWO = 'deviation 2020-01-04 "the room was warm"  by "Bo"  because "no cooling"'


def block(*lines: str) -> str:
    return "\ndeviations {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


WHOLE = """tspec 1

upgrade "2.13 to 2.14" {
  owner   "team"
  asks    "May we move?"
  window  2026-12-01 to 2026-12-14
  caveat  "cpu only"
}

baseline torch "2.13.0"
candidate torch "2.14.1"

backend cpu

workload attention {
  kind  attention
  shape {
    seq  64
  }
  mode  infer
  on    cpu
  gates service
}

gates service {
  error.max_abs <= 1e-4  against cpu.float64  else rollback
}

rollback {
  rehearse baseline  within 10 min
}
"""
