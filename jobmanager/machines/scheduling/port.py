"""The scheduler of a job as the JobMaster sees it: decides where and when subtasks run, all at the same time or stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, SubtaskId, TaskManagerId

SLOT_REQUEST_TIMER, SLOT_IDLE_TIMER = "slot-request", "slot-idle"


class SubtaskScheduler(Protocol):
    """The interface of a scheduler of one job."""

    @property
    def waiting_for(self) -> str:
        """Returns what the job waits for, such as ``2 of 4 slots``; empty when it waits for nothing."""

    @property
    def wanted_slots(self) -> int:
        """Returns how many slots the job needs in total, without those in which everything has finished."""

    @property
    def missing_slots(self) -> int:
        """Returns how many of the needed slots the job does not hold."""

    @property
    def held_slots(self) -> int:
        """Returns how many slots the job holds."""

    @property
    def waiting_batches(self) -> list[int]:
        """Returns the numbers of batches that lack a slot."""

    def schedule(self, subtasks: Iterable[SubtaskId]) -> None:
        """Schedules CREATED executions for deployment."""

    def adopt(self, execution: Execution) -> None:
        """Takes over an execution that runs or has finished in a slot which an earlier JobManager allocated."""

    def close_adoption(self) -> None:
        """Gives back slots in which nothing of the job was adopted."""

    def unschedule(self, subtask: SubtaskId) -> None:
        """Removes a subtask that is canceled before it was deployed."""

    def advance(self) -> None:
        """Requests slots that are free now, and deploys what can be."""

    def on_no_slots(self, number: int, why: str = "") -> tuple[ErrorInfo, tuple[SubtaskId, ...]] | None:
        """Returns the error of a batch that waited too long or will not get slots (``why``), and its subtasks; ``None`` if the batch does not
        wait.
        """

    def on_allocated(self, allocation_id: AllocationId) -> None: ...

    def on_allocation_lost(self, allocation_id: AllocationId) -> list[Execution]:
        """Removes a slot that was refused, freed or lost; returns the executions that ran there."""

    def on_task_manager_lost(self, task_manager_id: TaskManagerId) -> list[Execution]:
        """Removes the slots of a lost TaskManager; returns the executions that ran there."""

    def executions_on(self, task_manager_id: TaskManagerId) -> list[Execution]:
        """Returns the executions that are deployed on a TaskManager now."""

    def on_finished(self, execution: Execution) -> None: ...

    def on_idle_timeout(self) -> None: ...

    def reshape(self) -> None:
        """Adapts to a changed parallelism, before anything of it is deployed; slots that are not needed are given back."""

    def ends_finished_work(self, failure: ErrorInfo) -> bool:
        """Tells whether this failure loses the output of finished subtasks, so that everything runs again."""

    def close(self) -> None:
        """Gives every slot back, because the job has ended."""

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when what waits for slots contradicts the states of the executions."""
