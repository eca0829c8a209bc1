"""A connection by TLS that threads share: one reads while another one writes, and nothing waits for the other."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.certificates import issue, make_authority
from tidegate.security.keystores import pem_of
from tidegate.security.sockets import SharedTls, TlsFiles, TlsSocket

NOW, DAY = datetime.now(UTC), timedelta(days=1)
LIMIT_S = 20
AUTHORITY = make_authority(NOW, DAY)
MUCH = os.urandom(8 << 20)
"""Far more than the buffers of a connection hold."""
PIECE = 50_000


def files(directory: Path) -> TlsFiles:
    directory.mkdir()
    own = issue(AUTHORITY, ["localhost"], NOW, DAY)
    identity = (own.key_pem() + own.chain_pem()).decode()
    return TlsFiles(directory).write(identity, pem_of((AUTHORITY.certificate,)).decode())


@contextmanager
def listening(server: TlsFiles) -> Iterator[socket.socket]:
    plain = socket.create_server(("127.0.0.1", 0))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
    with server.listener(plain) as listener:
        listener.settimeout(LIMIT_S)
        yield listener


@contextmanager
def connected(tmp_path: Path) -> Iterator[tuple[SharedTls, TlsSocket]]:
    """Our end, and the peer's, which waits."""
    with listening(files(tmp_path / "server")) as listener:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
        ours = SharedTls(files(tmp_path / "client").client(plain))
        accepted: list[TlsSocket] = []

        def accept() -> None:
            theirs = listener.accept()[0]
            assert isinstance(theirs, TlsSocket)
            theirs.settimeout(LIMIT_S)
            theirs.authenticate()
            accepted.append(theirs)

        with in_thread(accept):
            ours.connect(listener.getsockname(), LIMIT_S)
        with accepted[0] as theirs:
            yield ours, theirs
        ours.close()


@contextmanager
def in_thread(act: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    yield
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def read(end: SharedTls | TlsSocket, count: int) -> bytes:
    found = bytearray(count)
    rest = memoryview(found)
    while rest:
        received = end.recv_into(rest)
        assert received
        rest = rest[received:]
    return bytes(found)


def test_both_ways_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    with connected(tmp_path) as (ours, theirs):
        seen: list[bytes] = []

        def echo() -> None:
            """In small pieces, so that the peer reads and writes all the time."""
            for start in range(0, len(MUCH), 1 << 16):
                piece = read(theirs, min(1 << 16, len(MUCH) - start))
                theirs.sendall(piece)

        with in_thread(echo), in_thread(lambda: seen.append(read(ours, len(MUCH)))):
            ours.sendall(MUCH)
        assert seen == [MUCH]


def test_what_finds_no_room_is_said_and_sent_later_as_a_whole(tmp_path: Path) -> None:
    with connected(tmp_path) as (ours, theirs):
        sent = until_full(ours)
        assert 0 < sent < len(MUCH)
        seen: list[bytes] = []
        with in_thread(lambda: seen.append(read(theirs, len(MUCH)))):
            ours.sendall(MUCH[sent : sent + PIECE])
            ours.sendall(MUCH[sent + PIECE :])
        assert seen == [MUCH]


def until_full(ours: SharedTls) -> int:
    """Returns how much was taken."""
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += ours.send(MUCH[sent : sent + PIECE])
    return sent


def test_a_thread_that_reads_is_woken_when_the_connection_ends(tmp_path: Path) -> None:
    with connected(tmp_path) as (ours, _theirs):
        seen: list[int] = []
        with in_thread(lambda: seen.append(ours.recv_into(memoryview(bytearray(1))))):
            ours.shutdown(socket.SHUT_RDWR)
        assert seen == [0]


def test_files_are_for_their_user_alone(tmp_path: Path) -> None:
    directory = files(tmp_path / "own").directory
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert len(list(directory.iterdir())) == 2
