"""The TaskManager process: what is started, in which order (Flink: ``TaskManagerRunner.java``). No decisions here.

working directory -> Spark, in the background -> blob cache -> slot and task table -> gRPC service -> Spark is warm -> registration
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial

from tidegate.aio.pool import Pool
from tidegate.aio.process import Services, Shutdown, Tell
from tidegate.aio.settings import warnings_of_environment
from tidegate.model.configuration import Configuration
from tidegate.model.options import RuntimeOptions, TaskManagerOptions, TaskOptions
from tidegate.taskmanager.service import identity as own
from tidegate.taskmanager.service.asked_faults import FaultsHere
from tidegate.taskmanager.service.blob_cache import BlobCache
from tidegate.taskmanager.service.directories import Directories
from tidegate.taskmanager.service.endpoint import start_control, start_endpoint
from tidegate.taskmanager.service.registration import connection_to_leader, keep_registered
from tidegate.taskmanager.service.reporting.reporters import start_reporters
from tidegate.taskmanager.service.subtasks.processes import SparkSubtasks
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.service.subtasks.spark_service import SparkService
from tidegate.taskmanager.service.task_executor import TaskExecutor, make_machine
from tidegate.taskmanager.service.watches import end_process, watch
from tidegate.wire.versions import PYTHON_VERSION, VERSION

_log = logging.getLogger("taskmanager")
OnReady = Callable[[own.Identity], None]


def run(configuration: Configuration, on_ready: OnReady = lambda _: None, on_step: Tell = lambda _: None) -> int:
    """Serve until a signal or a fatal error ends the process. Exit code 0, or 1 after a fatal error.

    ``on_ready`` is called when its workers are warm, before it registers, ``on_step`` for each step until then. Raises ``TidegateError`` when it cannot start: there is
    no Java, a port is in use, a directory cannot be made.
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
    directory = directories.working
    services.started(f"working directory: {directory}", directories.remove)
    host = own.find_host(configuration)
    spark = SparkService(configuration, directory, host)
    services.started(f"Spark: starting {spark.master}", spark.close, 5_000)
    pool, fatal = Pool(4, "io"), partial(end_process, shutdown)
    job_manager = connection_to_leader(configuration)
    blobs = BlobCache(directories.blobs, job_manager.fetch_blob, pool)
    services.started("blob cache: up", blobs.close)
    memory, interval_ms = SlotMemory.of(configuration), configuration.get(TaskOptions.CANCELLATION_INTERVAL)
    subtasks = SparkSubtasks(memory, directory / "tasks", directories.local, blobs.get, interval_ms)
    asked = configuration.get(RuntimeOptions.FAULTS) or ()
    here = FaultsHere(asked, job_manager.tell)
    executor = TaskExecutor(make_machine(configuration), subtasks, here.tell, fatal)
    services.started(f"slot table: {configuration.get(TaskManagerOptions.NUM_SLOTS)} slots, {memory}", executor.close)
    services.started(f"faults on purpose: {', '.join(asked) or 'none'}", here.delays.close)
    server, port = await start_endpoint(configuration, executor, here, subtasks.stacks)
    services.started(f"TaskManager: gRPC port {port}", lambda: server.stop(0.2))
    identity = own.make_identity(configuration, host, port)
    session = await spark.ready(services.begins)
    control = own.control_socket(directory) if session.is_embedded else None
    listener, dialed = await start_control(configuration, executor, blobs, job_manager.align_watermark, control, host)
    services.started(f"control streams: {dialed}", listener.close)
    await spark.check(dialed, services.begins)
    subtasks.connect(session, dialed, own.data_listen(host, session.is_embedded, directory, spark.ports))
    services.started("Spark: workers are warm", watch(session, subtasks, executor, memory.process_bytes, fatal))
    await start_reporters(configuration, executor, session, memory, services)
    spark.rehearse_soon()
    on_ready(identity)
    services.started("registration: begins", keep_registered(job_manager, executor, identity, fatal), 4_500)
