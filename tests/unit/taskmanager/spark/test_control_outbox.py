"""What a subtask tells goes out in order, at once where there is room."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.pb import subtask_pb2
from tidegate.taskmanager.spark.control_outbox import GATHERED_BYTES, PRINTED_BYTES, ControlOutbox
from tidegate.wire import control_frames as frames


def state(name: str) -> subtask_pb2.FromSubtask:
    return subtask_pb2.FromSubtask(state_changed=subtask_pb2.FromSubtask.StateChanged(state=name))


@contextmanager
def connected() -> Iterator[tuple[ControlOutbox, socket.socket]]:
    """An outbox whose thread does not run yet, and the peer's end."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    with ours, theirs:
        yield ControlOutbox(ours), theirs


@contextmanager
def running(outbox: ControlOutbox) -> Iterator[None]:
    thread = threading.Thread(target=outbox.run)
    thread.start()
    try:
        yield
    finally:
        outbox.close()
        thread.join(10)
        assert not thread.is_alive()


def read(peer: socket.socket) -> subtask_pb2.FromSubtask:
    return frames.parse(
        subtask_pb2.FromSubtask, exactly(peer, frames.payload_bytes(exactly(peer, frames.HEADER_BYTES)))
    )


def exactly(peer: socket.socket, count: int) -> bytes:
    """A socket with a time limit gives what is there, whatever it is asked for."""
    found = b""
    while len(found) < count:
        found += peer.recv(count - len(found))
    return found


def shown(message: subtask_pb2.FromSubtask) -> str:
    return message.output.text if message.HasField("output") else message.state_changed.state


def test_a_message_is_sent_by_whoever_has_it() -> None:
    with connected() as (outbox, peer):
        outbox.put(state("RUNNING"))
        assert shown(read(peer)) == "RUNNING"


def test_the_order_is_kept_and_what_is_printed_is_gathered() -> None:
    with connected() as (outbox, peer):
        outbox.put(state("RUNNING"))
        outbox.print("a\n", False)
        outbox.print("b\n", False)
        outbox.print("error\n", True)
        outbox.print("1> a\n", False, is_bare=True)
        outbox.print("1> b\n", False, is_bare=True)
        outbox.print("c\n", False)
        outbox.put(state("FINISHED"))
        with running(outbox):
            found = [read(peer) for _ in range(6)]
        assert list(map(shown, found)) == ["RUNNING", "a\nb\n", "error\n", "1> a\n1> b\n", "c\n", "FINISHED"]
        assert [message.output.is_bare for message in found] == [False, False, False, True, False, False]


def test_what_the_socket_has_no_room_for_waits_and_nobody_with_it() -> None:
    names = [f"{number}" * 100_000 for number in range(10)]
    with connected() as (outbox, peer):
        for name in names:  # more than any socket takes, and nobody reads yet
            outbox.put(state(name))
        with running(outbox):
            assert [shown(read(peer)) for _ in names] == names
            outbox.put(state("last"))
            assert shown(read(peer)) == "last"


def test_printing_waits_while_too_much_of_it_is_unsent() -> None:
    with connected() as (outbox, peer):
        block = "x" * GATHERED_BYTES
        for _ in range(PRINTED_BYTES // GATHERED_BYTES):
            outbox.print(block, False)
        printed = threading.Event()

        def print_more() -> None:
            outbox.print("more", False)
            printed.set()

        thread = threading.Thread(target=print_more)
        thread.start()
        assert not printed.is_set()
        with running(outbox):
            assert shown(read(peer)) == block
            assert printed.wait(10)
            while shown(read(peer)) != "more":
                pass
        thread.join(10)


def test_a_text_of_any_length_goes_out_in_messages_that_are_not_too_long() -> None:
    text = "x" * (3 * PRINTED_BYTES + 1)
    with connected() as (outbox, peer), running(outbox):
        printing = threading.Thread(target=outbox.print, args=(text, False))
        printing.start()
        found = ""
        while len(found) < len(text):
            piece = shown(read(peer))
            assert len(piece) <= PRINTED_BYTES + GATHERED_BYTES
            found += piece
        printing.join(10)
    assert found == text


def test_printing_does_not_wait_for_a_stream_that_is_over() -> None:
    with connected() as (outbox, _):
        outbox.close()
        outbox.print("x" * (2 * PRINTED_BYTES), False)
        outbox.print("y", False)
        outbox.run()


def test_a_broken_socket_takes_nothing_and_raises_nothing() -> None:
    with connected() as (outbox, peer):
        peer.close()
        outbox.put(state("RUNNING"))
        outbox.print("a\n", False)
        outbox.run()
        outbox.put(state("FAILED"))
