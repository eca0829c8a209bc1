"""Starts and stops workers as the machine orders, and reports their ends to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.aio.transport import PLAIN, Transport
from tidegate.aio.working_directories import temporary_root
from tidegate.jobmanager.machines.commands import StartWorker, StopWorker
from tidegate.jobmanager.machines.events import WorkerEnded, WorkersFound
from tidegate.jobmanager.service.workers.command_driver import CommandDriver, Commands
from tidegate.jobmanager.service.workers.command_line import TaskManagerCommandLine
from tidegate.jobmanager.service.workers.port import Ended, WorkerDriver
from tidegate.jobmanager.service.workers.process_driver import ProcessDriver
from tidegate.jobmanager.service.workers.spark_driver import HOST, SparkDriver
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.ids import TaskManagerId
from tidegate.model.options import (
    FileOptions,
    HighAvailabilityOptions,
    HighAvailabilityType,
    ResourceManagerDriver,
    ResourceManagerOptions,
    RuntimeOptions,
    SparkOptions,
    TaskManagerOptions,
)

Post = Callable[[WorkersFound | WorkerEnded], None]
LEAST_TASK_MANAGERS = 4
"""The least limit of TaskManagers on this machine. Chosen, not measured: what one or two cores bear; each is a JVM and an interpreter."""
FOR_EACH_CORE = 2
"""The limit of TaskManagers per core. Chosen, not measured: a TaskManager of one slot keeps a core busy for part of the time."""


class WorkerLauncher:
    """Carries out commands for workers. Call ``open`` before the first job, ``listens`` when TaskManagers can register."""

    def __init__(
        self, driver: WorkerDriver, command_line: TaskManagerCommandLine, post: Post, *, stops_all: bool
    ) -> None:
        self._driver = driver
        self._command_line = command_line
        self._post = post
        self._stops_all = stops_all
        self._may_start = asyncio.Event()
        self._working: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Finds running workers of an earlier JobManager."""
        self._post(WorkersFound(tuple(await self._driver.find())))

    def listens(self, address: str) -> None:
        """Sets the address at which TaskManagers reach this JobManager; waiting commands are carried out from now on."""
        self._command_line.address = address
        self._may_start.set()

    def execute(self, command: StartWorker | StopWorker) -> None:
        task = asyncio.create_task(self._carry_out(command))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def close(self) -> None:
        """Stops the launcher; also stops the workers if jobs end with this JobManager."""
        for task in list(self._working):
            task.cancel()
        await self._driver.close(stop_all=self._stops_all)

    async def _carry_out(self, command: StartWorker | StopWorker) -> None:
        match command:
            case StartWorker():
                await self._may_start.wait()
                await self._driver.start(command.worker_id, command.slots)
            case StopWorker():
                await self._driver.stop(command.worker_id)


def with_process_limit(configuration: Configuration) -> Configuration:
    """Returns the configuration with a limit of TaskManagers for this machine, if none is set."""
    key = ResourceManagerOptions.MAX_TASK_MANAGERS.key
    if configuration.get(ResourceManagerOptions.DRIVER) is not ResourceManagerDriver.PROCESS or key in configuration:
        return configuration
    limit = max(LEAST_TASK_MANAGERS, FOR_EACH_CORE * (os.cpu_count() or 1))
    return configuration.merged(Configuration.from_strings({key: str(limit)}))


def make_launcher(
    configuration: Configuration, working: Path, post: Post, transport: Transport = PLAIN
) -> WorkerLauncher | None:
    """Creates the configured launcher; ``None`` when TaskManagers are started by hand. Raises ``TidegateError``."""
    option = configuration.get
    kind = option(ResourceManagerOptions.DRIVER)
    if kind is ResourceManagerDriver.NONE:
        return None

    def ended(worker_id: TaskManagerId, detail: str) -> None:
        post(WorkerEnded(worker_id, detail))

    stops_all = option(HighAvailabilityOptions.TYPE) is HighAvailabilityType.NONE
    try:
        if kind is ResourceManagerDriver.COMMAND:
            commands = Commands.of({key: configuration.to_strings().get(key) for key in _COMMANDS})
            line = TaskManagerCommandLine(configuration, working)
            interval_ms = option(ResourceManagerOptions.LIST_INTERVAL)
            return WorkerLauncher(
                CommandDriver(commands, line, working, interval_ms, ended), line, post, stops_all=stops_all
            )
        is_kept = configuration.is_set(FileOptions.PID_DIR)
        pids = Path(option(FileOptions.PID_DIR)) if is_kept else working
        logs = Path(option(FileOptions.LOG_DIR) or working)
        for directory in (pids, logs):
            directory.mkdir(parents=True, exist_ok=True)
        files = {"pid": pids, "log": logs}
        if kind is ResourceManagerDriver.SPARK:
            return _spark_launcher(configuration, working, files, ended, post, transport, stops_all=stops_all)
        line = TaskManagerCommandLine(configuration, working, files)
        driver = ProcessDriver(line, pids, logs, temporary_root(configuration), ended)
        return WorkerLauncher(driver, line, post, stops_all=stops_all)
    except OSError as error:
        raise ExternalError(f"cannot write {error.filename}: {error.strerror}") from None


def _spark_launcher(
    configuration: Configuration,
    working: Path,
    files: Mapping[str, Path],
    ended: Ended,
    post: Post,
    transport: Transport,
    *,
    stops_all: bool,
) -> WorkerLauncher:
    master = configuration.get(SparkOptions.MASTER)
    if master == "local" or master.startswith("local["):
        raise ConfigurationError(
            f"bad configuration: {ResourceManagerOptions.DRIVER.key} is spark, and {SparkOptions.MASTER.key} is {master}, which has no "
            f"executors; set {SparkOptions.MASTER.key} to that of a cluster, such as spark://host:7077"
        )
    address = files["pid"] / f"{HOST}.address"
    hosting = configuration.merged(Configuration.from_strings({RuntimeOptions.EXECUTOR_HOST.key: str(address)}))
    line = TaskManagerCommandLine(hosting, working, files)
    driver = SparkDriver(address, configuration.get(TaskManagerOptions.NUM_SLOTS), ended, transport)
    temporary = temporary_root(configuration)
    driver.attach(ProcessDriver(line, files["pid"], files["log"], temporary, driver.on_host_ended, names=HOST))
    return WorkerLauncher(driver, line, post, stops_all=stops_all)


_COMMANDS = (
    ResourceManagerOptions.START_COMMAND.key,
    ResourceManagerOptions.STOP_COMMAND.key,
    ResourceManagerOptions.LIST_COMMAND.key,
)
