"""Canonical JSON and digests: the same value gives the same bytes, everywhere.

Canonical form: UTF-8, keys sorted by code point, no white space, `ensure_ascii` off, no NaN or infinity (a measured
non-finite float travels as the string "nan", "inf" or "-inf"). The harness has the same twelve lines of its own
(`harness/chain.py`), and a test holds the two together.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def canonical(value: Any) -> bytes:
    """`value` (JSON types only) as canonical JSON bytes. Raises ValueError on NaN or infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data`, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The SHA-256 of the canonical JSON of `value`, 64 hex digits."""
    return sha256_hex(canonical(value))


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, 64 hex digits, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
