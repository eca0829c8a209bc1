"""What another user of the machine gets from ports and files of a cluster, as JSON: begins as root, and becomes that user before it tries anything.

python -m tests.e2e.other_user '{"rest": 8081, "rpc": 6123, "ports": [..], "files": ["/.."]}'
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  (which is imported when the first name is looked up: too late, see `become`)
import http.client
import json
import os
import socket
import sys
import tempfile
from pathlib import Path

from tidegate.aio.transport import PLAIN, Transport
from tidegate.aio.transports import transport_of
from tidegate.cli.client import JobManagerClient
from tidegate.model.configuration import Configuration
from tidegate.model.errors import TidegateError

NOBODY = 65534
LIMIT_S = 20.0
REQUESTS = (
    ("GET", "/overview", b""),
    ("GET", "/jobmanager/config", b""),
    ("GET", "/", b""),
    ("GET", "/web/events", b""),
    ("POST", "/jars/upload", b"program"),
    ("DELETE", "/cluster", b""),
    ("PATCH", "/jobs/" + "a" * 32 + "?mode=cancel", b""),
)
WORDS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x00\x00\x00\x05hello" * 20,
)


def become() -> None:
    """After this, modules below a directory of root cannot be imported."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def ask_rest(port: int) -> dict[str, str]:
    """The status of each answer, with its text."""
    found = {}
    for method, path, body in REQUESTS:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        connection.request(method, path, body)
        answer = connection.getresponse()
        found[f"{method} {path}"] = f"{answer.status} {answer.read().decode()}"
        connection.close()
    return found


def call(address: str, transport: Transport) -> str:
    try:
        client = JobManagerClient(address, transport=transport)
        return f"answered: {client.cluster()}"
    except TidegateError as error:
        return error.message


def say(port: int, words: bytes) -> str:
    """What a port answers within a moment, as a client sees it that does not know its protocol."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        connection.settimeout(1)
        try:
            connection.sendall(words)
            return connection.recv(4096).decode("latin-1")
        except OSError:
            return ""


def read(path: Path) -> str:
    try:
        return f"read: {os.listdir(path) if path.is_dir() else path.read_bytes()!r}"
    except OSError as error:
        return type(error).__name__


def main(text: str) -> None:
    told = json.loads(text)
    own_home = tempfile.mkdtemp()
    os.chown(own_home, NOBODY, NOBODY)
    nobodys = transport_of(Configuration.from_strings({"tidegate.home": own_home}))
    call("127.0.0.1:1", nobodys)  # what it needs is imported
    become()
    address = f"127.0.0.1:{told['rpc']}"
    found = {
        "rest": ask_rest(told["rest"]),
        "grpc": {"plain": call(address, PLAIN), "own key": call(address, nobodys)},
        "ports": {f"{port} {words[:3]!r}": say(port, words) for port in told["ports"] for words in WORDS},
        "files": {path: read(Path(path)) for path in told["files"]},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
