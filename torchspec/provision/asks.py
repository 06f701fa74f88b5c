"""Asks an interpreter what it is. Run by that interpreter itself, as one file: standard library, Python 3.8 or later.

Prints the word `torchspec-answer` and one JSON object on one line. It does not import torch, and reads no file but
package metadata and the interpreter's own.
"""

from __future__ import annotations

import hashlib
import importlib.metadata as metadata
import importlib.util
import json
import os
import platform
import re
import sys
import sysconfig
from typing import Any


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def packages() -> dict[str, dict[str, Any]]:
    """Installed distributions by normal name; where a name is there twice, the one that would be imported."""
    found: dict[str, dict[str, Any]] = {}
    for distribution in metadata.distributions():
        try:
            name = distribution.metadata["Name"]
            version = distribution.version
            requires = list(distribution.requires or [])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # broken metadata: no distribution
            continue
        if name and version:
            found.setdefault(normal(name), {"version": str(version), "requires": requires})
    return found


def torch_version(installed: dict[str, dict[str, Any]]) -> str | None:
    """torch's version from its metadata, else from its version.py; None where there is no torch."""
    if "torch" in installed:
        return str(installed["torch"]["version"])
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError, AttributeError, OSError):  # a torch that is half there, or cannot be looked at
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        try:
            with open(os.path.join(folder, "version.py"), encoding="utf-8") as stream:
                match = re.search(r"^__version__ = ['\"]([^'\"]+)['\"]", stream.read(), re.MULTILINE)
        except OSError:
            continue
        if match:
            return match.group(1)
    return None


def digest(path: str) -> str | None:
    running = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                running.update(block)
    except OSError:
        return None
    return running.hexdigest()


def implementation_version() -> str:
    info = sys.implementation.version
    kind = info.releaselevel
    return "{}.{}.{}".format(*info[:3]) + ("" if kind == "final" else kind[0] + str(info.serial))


def answer() -> dict[str, Any]:
    installed = packages()
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": sysconfig.get_platform(),
        "executable_sha256": digest(os.path.realpath(sys.executable)),
        "in_venv": sys.prefix != sys.base_prefix,
        "torch": torch_version(installed),
        "packages": installed,
        "markers": {
            "implementation_name": sys.implementation.name,
            "implementation_version": implementation_version(),
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": platform.release(),
            "platform_system": platform.system(),
            "platform_version": platform.version(),
            "python_full_version": platform.python_version(),
            "python_version": ".".join(platform.python_version_tuple()[:2]),
            "sys_platform": sys.platform,
        },
    }


if __name__ == "__main__":
    sys.stdout.write("\ntorchspec-answer" + json.dumps(answer()) + "\n")
