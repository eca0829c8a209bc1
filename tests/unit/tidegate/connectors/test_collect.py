"""Results reach the client exactly once, whatever happens to the sink."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.collect import CollectedResults, CollectSink
from tidegate.connectors.collect.client import ResultGuarantee, _Spool
from tidegate.connectors.collect.messages import TOKEN_BYTES, ResultBatch
from tidegate.connectors.collect.sink import CollectWriter
from tidegate.model.errors import ExternalError
from tidegate.records.batch import ArrowBatch
from tidegate.records.record_codec import encode

TOKEN = secrets.token_bytes(TOKEN_BYTES)
LIMIT_S = 30


class Attempt:
    """A sink that listens on loopback; ``taken`` is set when the client has everything."""

    def __init__(self, state: Sequence[Any] = (), buffer_bytes: int = 1 << 20) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.taken = threading.Event()
        context = SinkContext(0, 1, "job", "attempt", "sink", listener=listener, wakeup=self._on_wakeup)
        writer = CollectSink(TOKEN, buffer_bytes).make_writer(context, state, Types.LONG())
        assert isinstance(writer, CollectWriter)
        self.writer = writer

    def write(self, *values: int) -> Attempt:
        self.writer.write(ArrowBatch(encode(Types.LONG(), list(values), "test")))
        return self

    def _on_wakeup(self) -> None:
        if self.writer.is_drained():
            self.taken.set()


class Job:
    """Attempts one after the other: the next begins when ``then`` of the one before has ended it."""

    def __init__(self, *attempts: Callable[[], str | None]) -> None:
        self._attempts = list(attempts)
        self._current = ""
        self.requests = 0

    def secure(self, connection: socket.socket) -> socket.socket:
        return connection

    def sink_address(self) -> str | None:
        self.requests += 1
        return self._attempts.pop(0)() if self._attempts else None


def collected(job: Job, guarantee: ResultGuarantee) -> list[Any]:
    with closing(CollectedResults(job, TOKEN, Types.LONG(), guarantee)) as results:
        return list(results)


def ends_when_taken(attempt: Attempt) -> str:
    """The subtask finishes as soon as the client has all."""

    def end() -> None:
        attempt.taken.wait(LIMIT_S)
        attempt.writer.close()

    threading.Thread(target=end, daemon=True).start()
    return attempt.address


@pytest.mark.parametrize("guarantee", ResultGuarantee)
def test_everything_comes_in_order(guarantee: ResultGuarantee) -> None:
    attempt = Attempt().write(1, 2).write(3)
    assert collected(Job(lambda: ends_when_taken(attempt)), guarantee) == [1, 2, 3]
    assert attempt.writer.is_drained()


def test_nothing_is_given_out_before_a_checkpoint_covers_it() -> None:
    attempt = Attempt().write(1, 2)
    results = CollectedResults(Job(lambda: attempt.address), TOKEN, Types.LONG(), ResultGuarantee.EXACTLY_ONCE)
    found = iter(results)
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.append(next(found)), daemon=True)
    reader.start()
    assert attempt.taken.wait(LIMIT_S)  # the client has them, and holds them back
    assert got == []
    attempt.writer.snapshot_state(1)
    attempt.writer.notify_checkpoint_complete(1)
    reader.join(LIMIT_S)
    assert got == [1]
    results.close()
    attempt.writer.close()


def test_a_restart_takes_back_what_no_checkpoint_covers() -> None:
    first = Attempt().write(1, 2).write(3)
    state = first.writer.snapshot_state(1)  # nothing was taken yet: the buffer is in the checkpoint
    first.write(99)  # is made anew after the restart, differently

    def crash() -> str:
        def end() -> None:
            first.taken.wait(LIMIT_S)
            first.writer.notify_checkpoint_complete(1)
            first.writer.close()

        threading.Thread(target=end, daemon=True).start()
        return first.address

    job = Job(crash, lambda: ends_when_taken(Attempt(state).write(4).write(5, 6)))
    assert collected(job, ResultGuarantee.EXACTLY_ONCE) == [1, 2, 3, 4, 5, 6]


def test_without_checkpoints_a_restart_is_an_error() -> None:
    first, second = Attempt().write(1), Attempt().write(1)
    job = Job(lambda: ends_when_taken(first), lambda: second.address)
    with pytest.raises(ExternalError, match="enable_checkpointing"):
        collected(job, ResultGuarantee.NOT_RESTARTABLE)
    second.writer.close()


def test_a_full_buffer_has_no_room_until_the_client_took_some() -> None:
    attempt = Attempt(buffer_bytes=100).write(*range(100))
    assert not attempt.writer.has_room()
    assert collected(Job(lambda: ends_when_taken(attempt)), ResultGuarantee.AT_LEAST_ONCE) == list(range(100))
    assert attempt.writer.has_room()


def test_a_stranger_gets_nothing() -> None:
    attempt = Attempt().write(1)
    host, port = attempt.address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as stranger:
        stranger.settimeout(LIMIT_S)
        stranger.sendall(b"x" * TOKEN_BYTES)
        assert stranger.recv(1) == b""
    assert not attempt.writer.is_drained()
    attempt.writer.close()


def test_the_spool_gives_back_what_it_was_given() -> None:
    spool = _Spool()
    for end in (1, 2, 3):
        spool.put(ResultBatch(1, b"%d" % end), end)
    spool.truncate(2)
    assert [spool.take().content, spool.first_end, spool.take().content, spool.first_end] == [b"1", 2, b"2", None]
    spool.put(ResultBatch(1, b"again"), 3)
    assert spool.take().content == b"again"
    spool.close()
