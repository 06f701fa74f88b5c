"""Backends that name wheels of their own get environments of their own; `ensure` is a stand-in that records it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from torchspec import pipeline_environments as environments
from torchspec import provision
from torchspec.core.diagnostics import Diagnostic, Result
from torchspec.model.plan import Backend, Cell

CUDA, ROCM = "https://wheels.invalid/cuda", "https://wheels.invalid/rocm"


def _plan(make_plan, wheels: dict[str, str | None]):
    backends = tuple(Backend(name, "required", None, wheels=index) for name, index in wheels.items())
    cells = tuple(Cell(name, "work", name, "infer", {}, name) for name in wheels)
    return replace(make_plan({"torch": "2.13.0"}), backends=backends, cells=cells)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """(side, index) of every environment that is asked for; an index called `gone` fails."""
    calls: list[tuple[str, str | None]] = []

    def fake_ensure(plan, side, *, backend, **_):
        wheels = provision.wheels_of(plan, backend)
        calls.append((side.id, wheels))
        if wheels == "gone":
            return Result(None, (Diagnostic("TS605", "no index answers"),))
        return Result(provision.Environment(side.id, Path(f"{wheels}/{side.id}"), {}, "0", True, 0.0))

    monkeypatch.setattr(provision, "ensure", fake_ensure)
    monkeypatch.setattr(provision, "diff_environments", lambda *_: ())
    return calls


def _made(plan):
    return environments.provision_plan(plan, Path(), lambda event: None)


def test_one_index_is_one_pair_of_environments(make_plan, asked) -> None:
    plan = _plan(make_plan, {"cuda": CUDA, "rocm": CUDA})
    made = _made(plan)
    assert made.ok
    assert asked == [("baseline", CUDA), ("candidate", CUDA)]
    assert set(made.value) == {"baseline", "candidate"}
    assert environments.of(made.value, "candidate", "rocm") is made.value["candidate"]
    assert environments.first_backend(plan, made.value).name == "cuda"


def test_each_index_is_a_pair_of_its_own(make_plan, asked) -> None:
    plan = _plan(make_plan, {"cpu": None, "cuda": CUDA, "rocm": ROCM})
    made = _made(plan)
    assert made.ok
    assert asked == [(side, index) for index in (None, CUDA, ROCM) for side in ("baseline", "candidate")]
    for backend, index in (("cpu", None), ("cuda", CUDA), ("rocm", ROCM)):
        for side in ("baseline", "candidate"):
            assert environments.of(made.value, side, backend).python == Path(f"{index}/{side}")
    assert environments.first_backend(plan, made.value).name == "cpu"


def test_an_index_that_is_gone_costs_its_own_backend_only(make_plan, asked) -> None:
    made = _made(_plan(make_plan, {"rocm": "gone", "cuda": CUDA}))
    assert made.ok
    assert [(d.is_error, d.notes) for d in made.diagnostics] == [(False, ("the cells of rocm stay not run",))]
    assert environments.of(made.value, "baseline", "rocm") is None
    assert environments.of(made.value, "baseline", "cuda").python == Path(CUDA) / "baseline"
    assert made.value["baseline"] is environments.of(made.value, "baseline", "cuda")


def test_where_every_index_is_gone_nothing_is_measured(make_plan, asked) -> None:
    made = _made(_plan(make_plan, {"cuda": "gone"}))
    assert made.value is None
    assert all(d.is_error for d in made.diagnostics)


def test_a_broken_control_of_one_backend_is_an_error(make_plan, asked, monkeypatch) -> None:
    monkeypatch.setattr(provision, "diff_environments", lambda *_: (Diagnostic("TS610", "numpy differs"),))
    made = _made(_plan(make_plan, {"cpu": None, "cuda": CUDA}))
    assert made.value is None
    assert any(d.is_error for d in made.diagnostics)
