"""What people write out of habit: each is one mistake, reported once, with a hint that says what it is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchspec.check import check_spec
from torchspec.core.elsewhere import called_here, unit_called

SPEC = """tspec 1
upgrade "torch 2.13 to 2.14" {
  owner   "ml"
  caveat  "cpu only"
  window  2026-12-01 to 2026-12-14
}
frozen {
  env     OMP_NUM_THREADS "1"
  seed    7
}
baseline torch "2.13.0"
candidate torch "2.14.1"
backend cpu
workload work {
  kind    attention
  shape {
    seq     256
  }
  dtype   float32
  mode    infer, train
  on      cpu
  gates   service
}
gates service {
  error.max_abs       <= 1e-4        against cpu.float64  else rollback
  latency.p50         growth <= 5 %  else isolate
  memory.driver_peak  growth <= 5 %  else defer
}
gates nightly extends service {
  without  memory.driver_peak  because "the next line judges it"
  memory.allocated_peak  growth <= 5 %  else defer
}
workload other {
  kind    attention
  shape {
    seq     512
  }
  on      cpu
  gates   nightly
}
rollback {
  rehearse  baseline  within 10 min
}
"""

HABITS = [
    # what stands in SPEC, what stands there instead, code, part of the hint
    ("backend cpu", "backends cpu", "TS201", "`backend`"),
    ("backend cpu", "backend gpu", "TS211", "`cuda`, or `rocm`, or `mps`"),
    ("workload work", "job work", "TS201", "`workload`"),
    ("gates service {", "thresholds service {", "TS201", "`gates`"),
    ('owner   "ml"', 'team    "ml"', "TS201", "`owner`"),
    ("rollback {\n", "rolback {\n", "TS201", "`rollback`"),
    ("tspec 1", 'tspec 1\nimport "x.tspec"', "TS201", "`use`"),
    ("dtype   float32", "dtype   fp16", "TS216", "`float16`"),
    ("dtype   float32", "dtype   torch.float16", "TS216", "`float16`"),
    ("mode    infer, train", "mode    inference", "TS216", "`infer`"),
    ("mode    infer, train", "mode    infer,\n          train", "TS112", "this line"),
    ("mode    infer, train", "mode    [infer]", "TS115", "no brackets"),
    ("mode    infer, train", "mode    infer train", "TS204", None),
    ("seq     256", "seq     $LEN", "TS218", "param LEN"),
    ("seq     256", "seq     256x64", "TS116", "256, 64"),
    ("shape {\n    seq     256\n  }", "shape 256", "TS204", "block"),
    ("2026-12-01 to 2026-12-14", "2026-12-01 -> 2026-12-14", "TS107", "`to`"),
    ("2026-12-01 to 2026-12-14", "12/01/2026 to 12/14/2026", "TS116", "year-month-day"),
    ("growth <= 5 %  else isolate", "growth <= 5 percent  else isolate", "TS123", "`5 %`"),
    ("growth <= 5 %  else isolate", "<= 5 % growth  else isolate", "TS229", "`growth <= 5 %`"),
    ("growth <= 5 %  else isolate", "growth 5 %  else isolate", "TS229", "`growth <= 5 %`"),
    ("growth <= 5 %  else isolate", "max 5 ms  else isolate", "TS229", "`<=`"),
    ("growth <= 5 %  else isolate", "growth <= 5 %  otherwise isolate", "TS202", "`else`"),
    ("growth <= 5 %  else isolate", "growth <= 5 %  else revert", "TS230", "`rollback`"),
    ("growth <= 5 %  else isolate", "<= 5 µs  else isolate", "TS115", "`us`"),
    ("<= 1e-4        against", "= 1e-4        against", "TS107", "`<=`"),
    ("latency.p50         growth", "threshold latency.p50  growth", "TS201", "begins with its metric"),
    ("memory.driver_peak  growth", "memory.driver-peak  growth", "TS121", "`memory.driver_peak`"),
    ("memory.driver_peak  growth", "memory.peak  growth", "TS213", "`memory.driver_peak`"),
    ("memory.driver_peak  growth", "memory.cached  growth", "TS213", "memory.allocated_peak"),
    ('candidate torch "2.14.1"', 'candidate "2.14.1"', "TS204", "candidate torch"),
    ('candidate torch "2.14.1"', 'candidate torch "2.14.1" "2.15.0"', "TS204", '"2.14.1", "2.15.0"'),
    ("within 10 min", "within 10 minutes", "TS123", "`10 min`"),
    ('caveat  "cpu only"', 'caveat  "cpu\n  only"', "TS109", r"`\n`"),
    ("seed    7", "seed    7;", "TS115", "ends by itself"),
    ("tspec 1", "// a spec\ntspec 1", "TS121", "`#`"),
]


@pytest.mark.parametrize(("good", "habit", "code", "hint"), HABITS, ids=[h[1].split("\n")[0] for h in HABITS])
def test_a_habit_is_one_mistake_and_the_hint_says_what_it_is_here(good, habit, code, hint, tmp_path: Path) -> None:
    assert good in SPEC
    path = tmp_path / "spec.tspec"
    path.write_text(SPEC.replace(good, habit, 1), encoding="utf-8")
    found = check_spec(path).diagnostics
    assert [d.code for d in found] == [code], [f"{d.code} {d.span} {d.message}" for d in found]
    assert hint is None or hint in (found[0].hint or "")


def test_the_spec_itself_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "spec.tspec"
    path.write_text(SPEC, encoding="utf-8")
    assert check_spec(path).diagnostics == ()


def test_words_from_elsewhere_mean_what_there_is_only() -> None:
    assert called_here("gpu", ["cpu", "cuda"]) == ["cuda"]
    assert called_here("gpu", ["cpu"]) == []
    assert unit_called("seconds") == "s"
    assert unit_called("s") is None
