"""Groups of all ranks over one transport: gloo, nccl or torchcomms, and whether a rank has it. Must not time anything.

torchcomms is asked of torch by a switch of its configuration, and torch may pass it by without a word: from 2.14 on
where torchcomms has not got the backend, and in 2.13 where the default group, which it splits, is none of torchcomms'.
So what a new group holds is looked at.
"""

from __future__ import annotations

import datetime
import inspect
from functools import partial
from typing import Any

from .dist_rank import RankState, transports_available
from .work import Unsupported


def transport_problem(transport: str, device: str) -> tuple[str, str] | None:
    """Why this rank cannot talk over a transport with its tensors on `device`, and where the lack is; None: it can."""
    here = transports_available().get(transport)
    if here is None:
        return f"unknown transport {transport}", "version"
    if not here["available"]:
        return str(here["error"]), str(here["where"])
    if transport == "nccl" and device == "cpu":
        return "NCCL carries what lies on a GPU, and these ranks run over the processor", "backend"
    return None


def transport_here(transport: str, device: str) -> dict[str, Any]:
    """The same as {"available", "error", "where"}, for other ranks to read."""
    problem = transport_problem(transport, device)
    if problem is None:
        return {"available": True}
    return {"available": False, "error": problem[0], "where": problem[1]}


def transport_group(state: RankState, transport: str) -> Any:
    """The process group of all ranks over `transport`. Raises Unsupported on every rank when one rank lacks it."""
    import torch.distributed as dist

    if transport in state.groups:
        return state.groups[transport]
    mine = transport_here(transport, state.device)
    everyone: list[Any] = [None] * state.world
    dist.all_gather_object(everyone, mine)
    for rank, answer in enumerate(everyone):
        if not answer["available"]:
            raise Unsupported(f"{transport} on rank {rank}: {answer['error']}", answer["where"])
    state.groups[transport] = new_transport_group(state, transport, state.timeout_s)
    return state.groups[transport]


def new_transport_group(state: RankState, transport: str, timeout_s: float) -> Any:
    """A new group of all ranks over a transport that they have, whose waits are this long."""
    import torch.distributed as dist

    timeout = datetime.timedelta(seconds=timeout_s)
    if transport == "torchcomms":
        return _torchcomms_group(state, timeout)
    return dist.new_group(timeout=timeout, backend=transport)


def transport_device(state: RankState, transport: str) -> str:
    """Where tensors lie that travel over a transport."""
    return "cpu" if transport == "gloo" else state.device


def takes_timeout(make: Any) -> bool:
    """Whether a function has an argument `timeout`; one that is bound from C++ says it in its documentation only."""
    try:
        return "timeout" in inspect.signature(make).parameters
    except (TypeError, ValueError):
        return "timeout" in (make.__doc__ or "")


def _torchcomms_group(state: RankState, timeout: datetime.timedelta) -> Any:
    """Raises Unsupported where what torch makes is no group of torchcomms."""
    import torch
    import torch.distributed as dist
    from torch.distributed import config, distributed_c10d

    make = getattr(distributed_c10d, "new_comm", None)
    if make is not None and takes_timeout(make):  # torch hands none on, and then it is 600 s
        distributed_c10d.new_comm = partial(make, timeout=timeout)
    try:
        with config.patch(use_torchcomms=True):
            group = dist.new_group(timeout=timeout, backend="nccl" if state.device == "cuda" else "gloo")
    except (NotImplementedError, RuntimeError) as error:
        if isinstance(error, NotImplementedError) or "split" in str(error):
            raise Unsupported(f"torch makes no group of torchcomms here: {error}", "version") from error
        raise
    finally:
        if make is not None:
            distributed_c10d.new_comm = make
    held = group._get_backend(torch.device(state.device))
    wrapper = getattr(distributed_c10d, "_BackendWrapper", None)
    if wrapper is None or not isinstance(held, wrapper):
        raise Unsupported(f"torch made {type(held).__name__} instead of a group of torchcomms", "version")
    return group
