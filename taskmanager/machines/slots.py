"""The slot table of a TaskManager: which slot belongs to which allocation of which job.

    FREE ──SlotRequested──▶ ALLOCATED ──TaskAdded──▶ ACTIVE ──free or grace over, tasks in it──▶ RELEASING
     ▲                          │                      │                                             │
     └──timeout, free, over─────┴──free, over, empty───┴───────────────last TaskRemoved──────────────┘

Laws:
1. An allocated slot in which no task is deployed for ``taskmanager.slot.timeout`` is freed. An active slot belongs to the job, also while it is empty (between
   two attempts), until it is freed or no JobManager succeeds a lost one in time.
2. A slot with tasks is freed only after the last of them has gone; until then it is RELEASING and takes no new tasks.
3. Repeating an allocation for the same job and index is a no-op; any other request for a slot that is not free is refused.
4. A freed allocation is not accepted again: a late copy of its request would let its attempts start again.
5. A request of another generation than the registered one is refused as fenced.

Follows Flink's ``TaskSlotTableImpl.java``; there a lost JobMaster leaves its slots ALLOCATED for its successor, but the tasks in them
end, here they go on (docs/adr/0154).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from tidegate.model.errors import ErrorInfo, Fenced, NoResourceAvailable, SubtaskLost
from tidegate.model.ids import AllocationId, AttemptId, Generation, JobId

FREED_KEPT = 1_000
"""The number of freed allocations that are remembered. Chosen, not measured: copies of a call are seconds late, in which no job frees so many."""


class SlotState(Enum):
    """The states of a slot, as drawn above. Only ALLOCATED and ACTIVE slots take tasks."""

    FREE = "FREE"
    ALLOCATED = "ALLOCATED"
    ACTIVE = "ACTIVE"
    RELEASING = "RELEASING"


# ---- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobManagerFound:
    """This TaskManager registered with a generation of the JobManager; messages of older ones are fenced off.

    ``loss_grace_ms``: how long tasks go on after it is lost. ``reconnect_ms``: the least time they go on when only the connection is known to be gone.
    """

    generation: Generation
    loss_grace_ms: int = 0
    reconnect_ms: int = 0


@dataclass(frozen=True, slots=True)
class JobManagerLost:
    """The connection to the JobManager broke, or it was silent for too long: tasks go on, and every request is refused.

    ``is_over``: the JobManager itself has ended the session, or its process is gone, which may be seen only after the loss.
    """

    is_over: bool = False


@dataclass(frozen=True, slots=True)
class LossGraceOver:
    """No JobManager was found in time after the loss of the last one, or this process ends: all tasks must stop."""


@dataclass(frozen=True, slots=True)
class SlotRequested:
    """The JobManager requests a free slot for an allocation."""

    generation: Generation
    job_id: JobId
    allocation_id: AllocationId
    slot_index: int


@dataclass(frozen=True, slots=True)
class SlotFreeRequested:
    """The JobManager frees a slot. ``reason``: for the error of tasks that are still in it."""

    generation: Generation
    allocation_id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True)
class SlotTimedOut:
    """The timer of an allocated slot has run out: no task was deployed in time."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class TaskAdded:
    """A task of this job is to run in the slot. The answer says whether it may."""

    allocation_id: AllocationId
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class TaskRemoved:
    """The process of a task is gone."""

    allocation_id: AllocationId
    attempt: AttemptId


SlotEvent = (
    JobManagerFound
    | JobManagerLost
    | LossGraceOver
    | SlotRequested
    | SlotFreeRequested
    | SlotTimedOut
    | TaskAdded
    | TaskRemoved
)


# ---- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answers the request of this event with the error. A request without this command succeeded."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class StartSlotTimer:
    """Starts a timer that comes back as ``SlotTimedOut``."""

    allocation_id: AllocationId
    delay_ms: int


