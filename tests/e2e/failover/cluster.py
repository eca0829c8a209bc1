"""A cluster with a leader and a standby that three ZooKeeper servers elect, each behind doors of its own.

    JobManager ── a proxy for each member ──▶ ZooKeeper          TaskManagers ── a proxy ──▶ the JobManager that leads

Clients of a test reach the JobManagers past the proxies. ``cut`` shuts the doors of one process; ``Proc.send`` stops it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.e2e.cluster import Cluster, Proc
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.servers.tcp_proxy import TcpProxy
from tests.servers.zookeeper_servers import ZooKeeperServers

SESSION_S = 4
"""A little shorter than the default, so that a leader that was stopped or cut off is followed soon; long enough for one that shares its processors with
other tests not to be taken for one."""
_ENTRY = (str(Path(__file__).with_name("held_jobmanager.py")),)


class FailoverCluster(Cluster):
    def __init__(self, directory: Path, zookeeper: ZooKeeperServers, settings: Mapping[str, str] | None = None) -> None:
        own = {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": zookeeper.quorum,
            "high-availability.zookeeper.client.session-timeout": f"{SESSION_S} s",
            "high-availability.cluster-id": directory.name,
            "high-availability.storageDir": str(directory / "ha"),
            "heartbeat.interval": "500 ms",
            "heartbeat.timeout": "4 s",
            "tidegate.jobmanager.adoption-timeout": "30 s",
        }
        super().__init__(directory, {**own, **(settings or {})})
        self.doors = directory / "doors"
        self.doors.mkdir()
        self._members = zookeeper.quorum.split(",")
        self._open = contextlib.ExitStack()
        self._to_zookeeper: dict[int, list[TcpProxy]] = {}
        self._to_leader: dict[int, TcpProxy] = {}
        self._ports_of: dict[int, tuple[int, int]] = {}
        self._stopped: list[Proc] = []

    def __enter__(self) -> FailoverCluster:
        os.environ["E2E_HOLD"] = str(self.doors)
        super().__enter__()
        self.add_standby()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for process in (*self._stopped, *([self._standby] if self._standby else [])):
                error.add_note(f"===== {process.name}\n{process.tail()}")
        for process in self._stopped:
            process.kill9()
        try:
            if self._standby is not None:
                self._standby.kill9()
            super().__exit__(kind, error, trace)
        finally:
            self._open.close()
            del os.environ["E2E_HOLD"]

    @property
    def leader(self) -> Proc:
        assert self.job_manager is not None
        return self.job_manager

    # --- what goes wrong -----------------------------------------------------------------------------

    def at_door(self, door: str, act: Callable[[], None], about: str = "") -> None:
        """``act`` while the leader stands at the door."""
        note = self.doors / f"held-{door}"
        (self.doors / door).write_text(about)
        try:
            wait_until(note.exists, HANG_LIMIT_S, f"the leader comes to {door}")
            act()
        finally:
            (self.doors / door).unlink()
            note.unlink(missing_ok=True)

    def kill_leader(self) -> None:
        self.kill9(self.leader)

    def stop_leader(self) -> Proc:
        """SIGSTOP. ``resume`` goes on with it, as a standby."""
        stopped = self.leader
        stopped.send(signal.SIGSTOP)
        self._stopped.append(stopped)
        self._let_go()
        return stopped

    def resume(self, stopped: Proc) -> None:
        """It must hear that another one leads, and stand by. Where another one does, it is killed after that."""
        stopped.send(signal.SIGCONT)
        self._stopped.remove(stopped)
        if self._standby is None:
            self.stands_by(stopped)
            return
        self._hears(stopped)
        stopped.kill9()

    def stands_by(self, process: Proc) -> None:
        self._hears(process)
        self._standby, self._standby_ports = process, self._ports_of[process.pid]

    def _hears(self, process: Proc) -> None:
        """It is no leader, and has not ended by that."""
        wait_until(lambda: not _leads(process), HANG_LIMIT_S, f"{process.name} has heard that it was deposed")
        assert process.is_alive(), f"{process.name} ended:\n{process.tail()}"

    def cut_from_zookeeper(self) -> Proc:
        """The leader, for good: another one will lead. ``mend`` reconnects it."""
        process = self.leader
        for proxy in self._to_zookeeper[process.pid]:
            proxy.cut()
        self._let_go()
        return process

    def mend(self, process: Proc) -> None:
        for proxy in self._to_zookeeper[process.pid]:
            proxy.mend()
        self.stands_by(process)

    @contextlib.contextmanager
    def without_task_managers(self) -> Iterator[None]:
        """They do not reach the leader, and it reaches them: its calls do not go through the proxy."""
        proxy = self._to_leader[self.leader.pid]
        proxy.cut()
        try:
            yield
        finally:
            proxy.mend()

    def find_leader(self) -> None:
        """Either of the two may lead now, if there are two: ``leader`` is the one that was elected last."""
        if self._standby is None:
            self.wait_led()
            return
        processes = [self.leader, self._standby]

        def led() -> Proc | None:
            found = [one for one in processes if _leads(one)]
            return found[0] if len(found) == 1 else None

        leader = wait_until(led, HANG_LIMIT_S, "one of them leads")
        assert leader is not None
        if leader is self._standby:
            self._standby_ports = self._ports_of[leader.pid]
            former = self.leader
            self._let_go()
            self.wait_led()
            self._standby, self._standby_ports = former, self._ports_of[former.pid]

    def add_standby(self) -> Proc:
        standby = self.start_standby(elsewhere=True)
        wait_until(lambda: standby.says("standby:"), HANG_LIMIT_S, "it stands by")
        return standby

    def _let_go(self) -> None:
        """The next one that leads is another process."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self.job_manager = None

    # --- processes behind their doors ----------------------------------------------------------------

    def _start_job_manager(self, name: str, *extra: str, entry: Sequence[str] = _ENTRY) -> Proc:
        del entry
        members = [self._open.enter_context(TcpProxy(member)) for member in self._members]
        door = self._open.enter_context(TcpProxy(f"127.0.0.1:{self.port}"))
        advertised = door.address.rpartition(":")[2]
        args = [*_ENTRY, "jobmanager", "--host", "127.0.0.1", "--rpc-port", advertised]
        args += ["--rest-port", str(self.rest_port), f"-Djobmanager.rpc.bind-port={self.port}", *extra]
        settings = self.settings
        quorum = ",".join(proxy.address for proxy in members)
        self.settings = {**settings, "high-availability.zookeeper.quorum": quorum}
        try:
            process = self._start(name, args)
        finally:
            self.settings = settings
        self._to_zookeeper[process.pid], self._to_leader[process.pid] = members, door
        self._ports_of[process.pid] = self.port, self.rest_port
        self.job_manager = process
        return process


def _leads(process: Proc) -> bool:
    """By the last word of its log."""
    log = process.log.read_text(encoding="utf-8", errors="replace")
    return log.rfind("leads in term") > max(log.rfind("standby: another"), log.rfind("is no longer the leader"))
