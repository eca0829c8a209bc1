"""The TaskManager's machine: its slot table and its task table as one, so that neither can forget the other.

    TaskSubmitted ──▶ slot table: may it run in that slot? ──yes──▶ task table
    slot is freed ──▶ task table: fail the tasks in it ──they are gone──▶ slot table: the slot is free ──▶ reported

Law: whatever happens, a task is in the task table exactly as long as it is in its slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.taskmanager.machines.slots import (
    FailTasks,
    JobManagerFound,
    JobManagerLost,
    Refuse,
    ReportSlotFreed,
    SlotEvent,
    SlotFreeRequested,
    SlotRequested,
    SlotTable,
    SlotTimedOut,
    StartSlotTimer,
    StopSlotTimer,
    TaskAdded,
    TaskRemoved,
    fence,
)
from tidegate.taskmanager.machines.task_events import (
    RemoveTask,
    TaskCommand,
    TaskEvent,
    TaskFailed,
    TaskLimits,
    TaskSubmitted,
)
from tidegate.taskmanager.machines.tasks import TaskTable

TaskManagerEvent = SlotRequested | SlotFreeRequested | SlotTimedOut | TaskEvent
TaskManagerCommand = TaskCommand | StartSlotTimer | StopSlotTimer | ReportSlotFreed


class TaskManagerMachine:
    """``on(event, now_ms)`` is the only way in; ``slots`` and ``tasks`` are to look at."""

    def __init__(self, slots: int, slot_timeout_ms: int, limits: TaskLimits) -> None:
        self.slots = SlotTable(slots, slot_timeout_ms)
        self.tasks = TaskTable(limits)

    def on(self, event: TaskManagerEvent, now_ms: int) -> Sequence[TaskManagerCommand]:
        commands = self._dispatch(event, now_ms)
        self.check_invariants()
        return commands

    def _dispatch(self, event: TaskManagerEvent, now_ms: int) -> Sequence[TaskManagerCommand]:
        if isinstance(event, JobManagerFound):
            return [*self._slot_commands(event, now_ms), *self._task_commands(event, now_ms)]
        if isinstance(event, JobManagerLost):
            stopped = self._task_commands(event, now_ms)
            return [*stopped, *self._slot_commands(event, now_ms)]
        if isinstance(event, SlotRequested | SlotFreeRequested | SlotTimedOut):
            return self._slot_commands(event, now_ms)
        if isinstance(event, TaskSubmitted):
            return self._submit(event, now_ms)
        return self._task_commands(event, now_ms)

    def _submit(self, event: TaskSubmitted, now_ms: int) -> Sequence[TaskManagerCommand]:
        deployment = event.deployment
        refusal = fence(deployment.generation, self.slots.generation)
        if refusal is not None:
            return (Refuse(refusal),)
        if self.tasks.task(deployment.attempt) is not None:
            return self._task_commands(event, now_ms)
        taken = self._slot_commands(TaskAdded(deployment.allocation_id, deployment.attempt), now_ms)
        if any(isinstance(command, Refuse) for command in taken):
            return taken
        return [*taken, *self._task_commands(event, now_ms)]

    def _slot_commands(
        self,
        event: SlotEvent,
        now_ms: int,
    ) -> list[TaskManagerCommand]:
        commands: list[TaskManagerCommand] = []
        for command in self.slots.on(event, now_ms):
            if isinstance(command, FailTasks):
                for attempt in command.attempts:
                    commands += self._task_commands(TaskFailed(attempt, command.error), now_ms)
            else:
                commands.append(command)
        return commands

    def _task_commands(self, event: TaskEvent, now_ms: int) -> list[TaskManagerCommand]:
        commands: list[TaskManagerCommand] = []
        for command in self.tasks.on(event, now_ms):
            commands.append(command)
            if isinstance(command, RemoveTask):
                commands += self._slot_commands(TaskRemoved(command.allocation_id, command.attempt), now_ms)
        return commands

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the two tables contradict each other."""
        self.slots.check_invariants()
        self.tasks.check_invariants()
        allocations = [slot.allocation_id for slot in self.slots.report() if slot.allocation_id is not None]
        slotted = {attempt for allocation in allocations for attempt in self.slots.tasks_in(allocation)}
        known = set(self.tasks.attempts())
        assert slotted == known, f"tasks in slots and in the task table differ: {slotted ^ known}"
