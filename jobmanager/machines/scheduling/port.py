"""What a JobMaster asks of its scheduler, which decides where its subtasks run, and when: all at the same time, or stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, SubtaskId, TaskManagerId

SLOT_REQUEST_TIMER, SLOT_IDLE_TIMER = "slot-request", "slot-idle"


class SubtaskScheduler(Protocol):
    @property
    def waiting_for(self) -> str:
        """Such as ``2 of 4 slots``; empty when nothing is waited for."""

    @property
    def wanted_slots(self) -> int:
        """Slots that the job needs all in all, without those in which everything has finished."""

    @property
    def missing_slots(self) -> int:
        """How many of them it does not hold."""

    @property
    def held_slots(self) -> int:
        """How many it holds."""

    @property
    def waiting_batches(self) -> list[int]:
        """Those that lack a slot."""

    def schedule(self, subtasks: Iterable[SubtaskId]) -> None:
        """CREATED executions, to be deployed."""

    def adopt(self, execution: Execution) -> None:
        """It runs, or has finished, in a slot that an earlier JobManager got for the job."""

    def close_adoption(self) -> None:
        """Slots in which nothing of the job is go back."""

    def unschedule(self, subtask: SubtaskId) -> None:
        """It is canceled before it was deployed."""

    def advance(self) -> None:
        """Ask for slots that are free now, and deploy what can be."""

    def on_no_slots(self, number: int, why: str = "") -> tuple[ErrorInfo, tuple[SubtaskId, ...]] | None:
        """The batch has waited too long, or there will be no slots, and ``why``: what to say, and whom it hits."""

    def on_allocated(self, allocation_id: AllocationId) -> None: ...

    def on_allocation_lost(self, allocation_id: AllocationId) -> list[Execution]:
        """Refused, freed or gone. Returns what ran there."""

    def on_task_manager_lost(self, task_manager_id: TaskManagerId) -> list[Execution]:
        """Returns what ran there."""

    def executions_on(self, task_manager_id: TaskManagerId) -> list[Execution]:
        """Deployed there at this moment."""

    def on_finished(self, execution: Execution) -> None: ...

    def on_idle_timeout(self) -> None: ...

    def reshape(self) -> None:
        """The graph has other numbers of subtasks, of which nothing lives yet: slots that it does not need go back."""

    def ends_finished_work(self, failure: ErrorInfo) -> bool:
        """Whether with this failure what finished subtasks gave is gone, so that everything runs again."""

    def close(self) -> None:
        """The job has ended: every slot goes back."""

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when what waits for slots contradicts the states of the executions."""
