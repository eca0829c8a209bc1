"""Where keeper and programs meet: a Unix socket in a directory that only their user may enter, and messages over it.

    <home>/clusters/warm/       0700
        socket                  0600; a line of JSON for each message, and descriptors with it
        keeper.lock             locked while a keeper lives, so that there is one
        keeper.pid              its pid, and when it was started: a pid may be that of another process later

Each side asks the kernel for the other's user, where it tells.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate.aio.process import read_pid_file
from tidegate.cli.cluster_files import clusters_of
from tidegate.cli.embedded.warm.facts import Standing
from tidegate.model.errors import ExternalError, Unreachable
from tidegate.model.values import JsonObject

SOCKET = "socket"
LOCK = "keeper.lock"
PID = "keeper.pid"
ANSWER_LIMIT_S = 2.0
"""How long a keeper may take to answer what it knows, in seconds. Chosen, not measured: more than that is saved by a cluster of the program's own."""
_LONGEST = 1 << 20
"""The most bytes of a message. Chosen: a digest for each variable of an environment, whose size systems bound, has less."""
_DESCRIPTORS = 2
"""The pipes of standard output and error."""
_PEER = struct.Struct("3i")
_ENDING = "it is ending"


def warm_directory(home: Path) -> Path:
    """Returns the directory of a user's warm cluster."""
    return clusters_of(home) / "warm"


def is_met(directory: Path) -> bool:
    """Returns whether a keeper has opened a socket there, which may have been killed since."""
    return os.path.lexists(directory / SOCKET)


class Channel:
    """One connection between a keeper and a program. Messages are JSON objects; descriptors that arrive with one are in ``descriptors``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._heard = b""
        self.descriptors: list[int] = []

    @property
    def has_message(self) -> bool:
        """Whether a whole message has arrived that ``receive`` has not returned yet."""
        return b"\n" in self._heard

    @property
    def connection(self) -> socket.socket:
        return self._connection

    def send(self, message: JsonObject, descriptors: Sequence[int] = ()) -> None:
        """Sends a message. Raises ``OSError`` when the other side is gone."""
        line = json.dumps(message).encode() + b"\n"
        if descriptors:
            sent = socket.send_fds(self._connection, [line], descriptors)
            line = line[sent:]
        if line:  # else a message that has arrived would fail where the other side closes after it
            self._connection.sendall(line)

    def receive(self) -> JsonObject | None:
        """Returns the next message; ``None`` when the other side is gone. Raises ``TimeoutError``, and ``OSError`` for what is no message."""
        while not self.has_message:
            part, descriptors, _, _ = socket.recv_fds(self._connection, 65536, _DESCRIPTORS)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)  # else commands that the program starts would have it
            self.descriptors += descriptors
            if not part:
                return None
            self._heard += part
            if len(self._heard) > _LONGEST:
                raise OSError(f"a message of more than {_LONGEST} bytes")
        line, _, self._heard = self._heard.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            raise OSError("what arrived is not JSON") from None
        if not isinstance(message, dict):
            raise OSError("what arrived is not an object of JSON")
        return message

    def ask(self, message: JsonObject, limit_s: float) -> JsonObject:
        """Sends a request and returns its answer. Raises ``Unreachable`` when none comes in time."""
        try:
            self._connection.settimeout(limit_s)
            self.send(message)
            answer = self.receive()
        except OSError as error:
            raise Unreachable(f"the warm cluster does not answer: {error}") from None
        if answer is None:
            raise Unreachable("the warm cluster has ended")
        return answer

    def close(self) -> None:
        self._connection.close()


def meet(directory: Path) -> tuple[Channel, Standing]:
    """Connects to the keeper of a directory; returns the connection and what the keeper says of itself. Raises ``ExternalError`` with why it cannot."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_LIMIT_S)
        with _place_in(directory) as place:
            connection.connect(place)
        check_peer(connection)
        channel = Channel(connection)
        standing = channel.receive()
        if standing is None:
            raise Unreachable(_ENDING)
        return channel, Standing.from_json(standing)
    except ConnectionRefusedError:
        connection.close()
        _forget(directory)
        raise Unreachable("its process was killed") from None
    except TimeoutError:
        connection.close()
        raise Unreachable(f"its process does not answer within {ANSWER_LIMIT_S:g} s") from None
    except (FileNotFoundError, ConnectionResetError, BrokenPipeError):  # it was there when the caller looked
        connection.close()
        raise Unreachable(_ENDING) from None
    except OSError as error:
        connection.close()
        raise Unreachable(f"its socket cannot be used: {error}") from None
    except ExternalError:
        connection.close()
        raise


def check_peer(connection: socket.socket) -> int:
    """Returns the pid of the other side, 0 where the kernel does not tell it. Raises ``ExternalError`` when it is another user's."""
    if not sys.platform.startswith("linux"):
        return 0
    pid, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user != os.geteuid():
        raise ExternalError(f"the other side of its socket is of the user with the id {user}")
    return int(pid)


def lock_of(directory: Path) -> int | None:
    """Returns a descriptor that locks the directory for one keeper until it is closed; ``None`` while another keeper lives. Raises ``OSError``."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def keeper_of(directory: Path) -> int:
    """Returns the pid of the keeper of a directory, also of one that is starting, ending or standing still; 0 without one."""
    try:
        descriptor = lock_of(directory)
    except OSError:
        return 0
    if descriptor is None:
        return read_pid_file(directory / PID) or 0
    os.close(descriptor)
    return 0


def listen(directory: Path) -> socket.socket:
    """Opens the socket of a directory, which the caller has locked. Raises ``OSError`` and ``ExternalError``."""
    (directory / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _place_in(directory) as place:
        listener.bind(place)
    (directory / SOCKET).chmod(0o600)
    listener.listen()
    return listener


def _forget(directory: Path) -> None:
    """Removes the socket of a keeper that was killed, so that this is said once."""
    with contextlib.suppress(OSError):
        descriptor = lock_of(directory)
        if descriptor is not None:
            (directory / SOCKET).unlink(missing_ok=True)
            os.close(descriptor)


@contextlib.contextmanager
def _place_in(directory: Path) -> Iterator[str]:
    """Yields the path of the socket, after a check that only this user may enter its directory. On Linux it is one by a descriptor: paths of sockets have
    at most 107 bytes, and what was checked cannot be exchanged meanwhile. Raises ``OSError``, and ``ExternalError`` when others may enter."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise ExternalError(f"other users may enter {directory}, or own it")
        by_descriptor = Path(f"/proc/self/fd/{descriptor}")
        yield str((by_descriptor if by_descriptor.exists() else directory) / SOCKET)
    finally:
        os.close(descriptor)
