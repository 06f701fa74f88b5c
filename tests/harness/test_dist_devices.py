"""Ranks and the devices below them: ranks that do not fit say so, and the others are measured. Torch is a mock."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from torchspec.harness import dist_rank
from torchspec.harness.dist_rank import RankState, lacks_devices, serve_rank
from torchspec.harness.dist_worker import RankWorker
from torchspec.harness.supervise import Unable


def rank(device: str, monkeypatch: pytest.MonkeyPatch, *, world: int, here: int, **settings: Any) -> RankState:
    """A rank of `world`, `here` of them on its machine."""
    names = {"RANK": 0, "WORLD_SIZE": world, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": here}
    for name, value in names.items():
        monkeypatch.setenv(name, str(value))
    job = {"settings": {"device": device, **settings}}
    return RankState(job, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]


def torch_with(devices: int) -> Any:
    return SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: devices))


@pytest.mark.parametrize(
    ("device", "devices", "world", "here", "fits"),
    [("cuda", 1, 1, 1, True), ("cuda", 1, 2, 2, False), ("cuda", 4, 8, 4, True), ("cpu", 0, 2, 2, True)],
)
def test_ranks_of_a_machine_need_a_device_each(
    monkeypatch: pytest.MonkeyPatch, device: str, devices: int, world: int, here: int, fits: bool
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_with(devices))
    why = lacks_devices(rank(device, monkeypatch, world=world, here=here))
    assert (why is None) == fits
    if not fits:
        assert why == f"{here} ranks on this machine need a device each, and torch finds {devices} here"


def test_ranks_that_do_not_fit_answer_so_and_join_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They used to end in `torch.cuda.set_device`, and took the whole run with them."""
    asked = [{"id": 1, "do": "open"}, {"id": 2, "do": "collective.check"}, {"id": 3, "do": "end"}]
    said: list[dict[str, Any]] = []
    state = rank("cuda", monkeypatch, world=2, here=2)
    state.leash = SimpleNamespace(receive=lambda: asked.pop(0), send=said.append)  # type: ignore[assignment]
    state.lacking = "too few"
    assert serve_rank(state, {"open": lambda state, frame: pytest.fail("it was asked")}) == 0
    wanted = {"unsupported": {"error": "too few", "where": "machine"}}
    assert [one["value"] for one in said] == [wanted, wanted]


@pytest.mark.parametrize(("devices", "joined"), [(1, []), (2, ["trained", "joined"])])
def test_a_rank_joins_where_it_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, devices: int, joined: list[str]
) -> None:
    did: list[str] = []
    said: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setitem(sys.modules, "torch", torch_with(devices))
    dist = SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    sys.modules["torch"].distributed = dist  # type: ignore[attr-defined]
    state = rank("cuda", monkeypatch, world=2, here=2)
    state.say = lambda event, **fields: said.append((event, fields))  # type: ignore[method-assign]
    for name, act in {
        "tie_to_parent": lambda: None, "own_log": lambda folder: None, "Leash": lambda *given: None,
        "RankState": lambda *given: state, "prepare_rank": lambda state: 0.5, "rank_environment": lambda state: {},
        "wake_training": lambda state: did.append("trained"), "join_group": lambda state: did.append("joined"),
        "serve_rank": lambda state, commands: 0,
    }.items():  # fmt: skip
        monkeypatch.setattr(dist_rank, name, act)
    monkeypatch.setattr(dist_rank.faulthandler, "enable", lambda: None)
    monkeypatch.setattr(dist_rank.faulthandler, "register", lambda *given, **more: None)
    monkeypatch.setattr(dist_rank.gc, "freeze", lambda: None)
    (tmp_path / "job.json").write_text('{"token": "t", "host": "h", "port": 1}')
    assert dist_rank.rank_main(str(tmp_path / "job.json"), {}, SimpleNamespace()) == 0  # type: ignore[arg-type]
    assert did == joined
    assert [event for event, _ in said] == ["ready"]


def test_what_is_asked_of_them_is_unsupported_and_the_other_rank_counts_go_on() -> None:
    lacking = {"unsupported": {"error": "2 ranks need a device each", "where": "machine"}}
    told = {1: [{"inputs": "i", "weights": "w", "bus_bytes": 0.0}], 2: [lacking, lacking]}
    ready = {"import_s": 0.1, "environment": {"env": {}, "device": {"name": "GPU"}, "ranks": {"transports": {}}}}
    worker = object.__new__(RankWorker)
    worker.counts, worker.alone, worker.side = [2, 1], False, "baseline"
    worker.jobs = {}
    worker._names, worker._bus, worker._asked = {}, {}, {}
    worker._greeted = {count: [ready] * count for count in (1, 2)}
    cells = {"one": {"axes": {"ranks": 1}}, "two": {"axes": {"ranks": 2}}}
    worker.run = SimpleNamespace(embedded=SimpleNamespace(cells=cells))  # type: ignore[assignment]

    def job(count: int) -> Any:
        return SimpleNamespace(ask=lambda do, timeout_s, **given: told[count], env={})

    worker.job = job  # type: ignore[method-assign,assignment]
    worker.jobs = {count: job(count) for count in (1, 2)}
    device = worker.ask("hello", 1.0)["environment"]["device"]
    assert device == {"name": "GPU", "ranks": [2, 1], "launcher": "torchrun", "transports": {}}
    with pytest.raises(Unable, match="a device each") as lacks:
        worker.ask("open", 1.0, name="own", cell="two", frozen="f")
    assert lacks.value.where == "machine"
    assert worker.ask("open", 1.0, name="own", cell="one", frozen="f")["inputs"] == "i"
