"""What executors tell of themselves before a subtask runs there: two tasks in this process, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.ports import free_port
from tidegate.connectors.ports import bound
from tidegate.taskmanager.spark.executors.check import Check, ExecutorReport, Meeting, described, problems_of
from tidegate.wire.versions import PYTHON_VERSION, VERSION

ANY = range(1)
CONTROL = "10.0.0.1:6124"


@pytest.fixture
def control() -> Iterator[str]:
    with bound("127.0.0.1", ANY) as listener:
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """The address of a port without a listener."""
    return f"127.0.0.1:{free_port()}"


def reports(control: str, hosts: list[str], ports: range = ANY, meeting_at: str = "") -> list[ExecutorReport]:
    meeting = Meeting("127.0.0.1", ANY, len(hosts))
    check = Check(control, meeting_at or meeting.address, ports[0], ports[-1])
    try:
        with ThreadPoolExecutor(len(hosts)) as executors:
            return list(executors.map(check.report, hosts))
    finally:
        meeting.close()


def test_executors_that_reach_the_task_manager_and_each_other_are_fine(control: str) -> None:
    found = reports(control, ["a", "b", "c"])
    assert [report.host for report in found] == ["a", "b", "c"]
    assert problems_of(found, control) == []
    assert described(found).startswith("3 checked on a, b, c: Python ")


def test_a_control_port_behind_a_firewall_is_named(closed: str) -> None:
    (problem,) = problems_of(reports(closed, ["a"]), closed)
    assert problem.startswith(f"the executor on a cannot reach this TaskManager at {closed} ({closed}: ")
    assert "taskmanager.host" in problem
    assert "tidegate.subtask.control-port" in problem


def test_ports_of_the_task_manager_behind_a_firewall_are_named(control: str, closed: str) -> None:
    (problem,) = problems_of(reports(control, ["a"], meeting_at=closed), control)
    assert "the executor on a cannot reach other ports of this TaskManager" in problem


def test_a_range_of_ports_without_a_free_one_is_named(control: str) -> None:
    with bound("127.0.0.1", ANY) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        (problem,) = problems_of(reports(control, ["a"], range(port, port + 1)), control)
    assert "the executor on a cannot listen for data" in problem
    assert "widen taskmanager.data.port" in problem


def test_a_peer_behind_a_firewall_is_named_with_both_ends(
    control: str, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = socket.create_connection
    meeting = Meeting("127.0.0.1", ANY, 2)
    check = Check(control, meeting.address, 0, 0)
    open_ports = {int(control.rpartition(":")[2]), int(meeting.address.rpartition(":")[2])}

    def filtered(address: tuple[str, int], timeout: float) -> socket.socket:
        return connect(address if address[1] in open_ports else ("127.0.0.1", int(closed.rpartition(":")[2])), timeout)

    monkeypatch.setattr(socket, "create_connection", filtered)
    with ThreadPoolExecutor(2) as executors:
        found = list(executors.map(check.report, ["a", "b"]))
    meeting.close()
    problems = problems_of(found, control)
    assert any("the executor on a cannot reach the one on b" in problem for problem in problems)
    assert any("the executor on b cannot reach the one on a" in problem for problem in problems)
    assert "open the ports of taskmanager.data.port between them" in problems[0]


def test_other_versions_are_named_with_what_to_do() -> None:
    found = [ExecutorReport("a", "3.9", VERSION), ExecutorReport("b", PYTHON_VERSION, "0.0.1")]
    assert problems_of(found, CONTROL) == [
        f"the executor on a has Python 3.9, and this TaskManager {PYTHON_VERSION}; set spark.pyspark.python to the same version",
        f"the executor on b has tidegate 0.0.1, and this TaskManager {VERSION}; install the same there",
    ]
