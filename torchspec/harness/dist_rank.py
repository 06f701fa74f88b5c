"""One rank of a distributed job: joins the group, answers the driver's commands, and ends when the driver has gone.

The commands themselves live in dist_collective, dist_faults, dist_train, dist_checkpoint and dist_recover; this module
knows how a rank starts, what it says about its environment, and how an error travels. It must not measure anything and
must not write evidence: that is the driver's.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import gc
import json
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

from .device import DEVICES, Device
from .dist_processes import tie_to_parent
from .dist_wire import LEASH_EXIT, Leash
from .embedded import Embedded
from .environ import apply_settings, side_environment
from .work import Unsupported
from .worker import wake_runtime


class RankState:
    """What the commands of one rank share: who it is, its process groups, and what they prepared."""

    def __init__(self, job: dict[str, Any], leash: Leash, embedded: Embedded) -> None:
        self.job, self.leash, self.embedded = job, leash, embedded
        self.settings: dict[str, Any] = job["settings"]
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        self.device = str(self.settings.get("device") or "cpu")
        self.timeout_s = float(self.settings.get("timeout_s", 60.0))
        self.groups: dict[str, Any] = {}
        self.work: dict[str, Any] = {}
        self.solo: Any = None  # a group of this rank alone
        self.lacking: str | None = None  # why this machine cannot hold the job's ranks

    def planted(self, name: str) -> dict[str, Any] | None:
        """A fault that a test planted in this job for this rank; None outside of the tests of the harness."""
        for fault in self.settings.get("planted_faults", []):
            if fault["fault"] == name and fault.get("rank", self.rank) == self.rank:
                return dict(fault)
        return None

    def say(self, event: str, **fields: Any) -> None:
        """Tell the driver something without being asked."""
        self.leash.send({"event": event, **fields})

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()


RankCommand = Callable[[RankState, dict[str, Any]], Any]


def transports_available() -> dict[str, Any]:
    """Which transports this torch has, each with the reason where it has not. Needs no process group."""
    import torch.distributed as dist

    found: dict[str, Any] = {"gloo": {"available": dist.is_gloo_available()}}
    import torch

    if not dist.is_nccl_available():
        found["nccl"] = {"available": False, "error": "this torch was built without NCCL", "where": "version"}
    elif not torch.cuda.is_available():
        found["nccl"] = {
            "available": False,
            "error": "NCCL needs a CUDA device and this machine has none",
            "where": "machine",
        }
    else:
        found["nccl"] = {"available": True, "version": ".".join(str(part) for part in torch.cuda.nccl.version())}
    try:
        from torch.distributed import config

        if not hasattr(config, "use_torchcomms"):
            raise Unsupported("torch.distributed.config has no use_torchcomms", "version")
        import torchcomms  # type: ignore[import-not-found]

        found["torchcomms"] = {"available": True, "version": str(getattr(torchcomms, "__version__", "unknown"))}
    except Unsupported as error:
        found["torchcomms"] = {"available": False, "error": str(error), "where": error.where}
    except ImportError as error:
        where = "version" if "config" in str(error) else "machine"
        found["torchcomms"] = {"available": False, "error": f"{type(error).__name__}: {error}", "where": where}
    return found


def rank_environment(state: RankState) -> dict[str, Any]:
    """What this rank is, as a `side.environment` record says it, with the device below it and its transports. All
    ranks must agree."""
    device = DEVICES.get(str(state.embedded.plan["backend"].get("over")), Device)()
    digests = dict(state.settings.get("digests", {}))
    body = side_environment(state.embedded.source, digests, dict(state.embedded.frozen["settings"]))
    body["device"] = {**device.probe(), "precision": device.precision()}
    return {**body, "ranks": {"world": state.world, "transports": transports_available()}}


def job_store(state: RankState, name: str) -> Any:
    """The job's store, under a name of its own in each of the job's lives.

    torchrun keeps its store over a restart, and gloo's keys carry no attempt: without a name of its own, a restarted
    rank can find the address of a dead one there and give up before its peer has come.
    """
    import torch.distributed as dist

    if "store" not in state.groups:
        state.groups["store"] = next(
            iter(dist.rendezvous("env://", timeout=datetime.timedelta(seconds=state.timeout_s)))
        )[0]
    return dist.PrefixStore(f"life-{state.restart}/{name}", state.groups["store"])


def join_group(state: RankState, store: Any = None, timeout_s: float | None = None) -> None:
    """Join the job's process group. Each rank also gets a group of itself alone, so that all hold equally many:
    torch 2.13 derives the names of later groups from that number and deadlocks where it differs between ranks."""
    import torch
    import torch.distributed as dist

    timeout = datetime.timedelta(seconds=timeout_s or state.timeout_s)
    if state.device == "cuda":
        torch.cuda.set_device(state.local_rank)
    backend = "cpu:gloo,cuda:nccl" if state.device == "cuda" else "gloo"
    held = store if store is not None else job_store(state, "all")
    dist.init_process_group(backend, store=held, rank=state.rank, world_size=state.world, timeout=timeout)
    state.solo = dist.new_group([state.rank], timeout=timeout, backend=backend, use_local_synchronization=True)


def lacks_devices(state: RankState) -> str | None:
    """Why the ranks of this machine have not a device each; None where they have, or share the processor. The same on
    all ranks of a machine."""
    planted = state.planted("few_devices")
    if planted is None and state.device != "cuda":
        return None
    import torch

    there = int(planted["count"]) if planted is not None else torch.cuda.device_count()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", state.world))
    if here <= there:
        return None
    return f"{here} ranks on this machine need a device each, and torch finds {there} here"


def prepare_rank(state: RankState) -> float:
    """Threads, seeds and settings, before anything else of torch runs; the seconds that importing torch took."""
    begin = time.perf_counter()
    import torch

    seconds = time.perf_counter() - begin
    torch.set_num_threads(int(state.job["threads"]))
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(1)
    seed = int(state.embedded.frozen["seed"])
    random.seed(seed)
    torch.manual_seed(seed)
    apply_settings(state.embedded.frozen["settings"])
    wake_runtime()
    return seconds


def wake_training(state: RankState) -> None:
    """Loads what a plan's training on ranks loads at its first use (wrapping, optimizers, checkpoints): here all ranks
    of all jobs load it at once, and no cell has it charged to its first step."""
    kinds = {workload["kind"] for workload in state.embedded.workloads.values()}
    if not kinds & {"fsdp2", "ddp"}:
        return
    import torch
    import torch.distributed.checkpoint.state_dict
    import torch.distributed.fsdp

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def serve_rank(state: RankState, commands: dict[str, RankCommand]) -> int:
    """Answer commands until `end`. An error is an answer too; the rank goes on."""
    while True:
        frame = state.leash.receive()
        if frame["do"] == "end":
            return 0
        try:
            if state.lacking is not None:
                raise Unsupported(state.lacking, "machine")
            if frame["do"] not in commands:
                raise Unsupported(f"work on ranks cannot be asked for {frame['do']}", "backend")
            answer = {"ok": True, "value": commands[frame["do"]](state, frame)}
        except Unsupported as error:
            answer = {"ok": True, "value": {"unsupported": {"error": str(error), "where": error.where}}}
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # torch's CheckpointException is no Exception
            message = f"{type(error).__name__}: {error}".strip()
            answer = {"ok": False, "error": {"message": message[:2000], "type": type(error).__name__,
                                             "traceback": traceback.format_exc()[-8000:]}}  # fmt: skip
        state.leash.send({"event": "answer", "id": frame["id"], **answer})


def own_log(folder: str) -> None:
    """From now on what this rank prints goes to a file of its own, `rank-<rank>.<restart>.log`."""
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    log = os.open(
        os.path.join(folder, f"rank-{os.environ['RANK']}.{restart}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND
    )
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def rank_main(path: str, commands: dict[str, RankCommand], embedded: Embedded) -> int:
    """Run one rank of the job described in the file `path`; its exit status."""
    parent = os.getppid()
    tie_to_parent()
    if os.getppid() != parent:
        return LEASH_EXIT
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    own_log(os.path.dirname(path))
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    hello = {"token": job["token"], "rank": int(os.environ["RANK"]), "world": int(os.environ["WORLD_SIZE"]),
             "restart": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")), "pid": os.getpid()}  # fmt: skip
    state = RankState(job, Leash(job["host"], int(job["port"]), hello), embedded)
    odd = state.planted("other_environment")
    if odd is not None:
        os.environ[odd["name"]] = odd["value"]
    import_s = prepare_rank(state)
    state.lacking = lacks_devices(state)
    if state.lacking is None and state.settings.get("join", True):
        wake_training(state)
        join_group(state)
    gc.collect()
    gc.freeze()  # what importing has made stays: looking through it costs 0.2 s in each later collection
    state.say("ready", environment=rank_environment(state), pid=os.getpid(), import_s=import_s)
    status = serve_rank(state, commands)
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    return status
