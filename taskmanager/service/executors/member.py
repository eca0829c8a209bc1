"""One TaskManager whose subtasks run on one Spark executor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tidegate.aio.pool import Pool
from tidegate.aio.process import Services
from tidegate.model.configuration import Configuration
from tidegate.model.errors import TidegateError
from tidegate.model.ids import TaskManagerId
from tidegate.model.options import RuntimeOptions, TaskManagerOptions
from tidegate.taskmanager.machines.executor_pool import SparkExecutor
from tidegate.taskmanager.service.assembly import start_task_manager
from tidegate.taskmanager.service.directories import Directories
from tidegate.taskmanager.spark.executors.check import check_executors
from tidegate.taskmanager.spark.session import Session

_log = logging.getLogger("taskmanager")
OnEnd = Callable[[TaskManagerId, str], None]


class OneExecutor:
    """Implements ``Host`` by one executor of a Spark session."""

    def __init__(self, session: Session, executor: SparkExecutor, ports: range, pool: Pool) -> None:
        self._session = session.placed(executor.executor_id, executor.host, executor.cores)
        self._pool = pool
        self.ports = ports

    async def ready(self, tell: Callable[[str], None]) -> Session:
        return self._session

    async def check(self, control_address: str, tell: Callable[[str], None]) -> None:
        """Checks that subtasks can run on the executor, by a Spark task that compares its versions and tries the connections.

        It is the executor's first task, so it also starts the Python daemon there. Raises ``ExternalError`` that names all problems.
        """
        await self._pool.submit(partial(check_executors, self._session, control_address, self.ports))

    def rehearse_soon(self) -> None:
        """Does nothing, since the JVM is shared with TaskManagers that have subtasks."""


class Member:
    """A TaskManager on an executor, which starts with the constructor. ``on_end``: called once when it has ended, with the reason."""

    def __init__(
        self,
        worker_id: TaskManagerId,
        executor: SparkExecutor,
        configuration: Configuration,
        session: Session,
        directory: Path,
        on_end: OnEnd,
    ) -> None:
        named = {TaskManagerOptions.RESOURCE_ID.key: worker_id, TaskManagerOptions.RPC_PORT.key: "0"}
        self._configuration = configuration.merged(Configuration.from_strings(named))
        self._spark = OneExecutor(session, executor, configuration.get(RuntimeOptions.DATA_PORT), Pool(1, worker_id))
        self._worker_id = worker_id
        self._directory = directory
        self._ending: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(on_end), name=f"worker {worker_id}")
        _log.info("%s is on executor %s at %s", worker_id, executor.executor_id, executor.host)

    def close(self, reason: str) -> None:
        """Asks the TaskManager to stop."""
        if not self._ending.done():
            self._ending.set_result(reason)

    async def closed(self) -> None:
        """Waits until the TaskManager has ended."""
        await asyncio.wait([self._running])

    async def _run(self, on_end: OnEnd) -> None:
        services = Services()
        starting = asyncio.create_task(self._start(services))
        try:
            waited: list[asyncio.Future[object]] = [starting, self._ending]  # type: ignore[list-item]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            reason = await self._ending
        except TidegateError as error:
            reason = error.message
        except Exception as error:  # noqa: BLE001  (a driver: a member that cannot be started is no end of the others)
            _log.exception("%s did not start", self._worker_id)
            reason = f"{type(error).__name__}: {error}"
        finally:
            starting.cancel()
            await services.stop_all()
            with contextlib.suppress(OSError):
                shutil.rmtree(self._directory)
        on_end(self._worker_id, reason)

    async def _start(self, services: Services) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        await start_task_manager(
            self._configuration,
            services,
            Directories.below(self._directory),
            self._spark,
            lambda error: self.close(str(error)),
            lambda _: None,
        )
