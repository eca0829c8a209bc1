"""One program at a time has the cluster, and gives it back however it ends; a request that makes no sense costs an answer."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.cli.embedded.warm.facts import Facts, Standing, Use
from tidegate.cli.embedded.warm.lending import Lending
from tidegate.cli.embedded.warm.meeting import Channel
from tidegate.model.values import JsonObject

FACTS = Facts("1", "c", "i", "p", "u", {}, {})
LIMIT_S = 20.0


class FakeCluster:
    """A cluster without processes. ``close`` returns the checkpoints in ``kept``."""

    address = "127.0.0.1:7"

    def __init__(self, checkpoints: Path) -> None:
        self.checkpoints = checkpoints
        self.slots = 2
        self.is_up = True
        self.is_closed = False
        self.runs_a_job = False
        self.kept: list[Path] = []
        self.on_close: Callable[[], None] = lambda: None

    def is_alive(self) -> bool:
        return self.is_up

    def has_jobs(self) -> bool:
        return self.runs_a_job

    def add_slots(self, slots: int) -> None:
        self.slots += slots

    def close(self) -> list[Path]:
        self.on_close()
        self.is_closed = True
        return self.kept


class Kept:
    """Lends fake clusters; ``writes``: the ends into which their processes print, ``log``: where it goes while nothing is lent."""

    def __init__(self, tmp_path: Path) -> None:
        self._tmp_path = tmp_path
        self.clusters: list[FakeCluster] = []
        self.log = tmp_path / "output.log"
        self._log = os.open(self.log, os.O_WRONLY | os.O_CREAT, 0o600)
        self._pipes = os.pipe(), os.pipe()
        for read, _ in self._pipes:
            os.set_blocking(read, False)
        self.writes = [write for _, write in self._pipes]
        self._ending = threading.Event()
        reads = self._pipes[0][0], self._pipes[1][0]
        self.lending = Lending(self._start, reads, self._log, 60_000, FACTS, self._ending)
        self.watching = threading.Thread(target=self.lending.watch)
        self.watching.start()
        self._threads: list[threading.Thread] = []
        self.programs: list[Channel] = []

    @property
    def cluster(self) -> FakeCluster:
        return self.clusters[-1]

    def _start(self) -> FakeCluster:
        self.clusters.append(FakeCluster(self._tmp_path / "checkpoints"))
        return self.cluster

    def program(self) -> Channel:
        """Connects as a program does; returns the connection, over which the standing has come."""
        ours, theirs = socket.socketpair()
        ours.settimeout(LIMIT_S)
        thread = threading.Thread(target=self.lending.serve, args=(theirs,))
        thread.start()
        self._threads.append(thread)
        channel = Channel(ours)
        said = channel.receive()
        assert said is not None
        assert Standing.from_json(said).pid == os.getpid()
        self.programs.append(channel)
        return channel

    def is_free(self) -> bool:
        return self.lending.standing().use is Use.FREE

    def end_lending(self) -> None:
        self._ending.set()

    def end(self) -> None:
        for channel in self.programs:
            channel.close()
            for descriptor in channel.descriptors:
                os.close(descriptor)
        for thread in self._threads:
            thread.join()
        self._ending.set()
        self.watching.join()
        self.lending.close()
        for pipe in self._pipes:
            os.close(pipe[1])  # its copier ends with the process
        os.close(self._log)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.end()


def borrow(channel: Channel) -> JsonObject:
    return channel.ask({"what": "borrow", "pid": 41}, LIMIT_S)


def test_it_is_lent_to_one_program_at_a_time(kept: Kept) -> None:
    one, other = kept.program(), kept.program()
    assert borrow(one) == {"lent": True, "address": "127.0.0.1:7", "slots": 2, "left": []}
    assert len(one.descriptors) == 2
    assert borrow(other) == {"lent": False, "why": f"it runs another program (pid {os.getpid()})"}
    assert one.ask({"what": "is-alive"}, LIMIT_S) == {"alive": True}
    assert one.ask({"what": "add-slots", "slots": 3}, LIMIT_S) == {"slots": 5}
    assert one.ask({"what": "give-back"}, LIMIT_S) == {}
    one.close()
    wait_until(kept.is_free, HANG_LIMIT_S, "it is free")
    assert borrow(other)["lent"] is True
    assert not kept.cluster.is_closed


BAD: list[JsonObject] = [
    {},
    {"what": None},
    {"what": "borrow"},
    {"what": "borrow", "pid": "me"},
    {"what": "add-slots"},
    {"what": "add-slots", "slots": [1]},
    {"what": "sing"},
    {"what": "x" * 10_000},
]


@pytest.mark.parametrize("request_", BAD, ids=lambda request: str(request)[:30])
@pytest.mark.parametrize("holds", [False, True])
def test_a_request_that_makes_no_sense_gets_an_error_and_the_connection_goes_on(
    kept: Kept, request_: JsonObject, holds: bool
) -> None:
    program = kept.program()
    if holds:
        borrow(program)
    (message,) = {key: found["message"] for key, found in program.ask(request_, LIMIT_S).items()}.values()
    assert "warm cluster" in message
    assert len(message) < 300
    if holds:
        assert program.ask({"what": "is-alive"}, LIMIT_S) == {"alive": True}
    else:
        assert borrow(program)["lent"] is True


@pytest.mark.parametrize("what", ["is-alive", "add-slots", "give-back"])
def test_only_the_program_that_has_borrowed_it_may_use_it(kept: Kept, what: str) -> None:
    borrow(kept.program())
    answer = kept.program().ask({"what": what, "slots": 1}, LIMIT_S)
    assert answer["error"]["message"] == "this program has not borrowed the warm cluster"
    assert kept.cluster.slots == 2


def test_one_that_borrows_twice_still_gives_it_back(kept: Kept) -> None:
    program = kept.program()
    borrow(program)
    assert "error" in borrow(program)
    program.close()
    wait_until(kept.is_free, HANG_LIMIT_S, "it is free")


def test_requests_that_come_together_are_all_answered(kept: Kept) -> None:
    program = kept.program()
    program.connection.sendall(b'{"what": "borrow", "pid": 1}\n{"what": "is-alive"}\n{"what": "give-back"}\n')
    answers = [program.receive() for _ in range(3)]
    assert answers[1:] == [{"alive": True}, {}]


@pytest.mark.parametrize("sent", [b"hello\n", b"[1]\n", b"7\n", b"\xff\n"])
def test_what_is_no_message_ends_the_connection_and_nothing_else(kept: Kept, sent: bytes) -> None:
    program = kept.program()
    borrow(program)
    program.connection.sendall(sent)
    assert program.receive() is None
    wait_until(kept.is_free, HANG_LIMIT_S, "it is free")


def test_a_job_that_is_left_closes_the_cluster_and_the_next_program_learns_of_its_checkpoint(
    kept: Kept, tmp_path: Path
) -> None:
    program = kept.program()
    borrow(program)
    first = kept.cluster
    first.runs_a_job = True
    first.kept = [tmp_path / "chk-1"]
    program.close()
    wait_until(kept.is_free, HANG_LIMIT_S, "another one is free")
    assert first.is_closed
    assert len(kept.clusters) == 2
    assert borrow(kept.program())["left"] == [str(tmp_path / "chk-1")]


def test_one_that_was_killed_with_its_pipes_full_gives_it_back(kept: Kept) -> None:
    """Then its processes wait in the midst of a line, and cannot end until it is read."""
    program = kept.program()
    borrow(program)
    write = kept.writes[0]
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    os.set_blocking(write, True)
    kept.cluster.runs_a_job = True

    def print_it() -> None:
        os.write(write, b"y" * 4096)

    kept.cluster.on_close = print_it
    for descriptor in program.descriptors:
        os.close(descriptor)
    program.descriptors.clear()
    program.close()
    wait_until(kept.is_free, HANG_LIMIT_S, "another one is free")
    wait_until(lambda: kept.log.read_bytes().endswith(b"y" * 4096), HANG_LIMIT_S, "it is in the log")


def test_a_cluster_that_cannot_be_cleared_is_not_lent_for_ever(kept: Kept) -> None:
    program = kept.program()
    borrow(program)
    first = kept.cluster
    first.runs_a_job = True

    def fail() -> None:
        raise OSError("the disk is gone")

    first.on_close = fail
    program.close()
    wait_until(kept.is_free, HANG_LIMIT_S, "another one is free")
    assert len(kept.clusters) == 2


def test_one_whose_job_manager_is_lost_is_started_anew(kept: Kept) -> None:
    first = kept.cluster
    first.is_up = False
    wait_until(lambda: len(kept.clusters) == 2 and kept.is_free(), HANG_LIMIT_S, "another one is free")
    assert first.is_closed


def test_one_that_is_ending_says_so(kept: Kept) -> None:
    program = kept.program()
    kept.end_lending()
    kept.watching.join()
    assert borrow(program) == {"lent": False, "why": "it is ending"}


def test_it_says_since_when_and_until_when(kept: Kept) -> None:
    free = kept.lending.standing()
    assert 0 < free.started_ms <= free.since_ms
    assert free.ends_ms == free.since_ms + 60_000
    borrow(kept.program())
    lent = kept.lending.standing()
    assert (lent.use, lent.holder, lent.ends_ms) == (Use.LENT, os.getpid(), None)
    assert lent.since_ms >= free.since_ms
