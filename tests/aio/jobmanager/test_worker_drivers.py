"""What starts TaskManagers: processes of this machine, and the client of a scheduler, on real processes that stand for TaskManagers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tidegate.aio.ownership import make_owned
from tidegate.aio.process import read_pid_file, write_pid_file
from tidegate.jobmanager.machines.commands import StartWorker
from tidegate.jobmanager.machines.events import WorkerEnded, WorkersFound
from tidegate.jobmanager.service.workers.command_driver import CommandDriver, Commands
from tidegate.jobmanager.service.workers.command_line import TaskManagerCommandLine
from tidegate.jobmanager.service.workers.launcher import make_launcher, with_process_limit
from tidegate.jobmanager.service.workers.port import WorkerDriver
from tidegate.jobmanager.service.workers.process_driver import ProcessDriver
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.ids import TaskManagerId
from tidegate.model.options import ResourceManagerOptions

WORKER, OTHER = TaskManagerId("worker-abcdef-1"), TaskManagerId("worker-abcdef-2")
SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
LIMIT_S = 30


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(LIMIT_S * 100):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


class Told:
    """What a driver told, in its order."""

    def __init__(self) -> None:
        self.ended: list[tuple[TaskManagerId, str]] = []

    def __call__(self, worker_id: TaskManagerId, detail: str) -> None:
        self.ended.append((worker_id, detail))

    async def until(self, count: int) -> None:
        await until(lambda: len(self.ended) >= count)


def process_driver(directory: Path, told: Told, command: list[str]) -> ProcessDriver:
    return ProcessDriver(
        lambda worker_id, slots: [*command, worker_id, str(slots)], directory, directory, directory, told
    )


@contextmanager
def left_by_an_earlier(directory: Path, worker_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process as a JobManager that ended has left it: in a session of its own, its pid in a file."""
    with subprocess.Popen(SLEEPS, start_new_session=True) as process:
        try:
            write_pid_file(directory / f"taskmanager-{worker_id}.pid", process.pid)
            yield process
        finally:
            process.kill()


def pid_of(directory: Path, worker_id: TaskManagerId = WORKER) -> int | None:
    return read_pid_file(directory / f"taskmanager-{worker_id}.pid")


# ---- processes -------------------------------------------------------------------------------------------------------


async def test_a_process_is_started_and_ended(tmp_path: Path) -> None:
    told = Told()
    driver = process_driver(tmp_path, told, SLEEPS)
    await driver.start(WORKER, 3)
    pid = pid_of(tmp_path)
    assert pid is not None
    await until(lambda: psutil.Process(pid).cmdline()[-2:] == [WORKER, "3"])
    await driver.stop(WORKER)
    await told.until(1)
    assert told.ended[0][0] == WORKER
    assert "it was ended by SIGTERM" in told.ended[0][1], "whoever else waits for the child takes its exit code away"
    assert pid_of(tmp_path) is None
    await driver.stop(WORKER)
    await driver.close(stop_all=True)


async def test_what_a_killed_process_left_is_removed_with_the_last_of_them(tmp_path: Path) -> None:
    """Another one that starts removes it before that."""
    left, used = make_owned("tidegate-tm-", tmp_path), make_owned("tidegate-tm-", tmp_path)
    left.release()
    await process_driver(tmp_path, Told(), SLEEPS).close(stop_all=False)
    assert left.directory.exists()
    await process_driver(tmp_path, Told(), SLEEPS).close(stop_all=True)
    assert not left.directory.exists()
    assert used.directory.exists()
    used.remove()


async def test_how_a_process_ended_is_told_with_its_last_words(tmp_path: Path) -> None:
    told = Told()
    dies = "import sys; print('warming up'); print('error: the port 6122 is in use', file=sys.stderr); sys.exit(1)"
    driver = process_driver(tmp_path, told, [sys.executable, "-c", dies])
    await driver.start(WORKER, 1)
    await told.until(1)
    [(_, detail)] = told.ended
    assert detail.startswith("it ended with exit code 1: error: the port 6122 is in use; log: ")
    await driver.close(stop_all=False)


