"""Real ZooKeeper servers for tests: three members on loopback, each a JVM of its own, with temporary directories.

Their jars come from Maven once, into a cache below the user's cache directory; ``TIDEGATE_TEST_CACHE`` names another place.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from tests.accounting import STARTS
from tests.e2e.waiting import wait_until
from tests.servers.jars import fetched, java

_POM = Path(__file__).parents[2] / "examples" / "servers" / "zookeeper.xml"
_START_LIMIT_S = 120
MEMBERS = 3


class ZooKeeperServers:
    """A context manager. ``quorum`` is what clients connect to; member 0 to 2 are killed and started again by number."""

    def __init__(self, members: int = MEMBERS) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="tg-zk-"))
        self._ports = [_free_ports(3) for _ in range(members)]
        self.quorum = ",".join(f"127.0.0.1:{ports[0]}" for ports in self._ports)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ZooKeeperServers:
        for number in range(len(self._ports)):
            self._configure(number)
            self.start(number)
        self.wait_serving()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in list(self._processes):
            self.kill9(number)
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self, number: int) -> None:
        """Start a member (again)."""
        classpath = f"{fetched(_POM, 'zookeeper')}/*"
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [java(), "-Xmx128m", "-XX:+UseSerialGC", "-cp", classpath, main, str(self._place(number) / "zoo.cfg")]
        STARTS["ZooKeeper"] += 1
        with (self._place(number) / "log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def kill9(self, number: int) -> None:
        process = self._processes.pop(number)
        process.kill()
        process.wait(30)

    def wait_serving(self) -> None:
        """Until a quorum answers on every member that runs."""
        wait_until(
            lambda: all(self._serves(number) for number in self._processes), _START_LIMIT_S, "ZooKeeper has a quorum"
        )

    def _serves(self, number: int) -> bool:
        assert self._processes[number].poll() is None, (self._place(number) / "log").read_text()[-3000:]
        try:
            with socket.create_connection(("127.0.0.1", self._ports[number][0]), 1) as asking:
                asking.sendall(b"srvr")
                return b"Mode:" in asking.recv(4096)
        except OSError:
            return False

    def _place(self, number: int) -> Path:
        return self._directory / str(number)

    def _configure(self, number: int) -> None:
        place = self._place(number)
        (place / "data").mkdir(parents=True)
        (place / "data" / "myid").write_text(str(number + 1))
        told = {
            "tickTime": "500",
            "initLimit": "20",
            "syncLimit": "10",
            "dataDir": str(place / "data"),
            "clientPort": str(self._ports[number][0]),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
        }
        if len(self._ports) > 1:
            for other, (_, peer, election) in enumerate(self._ports):
                told[f"server.{other + 1}"] = f"127.0.0.1:{peer}:{election}"
        (place / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in told.items()))


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports
