from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidegate.aio.process import write_pid_file
from tidegate.cli.embedded.warm import meeting
from tidegate.cli.embedded.warm.facts import Facts, Standing, Use
from tidegate.cli.embedded.warm.keeper import locked
from tidegate.cli.embedded.warm.meeting import (
    PID,
    SOCKET,
    Channel,
    check_peer,
    is_met,
    keeper_of,
    listen,
    lock_of,
    meet,
)
from tidegate.model.errors import ExternalError, Misuse, Unreachable

STANDING = Standing(1, Use.FREE, 0, 1, 1, Facts("1", "c", "i", "p", "u", {}, {"long": "x" * 200_000}))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """With a path that is too long for a socket's own."""
    made = tmp_path / ("deep" * 20) / "warm"
    made.mkdir(mode=0o700, parents=True)
    return made


def answered(listener: socket.socket) -> threading.Thread:
    """Answers one connection like a keeper."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            channel = Channel(connection)
            channel.send(STANDING.to_json())
            while (message := channel.receive()) is not None:
                with open(os.devnull, "rb") as sent:
                    channel.send({"got": message}, [sent.fileno(), sent.fileno()])

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_a_keeper_says_what_it_is_and_answers_with_descriptors(directory: Path) -> None:
    with listen(directory) as listener:
        thread = answered(listener)
        channel, standing = meet(directory)
        assert standing == STANDING
        assert channel.ask({"what": "x"}, 5) == {"got": {"what": "x"}}
        assert len(channel.descriptors) == 2
        for descriptor in channel.descriptors:
            assert not os.get_inheritable(descriptor)
            os.close(descriptor)
        channel.close()
        thread.join()
    assert (directory / SOCKET).stat().st_mode & 0o777 == 0o600


def test_the_peer_is_a_process_of_this_user() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert check_peer(one) == os.getpid()


def test_a_peer_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    with one, other, pytest.raises(ExternalError, match=f"of the user with the id {os.getuid()}"):
        check_peer(one)


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o720])
def test_a_directory_that_others_may_enter_is_not_used(directory: Path, mode: int) -> None:
    with listen(directory):
        directory.chmod(mode)
        with pytest.raises(ExternalError, match="other users may enter"):
            meet(directory)


def test_a_link_is_not_followed(directory: Path) -> None:
    link = directory.parent / "link"
    link.symlink_to(directory)
    with listen(directory), pytest.raises(Unreachable, match="its socket cannot be used"):
        meet(link)


KILLED = """
import sys, pathlib
from tidegate.cli.embedded.warm.keeper import locked
from tidegate.cli.embedded.warm.meeting import listen
directory = pathlib.Path(sys.argv[1])
kept = locked(directory), listen(directory)
print("up", flush=True)
sys.stdin.read()
"""


def test_a_keeper_that_was_killed_is_told_once(directory: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert lock_of(directory) is None, "there is one keeper"
        assert keeper_of(directory) == process.pid
        with pytest.raises(Misuse, match=rf"another warm cluster \(pid {process.pid}\) is kept"):
            locked(directory, 0.0)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert keeper_of(directory) == 0
    assert is_met(directory)
    with pytest.raises(Unreachable, match="its process was killed"):
        meet(directory)
    assert not is_met(directory)


def test_one_that_has_ended_since_it_was_seen_was_not_killed(directory: Path) -> None:
    with listen(directory):
        (directory / SOCKET).unlink()
        with pytest.raises(Unreachable, match="it is ending"):
            meet(directory)


def test_the_next_keeper_waits_for_the_end_of_the_one_before(directory: Path) -> None:
    before = locked(directory)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(locked(directory, 30)))
    waiting.start()
    assert keeper_of(directory) == os.getpid()
    os.close(before)
    waiting.join()
    os.close(found[0])


def test_a_pid_that_is_that_of_another_process_by_now_is_not_the_keepers(directory: Path) -> None:
    lock = lock_of(directory)
    assert lock is not None
    (directory / PID).write_text(f"{os.getpid()} 1.0\n")
    assert keeper_of(directory) == 0
    write_pid_file(directory / PID)
    assert keeper_of(directory) == os.getpid()
    os.close(lock)


def test_where_none_was_kept_there_is_no_keeper(tmp_path: Path) -> None:
    assert keeper_of(tmp_path / "nowhere") == 0
    assert keeper_of(tmp_path) == 0


def test_a_keeper_that_stands_still_is_not_waited_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "ANSWER_LIMIT_S", 0.05)
    with listen(directory), pytest.raises(Unreachable, match=r"does not answer within 0\.05 s"):
        meet(directory)


@pytest.mark.parametrize(
    ("sent", "message"),
    [(b"", "it is ending"), (b"hello\n", "not JSON"), (b"{}\n", "version"), (b"[]\n", "not an object")],
)
def test_what_is_no_keeper_is_not_used(directory: Path, sent: bytes, message: str) -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(sent)

    with listen(directory) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        with pytest.raises(ExternalError, match=message):
            meet(directory)
        thread.join()


def test_an_answer_that_does_not_come_is_told() -> None:
    one, other = socket.socketpair()
    with one:
        with other, pytest.raises(Unreachable, match="does not answer"):
            Channel(one).ask({}, 0.05)
        with pytest.raises(Unreachable):
            Channel(one).ask({}, 0.05)
