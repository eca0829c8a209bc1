"""Messages of a control stream, framed and read back."""

from __future__ import annotations

import pytest

from tidegate.model.errors import CorruptFrame
from tidegate.pb import subtask_pb2
from tidegate.wire import control_frames as frames

HELLO = subtask_pb2.FromSubtask(hello=subtask_pb2.FromSubtask.Hello(attempt="a", token="t", pid=7, host="h"))


def test_a_message_comes_back() -> None:
    data = frames.frame(HELLO)
    header, payload = data[: frames.HEADER_BYTES], data[frames.HEADER_BYTES :]
    assert frames.payload_bytes(header) == len(payload)
    assert frames.parse(subtask_pb2.FromSubtask, payload) == HELLO


def test_another_protocol_is_seen_by_its_first_bytes() -> None:
    with pytest.raises(CorruptFrame, match="message of 1195725856 bytes, and at most 268435456 are allowed"):
        frames.payload_bytes(b"GET ")


def test_a_stranger_may_send_little() -> None:
    header = frames.frame(subtask_pb2.FromSubtask(output=subtask_pb2.FromSubtask.Output(text="x" * 70_000)))[:4]
    frames.payload_bytes(header)
    with pytest.raises(CorruptFrame, match="at most 65536"):
        frames.payload_bytes(header, frames.HELLO_MAX_BYTES)


def test_what_the_peer_would_refuse_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MESSAGE_MAX_BYTES", 10)
    with pytest.raises(CorruptFrame, match="its receiver takes at most 10"):
        frames.frame(HELLO)


def test_bytes_that_are_no_message_are_told() -> None:
    with pytest.raises(CorruptFrame, match="a control message of 3 bytes cannot be read as a FromSubtask"):
        frames.parse(subtask_pb2.FromSubtask, b"\xff\xff\xff")
