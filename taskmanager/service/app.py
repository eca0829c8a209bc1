"""The TaskManager process: what is started, and in which order (Flink: ``TaskManagerRunner.java``). No decisions here.

working directory -> Spark, in the background -> one TaskManager over it, or one for each of its executors
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial

from tidegate.aio.process import Services, Shutdown, Tell
from tidegate.aio.settings import warnings_of_environment
from tidegate.model.configuration import Configuration
from tidegate.model.options import RuntimeOptions
from tidegate.taskmanager.service import identity as own
from tidegate.taskmanager.service.directories import Directories
from tidegate.taskmanager.service.subtasks.spark_service import SparkService
from tidegate.wire.versions import PYTHON_VERSION, VERSION

_log = logging.getLogger("taskmanager")

OnReady = Callable[[own.Identity], None]


def run(configuration: Configuration, on_ready: OnReady = lambda _: None, on_step: Tell = lambda _: None) -> int:
    """Serves until a signal or a fatal error ends the process. Returns the exit code: 0, or 1 after a fatal error.

    ``on_ready`` is called when its workers are warm, before it registers; ``on_step`` for each step until then. Raises ``TidegateError`` when it cannot start:
    there is no Java, a port is in use, a directory cannot be made.
    """
    return asyncio.run(serve(configuration, on_ready, on_step))


async def serve(configuration: Configuration, on_ready: OnReady, on_step: Tell) -> int:
    """Serves on a running loop until it is shut down."""
    _log.info("TaskManager %s on Python %s, pid %d", VERSION, PYTHON_VERSION, os.getpid())
    for warning in (*configuration.warnings(), *warnings_of_environment()):
        _log.warning("configuration: %s", warning)
    services, shutdown = Services(on_step), Shutdown()
    shutdown.catch_signals()
    starting = asyncio.create_task(_start(configuration, services, shutdown, on_ready))
    ending = asyncio.create_task(shutdown.wait())
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        await ending
        _log.info("shutting down: %s", shutdown.reason)
    finally:
        starting.cancel()
        await services.stop_all()
    _log.info("TaskManager is stopped")
    return shutdown.exit_code


async def _start(configuration: Configuration, services: Services, shutdown: Shutdown, on_ready: OnReady) -> None:
    directories = Directories.make(configuration)
    services.started(f"working directory: {directories.working}", directories.remove)
    spark = SparkService(configuration, directories.working, own.find_host(configuration))
    services.started(f"Spark: starting{spark.where}", spark.close, 5_000)
    # Most of the modules of this process, which are imported while the JVM starts: a second of a processor.
    from tidegate.taskmanager.service.assembly import start_task_manager
    from tidegate.taskmanager.service.executors.host import start_executor_host
    from tidegate.taskmanager.service.watches import end_process

    fatal = partial(end_process, shutdown)
    if configuration.get(RuntimeOptions.EXECUTOR_HOST) is None:
        await start_task_manager(configuration, services, directories, spark, fatal, on_ready)
    else:
        await start_executor_host(configuration, services, directories.working, spark, fatal)
