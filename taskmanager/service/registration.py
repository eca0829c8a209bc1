"""Registration as a service: it runs in the background, ends the process when it fails, and disconnects and stops the tasks at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration
from tidegate.model.options import ClusterOptions, TaskManagerOptions
from tidegate.taskmanager.service.identity import Identity, job_manager_address
from tidegate.taskmanager.service.jobmanager.connection import JobManagerConnection, RegistrationTimes
from tidegate.taskmanager.service.jobmanager.leader_retrieval import make_leader_retrieval
from tidegate.taskmanager.service.task_executor import TaskExecutor


def _registration_times(configuration: Configuration) -> RegistrationTimes:
    """Returns the configured times of registration."""
    return RegistrationTimes(
        initial_timeout_ms=configuration.get(ClusterOptions.REGISTRATION_INITIAL_TIMEOUT),
        max_timeout_ms=configuration.get(ClusterOptions.REGISTRATION_MAX_TIMEOUT),
        error_delay_ms=configuration.get(ClusterOptions.REGISTRATION_ERROR_DELAY),
        refused_delay_ms=configuration.get(ClusterOptions.REGISTRATION_REFUSED_DELAY),
        give_up_ms=configuration.get(TaskManagerOptions.REGISTRATION_TIMEOUT),
    )


def connection_to_leader(configuration: Configuration) -> JobManagerConnection:
    """Makes the connection to the leader, which ``keep_registered`` opens. Raises ``ConfigurationError``."""
    retrieval = make_leader_retrieval(configuration, job_manager_address)
    return JobManagerConnection(retrieval, _registration_times(configuration), transport_of(configuration))


def keep_registered(
    job_manager: JobManagerConnection,
    executor: TaskExecutor,
    identity: Identity,
    on_fatal: Callable[[BaseException], None],
) -> Callable[[], Awaitable[None]]:
    """Begins to register. Returns a function that disconnects, which the JobManager sees at once, and stops the tasks."""
    executor.introduce(identity)
    task = asyncio.create_task(job_manager.run(executor), name="registration")

    def on_done(ended: asyncio.Task[None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            on_fatal(error)

    task.add_done_callback(on_done)

    async def stop() -> None:
        task.cancel()
        await asyncio.wait([task])
        await job_manager.close()
        executor.stop_tasks("this TaskManager is shutting down")
        await executor.wait_empty()

    return stop
