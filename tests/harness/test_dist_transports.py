"""Transports: what a group of all ranks really travels over, and who meets where. Torch is a mock."""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from torchspec.harness import dist_faults, dist_transports
from torchspec.harness.dist_transports import new_transport_group, takes_timeout, transport_problem
from torchspec.harness.work import Unsupported

STATE = SimpleNamespace(rank=0, world=2, device="cpu", timeout_s=60.0, groups={}, synchronize=lambda: None)


class Wrapper:
    """Stands for torchcomms' `_BackendWrapper`."""


class Gloo:
    """Stands for torch's own ProcessGroupGloo."""


class MockTorch:
    """`torch.distributed` as far as groups go. `holds`: what a new group's backend is, or the error of making it."""

    def __init__(self, holds: Any, new_comm: Any = None) -> None:
        self.made: list[dict[str, Any]] = []
        self.patched: list[dict[str, Any]] = []
        self.torch = ModuleType("torch")
        self.torch.device = lambda name: name  # type: ignore[attr-defined]
        dist = ModuleType("torch.distributed")
        c10d = ModuleType("torch.distributed.distributed_c10d")
        config = ModuleType("torch.distributed.config")
        c10d._BackendWrapper = Wrapper  # type: ignore[attr-defined]
        if new_comm is not None:
            c10d.new_comm = new_comm  # type: ignore[attr-defined]

        @contextlib.contextmanager
        def patch(**given: Any) -> Iterator[None]:
            self.patched.append(given)
            yield

        def new_group(**given: Any) -> Any:
            self.made.append(given)
            if isinstance(holds, Exception):
                raise holds
            if getattr(c10d, "new_comm", None) is not None and self.patched:
                c10d.new_comm("gloo", "cpu", name="g", store=None, hints={})
            return SimpleNamespace(_get_backend=lambda device: holds)

        config.patch = patch  # type: ignore[attr-defined]
        dist.new_group, dist.config, dist.distributed_c10d = new_group, config, c10d  # type: ignore[attr-defined]
        self.torch.distributed = dist  # type: ignore[attr-defined]
        self.c10d = c10d
        self.modules = {"torch": self.torch, "torch.distributed": dist, "torch.distributed.config": config,
                        "torch.distributed.distributed_c10d": c10d}  # fmt: skip

    def installed(self, monkeypatch: pytest.MonkeyPatch) -> MockTorch:
        for name, module in self.modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        return self


def test_a_group_that_is_gloo_under_the_name_of_torchcomms_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch takes its own group where torchcomms has not got the backend, and says so nowhere."""
    MockTorch(Gloo()).installed(monkeypatch)
    with pytest.raises(Unsupported, match=r"torch made Gloo instead") as told:
        new_transport_group(STATE, "torchcomms", 5.0)  # type: ignore[arg-type]
    assert told.value.where == "version"


def test_a_group_of_torchcomms_is_taken_and_hears_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def new_comm(backend: str, device: str, timeout: Any = None, **more: Any) -> None:
        asked.append({"timeout": timeout, **more})

    mock = MockTorch(Wrapper(), new_comm).installed(monkeypatch)
    new_transport_group(STATE, "torchcomms", 5.0)  # type: ignore[arg-type]
    assert mock.patched == [{"use_torchcomms": True}]
    assert mock.made[0]["timeout"] == asked[0]["timeout"] == datetime.timedelta(seconds=5)
    assert mock.c10d.new_comm is new_comm  # as it was


@pytest.mark.parametrize(
    "error", [NotImplementedError("new_group cannot delegate"), RuntimeError("its backend does not support splitting")]
)
def test_a_version_that_can_only_split_what_it_has_is_unsupported(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    MockTorch(error).installed(monkeypatch)
    with pytest.raises(Unsupported, match=str(error)):
        new_transport_group(STATE, "torchcomms", 5.0)  # type: ignore[arg-type]


def test_what_torchcomms_itself_raises_is_an_error_and_no_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    MockTorch(RuntimeError("connection reset")).installed(monkeypatch)
    with pytest.raises(RuntimeError, match="connection reset"):
        new_transport_group(STATE, "torchcomms", 5.0)  # type: ignore[arg-type]


def test_other_transports_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    mock = MockTorch(Gloo()).installed(monkeypatch)
    new_transport_group(STATE, "gloo", 5.0)  # type: ignore[arg-type]
    assert mock.made == [{"timeout": datetime.timedelta(seconds=5), "backend": "gloo"}]
    assert mock.patched == []


def test_a_signature_is_read_where_there_is_one() -> None:
    def without(backend: str) -> None: ...

    def with_one(backend: str, timeout: Any = None) -> None: ...

    bound = SimpleNamespace(__doc__="new_comm(backend: str, timeout: timedelta | None = None) -> TorchComm")
    assert (takes_timeout(without), takes_timeout(with_one)) == (False, True)
    assert (takes_timeout(bound), takes_timeout(SimpleNamespace(__doc__=None))) == (True, False)


def test_nccl_over_the_processor_is_no_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"nccl": {"available": True}, "gloo": {"available": True}}
    monkeypatch.setattr(dist_transports, "transports_available", lambda: here)
    told = transport_problem("nccl", "cpu")
    assert told is not None
    assert told[1] == "backend"
    assert "GPU" in told[0]
    assert transport_problem("nccl", "cuda") is None
    assert transport_problem("gloo", "cpu") is None
    assert transport_problem("gloo", "cuda") is None
    assert transport_problem("pigeons", "cpu") == ("unknown transport pigeons", "version")


# Trials: everybody has met in a group before somebody is late in it.


class Trial:
    """Records what a rank does in a trial, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
        self.did: list[Any] = []
        self.state: Any = SimpleNamespace(**{**vars(STATE), "rank": rank})
        monkeypatch.setattr(dist_faults, "transport_here", lambda name, device: {"available": True})
        monkeypatch.setattr(dist_faults, "new_transport_group", self.group)
        monkeypatch.setattr(dist_faults, "_sum_of_all", self.sum)
        monkeypatch.setattr(dist_faults, "_wait_for_all", lambda state: self.did.append("met"))
        monkeypatch.setattr(dist_faults.time, "sleep", lambda seconds: self.did.append(("slept", seconds)))

    def group(self, state: Any, transport: str, timeout_s: float) -> str:
        self.did.append(("group", timeout_s))
        return "g"

    def sum(self, state: Any, transport: str, group: str, timeout_s: float, count: int = 4) -> None:
        self.did.append(("sum", timeout_s))


