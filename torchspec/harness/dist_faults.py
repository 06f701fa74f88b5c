"""What happens when a rank is late, dies or never comes, and whether the slow rank is named.

A good library gives the others a clear error within its timeout; a bad one hangs. The job of these commands starts
without a process group (setting `join` false), because each question needs a group of its own that the next does not
inherit. What is tried goes over the transport that the command names; ranks wait for each other between the trials
over a gloo group of their own. Must not wait longer than the timeouts it is given and a margin.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import select
import signal
import time
from typing import Any

from .chain import canonical, plain
from .dist_processes import tie_to_parent
from .dist_rank import RankCommand, RankState, job_store, join_group
from .dist_transports import new_transport_group, transport_device, transport_here
from .work import Unsupported

#: How much later than its timeout an error may come: the library looks at its timeouts now and then.
FAULT_MARGIN_S = 5.0
#: How much longer than a trial's waits a group waits whose transport is watched over.
FAULT_PATIENCE_S = 4 * FAULT_MARGIN_S


def _error_within(action: Any, timeout_s: float) -> dict[str, Any]:
    """Whether `action()` raised within the timeout and the margin, when, and with which words."""
    begin = time.monotonic()
    error = None
    try:
        action()
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}".strip()[:1000]
    seconds = time.monotonic() - begin
    return {"error": error, "seconds": seconds, "in_time": error is not None and seconds <= timeout_s + FAULT_MARGIN_S}


def _store(state: RankState, name: str, timeout_s: float) -> Any:
    """A part of the job's store under a name of its own, whose waits are this long."""
    store = job_store(state, name)
    store.set_timeout(datetime.timedelta(seconds=timeout_s))
    return store


def _in_child(action: Any, limit_s: float) -> Any:
    """What `action()` gives, run in a forked child that is gone afterwards: {"ended": True} where the child was ended,
    None where it took longer than `limit_s`.

    A failed init_process_group leaves counters behind that later groups of this process would disagree about.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            tie_to_parent()
            os.write(write, canonical(plain(action())))
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    try:
        ready, _, _ = select.select([read], [], [], limit_s)
        if not ready:
            return None
        data = b""
        while part := os.read(read, 65536):
            data += part
        return json.loads(data) if data else {"ended": True}
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _tried_transport(state: RankState, frame: dict[str, Any]) -> str:
    """The transport that a command names. Raises Unsupported where this rank has not got it."""
    transport = str(frame["transport"])
    here = transport_here(transport, state.device)
    if not here["available"]:
        raise Unsupported(f"{transport}: {here['error']}", here["where"])
    return transport


def _wait_for_all(state: RankState) -> None:
    """All ranks wait for each other, whatever has become of the transport that is tried."""
    import torch.distributed as dist

    dist.barrier(group=state.groups["meeting"])


def _sum_of_all(state: RankState, transport: str, group: Any, timeout_s: float, count: int = 4) -> None:
    """One all_reduce of `count` numbers, waited for to its end. On a device an error is told by the wait, which has to
    be given its time, and not by the call."""
    import torch
    import torch.distributed as dist

    held = torch.ones(count, device=transport_device(state, transport))
    if transport == "gloo":
        dist.all_reduce(held, group=group)
        return
    handle = dist.all_reduce(held, group=group, async_op=True)
    handle.wait(datetime.timedelta(seconds=timeout_s))
    state.synchronize()


def _group_that_met(state: RankState, transport: str, timeout_s: float) -> Any:
    """A new group of all ranks in which all have talked once, so that the next call is not the one that connects them.

    Gloo's waits are as long as the group's timeout says. Those of others are told each wait, and the group's is longer:
    whatever watches over it must not end the process before the wait's error is heard. Raises Unsupported where a wait
    cannot be limited, as in torchcomms' first versions: it is refused at once, which is no error that anybody heard."""
    group = new_transport_group(state, transport, timeout_s if transport == "gloo" else timeout_s + FAULT_PATIENCE_S)
    _wait_for_all(state)
    try:
        _sum_of_all(state, transport, group, state.timeout_s)
    except RuntimeError as error:
        if "not supported" not in str(error):
            raise
        raise Unsupported(f"{transport} cannot limit a wait: {error}", "version") from error
    return group


