"""Starts one TaskManager on a Spark session, in order. A process has one, or one for each executor that was requested.

blob cache -> slot and task table -> gRPC service -> Spark is warm -> control streams -> registration
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidegate.aio.homes import failures_of
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services
from tidegate.model.configuration import Configuration
from tidegate.model.options import ClusterOptions, RuntimeOptions, TaskManagerOptions, TaskOptions
from tidegate.taskmanager.service import identity as own
from tidegate.taskmanager.service.blob_cache import BlobCache
from tidegate.taskmanager.service.directories import Directories
from tidegate.taskmanager.service.endpoint import start_control, start_endpoint
from tidegate.taskmanager.service.registration import connection_to_leader, keep_registered
from tidegate.taskmanager.service.reporting.reporters import start_reporters
from tidegate.taskmanager.service.requested_faults import FaultInjection
from tidegate.taskmanager.service.subtasks.processes import SparkSubtasks
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.service.subtasks.tls import SubtaskTls
from tidegate.taskmanager.service.task_executor import TaskExecutor, make_machine
from tidegate.taskmanager.service.watches import watch
from tidegate.taskmanager.spark.session import Session

OnReady = Callable[[own.Identity], None]


IO_THREADS = 4
"""Threads for blobs. Chosen, not measured: they wait for the JobManager and the disk, not for processors."""


class Host(Protocol):
    """The Spark that runs the subtasks (``SparkService``, or one of its executors)."""

    @property
    def ports(self) -> range: ...

    async def ready(self, tell: Callable[[str], None]) -> Session:
        """Waits until Spark is up; returns the session. Raises ``ExternalError``."""
        ...

    async def check(self, control_address: str, tell: Callable[[str], None]) -> None:
        """Checks that subtasks can run there. Raises ``ExternalError`` if they cannot."""
        ...

    def rehearse_soon(self) -> None: ...


async def start_task_manager(
    configuration: Configuration,
    services: Services,
    directories: Directories,
    spark: Host,
    fatal: Callable[[BaseException], None],
    on_ready: OnReady,
) -> None:
    """Starts everything, and registers each part with ``services``, also when this raises ``TidegateError``."""
    directory, host = directories.working, own.find_host(configuration)
    threads = configuration.get(ClusterOptions.IO_POOL_SIZE) or IO_THREADS
    pool, job_manager = Pool(threads, "io"), connection_to_leader(configuration)
    blobs = BlobCache(directories.blobs, job_manager.fetch_blob, pool)
    services.started("blob cache: up", blobs.close)
    memory, interval_ms = SlotMemory.of(configuration), configuration.get(TaskOptions.CANCELLATION_INTERVAL)
    tls = SubtaskTls.of(configuration, directory, job_manager.transport.tls)
    subtasks = SparkSubtasks(
        memory, directory / "tasks", directories.local, blobs.get, interval_ms, tls, failures_of(configuration)
    )
    planned_faults = configuration.get(RuntimeOptions.FAULTS) or ()
    faults = FaultInjection(planned_faults, job_manager.tell)
    executor = TaskExecutor(make_machine(configuration), subtasks, faults.tell, fatal)
    services.started(f"slot table: {configuration.get(TaskManagerOptions.NUM_SLOTS)} slots, {memory}", executor.close)
    services.started(f"faults on purpose: {', '.join(planned_faults) or 'none'}", faults.delays.close)
    server, port = await start_endpoint(configuration, executor, faults, subtasks.stacks, job_manager)
    services.started(f"TaskManager: gRPC port {port}", lambda: server.stop(0.2))
    identity = own.make_identity(configuration, host, port)
    session = await spark.ready(services.begins)
    control = own.control_socket(directory) if session.is_embedded else None
    listener, dialed = await start_control(configuration, executor, blobs, job_manager, services, control, host, tls)
    services.started(f"control streams: {dialed}", listener.close)
    await spark.check(dialed, services.begins)
    subtasks.connect(session, dialed, own.data_listen(host, session.is_embedded, directory, spark.ports))
    services.started("Spark: workers are warm", watch(session, subtasks, executor, memory, fatal))
    await start_reporters(configuration, executor, session, memory, services)
    spark.rehearse_soon()
    on_ready(identity)
    services.started("registration: begins", keep_registered(job_manager, executor, identity, fatal), 4_500)