@pytest.mark.parametrize("transport", ["nccl", "torchcomms", "gloo"])
def test_ranks_have_met_in_a_group_before_one_is_late_in_it(monkeypatch: pytest.MonkeyPatch, transport: str) -> None:
    late = Trial(monkeypatch, rank=1)
    dist_faults._fault_late(late.state, {"transport": transport, "timeout_s": 2.0, "late_s": 3.0})
    (_, limit), *rest = late.did
    first, slept, second = (rest.index(one) for one in (("sum", 60.0), ("slept", 3.0), ("sum", 2.0)))
    assert first < slept < second
    # its own watchdog is not to end a rank before the wait's error is heard; gloo has none, and waits as its group does
    assert limit == 2.0 if transport == "gloo" else limit > 2.0 + 2 * dist_faults.FAULT_MARGIN_S


def test_a_missing_rank_has_met_the_others_and_then_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for rank, sums in ((0, [("sum", 60.0), ("sum", 2.0)]), (1, [("sum", 60.0)])):
        trial = Trial(monkeypatch, rank)
        dist_faults._fault_missing(trial.state, {"transport": "nccl", "timeout_s": 2.0})
        assert [one for one in trial.did if one[0] == "sum"] == sums


@pytest.mark.parametrize(
    ("words", "lacks"),
    [("wait timeout not supported", True), ("Finite Work wait is not supported by this backend", True),
     ("connection reset", False)],
)  # fmt: skip
def test_a_wait_that_knows_no_limit_is_no_error_that_was_heard(
    monkeypatch: pytest.MonkeyPatch, words: str, lacks: bool
) -> None:
    """torchcomms refuses a wait with a limit at once, which looked like an error in time."""
    trial = Trial(monkeypatch, rank=0)

    def refuse(*given: Any) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(dist_faults, "_sum_of_all", refuse)
    with pytest.raises(Unsupported if lacks else RuntimeError, match=words):
        dist_faults._fault_late(trial.state, {"transport": "torchcomms", "timeout_s": 2.0, "late_s": 3.0})


def test_waits_of_nccl_are_heard_by_who_waits_in_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's watchdog takes an error to end the process, unless waits block."""
    monkeypatch.delenv("TORCH_NCCL_BLOCKING_WAIT", raising=False)
    monkeypatch.setattr(dist_faults, "transport_here", lambda name, device: {"available": True})
    dist = SimpleNamespace(new_group=lambda **given: "meeting")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=dist))
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    monkeypatch.setattr(dist_faults, "_store", lambda *given: None)
    seen: list[Any] = []
    monkeypatch.setattr(dist_faults, "join_group", lambda *given: seen.append(dist_faults.os.environ.get(
        "TORCH_NCCL_BLOCKING_WAIT")))  # fmt: skip
    state: Any = SimpleNamespace(**{**vars(STATE), "groups": {}})
    dist_faults._fault_join(state, {"transport": "gloo"})
    assert seen == [None]
    dist_faults._fault_join(state, {"transport": "nccl"})
    assert seen == [None, "1"]
