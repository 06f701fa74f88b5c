"""What a step of ranks counts, where the team's own code is trained: its rows, or what `counts` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torchspec.harness import dist_model
from torchspec.harness.work import Task
from torchspec.harness.work_python import TeamCode


@pytest.mark.parametrize(("entry", "options", "counted"), [
    (None, {}, (32, "samples")),  # eight rows on each of four ranks
    ({"path": "own.py", "function": "build"}, {}, (12, "samples")),
    ({"path": "own.py", "function": "build"}, {"counts": {"value": 5, "unit": "texts"}}, (5, "texts")),
])  # fmt: skip
def test_the_rows_of_the_global_batch_are_counted(
    entry: Any, options: Any, counted: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TeamCode, "rows", lambda self: 12)
    cell = {"id": "c", "mode": "train", "axes": {"ranks": 4}}
    workload = {"options": options, "beside": None, "entry": entry}
    work = dist_model.RankedTraining(Task(cell, workload, 1, Path(), {}))
    assert (work.items(), work.items_unit) == counted
