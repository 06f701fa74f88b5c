"""Frames on pipes: whole, too long, no JSON, late, cut off."""

from __future__ import annotations

import os
import struct
import threading

import pytest

from torchspec.harness.frames import (
    LONGEST_FRAME,
    FrameError,
    FrameTimeout,
    PipeClosed,
    receive_frame,
    send_frame,
)


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def test_a_frame_longer_than_a_pipe_arrives_whole(pipe: tuple[int, int]) -> None:
    message = {"text": "é" * 300_000, "nan": float("nan")}
    sender = threading.Thread(target=send_frame, args=(pipe[1], message))
    sender.start()
    assert receive_frame(pipe[0], 10) == {"text": "é" * 300_000, "nan": "nan"}
    sender.join()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (struct.pack(">I", LONGEST_FRAME + 1), FrameError),
        (struct.pack(">I", 5) + b"hello", FrameError),
        (struct.pack(">I", 2) + b"[]", FrameError),
        (struct.pack(">I", 1) + b"\xff", FrameError),
        (b"\x00\x00", PipeClosed),
        (struct.pack(">I", 9) + b"{}", PipeClosed),
    ],
)
def test_what_is_no_frame_is_an_error(pipe: tuple[int, int], data: bytes, problem: type[Exception]) -> None:
    os.write(pipe[1], data)
    os.close(pipe[1])
    with pytest.raises(problem):
        receive_frame(pipe[0], 5)


def test_a_late_frame_is_a_timeout(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], struct.pack(">I", 9) + b"{")
    with pytest.raises(FrameTimeout):
        receive_frame(pipe[0], 0.1)


def test_writing_to_nobody_is_a_closed_pipe(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    with pytest.raises(PipeClosed):
        send_frame(pipe[1], {})
