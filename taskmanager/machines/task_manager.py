"""The state machine of a TaskManager: its slot table and its task table as one, so that they cannot contradict each other.

    TaskSubmitted ──▶ slot table: may it run in that slot? ──yes──▶ task table
    slot is freed ──▶ task table: fail the tasks in it ──they are gone──▶ slot table: the slot is free ──▶ reported

Laws: a task is in the task table exactly as long as it is in its slot. A JobManager of an older generation than the last one is never accepted again. When the
JobManager is lost, tasks run on for the grace period that it gave, then they are stopped and their slots are freed. When it is found again in time, they simply
run on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.model.errors import ErrorInfo, Fenced
from tidegate.model.fencing import fenced_off, highest_of
from tidegate.model.ids import Generation
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.taskmanager.machines.slots import (
    FailTasks,
    JobManagerFound,
    JobManagerLost,
    LossGraceOver,
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


@dataclass(frozen=True, slots=True)
class StartLossTimer:
    """Starts the timer of the grace after the loss of the JobManager. It comes back as ``LossGraceOver``."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class StopLossTimer:
    """Stops the timer of the grace, since a JobManager was found or the grace is over."""


TaskManagerCommand = TaskCommand | StartSlotTimer | StopSlotTimer | ReportSlotFreed | StartLossTimer | StopLossTimer


class TaskManagerMachine:
    """The slots and tasks of a TaskManager. ``on(event, now_ms)`` is the only way to change them; ``slots`` and ``tasks`` are read-only for others."""

    def __init__(self, slots: int, slot_timeout_ms: int, limits: TaskLimits) -> None:
        self.slots = SlotTable(slots, slot_timeout_ms)
        self.tasks = TaskTable(limits)
        self._highest: Generation | None = None
        self._loss_grace_ms = self._reconnect_ms = 0
        self.has_given_up = False
        """Whether the grace is over: all tasks must be gone before this TaskManager registers with another JobManager."""

    def reports(self) -> tuple[AttemptReport, ...]:
        """Returns the reports of the attempts here, for a JobManager that becomes the leader."""
        return self.tasks.reports()

    def on(self, event: TaskManagerEvent, now_ms: int) -> Sequence[TaskManagerCommand]:
        match event:
            case JobManagerFound():
                return self._on_found(event, now_ms)
            case JobManagerLost():
                return self._on_lost(event, now_ms)
            case LossGraceOver():
                return self._give_up(now_ms) if self.slots.generation is None else ()
            case SlotRequested() | SlotFreeRequested() | SlotTimedOut():
                return self._slot_commands(event, now_ms)
            case TaskSubmitted():
                return self._submit(event, now_ms)
            case _:
                return self._task_commands(event, now_ms)

    def _on_found(self, event: JobManagerFound, now_ms: int) -> Sequence[TaskManagerCommand]:
        reason = fenced_off(event.generation, self._highest)
        if reason is not None:
            return (Refuse(ErrorInfo.of(Fenced(f"JobManager generation {event.generation} leads no more: {reason}"))),)
        self._highest = highest_of(event.generation, self._highest)
        self._loss_grace_ms, self._reconnect_ms = event.loss_grace_ms, event.reconnect_ms
        self.has_given_up = False
        return [StopLossTimer(), *self._slot_commands(event, now_ms), *self._task_commands(event, now_ms)]

    def _on_lost(self, event: JobManagerLost, now_ms: int) -> Sequence[TaskManagerCommand]:
        if self.slots.generation is None:
            has_grace = self._loss_grace_ms > 0 or self.has_given_up
            return self._give_up(now_ms) if event.is_over and not has_grace else ()
        lost = [*self._task_commands(event, now_ms), *self._slot_commands(event, now_ms)]
        grace_ms = self._loss_grace_ms if event.is_over else max(self._loss_grace_ms, self._reconnect_ms)
        if grace_ms > 0:
            return [*lost, StartLossTimer(grace_ms)]
        return [*lost, *self._give_up(now_ms)]

    def _give_up(self, now_ms: int) -> list[TaskManagerCommand]:
        self.has_given_up = True
        over = LossGraceOver()
        return [StopLossTimer(), *self._task_commands(over, now_ms), *self._slot_commands(over, now_ms)]

    def _submit(self, event: TaskSubmitted, now_ms: int) -> Sequence[TaskManagerCommand]:
        task = event.task
        refusal = fence(task.generation, self.slots.generation)
        if refusal is not None:
            return (Refuse(refusal),)
        if self.tasks.task(task.attempt) is not None or self.tasks.has_begun(task):
            return self._task_commands(event, now_ms)
        taken = self._slot_commands(TaskAdded(task.allocation_id, task.attempt), now_ms)
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
                continue
            if isinstance(command, ReportSlotFreed):
                self.tasks.forget(command.allocation_id)
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
        """Raises ``AssertionError`` when the slot table and the task table contradict each other."""
        self.slots.check_invariants()
        self.tasks.check_invariants()
        allocations = [slot.allocation_id for slot in self.slots.report() if slot.allocation_id is not None]
        slotted = {attempt for allocation in allocations for attempt in self.slots.tasks_in(allocation)}
        known = set(self.tasks.attempts())
        assert slotted == known, f"tasks in slots and in the task table differ: {slotted ^ known}"
