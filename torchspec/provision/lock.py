"""The lock of an environment: every package with version and archive digest, the Python, and what torch brings along.

A lock holds no path, no address of an index and no time, so that the same packages give the same lock anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from torchspec.provision.interpreters import Probed

SCHEMA = "torchspec.environment/1"


def torch_brings(probed: Probed) -> dict[str, dict[str, Any]]:
    """What torch's own requirements bring into this environment: name -> {"specifiers": [...], "pinned": bool}.

    The closure of torch's requirements over what is installed, markers evaluated for this interpreter. `pinned` is true
    where one of the requirements is exact (`==`).
    """
    brings: dict[str, dict[str, Any]] = {}
    visited: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[str, frozenset[str]]] = [("torch", frozenset())]
    while waiting:
        node = waiting.pop()
        if node in visited:
            continue
        visited.add(node)
        for text in probed.packages.get(node[0], {}).get("requires", ()):
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            marker = requirement.marker
            environments = [{**probed.markers, "extra": extra} for extra in sorted({"", *node[1]})]
            if marker is not None and not any(marker.evaluate(dict(e)) for e in environments):
                continue
            name = str(canonicalize_name(requirement.name))
            if name not in probed.packages or name == "torch":
                continue
            entry = brings.setdefault(name, {"specifiers": [], "pinned": False})
            entry["specifiers"] = sorted({*entry["specifiers"], *map(str, requirement.specifier)})
            entry["pinned"] = entry["pinned"] or any(s.operator in ("==", "===") for s in requirement.specifier)
            waiting.append((name, frozenset(requirement.extras)))
    return {name: brings[name] for name in sorted(brings)}


def make_lock(
    probed: Probed, origin: Literal["pip", "interpreter"], archives: Mapping[str, Mapping[str, str | None]]
) -> dict[str, Any]:
    """The lock of a probed environment. `archives`: name -> {"file", "sha256"} of what pip installed, where it did."""
    nothing: Mapping[str, str | None] = {}
    return {
        "schema": SCHEMA,
        "origin": origin,
        "python": probed.python,
        "implementation": probed.implementation,
        "platform": probed.platform,
        "executable": probed.executable_sha256,
        "torch": probed.torch,
        "packages": {
            name: {
                "version": package["version"],
                "file": archives.get(name, nothing).get("file"),
                "sha256": archives.get(name, nothing).get("sha256"),
            }
            for name, package in sorted(probed.packages.items())
        },
        "torch_brings": torch_brings(probed),
    }


def versions(lock: Mapping[str, Any]) -> dict[str, str]:
    """Package versions of a lock by normal name."""
    return {name: package["version"] for name, package in lock["packages"].items()}
