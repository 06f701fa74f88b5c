"""Asks a side whether it has the device below its ranks, before any rank is started: a rank would end choosing it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path


def missing_below(python: str, harness: Path, env: dict[str, str], timeout_s: float) -> str | None:
    """What `probe` calls missing in that interpreter, started as a worker is; None where nothing is, or where it cannot
    be asked."""
    try:
        asked = subprocess.run(
            [python, "-s", str(harness), "probe"],
            capture_output=True,
            env=env,
            timeout=timeout_s,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        told = json.loads(asked.stdout)["missing"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
    return str(told) if told is not None else None
