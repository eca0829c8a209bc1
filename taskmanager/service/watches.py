"""Periodic checks of a TaskManager: its JVM, the executors of its cluster, and the memory of its slots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidegate.aio.process import Shutdown
from tidegate.model.errors import ErrorInfo, ExternalError, NoResourceAvailable
from tidegate.taskmanager.machines.memory.shortage import CALM_S, describe_overrun
from tidegate.taskmanager.machines.task_events import TaskFailed
from tidegate.taskmanager.service.subtasks.processes import SparkSubtasks
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory, decide_overrun
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.taskmanager.spark.memory.machine import MachineMemory
from tidegate.taskmanager.spark.session import Session

_log = logging.getLogger(__name__)


JVM_INTERVAL_S = CALM_S
EXECUTORS_INTERVAL_S = 1.0
"""Seconds between two checks of the executors. Chosen, not measured: machines that are taken away announce it half a minute before, or more."""
OnFatal = Callable[[BaseException], None]


def end_process(shutdown: Shutdown, error: BaseException) -> None:
    """Logs a fatal error, and ends the process with exit code 1."""
    _log.error("fatal, this process ends: %s", error)
    shutdown.ask(str(error), 1)


def watch(
    session: Session,
    subtasks: SparkSubtasks,
    executor: TaskExecutor,
    memory: SlotMemory,
    on_fatal: OnFatal,
) -> Callable[[], None]:
    """Begins the checks. Returns a function that stops them. On a Spark cluster subtasks check their machines themselves."""
    tasks = [
        asyncio.create_task(watch_executors(session, subtasks, executor), name="watch executors"),
        asyncio.create_task(watch_jvm(session, on_fatal), name="watch jvm"),
        asyncio.create_task(watch_memory(subtasks, executor, memory.process_bytes), name="watch memory"),
    ]
    if session.is_embedded:
        machine = MachineMemory(memory.machine_bytes, memory.reserve_bytes)
        tasks.append(asyncio.create_task(watch_machine(machine, executor), name="watch machine"))

    def stop() -> None:
        for task in tasks:
            task.cancel()

    return stop


async def watch_jvm(session: Session, on_fatal: OnFatal) -> None:
    """Ends the TaskManager when its JVM has ended, which the JobManager sees at once."""
    while True:
        await asyncio.sleep(JVM_INTERVAL_S)
        if not session.is_alive():
            break
    on_fatal(ExternalError("the JVM of this TaskManager ended by itself; its log says why"))


async def watch_executors(session: Session, subtasks: SparkSubtasks, executor: TaskExecutor) -> None:
    """Updates the attempts on executors that Spark takes away, which have to leave them. Returns at once where Spark is embedded."""
    while not session.is_embedded and session.is_alive():
        await asyncio.sleep(EXECUTORS_INTERVAL_S)
        try:
            executor.leaving = await asyncio.to_thread(subtasks.leaving)
        except Exception as error:  # noqa: BLE001  (a driver: py4j's, and what the JVM says of itself; the next look may succeed)
            _log.debug("cannot look at the executors: %s", error)


async def watch_memory(subtasks: SparkSubtasks, executor: TaskExecutor, bound_bytes: int) -> None:
    """Fails subtasks that need more memory than their slot has: that of its slot sharing group, or its share of the TaskManager, where it is bounded."""
    while True:
        await asyncio.sleep(CALM_S)
        if not (bound_bytes or subtasks.bounds):
            continue
        for attempt, error in decide_overrun(executor.local_pids(), bound_bytes, subtasks.bounds, executor.task_name):
            _log.warning("%s", error.message)
            executor.post(TaskFailed(attempt, error, by_force=True))


async def watch_machine(machine: MachineMemory, executor: TaskExecutor) -> None:
    """Fails the largest subtask before the kernel has to end a process for want of memory."""
    while True:
        await asyncio.sleep(machine.interval_s)
        attempts = {pid: attempt for tasks in executor.local_pids().values() for attempt, pid in tasks.items()}
        overrun = await asyncio.to_thread(machine.look, list(attempts)) if attempts else None
        if overrun is None:
            continue
        attempt = attempts[overrun.pid]
        error = ErrorInfo.of(NoResourceAvailable(describe_overrun(executor.task_name(attempt), overrun)))
        _log.warning("%s", error.message)
        executor.post(TaskFailed(attempt, error, by_force=True))
