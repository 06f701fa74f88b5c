"""The channel between the driver and the ranks of a distributed job: framed JSON over a loopback socket.

Each rank connects to the driver, says who it is, and answers commands. The channel is also the leash: a rank whose
driver has gone ends itself, so that no rank outlives its run. Frames are 4 bytes of big-endian length, then canonical
JSON. Standard library only; must not import torch, start processes or measure anything.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import struct
import tempfile
import threading
from typing import Any

from .chain import canonical, plain

WIRE_LIMIT = 256 * 1024 * 1024
#: Exit status of a rank whose driver has gone.
LEASH_EXIT = 70


class WireError(Exception):
    """The other end sent what is not a frame, or has gone."""


def wire_frame(value: Any) -> bytes:
    """One frame. Floats that are not finite travel as strings, as in the ledger."""
    data = canonical(plain(value))
    if len(data) > WIRE_LIMIT:
        raise ValueError(f"a frame of {len(data)} bytes is beyond the limit of {WIRE_LIMIT}")
    return struct.pack(">I", len(data)) + data


def take_frame(buffer: bytearray) -> Any | None:
    """The first whole frame of `buffer`, removed from it; None while it is incomplete. Raises WireError."""
    if len(buffer) < 4:
        return None
    (length,) = struct.unpack(">I", bytes(buffer[:4]))
    if length > WIRE_LIMIT:
        raise WireError(f"a frame of {length} bytes is beyond the limit")
    if len(buffer) < 4 + length:
        return None
    data = bytes(buffer[4 : 4 + length])
    del buffer[: 4 + length]
    try:
        return json.loads(data.decode("utf-8"))
    except ValueError as error:
        raise WireError(f"a frame that is not JSON: {error}") from None


def write_json_whole(path: str, value: Any) -> None:
    """Write `value` as JSON so that a reader sees all of it or nothing (write, fsync, rename)."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, name = tempfile.mkstemp(dir=folder, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False).encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise


class Leash:
    """A rank's end of the channel. A thread reads commands; when the driver has gone the process ends at once."""

    def __init__(self, host: str, port: int, hello: dict[str, Any], timeout_s: float = 20.0) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(None)
        self._lock = threading.Lock()
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self.send(hello)
        threading.Thread(target=self._read, name="leash", daemon=True).start()

    def _read(self) -> None:
        buffer = bytearray()
        try:
            while True:
                data = self._socket.recv(65536)
                if not data:
                    break
                buffer += data
                frame = take_frame(buffer)
                while frame is not None:
                    self._commands.put(frame)
                    frame = take_frame(buffer)
        except (OSError, WireError):
            pass
        os._exit(LEASH_EXIT)

    def send(self, value: dict[str, Any]) -> None:
        """Send one frame to the driver; safe from any thread."""
        data = wire_frame(value)
        with self._lock:
            self._socket.sendall(data)

    def receive(self) -> dict[str, Any]:
        """The next command; blocks until there is one."""
        return self._commands.get()
