"""Between the driver and its ranks: frames however they are cut, files whole or not there, and the leash."""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchspec.harness.dist_wire import WireError, take_frame, wire_frame, write_json_whole


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=20))
def test_a_frame_comes_back_however_it_is_cut(value):
    data = wire_frame({"value": value}) + wire_frame({"value": 1})
    buffer = bytearray()
    got = []
    for byte in data:
        buffer.append(byte)
        frame = take_frame(buffer)
        if frame is not None:
            got.append(frame)
    assert [frame["value"] for frame in got] == [value, 1]
    assert not buffer


def test_floats_that_are_not_finite_travel_as_words():
    frame = take_frame(bytearray(wire_frame({"x": [math.nan, math.inf, -math.inf, 0.5]})))
    assert frame == {"x": ["nan", "inf", "-inf", 0.5]}


@pytest.mark.parametrize("data", [struct.pack(">I", 3) + b"{{{", struct.pack(">I", 1 << 30) + b"x"])
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(WireError):
        take_frame(bytearray(data))


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "value.json"
    write_json_whole(str(path), {"a": 1})
    with pytest.raises(TypeError):
        write_json_whole(str(path), {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


def test_the_leash_ends_a_rank_whose_driver_is_gone(tmp_path):
    server = socket.create_server(("127.0.0.1", 0))
    code = (
        f"import sys, time; sys.path.insert(0, {os.getcwd()!r})\n"
        "from torchspec.harness.dist_wire import Leash\n"
        f"Leash('127.0.0.1', {server.getsockname()[1]}, {{}})\n"
        "time.sleep(600)"
    )
    rank = subprocess.Popen([sys.executable, "-c", code])
    taken = []
    thread = threading.Thread(target=lambda: taken.append(server.accept()[0]))
    thread.start()
    thread.join(20)
    assert rank.poll() is None
    taken[0].close()
    assert rank.wait(10) == 70
    server.close()
