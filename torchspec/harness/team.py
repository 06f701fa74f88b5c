"""Calls of the team's own functions: found by file and name, given what they ask for by name. Must not run them twice
where once is enough, and must not change what they return."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from .chain import sha256_hex
from .work import Task, Unsupported


def team_file(folder: Path, path: str) -> Any:
    """The module of a file below `folder`, imported once. Imports of files beside it work."""
    place = folder / path
    if not place.is_file():
        raise FileNotFoundError(f"the plan carries no file {path}")
    for parent in (str(folder), str(place.parent)):
        if parent not in sys.path:
            sys.path.insert(0, parent)
    name = "team_" + "".join(c if c.isalnum() else "_" for c in path)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, place)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def team_function(folder: Path, entry: dict[str, str]) -> Any:
    """The function that `entry` {"path", "function"} names below `folder`."""
    return getattr(team_file(folder, entry["path"]), entry["function"])


def old_path(task: Task, path: str) -> Any:
    """The module that stands beside: made by a function of that name in the team's file, or a function below torch that
    is called with the same inputs."""
    import torch

    if task.entry is not None:
        made = getattr(team_file(task.team, task.entry["path"]), path.rsplit(".", 1)[-1], None)
        if made is not None:
            given = call_team(made, task, whole=False)
            return given[0] if isinstance(given, tuple) else given
    function: Any = torch
    for part in path.removeprefix("torch.").split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise Unsupported(f"neither the team's file nor torch has {path}", "backend")

    class Beside(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    return Beside()


def data_rows(task: Task) -> list[str]:
    """The workload's data slice as lines, held against its digest. Raises ValueError where it is another file."""
    told = task.options.get("data")
    if not isinstance(told, dict):
        raise Unsupported("the team's function asks for data, and the workload names none", "backend")
    place = task.team / str(told["file"])
    if not place.is_file():
        where = f"the data slice {told['file']} is neither in the folder of the spec nor beside the harness"
        raise Unsupported(where, "machine")
    data = place.read_bytes()
    wanted = str(told.get("digest") or "").removeprefix("sha256:")
    if not sha256_hex(data).startswith(wanted):
        raise ValueError(
            f"{told['file']} is not the slice that the spec froze: its digest is sha256:{sha256_hex(data)}"
        )
    lines = data.decode("utf-8").splitlines()
    rows = told.get("rows")
    return lines[rows[0] : rows[1]] if rows else lines


#: What any function of the team may ask for beside the axes.
GIVEN_ANYWAY = ("dtype", "data", "seed", "device")
#: Axes that the work need not ask for: it is converted to the one, and started as many times as the other says.
APART = ("dtype", "ranks")


def takes(function: Any, name: str) -> bool:
    """Whether a function can be given `name` by name."""
    found = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in found.values()):
        return True
    return name in found and found[name].kind in (found[name].POSITIONAL_OR_KEYWORD, found[name].KEYWORD_ONLY)


def call_team(function: Any, task: Task, device: Any = None, whole: bool = True) -> Any:
    """Calls with what the function's parameters name: axes of the cell, `data` (lines), `dtype`, `seed`, `device`.

    `whole`: it makes the work, so that it must take every axis, and the data: what it does not take changes nothing,
    and the cell would carry a size that its work never got. Raises TypeError.
    """
    import torch

    name = getattr(function, "__name__", "the function")
    said = [*task.axes, *(["data"] if "data" in task.options else [])]
    unmet = [one for one in said if one not in APART and not takes(function, one)]
    if whole and unmet:
        raise TypeError(
            f"{name} takes no {', '.join(unmet)}: every value of it would be the same work; give {name} a parameter of "
            "that name, or take the line out of the spec"
        )
    parameters = inspect.signature(function).parameters
    given = {key: value for key, value in task.axes.items() if key not in GIVEN_ANYWAY and takes(function, key)}
    if "dtype" in parameters:
        given["dtype"] = getattr(torch, str(task.axes.get("dtype", "float32")))
    needed = "data" in parameters and parameters["data"].default is inspect.Parameter.empty
    if takes(function, "data") and ("data" in task.options or needed):
        given["data"] = data_rows(task)
    if "seed" in parameters:
        given["seed"] = task.seed
    if "device" in parameters:
        given["device"] = device if device is not None else torch.device("cpu")
    missing = [
        key
        for key, one in parameters.items()
        if key not in given and one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if missing:
        raise TypeError(f"{name} needs {', '.join(missing)}, and the workload does not say it: write it in the shape")
    return function(**given)
