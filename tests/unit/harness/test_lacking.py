"""An operator that the baseline does not have in a precision or on a device is unsupported; one that is lost is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness import worker
from torchspec.harness.jobs import Job

LACKING = NotImplementedError("\"quantile\" not implemented for 'BFloat16'")


@pytest.mark.parametrize(("side", "kind", "error", "unsupported"), [
    ("baseline", "operator", LACKING, True),
    ("candidate", "operator", LACKING, False),  # the baseline may have had it: that is a loss
    ("baseline", "python", LACKING, False),  # the team's own mistake
    ("baseline", "operator", RuntimeError("it does not run"), False),
])  # fmt: skip
@pytest.mark.parametrize("do", ["first", "freeze"])
def test_what_the_baseline_does_not_implement_is_unsupported(
    side: str, kind: str, error: Exception, unsupported: bool, do: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    class Work(Job):
        step = fails

    bench: Any = object.__new__(worker.Bench)
    bench.side, bench.jobs = side, {"own": Work()}
    bench.device = SimpleNamespace(synchronize=lambda: None)
    bench.works = {"own": SimpleNamespace(kind=kind)}
    bench.embedded = SimpleNamespace(kind=lambda cell: kind)
    monkeypatch.setattr(worker.Bench, "work", fails)
    request = {"do": "first", "name": "own"} if do == "first" else {"do": "freeze", "cell": "c", "path": "frozen.pt"}
    answer = worker.answer(bench, request)
    assert answer["ok"] is False
    assert ("unsupported" in answer) == unsupported
    if unsupported:
        assert answer["where"] == "version"
        assert "not implemented for" in answer["unsupported"]
