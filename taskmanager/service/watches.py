"""What a TaskManager looks at from time to time: its JVM, and the memory of its slots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidegate.aio.process import Shutdown
from tidegate.model.errors import ExternalError
from tidegate.taskmanager.machines.task_events import TaskFailed
from tidegate.taskmanager.service.subtasks.slot_memory import WATCH_INTERVAL_S, decide_overrun
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.taskmanager.spark.session import Session

_log = logging.getLogger(__name__)


OnFatal = Callable[[BaseException], None]


def end_process(shutdown: Shutdown, error: BaseException) -> None:
    """What ``on_fatal`` does: log the error, and end the process with exit code 1."""
    _log.error("fatal: %s", error)
    shutdown.ask(str(error), 1)


def watch(session: Session, executor: TaskExecutor, slot_bytes: int, on_fatal: OnFatal) -> Callable[[], None]:
    """Begin to look; returns how to stop."""
    tasks = [
        asyncio.create_task(watch_jvm(session, on_fatal), name="watch jvm"),
        asyncio.create_task(watch_memory(executor, slot_bytes), name="watch memory"),
    ]

    def stop() -> None:
        for task in tasks:
            task.cancel()

    return stop


async def watch_jvm(session: Session, on_fatal: OnFatal) -> None:
    """Without its JVM a TaskManager can run nothing: it ends, and the JobManager sees that at once."""
    while True:
        await asyncio.sleep(WATCH_INTERVAL_S)
        if not session.is_alive():
            break
    on_fatal(ExternalError("the JVM of this TaskManager ended by itself; its log says why"))


async def watch_memory(executor: TaskExecutor, bound_bytes: int) -> None:
    """Fail what needs more than its slot has. Returns at once when slots are not bounded."""
    while bound_bytes:
        await asyncio.sleep(WATCH_INTERVAL_S)
        for attempt, error in decide_overrun(executor.local_pids(), bound_bytes):
            _log.warning("%s: %s", executor.task_name(attempt), error.message)
            executor.post(TaskFailed(attempt, error, by_force=True))
