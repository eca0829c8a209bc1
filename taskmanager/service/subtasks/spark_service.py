"""Spark as a service of this process: it is started in the background, and ended in any case."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tidegate.aio.homes import classes_of
from tidegate.aio.listening import is_loopback
from tidegate.aio.pool import Pool
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import FileOptions, RuntimeOptions, SecurityOptions, SparkOptions, TaskManagerOptions
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings, is_embedded
from tidegate.taskmanager.spark.jvm import end_group
from tidegate.taskmanager.spark.session import Session, archive_of_classes, silence_calls, start_session

_log = logging.getLogger(__name__)

WARM_WORKERS_MAX = 4
REHEARSAL_DELAY_S = 3.0
"""Seconds until the rehearsal. Chosen, not measured: jobs that wait for the slots start first."""


class SparkService:
    """Starts Spark in the background, beginning with the constructor. ``ready`` returns the session when its workers are warm."""

    def __init__(self, configuration: Configuration, directory: Path, host: str) -> None:
        self._settings = session_settings(configuration, directory, host)
        self._workers = min(configuration.get(TaskManagerOptions.NUM_SLOTS), WARM_WORKERS_MAX)
        self._rehearses_sql = configuration.get(SparkOptions.REHEARSE_SQL)
        self._discover: Callable[[], str] = lambda: "{}"
        if configuration.get(TaskManagerOptions.EXTERNAL_RESOURCES):
            # Imported here since few TaskManagers have external resources.
            from tidegate.taskmanager.service.external_resources import declared_in, discover

            self._discover = partial(discover, declared_in(configuration))
        self.ports = configuration.get(RuntimeOptions.DATA_PORT)
        self._pool = Pool(1, "spark")
        self._session: Session | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closing = False
        self._starting = self._pool.submit(self._start)

    @property
    def master(self) -> str:
        return self._settings.master

    @property
    def where(self) -> str:
        """Returns where Spark runs, as the end of a sentence. An embedded Spark has a master for Spark's sake only, which says nothing of this machine."""
        return "" if is_embedded(self.master) else f" at {self.master}"

    async def ready(self, tell: Callable[[str], None]) -> Session:
        """Waits for Spark; returns the session. ``tell``: informed of what is waited for. Raises ``ExternalError`` when Java or Spark cannot be started."""
        tell(f"starting Spark{self.where}, with its JVM and Python workers (its log: {self._settings.log_path})")
        return await asyncio.shield(self._starting)

    async def check(self, control_address: str, tell: Callable[[str], None]) -> None:
        """Checks, where Spark is a cluster, that its executors can run subtasks. Raises ``ExternalError`` when they cannot."""
        session = self._session
        if session is not None and not session.is_embedded:
            # Imported here since an embedded Spark has no executors to check.
            from tidegate.taskmanager.spark.executors.check import check_executors, described

            tell(f"checking what the executors of {self.master} have, and what they reach")
            found = await self._pool.submit(partial(check_executors, session, control_address, self.ports))
            _log.info("Spark: executors: %s", described(found))

    def rehearse_soon(self) -> None:
        """Schedules the rehearsal, after this TaskManager had time to start its first tasks."""
        asyncio.get_running_loop().call_later(REHEARSAL_DELAY_S, self._rehearse)

    def _rehearse(self) -> None:
        session = self._session
        if session is None or self._is_closing:
            return

        def rehearse() -> None:
            session.rehearse()
            if self._rehearses_sql and not self._is_closing:
                session.rehearse_sql()
                _log.info("Spark SQL is warmed up")

        threading.Thread(target=rehearse, name="rehearsal", daemon=True).start()

    async def close(self) -> None:
        """Ends the JVM and its child processes, and waits for them. A JVM that is still starting is killed."""
        self._is_closing = True
        if not self._starting.done():
            self._give_up()
        await asyncio.wait([self._starting])
        if not self._starting.cancelled():
            self._starting.exception()  # raised to the caller that awaited it
        if self._session is not None:
            await self._pool.submit(partial(_close, self._session, self._settings))
        self._pool.close()

    def _began(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self._is_closing:  # it was too early for ``close`` to know of it
            self._give_up()

    def _give_up(self) -> None:
        if self._process is not None:
            silence_calls()
            end_group(self._process)

    def _start(self) -> Session:
        found = self._discover()
        self._session = start_session(self._settings, self._began)
        self._session.external_resources = found
        if not self._settings.on_demand:
            self._session.warm_up(self._workers)
        return self._session


def _close(session: Session, settings: SessionSettings) -> None:
    """Ends the session. Its classes are put into an archive after it, by a process that does not keep anything waiting, where there is none."""
    session.close()
    archive = archive_of_classes(settings)
    if archive is not None:
        archive.make_soon()


def session_settings(configuration: Configuration, directory: Path, host: str) -> SessionSettings:
    """Returns the settings of a TaskManager's Spark session. ``host``: the address of the TaskManager. ``directory``: its working directory. Raises
    ``ConfigurationError`` when ``host`` is a loopback address and the executors are on other machines.
    """
    master = configuration.get(SparkOptions.MASTER)
    if not (is_embedded(master) or "//localhost:" in master or "//127." in master) and is_loopback(host):
        raise ConfigurationError(
            f"bad configuration: executors of {master} cannot reach a TaskManager on {host}; set taskmanager.bind-host to "
            "an address of this machine that they can reach (or 0.0.0.0, with taskmanager.host)"
        )
    log_directory = configuration.get(FileOptions.LOG_DIR)
    log_file = Path(log_directory, f"{directory.name}-spark.log") if log_directory else None
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
    properties = {key: text for key, text in configuration.spark_properties().items() if key != SparkOptions.MASTER.key}
    return SessionSettings(
        directory / "spark",
        master,
        properties,
        host,
        log_file,
        configuration.get(FileOptions.START_TIMEOUT) / 1000,
        archives=classes_of(configuration) if configuration.get(SparkOptions.CLASS_ARCHIVE) else None,
        on_demand=configuration.is_set(RuntimeOptions.EXECUTOR_HOST),
        is_encrypted=not is_embedded(master)
        and configuration.get(SecurityOptions.INTERNAL_ENABLED)
        and configuration.get(SecurityOptions.DATA_ENABLED),
    )
