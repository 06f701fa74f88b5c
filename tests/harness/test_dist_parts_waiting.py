"""What of a step of ranks is waiting, told from a profile's intervals, and an overlap that would do nothing."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchspec.harness import dist_model, dist_train
from torchspec.harness.dist_wait import communication_account, length, merged, ranges_of, shared
from torchspec.harness.work import Unsupported


@pytest.mark.parametrize(("blocks", "named"), [(0, True), (1, True), (3, False)])
def test_an_overlap_that_would_do_nothing_is_unsupported(monkeypatch: pytest.MonkeyPatch, blocks: int, named: bool):
    """Prefetching is told from block to block: a team's module without a list of blocks has none to tell."""

    class Blocks(list[Any]):
        pass

    class Part:
        def __init__(self) -> None:
            self.told: list[str] = []

        def set_modules_to_forward_prefetch(self, following: Any) -> None:
            self.told.append("forward")

        def set_modules_to_backward_prefetch(self, following: Any) -> None:
            self.told.append("backward")

    parts = Blocks(Part() for _ in range(blocks))
    module = SimpleNamespace(modules=lambda: [parts] if blocks else [])
    nn = SimpleNamespace(ModuleList=Blocks, Sequential=Blocks)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(nn=nn, float32="float32"))
    monkeypatch.setattr(dist_model, "_shard_function", lambda: (lambda *given, **more: None, lambda **more: None))
    task = SimpleNamespace(options={"overlap": "prefetch"})
    work: Any = SimpleNamespace(task=task, dtype=lambda: "float32")
    if named:
        with pytest.raises(Unsupported, match="ModuleList or Sequential of two blocks"):
            dist_model._shard(work, module, None, False)
        return
    assert dist_model._shard(work, module, None, False) is module
    assert [sorted(part.told) for part in parts] == [["forward"], ["backward", "forward"], ["backward"]]


def intervals():
    one = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (float(min(pair)), float(max(pair))))
    return st.lists(one, max_size=8)


@settings(deadline=None)
@given(intervals(), intervals())
def test_lengths_of_unions_and_overlaps_are_those_of_sets_of_points(a, b):
    def points(parts):
        return {x for begin, end in parts for x in range(int(begin), int(end))}

    assert length(merged(a)) == len(points(a))
    assert shared(merged(a), merged(b)) == len(points(a) & points(b))


def test_waiting_is_communication_without_computation():
    events = [
        ("gloo:all_reduce", 2, False, 0.0, 100.0),
        ("aten::copy_", 2, False, 0.0, 100.0),  # gloo's own thread computes nothing of ours
        ("aten::mm", 1, False, 40.0, 70.0),
        ("aten::addmm", 1, False, 50.0, 120.0),
        ("FSDP::all_gather", 1, False, 0.0, 100.0),  # a label, not work
    ]
    found = communication_account(events, steps=2)
    expected = {"wait_s": 20e-6, "flight_s": 50e-6, "compute_s": 40e-6, "overlap": 0.6}
    assert found == pytest.approx(expected)


def test_on_a_device_kernels_count_and_host_operators_do_not():
    events = [("ncclKernel", 7, True, 0.0, 10.0), ("gemm", 7, True, 5.0, 30.0), ("aten::mm", 1, False, 0.0, 10.0)]
    assert communication_account(events, 1)["wait_s"] == pytest.approx(5e-6)
    assert communication_account([], 1) == {"wait_s": 0.0, "flight_s": 0.0, "compute_s": 0.0, "overlap": 1.0}


def test_labels_that_a_profiler_draws_on_the_device_are_neither_computing_nor_communication():
    """Torch's own ranges (record_function of FSDP, of c10d) appear there beside the kernels that they hold."""
    kernels = [("ncclDevKernel_AllGather", 20, True, 0.0, 10.0), ("gemm", 7, True, 5.0, 30.0)]
    labels = ("FSDP::all_gather", "nccl:_all_gather_base", "ProfilerStep#1")
    host = [(name, 1, False, 0.0, 40.0) for name in labels]
    drawn = [(name, 20, True, 0.0, 40.0) for name in labels]
    bare = communication_account(kernels, 1)
    assert bare == pytest.approx({"wait_s": 5e-6, "flight_s": 10e-6, "compute_s": 25e-6, "overlap": 0.5})
    assert communication_account([*host, *kernels, *drawn], 1) == bare

    def told(name: str, device: bool, begin: float, end: float, **more: Any) -> Any:
        spans = SimpleNamespace(start=begin, end=end)
        return SimpleNamespace(name=name, thread=1, device_type="cuda" if device else "cpu", time_range=spans, **more)

    rows = [told(name, device, begin, end) for name, _, device, begin, end in kernels]  # torch 2.4 has no such mark
    rows.append(told("a label without its host range", True, 0.0, 40.0, is_user_annotation=True))
    assert communication_account(ranges_of(rows, "cuda"), 1) == bare


def test_a_meter_that_sees_no_communication_says_nothing_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overlap of 1 where nothing was in flight would be a pass without evidence."""
    item = SimpleNamespace(running=lambda: SimpleNamespace(step=None))
    monkeypatch.setattr(dist_train, "training_item", lambda state, frame: item)
    monkeypatch.setattr(dist_train, "_meet", lambda state: None)
    account = communication_account([("aten::mm", 1, False, 0.0, 10.0)], 1)
    monkeypatch.setattr(dist_train, "profile_waiting", lambda step, steps: account)
    with pytest.raises(Unsupported, match="no communication"):
        dist_train._train_wait(SimpleNamespace(), {"steps": 1})  # type: ignore[arg-type]
