"""Checks once, when a TaskManager starts, that the executors of a cluster can run subtasks and reach each other, so that a problem is one error at the
start and not a job that does not run.

task on each executor ── its address ─▶ Meeting, in the TaskManager: collects the addresses
                     ◀── addresses of all ──
                      ── connects to the control port and to each of the others ─▶ ExecutorReport ─▶ problems_of
"""

from __future__ import annotations

import contextlib
import json
import platform
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from tidegate.connectors.ports import bound, listening
from tidegate.model.errors import ExternalError
from tidegate.taskmanager.spark.session import no_workers
from tidegate.wire.versions import PYTHON_VERSION, VERSION

if TYPE_CHECKING:
    from tidegate.taskmanager.spark.session import Session

CONNECT_LIMIT_S = 5.0
"""Timeout of a connection attempt in seconds: machines of one network answer within milliseconds, and a firewall that drops packets never does. Chosen, not
measured.
"""
MEETING_LIMIT_S = 20.0
"""Seconds that a task waits for the others: tasks of one Spark job start within a second if there is a core for each. Tasks that did not wait for a late one
check fewer connections. Chosen, not measured.
"""
MOST_EXECUTORS = 16
"""Limit on how many executors are checked; each connects to all others, and more executors show nothing new."""
_BACKLOG = 64
"""Backlog of the listeners: all executors at once, with room to spare."""


@dataclass(frozen=True, slots=True)
class ExecutorReport:
    """Findings of a check on the executor where it ran."""

    host: str
    python: str
    """Major and minor version of Python."""
    version: str
    """Version of this package."""
    unreached: dict[str, str] = field(default_factory=dict)
    """Failed connections: reason by target. Targets: ``taskmanager``, ``meeting``, ``listen`` (the own listener), or the host of another executor."""


@dataclass(frozen=True, slots=True)
class Check:
    """The task that checks one executor, for ``RDD.mapPartitionsWithIndex`` with one partition for each executor."""

    control_address: str
    meeting_address: str
    first_port: int
    last_port: int

    def over_partition(self, index: int, _rows: Iterable[object]) -> Iterator[str]:
        yield json.dumps(asdict(self.report(socket.gethostname())))

    def report(self, host: str) -> ExecutorReport:
        unreached: dict[str, str] = {}
        own = _reached(self.control_address, "taskmanager", unreached)
        if own:
            self._meet(host, own, unreached)
        return ExecutorReport(host, PYTHON_VERSION, VERSION, unreached)

    def _meet(self, host: str, own: str, unreached: dict[str, str]) -> None:
        """Listens as subtasks do, and connects to the listeners of all other executors."""
        try:
            listener = bound(own, range(self.first_port, self.last_port + 1))
        except OSError as error:
            unreached["listen"] = str(error)
            return
        with listener:
            listener.listen(_BACKLOG)
            shown = f"[{own}]" if ":" in own else own
            address = f"{shown}:{listener.getsockname()[1]}"
            try:
                with _connected(self.meeting_address) as meeting, meeting.makefile("rw") as talk:
                    meeting.settimeout(2 * MEETING_LIMIT_S)  # of those that come last and those that try longest
                    print(json.dumps([host, address]), file=talk, flush=True)
                    for other, place in json.loads(talk.readline()):
                        _reached(place, other, unreached)
                    print("done", file=talk, flush=True)
                    talk.readline()  # the others are done as well, so nobody misses this listener
            except (OSError, ValueError) as error:
                unreached["meeting"] = str(error)


class Meeting:
    """Collects the addresses at which ``count`` tasks listen and sends all of them to each. Listens at ``host`` on one of ``ports``."""

    def __init__(self, host: str, ports: range, count: int) -> None:
        self._arriving = threading.Barrier(count)
        self._leaving = threading.Barrier(count)
        self._places: list[tuple[str, str]] = []
        self._listener = listening(host, ports, "listener for the check of executors", _BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="executors", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="executor", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(2 * MEETING_LIMIT_S)
        with connection, connection.makefile("rw") as talk, contextlib.suppress(OSError, ValueError, TypeError):
            host, address = json.loads(talk.readline())
            self._places.append((host, address))
            _wait(self._arriving)
            print(json.dumps(self._places), file=talk, flush=True)
            talk.readline()
            _wait(self._leaving)


def check_executors(session: Session, control_address: str, ports: range) -> list[ExecutorReport]:
    """Runs a check on each executor of a cluster and returns the reports. Raises ``ExternalError`` that names all problems that keep subtasks from running
    there.
    """
    from py4j.protocol import Py4JError

    host = control_address.rpartition(":")[0].strip("[]")
    count = min(MOST_EXECUTORS, session.executors())
    meeting = Meeting(host, ports, count)
    check = Check(control_address, meeting.address, ports[0], ports[-1])
    try:
        tasks = session.empty_rdd(count)
        found = tasks.mapPartitionsWithIndex(check.over_partition).collect()
    except Py4JError as error:
        raise no_workers(str(error)) from error
    finally:
        meeting.close()
    reports = [ExecutorReport(**json.loads(text)) for text in found]
    problems = problems_of(reports, control_address)
    if problems:
        raise ExternalError(f"the executors of {session.master} cannot run subtasks: {'; '.join(problems)}")
    return reports


def problems_of(reports: Sequence[ExecutorReport], control_address: str) -> list[str]:
    """Returns the distinct problems that the reports show, each with its remedy."""
    found = []
    for report in reports:
        where = f"the executor on {report.host}"
        if report.python != PYTHON_VERSION:
            found.append(
                f"{where} has Python {report.python}, and this TaskManager {PYTHON_VERSION}; set spark.pyspark.python to the same version"
            )
        if report.version != VERSION:
            found.append(
                f"{where} has tidegate {report.version}, and this TaskManager {VERSION}; install the same there"
            )
        for what, why in report.unreached.items():
            found.append(_unreached(where, what, why, control_address))
    return list(dict.fromkeys(found))


def _unreached(where: str, what: str, why: str, control_address: str) -> str:
    match what:
        case "taskmanager":
            return (
                f"{where} cannot reach this TaskManager at {control_address} ({why}); set taskmanager.host to a name that it knows, "
                "and open tidegate.subtask.control-port"
            )
        case "meeting":
            return f"{where} cannot reach other ports of this TaskManager ({why}); open the ports of taskmanager.data.port to it"
        case "listen":
            return f"{where} cannot listen for data ({why}); widen taskmanager.data.port"
        case _:
            return (
                f"{where} cannot reach the one on {what} ({why}); open the ports of taskmanager.data.port between them"
            )


def described(reports: Sequence[ExecutorReport]) -> str:
    """Returns a summary of the reports for the log."""
    hosts = ", ".join(sorted({report.host for report in reports}))
    return f"{len(reports)} checked on {hosts}: Python {platform.python_version()}, tidegate {VERSION}, all reach each other"


def _reached(address: str, what: str, unreached: dict[str, str]) -> str:
    """Connects to ``address``; returns the own address of the connection, or an empty text when it failed, with the reason in ``unreached``."""
    try:
        with _connected(address) as connection:
            return str(connection.getsockname()[0])
    except OSError as error:
        unreached[what] = f"{address}: {error}"
        return ""


def _connected(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT_S)


def _wait(barrier: threading.Barrier) -> None:
    with contextlib.suppress(threading.BrokenBarrierError):  # one does not come: the others go on without it
        barrier.wait(MEETING_LIMIT_S)
