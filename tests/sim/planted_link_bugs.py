"""Bugs on purpose in what a broken connection means."""

from __future__ import annotations

from typing import Any

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tidegate.jobmanager.machines.resources.task_managers import HEARTBEAT_TIMER, ResourceManager
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.slots import JobManagerFound
from tidegate.taskmanager.machines.task_events import Outcome
from tidegate.taskmanager.machines.tasks import TaskTable

_on = TaskTable.on
_expect = ResourceManager.expect


def _stops_what_went_on(table: TaskTable, event: Any, now_ms: int) -> Any:
    is_back = isinstance(event, JobManagerFound) and (None, event.generation) == (
        table._generation,
        table._last_generation,
    )
    commands = list(_on(table, event, now_ms))
    failed = Outcome(ExecutionState.FAILED, ErrorInfo.of(SubtaskLost("planted")))
    for task in tuple(table._tasks.values()) if is_back else ():
        commands += table._stop(task, failed)
    return commands


def _says_nothing_meanwhile(table: TaskTable, task: Any) -> bool:
    return bool(task.is_disowned or task.owner != table._generation)


def _forgets_that_it_is_back(resources: ResourceManager, task_manager: Any, within_ms: int) -> None:
    """The time to come back runs on."""
    timer = f"{HEARTBEAT_TIMER}/{task_manager.registration.task_manager_id}"
    was_short = 0 < task_manager.expires_ms - resources._buffer.now_ms <= resources._settings.reconnect_timeout_ms
    if not (was_short and resources._buffer.is_armed(timer)):
        _expect(resources, task_manager, within_ms)


OF_LINKS = (
    Plant(
        "a broken connection is a loss",
        frozenset({Law.LINK}),
        patched(ResourceManager, "suspend", lambda resources, task_manager_id, reason: False),
    ),
    Plant(
        "a TaskManager that comes back has stopped its tasks",
        frozenset({Law.LINK}),
        patched(TaskTable, "on", _stops_what_went_on),
    ),
    Plant(
        "what a subtask says while the connection is broken is dropped",
        frozenset({Law.OUTPUT, Law.LINK, Law.ABORTED}),
        patched(TaskTable, "is_muted", _says_nothing_meanwhile),
    ),
    Plant(
        "one that has come back is lost all the same",
        frozenset({Law.LINK}),
        patched(ResourceManager, "expect", _forgets_that_it_is_back),
    ),
)
