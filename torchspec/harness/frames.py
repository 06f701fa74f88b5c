"""Frames between driver and worker: 4 bytes of big-endian length, then canonical JSON, on pipes of their own.

Stdout belongs to torch and to the team's code, so nothing printed there can reach a frame. Must not know what the
messages mean.
"""

from __future__ import annotations

import json
import os
import selectors
import struct
import time
from typing import Any

from .chain import canonical, plain

#: A longer frame counts as garbage: no honest reply comes near it.
LONGEST_FRAME = 64 << 20


class FrameError(Exception):
    """What came is no frame: too long, no JSON, or no object."""


class PipeClosed(Exception):
    """The other end is gone."""


class FrameTimeout(Exception):
    """No whole frame came in time."""


def send_frame(fd: int, message: dict[str, Any]) -> None:
    """Writes one frame whole. Raises PipeClosed where nobody reads any more."""
    payload = canonical(plain(message))
    data = struct.pack(">I", len(payload)) + payload
    try:
        while data:
            data = data[os.write(fd, data) :]
    except (BrokenPipeError, OSError) as error:
        raise PipeClosed(str(error)) from error


def _receive_exactly(fd: int, count: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    with selectors.DefaultSelector() as ready:
        ready.register(fd, selectors.EVENT_READ)
        while count:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and (left <= 0 or not ready.select(left)):
                raise FrameTimeout
            part = os.read(fd, min(count, 1 << 20))
            if not part:
                raise PipeClosed("end of stream")
            parts.append(part)
            count -= len(part)
    return b"".join(parts)


def receive_frame(fd: int, timeout_s: float | None = None) -> dict[str, Any]:
    """Reads one frame; None waits for ever. Raises FrameTimeout, PipeClosed or FrameError."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    (length,) = struct.unpack(">I", _receive_exactly(fd, 4, deadline))
    if length > LONGEST_FRAME:
        raise FrameError(f"a frame of {length} bytes was announced; the longest allowed has {LONGEST_FRAME}")
    try:
        message = json.loads(_receive_exactly(fd, length, deadline))
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame is not JSON") from error
    if not isinstance(message, dict):
        raise FrameError("a frame is not a JSON object")
    return message