@dataclass(frozen=True, slots=True)
class StopSlotTimer:
    """Stops the timer of an allocation."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class FailTasks:
    """Fails these tasks. Each comes back as ``TaskRemoved``."""

    attempts: tuple[AttemptId, ...]
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class ReportSlotFreed:
    """Reports to the JobManager that a slot is free."""

    allocation_id: AllocationId


SlotCommand = Refuse | StartSlotTimer | StopSlotTimer | FailTasks | ReportSlotFreed


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot in the slot report. ``allocation_id`` and ``job_id`` are ``None`` for a free slot."""

    slot_index: int
    state: SlotState
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None


@dataclass(slots=True)
class _Slot:
    index: int
    job_id: JobId
    allocation_id: AllocationId
    state: SlotState
    tasks: set[AttemptId] = field(default_factory=set)


class SlotTable:
    """The slots of a TaskManager and the tasks in them. ``on(event, now_ms)`` is the only way to change them; ``now_ms`` is not used, timers are commands."""

    def __init__(self, slots: int, slot_timeout_ms: int) -> None:
        self._size = slots
        self._slot_timeout_ms = slot_timeout_ms
        self._generation: Generation | None = None
        self._slots: dict[AllocationId, _Slot] = {}
        self._freed: deque[AllocationId] = deque(maxlen=FREED_KEPT)

    @property
    def generation(self) -> Generation | None:
        return self._generation

    def report(self) -> tuple[SlotView, ...]:
        """Returns all slots, by index."""
        taken = {slot.index: slot for slot in self._slots.values()}
        return tuple(
            SlotView(index, slot.state, slot.allocation_id, slot.job_id)
            if (slot := taken.get(index))
            else SlotView(index, SlotState.FREE)
            for index in range(self._size)
        )

    def tasks_in(self, allocation_id: AllocationId) -> frozenset[AttemptId]:
        """Returns the tasks that run in a slot; none when it is free."""
        slot = self._slots.get(allocation_id)
        return frozenset(slot.tasks) if slot else frozenset()

    def on(self, event: SlotEvent, now_ms: int) -> Sequence[SlotCommand]:
        match event:
            case JobManagerFound():
                self._generation = event.generation
                return ()
            case JobManagerLost():
                self._generation = None
                return ()
            case LossGraceOver():
                return self._on_loss_grace_over()
            case SlotRequested():
                return self._fence(event.generation) or self._on_requested(event)
            case SlotFreeRequested():
                return self._fence(event.generation) or self._on_free_requested(event)
            case SlotTimedOut():
                return self._on_timed_out(event)
            case TaskAdded():
                return self._on_task_added(event)
            case TaskRemoved():
                return self._on_task_removed(event)
            case _:
                assert_never(event)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when slots and their tasks contradict each other. Its driver calls it after each event."""
        slots = self._slots.values()
        assert len({slot.index for slot in slots}) == len(slots), f"two allocations share a slot: {self.report()}"
        for allocation_id, slot in self._slots.items():
            assert slot.allocation_id == allocation_id, f"slot {slot.index} is kept under {allocation_id}"
            assert 0 <= slot.index < self._size, f"slot {slot.index} of {self._size}"
            assert allocation_id not in self._freed, f"slot {slot.index} has an allocation that was freed"
            assert slot.state is not SlotState.FREE, f"slot {slot.index} is free, and has an allocation"
            assert slot.state is not SlotState.ALLOCATED or not slot.tasks, (
                f"slot {slot.index} has tasks, and is not active"
            )
            assert slot.state is not SlotState.RELEASING or slot.tasks, (
                f"slot {slot.index} is empty, and still releasing"
            )
            assert {task.job_id for task in slot.tasks} <= {slot.job_id}, f"slot {slot.index} has tasks of another job"

    def _fence(self, generation: Generation) -> Sequence[SlotCommand]:
        refusal = fence(generation, self._generation)
        return (Refuse(refusal),) if refusal else ()

    def _on_requested(self, event: SlotRequested) -> Sequence[SlotCommand]:
        known = self._slots.get(event.allocation_id)
        if known is not None:
            if (known.job_id, known.index) == (event.job_id, event.slot_index) and known.state != SlotState.RELEASING:
                return ()
            return (
                _refuse(
                    f"allocation {event.allocation_id} already stands for slot {known.index} of job {known.job_id} "
                    f"({known.state.value}) here"
                ),
            )
        if event.allocation_id in self._freed:
            return (
                _refuse(f"allocation {event.allocation_id} was freed here before: a copy of its request came late"),
            )
        if not 0 <= event.slot_index < self._size:
            return (_refuse(f"there is no slot {event.slot_index} here, only 0 to {self._size - 1}"),)
        holder = next((slot for slot in self._slots.values() if slot.index == event.slot_index), None)
        if holder is not None:
            return (
                _refuse(
                    f"slot {event.slot_index} is taken by allocation {holder.allocation_id} of job {holder.job_id} "
                    f"({holder.state.value})"
                ),
            )
        self._slots[event.allocation_id] = _Slot(
            event.slot_index, event.job_id, event.allocation_id, SlotState.ALLOCATED
        )
        return (StartSlotTimer(event.allocation_id, self._slot_timeout_ms),)

    def _on_free_requested(self, event: SlotFreeRequested) -> Sequence[SlotCommand]:
        slot = self._slots.get(event.allocation_id)
        if slot is None:
            return (ReportSlotFreed(event.allocation_id),)
        return self._free(slot, f"slot {slot.index} was freed: {event.reason}")

    def _on_timed_out(self, event: SlotTimedOut) -> Sequence[SlotCommand]:
        slot = self._slots.get(event.allocation_id)
        if slot is None or slot.state is not SlotState.ALLOCATED:
            return ()
        self._forget(slot)
        return (ReportSlotFreed(slot.allocation_id),)

    def _on_task_added(self, event: TaskAdded) -> Sequence[SlotCommand]:
        slot = self._slots.get(event.allocation_id)
        if slot is None or slot.job_id != event.attempt.job_id:
            return (
                _refuse(
                    f"no slot here is allocated to job {event.attempt.job_id} as {event.allocation_id}; "
                    "it timed out, was freed, or never was"
                ),
            )
        if slot.state is SlotState.RELEASING:
            return (_refuse(f"slot {slot.index} ({event.allocation_id}) is being freed and takes no more tasks"),)
        slot.tasks.add(event.attempt)
        if slot.state is SlotState.ACTIVE:
            return ()
        slot.state = SlotState.ACTIVE
        return (StopSlotTimer(slot.allocation_id),)

    def _on_task_removed(self, event: TaskRemoved) -> Sequence[SlotCommand]:
        slot = self._slots.get(event.allocation_id)
        if slot is None:
            return ()
        slot.tasks.discard(event.attempt)
        if slot.tasks or slot.state is not SlotState.RELEASING:
            return ()
        self._forget(slot)
        return (ReportSlotFreed(slot.allocation_id),)

    def _on_loss_grace_over(self) -> Sequence[SlotCommand]:
        return [command for slot in tuple(self._slots.values()) for command in self._free(slot, "JobManager lost")]

    def _forget(self, slot: _Slot) -> None:
        del self._slots[slot.allocation_id]
        self._freed.append(slot.allocation_id)

    def _free(self, slot: _Slot, reason: str) -> Sequence[SlotCommand]:
        if slot.state is SlotState.RELEASING:
            return ()
        if slot.tasks:
            slot.state = SlotState.RELEASING
            lost = ErrorInfo.of(SubtaskLost(reason))
            return (FailTasks(tuple(sorted(slot.tasks)), lost),)
        self._forget(slot)
        freed = ReportSlotFreed(slot.allocation_id)
        if slot.state is SlotState.ALLOCATED:
            return (StopSlotTimer(slot.allocation_id), freed)
        return (freed,)


def fence(generation: Generation, registered: Generation | None) -> ErrorInfo | None:
    """Returns the error with which a message of another generation of the JobManager is refused; ``None`` if the generation is the registered one."""
    if generation == registered:
        return None
    here = f"registered with generation {registered}" if registered else "not registered with any JobManager"
    return ErrorInfo.of(Fenced(f"a message of JobManager generation {generation}, but this TaskManager is {here}"))


def _refuse(message: str) -> Refuse:
    return Refuse(ErrorInfo.of(NoResourceAvailable(message)))
