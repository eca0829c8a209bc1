from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
import pytest

from tidegate.aio.settings import handed_over, handing_over
from tidegate.cli.embedded.children import Child, StartReport, end_processes, tell_ready
from tidegate.model.errors import ExternalError


def test_a_process_that_is_ready_says_its_ports_and_leaves_no_file_of_it(tmp_path: Path) -> None:
    log = tmp_path / "jobmanager.log"
    options = ["--rpc-port", "0", "--rest-port", "0", "-D", f"io.tmp.dirs={tmp_path}"]
    told, untold = (Child("JobManager", ["jobmanager", *options, "--log-file", str(log)]) for _ in range(2))
    try:
        assert sorted(told.wait_ready(60)) == ["rest_port", "rpc_port"]
    finally:
        end_processes([told.pid, untold.pid])
    assert not told.is_alive()
    assert not untold.is_alive()
    assert list(tmp_path.iterdir()) == [log]


def test_definitions_are_in_no_command_line_and_in_no_environment_of_what_the_child_starts(tmp_path: Path) -> None:
    made = [f"io.tmp.dirs={tmp_path}", "s3.secret-key=geheim", "rest.port=0", "jobmanager.rpc.port=0"]
    child = Child("JobManager", ["jobmanager", "--log-file", str(tmp_path / "log")], definitions=made)
    try:
        child.wait_ready(60)
        assert not any("geheim" in word for word in psutil.Process(child.pid).cmdline())
    finally:
        end_processes([child.pid])
    assert not child.is_alive()
    variables = {"PATH": "/bin", **handing_over(made)}
    assert handed_over(variables) == made
    assert variables == {"PATH": "/bin"}
    assert handed_over(variables) == []


def test_what_keeps_a_process_from_starting_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        child = Child("JobManager", ["jobmanager", "--rpc-port", str(port), "--rest-port", "0"])
        with pytest.raises(ExternalError, match=rf"{port}\D.* in use"):
            child.wait_ready(60)
    end_processes([child.pid])
    assert not child.is_alive()


def test_a_process_that_ends_without_a_word_is_told_with_its_exit_code(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="ended with exit code 2, while it was loading its modules; see"):
        Child("JobManager", ["jobmanager", "--no-such-option"], tmp_path / "out", tmp_path / "log").wait_ready(60)


def test_a_process_that_does_not_start_in_time_says_what_it_waited_for_and_where_its_log_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.cli.embedded.children.NOTICE_S", 0.01)
    reading, writing = os.pipe()
    os.write(writing, b'{"step": "starting Spark"}\n')
    child = Child("TaskManager", ["--version"], log=tmp_path / "taskmanager.log")
    monkeypatch.setattr(child, "_pipe", reading)
    notices: list[str] = []
    with pytest.raises(ExternalError, match=r"did not start within 0\.1 s \(tidegate\.start-timeout\)") as raised:
        child.wait_ready(0.1, notices.append)
    assert "; it was starting Spark" in raised.value.message
    assert raised.value.message.endswith(f"see {tmp_path / 'taskmanager.log'}")
    assert notices[0].endswith(": the TaskManager is starting Spark")
    end_processes([child.pid])
    assert not child.is_alive()
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_a_process_with_a_number_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.embedded.children.NOTICE_S", 0.01)
    child = Child("taskmanager-1", ["taskmanager", "--no-such-option"], tmp_path / "out", tmp_path / "log")
    notices: list[str] = []
    with pytest.raises(ExternalError, match="^taskmanager-1 ended with exit code 2, while it was loading its modules"):
        child.wait_ready(60, notices.append)
    assert notices[0].endswith(" s: taskmanager-1 is loading its modules")


def test_a_process_says_its_steps_until_it_is_ready() -> None:
    reading, writing = os.pipe()
    report = StartReport(writing)
    report.step("one")
    report.ready({"id": "tm"})
    report.step("late")
    with os.fdopen(reading) as told:
        assert told.read() == '{"step": "one"}\n{"id": "tm"}\n'


def test_a_process_goes_on_when_nobody_waits_for_it_any_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    tell_ready(writing, {"rpc_port": 1})
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writing)


def test_a_process_reports_once_and_leaves_a_descriptor_of_the_same_number_alone() -> None:
    """As a JobManager does that leads for the second time."""
    reading, writing = os.pipe()
    report = StartReport(writing)
    report.ready({"rpc_port": 1})
    other, held = os.pipe()
    os.dup2(held, writing)
    report.ready({"rpc_port": 2})
    assert not report.failure(ValueError("late"))
    os.fstat(writing)
    with os.fdopen(reading) as told:
        assert told.read() == '{"rpc_port": 1}\n'
    for descriptor in {other, held, writing}:
        os.close(descriptor)