def _fault_missing(state: RankState, frame: dict[str, Any]) -> Any:
    """All but the last rank join; it never comes. Gloo's ranks meet when a group is made, which nobody has yet. The
    other transports' meet at the first call in a group and wait there without a limit: there, it stays away from the
    next one."""
    timeout = float(frame["timeout_s"])
    transport = _tried_transport(state, frame)
    absent = state.rank == state.world - 1
    if transport != "gloo":
        group = _group_that_met(state, transport, timeout)
        answer = None if absent else _error_within(lambda: _sum_of_all(state, transport, group, timeout), timeout)
        _wait_for_all(state)
        return answer
    if absent:
        return None

    def join_without_it() -> dict[str, Any]:
        return _error_within(lambda: join_group(state, _store(state, "missing", timeout), timeout), timeout)

    limit = timeout + 2 * FAULT_MARGIN_S
    return _in_child(join_without_it, limit) or {"error": None, "seconds": limit, "in_time": False}


def _fault_join(state: RankState, frame: dict[str, Any]) -> Any:
    import torch.distributed as dist

    if _tried_transport(state, frame) == "nccl":
        # Elsewhere torch's watchdog ends a process as soon as a wait in it has failed; so it is the wait that is heard.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    join_group(state, _store(state, "real", state.timeout_s))
    timeout = datetime.timedelta(seconds=state.timeout_s)
    state.groups["meeting"] = dist.new_group(timeout=timeout, backend="gloo")
    return None


def _fault_late(state: RankState, frame: dict[str, Any]) -> Any:
    """The last rank comes `late_s` late to an all_reduce whose group waits `timeout_s`."""
    timeout = float(frame["timeout_s"])
    transport = _tried_transport(state, frame)
    group = _group_that_met(state, transport, timeout)
    late = state.rank == state.world - 1
    _wait_for_all(state)
    if late:
        time.sleep(float(frame["late_s"]))
    answer = _error_within(lambda: _sum_of_all(state, transport, group, timeout), timeout)
    _wait_for_all(state)
    return None if late and float(frame["late_s"]) > timeout else answer


def _fault_monitored(state: RankState, frame: dict[str, Any]) -> Any:
    """The last rank stays away from a monitored barrier; rank 0's error should name it. Gloo's own."""
    import torch.distributed as dist

    timeout = float(frame["timeout_s"])
    group = dist.new_group(timeout=datetime.timedelta(seconds=timeout))
    absent = state.world - 1
    answer = None
    if state.rank != absent:
        limit = datetime.timedelta(seconds=timeout)
        answer = _error_within(lambda: dist.monitored_barrier(group, limit, wait_all_ranks=True), timeout)
        numbers = re.findall(r"[Rr]ank(?:s|\(s\))?:?\s+(\d+)", answer["error"] or "")
        answer["named"] = sorted({int(number) for number in numbers} - {state.rank})
        answer["absent"] = absent
    _wait_for_all(state)
    return answer


def _fault_slow(state: RankState, frame: dict[str, Any]) -> Any:
    """Every rank in turn is slow by `slow_s`. Each measures its own wait at a barrier; all share their waits, and who
    waited least was last. {"turns": [{"slow", "named", "waits"}]}, the same on every rank."""
    import torch
    import torch.distributed as dist

    transport = _tried_transport(state, frame)
    group = _group_that_met(state, transport, state.timeout_s)
    turns = []
    for slow in range(state.world):
        for _ in range(int(frame.get("rounds", 2))):
            _wait_for_all(state)
            if slow == state.rank:
                time.sleep(float(frame["slow_s"]))
            begin = time.perf_counter()
            dist.barrier(group=group)
            state.synchronize()
            waited = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            waits = [torch.zeros(1, dtype=torch.float64) for _ in range(state.world)]
            dist.all_gather(waits, waited, group=state.groups["meeting"])
            seconds = [float(wait) for wait in waits]
            turns.append({"slow": slow, "named": seconds.index(min(seconds)), "waits": seconds})
    return {"turns": turns}


def _fault_dead(state: RankState, frame: dict[str, Any]) -> Any:
    """The last rank kills itself inside an all_reduce of many; what the others hear."""
    timeout = float(frame["timeout_s"])
    transport = _tried_transport(state, frame)
    group = _group_that_met(state, transport, timeout)
    _wait_for_all(state)
    # torchrun ends the survivors as soon as it sees the dead one; they have their say first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def forever() -> None:
        end = time.monotonic() + timeout + FAULT_MARGIN_S
        while time.monotonic() < end:
            _sum_of_all(state, transport, group, timeout, 1024)

    if state.rank == state.world - 1:
        for _ in range(20):
            _sum_of_all(state, transport, group, timeout, 1024)
        os.kill(os.getpid(), signal.SIGKILL)
    answer = _error_within(forever, timeout)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return answer


FAULT_COMMANDS: dict[str, RankCommand] = {
    "fault.missing": _fault_missing,
    "fault.join": _fault_join,
    "fault.late": _fault_late,
    "fault.monitored": _fault_monitored,
    "fault.slow": _fault_slow,
    "fault.dead": _fault_dead,
}
