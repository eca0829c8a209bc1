"""What a JobManager cannot lead with ends its process: one error that says what to do, exit code 1, nothing removed, and no waiting without end."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.e2e.cluster import run_cli
from tests.servers.zookeeper_servers import ZooKeeperServers

LIMIT_S = 120
"""Against hanging: a process that is refused ends after a second or two."""
Settings = dict[str, str]
JOB = "a" * 32


class Store:
    """What the test finds there afterwards must be what it put there."""

    def __init__(self, directory: Path, zookeeper: ZooKeeperServers) -> None:
        self.directory = directory
        self.client = KazooClient(zookeeper.quorum)
        self.client.start(60)
        self.settings = {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": zookeeper.quorum,
            "high-availability.storageDir": str(directory),
            "high-availability.cluster-id": directory.parent.name,
        }

    @property
    def root(self) -> str:
        return f"/flink/{self.settings['high-availability.cluster-id']}"

    @property
    def place(self) -> Path:
        return self.directory / self.settings["high-availability.cluster-id"]

    def file(self, name: str, content: bytes) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def entry(self, name: str, content: bytes) -> None:
        self.client.create(f"{self.root}/{name}", content, makepath=True)

    def content(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        files = [path for path in self.directory.rglob("*") if path.is_file() and path.name != "leader"]
        return {str(path): path.read_bytes() for path in files}, dict(self._entries(self.root))

    def _entries(self, path: str) -> Iterator[tuple[str, bytes]]:
        if self.client.exists(path) is None or path.endswith("/leader"):
            return
        value = self.client.get(path)[0]
        if value:
            yield path, value
        for child in self.client.get_children(path):
            yield from self._entries(f"{path}/{child}")


def cannot_be_written(store: Store, stack: ExitStack) -> str:
    store.directory.rmdir()
    store.directory.write_bytes(b"a file has the name of the directory")
    return "set high-availability.storageDir to a directory that can be written"


def does_not_answer(store: Store, stack: ExitStack) -> str:
    """It takes the connection, and says nothing."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    store.settings["high-availability.zookeeper.quorum"] = address
    store.settings["high-availability.zookeeper.client.connection-timeout"] = "1 s"
    return f"no ZooKeeper server at {address} answered within 1 s"


def is_of_another_cluster(store: Store, stack: ExitStack) -> str:
    """These servers know nothing of it: without a look at whose files they are, all would be leftovers."""
    store.file("cluster", b"elsewhere\n")
    store.file(f"submissions/{JOB}-000000000000", b"a job of the other cluster")
    store.file(f"blobs/{'0' * 64}", b"a program of the other cluster")
    return "holds files of another cluster (elsewhere)"


def is_of_a_newer_version(store: Store, stack: ExitStack) -> str:
    store.entry("store", b'{"format":2,"cluster":"c","written_by":"tidegate 9.1"}')
    store.entry(f"execution-plans/{JOB}", b"in another form")
    store.file("cluster", b"c\n")
    store.file(f"submissions/{JOB}-000000000000", b"in another form")
    return "format 2, written by tidegate 9.1"


def is_of_a_newer_version_in_a_directory(store: Store, stack: ExitStack) -> str:
    store.settings["high-availability.type"] = "filesystem"
    store.file("store", b'{"format":2,"written_by":"tidegate 9.1"}')
    store.file(f"execution-plans/{JOB}", b"in another form")
    return "format 2, written by tidegate 9.1"


def is_damaged(store: Store, stack: ExitStack) -> str:
    store.entry("store", b"\x00\xff")
    store.entry(f"execution-plans/{JOB}", b"whatever it says")
    store.file(f"submissions/{JOB}-000000000000", b"a job")
    return "the entry 'store' of the job store"


@pytest.mark.parametrize(
    "make",
    [
        cannot_be_written,
        does_not_answer,
        is_of_another_cluster,
        is_of_a_newer_version,
        is_of_a_newer_version_in_a_directory,
        is_damaged,
    ],
)
def test_the_process_ends_with_one_error_and_changes_nothing(
    zookeeper: ZooKeeperServers, tmp_path: Path, make: Callable[[Store, ExitStack], str]
) -> None:
    directory = tmp_path / "ha"
    directory.mkdir()
    store = Store(directory, zookeeper)
    with ExitStack() as stack:
        stack.callback(store.client.close)
        stack.callback(store.client.stop)
        told = make(store, stack)
        before = store.content()
        done = _run(store.settings, tmp_path)
        assert done.returncode == 1, done.stdout + done.stderr
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, done.stderr
        assert told in errors[0]
        assert "Traceback" not in done.stderr
        assert store.content() == before


def _run(settings: Settings, directory: Path) -> subprocess.CompletedProcess[str]:
    definitions = [f"-D{key}={text}" for key, text in settings.items()]
    ports = ["--rpc-port", "0", "--rest-port", "0"]
    return run_cli("jobmanager", "--host", "127.0.0.1", *ports, *definitions, directory=directory, limit_s=LIMIT_S)