async def test_a_process_that_is_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    told = Told()
    driver = process_driver(tmp_path, told, SLEEPS)
    await driver.start(WORKER, 1)
    pid = pid_of(tmp_path)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await told.until(1)
    assert "it was ended by SIGKILL" in told.ended[0][1]
    assert pid_of(tmp_path) is None
    await driver.close(stop_all=False)


async def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    told = Told()
    driver = process_driver(tmp_path, told, ["/not/there"])
    await driver.start(WORKER, 1)
    assert told.ended == [(WORKER, "cannot start it: No such file or directory")]


async def test_processes_of_an_earlier_job_manager_are_found_and_their_end_is_seen(tmp_path: Path) -> None:
    with left_by_an_earlier(tmp_path, WORKER) as first, left_by_an_earlier(tmp_path, OTHER) as second:
        (tmp_path / "taskmanager-1.pid").write_text("1 0.0\n")  # somebody else's
        told = Told()
        driver = process_driver(tmp_path, told, SLEEPS)
        assert await driver.find() == (WORKER, OTHER)
        first.kill()
        first.wait(LIMIT_S)
        await told.until(1)
        assert told.ended[0][0] == WORKER
        await driver.close(stop_all=True)
        assert not psutil.pid_exists(second.pid)


# ---- commands --------------------------------------------------------------------------------------------------------


def command_driver(
    directory: Path, told: Told, start: str, list_: str = "cat {}/list", stop: str = "true"
) -> WorkerDriver:
    (directory / "list").touch()
    commands = Commands.of(
        {
            ResourceManagerOptions.START_COMMAND.key: start,
            ResourceManagerOptions.STOP_COMMAND.key: stop,
            ResourceManagerOptions.LIST_COMMAND.key: list_.replace("{}", str(directory)),
        }
    )
    return CommandDriver(commands, lambda worker_id, slots: ["run it", worker_id], directory, 20, told)


async def test_placeholders_are_words_and_parts_of_words(tmp_path: Path) -> None:
    told = Told()
    seen = tmp_path / "seen"
    script = f'printf \'%s|\' "$@" > {seen}; cat "$4" >> {seen}; echo submitted job 42'
    driver = command_driver(
        tmp_path,
        told,
        f"sh -c '{script.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}' sh {{id}}:{{slots}} {{command}} {{script}} --wrap={{command}}",
    )
    await driver.start(WORKER, 2)
    assert told.ended == []
    words = seen.read_text().split("|")
    assert words[:3] == [f"{WORKER}:2", "run it", WORKER]
    assert words[4] == f"--wrap='run it' {WORKER}"
    assert words[5] == f"#!/bin/sh\nexec 'run it' {WORKER}\n"


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("/not/there {id}", "/not/there: No such file or directory"),
        ("sh -c 'echo no licence left >&2; exit 3' {id}", "sh ended with exit code 3: no licence left"),
        ("true {id}", "true did not print the name of the TaskManager that it started"),
    ],
)
async def test_a_start_that_fails_is_told(tmp_path: Path, start: str, says: str) -> None:
    told = Told()
    driver = command_driver(tmp_path, told, start)
    await driver.start(WORKER, 1)
    assert told.ended == [(WORKER, f"the command that starts it failed: {says}")]


async def test_what_the_scheduler_lists_no_more_has_ended(tmp_path: Path) -> None:
    told = Told()
    (tmp_path / "list").write_text(f"41 R {WORKER}\n42 Q {OTHER} on host 7\n43 R somebody's\n")
    driver = command_driver(tmp_path, told, "echo 1")
    assert await driver.find() == (WORKER, OTHER)
    (tmp_path / "list").write_text(f"42 R {OTHER} on host 7\n")
    await told.until(1)
    assert told.ended == [(WORKER, "the scheduler does not list it any more (41)")]
    await driver.close(stop_all=False)


