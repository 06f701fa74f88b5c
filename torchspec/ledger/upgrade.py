"""Records of earlier versions, read as if this one had written them. The bytes and the hash stay those of their time.

A version is frozen once evidence of it exists: what a record of version n must hold never changes. A later version adds
a row here, from the version before it to itself, and a folder to `tests/cases/old`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torchspec.model.evidence import VERSION

Body = dict[str, Any]

#: version -> what makes (kind, body) of that version the next one's. Version 1 is the first, so there is none yet.
UPGRADES: Mapping[int, Callable[[str, Body], Body]] = {}


def readable(version: object) -> bool:
    """Whether records of `version` can be read: this one, or one from which upgrades lead here without a gap."""
    if type(version) is not int:
        return False
    return version <= VERSION and all(step in UPGRADES for step in range(version, VERSION))


def unreadable(version: object) -> str:
    """Why a version cannot be read, in words."""
    if type(version) is int and version > VERSION:
        return f"it is of version {version}, from a newer torchspec; this one reads up to version {VERSION}"
    return f"it is of version {version!r}, and this torchspec reads version {VERSION}"


def upgraded(version: int, kind: str, body: Body) -> Body:
    """The body as this version has it."""
    for step in range(version, VERSION):
        body = UPGRADES[step](kind, body)
    return body