async def test_a_list_that_fails_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    (tmp_path / "list").write_text(f"41 R {WORKER}\n")
    driver = command_driver(tmp_path, told, "echo 1")
    await driver.find()
    (tmp_path / "list").unlink()
    await until(lambda: caplog.text.count("could not list the running TaskManagers") >= 3)
    assert told.ended == []
    await driver.close(stop_all=False)


async def test_what_runs_is_stopped_by_the_schedulers_name_of_it(tmp_path: Path) -> None:
    driver = command_driver(
        tmp_path, Told(), "echo started 77", stop=f"sh -c 'echo $0 $1 > {tmp_path}/stopped' {{job}} {{id}}"
    )
    await driver.start(WORKER, 1)
    await driver.stop(WORKER)
    stopped = tmp_path / "stopped"
    assert stopped.read_text().split() == ["77", WORKER]


# ---- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({}, "tidegate.resourcemanager.command.start is not set"),
        (
            {ResourceManagerOptions.START_COMMAND.key: "run {name}"},
            "has no placeholder {name}; there are: {command}, {id}",
        ),
        ({ResourceManagerOptions.START_COMMAND.key: "run 'it"}, "No closing quotation: run 'it"),
        ({ResourceManagerOptions.LIST_COMMAND.key: "list {id}"}, "has no placeholder {id}; there are: none"),
    ],
)
def test_commands_that_cannot_work_are_refused(texts: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match="command") as refused:
        Commands.of(texts)
    assert says in str(refused.value)


def test_a_command_line_has_the_configuration_in_a_private_file(tmp_path: Path) -> None:
    configuration = Configuration.from_strings(
        {"rest.port": "1", "heartbeat.interval": "3 s", "taskmanager.rpc.port": "7"}
    )
    line = TaskManagerCommandLine(configuration, tmp_path, {"pid": tmp_path, "log": tmp_path})
    line.address = "here:6123"
    words = line(WORKER, 3)
    assert "--jobmanager=here:6123" in words
    assert "--slots=3" in words
    assert f"-Dtaskmanager.resource-id={WORKER}" in words
    file = tmp_path / "taskmanager.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == '{"heartbeat.interval": "3 s"}'


def test_with_leaders_that_move_a_task_manager_asks_the_store(tmp_path: Path) -> None:
    settings = {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": "z:1",
        "high-availability.storageDir": "/s",
    }
    line = TaskManagerCommandLine(Configuration.from_strings(settings), tmp_path)
    assert not [word for word in line(WORKER, 1) if word.startswith("--jobmanager")]


def test_the_number_of_processes_is_bounded_by_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    driven = Configuration.from_strings({"tidegate.resourcemanager.driver": "process"})
    assert with_process_limit(driven).get(ResourceManagerOptions.MAX_TASK_MANAGERS) == 16
    assert with_process_limit(Configuration.from_strings({})).get(ResourceManagerOptions.MAX_TASK_MANAGERS) is None


async def test_orders_wait_until_the_job_manager_listens(tmp_path: Path) -> None:
    told: list[WorkersFound | WorkerEnded] = []
    settings = {
        "tidegate.resourcemanager.driver": "command",
        ResourceManagerOptions.START_COMMAND.key: "sh -c 'exit 7'",
        ResourceManagerOptions.STOP_COMMAND.key: "true",
        ResourceManagerOptions.LIST_COMMAND.key: "true",
    }
    launcher = make_launcher(Configuration.from_strings(settings), tmp_path, told.append)
    assert launcher is not None
    await launcher.open()
    launcher.execute(StartWorker(WORKER, 1))
    await asyncio.sleep(0)
    assert told == [WorkersFound(())]
    launcher.listens("here:1")
    await until(lambda: len(told) == 2)
    assert isinstance(told[1], WorkerEnded)
    await launcher.close()


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = {"tidegate.resourcemanager.driver": "process", "env.pid.dir": str(tmp_path / "file" / "pid")}
    with pytest.raises(ExternalError, match="cannot write"):
        make_launcher(Configuration.from_strings(settings), tmp_path, lambda event: None)
