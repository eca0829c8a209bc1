"""The slots of one registered TaskManager, as the JobManager knows them.

           AllocateSlot         answered            FreeSlot          SlotFreed, or reported free
    FREE ───────────────▶ PENDING ───────▶ ALLOCATED ───────▶ FREEING ───────────────────────────▶ FREE
                             │ refused, or no answer    ▲
                             ▼                          │ reported with an unknown allocation
                          UNKNOWN ──────────────────────┤
                             ├── reported free ──▶ FREE  (or FREE ─ reported with an allocation ─▶ FREEING)
                             └── registered with an allocation of a job that awaits its subtasks ──▶ ALLOCATED

A report may be older than the last answer (it travels on another connection), so an ALLOCATED slot is given up only when
two reports in a row contradict it. Follows Flink's ``FineGrainedSlotManager.java``: reports correct the JobManager's view.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.jobmanager.machines.events import ReportedSlot
from tidegate.model.ids import AllocationId, JobId

CONTRADICTIONS_TOLERATED = 1
"""How many heartbeats in a row may contradict an allocation: one may have been sent before the request arrived."""


class SlotState(Enum):
    """The states of a slot."""

    FREE = "FREE"
    PENDING = "PENDING"
    ALLOCATED = "ALLOCATED"
    FREEING = "FREEING"
    UNKNOWN = "UNKNOWN"


@dataclass(slots=True)
class Slot:
    """A slot of a TaskManager, and the job that uses it."""

    index: int
    state: SlotState = SlotState.FREE
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    contradictions: int = 0
    free_is_open: bool = False
    """Whether a FreeSlot call is open."""

    def assign(self, allocation_id: AllocationId, job_id: JobId) -> None:
        assert self.state is SlotState.FREE, self
        self.state, self.allocation_id, self.job_id, self.contradictions = SlotState.PENDING, allocation_id, job_id, 0

    def vacate(self) -> None:
        self.state, self.allocation_id, self.job_id = SlotState.FREE, None, None

    def claim(self, allocation_id: AllocationId, job_id: JobId) -> None:
        """Takes over an allocation that an earlier JobManager made for the job and that the TaskManager reports."""
        assert self.state is SlotState.UNKNOWN, self
        self.state, self.allocation_id, self.job_id, self.contradictions = SlotState.ALLOCATED, allocation_id, job_id, 0

    def forget(self) -> None:
        """Marks the slot as UNKNOWN until the next report."""
        self.state, self.allocation_id, self.job_id = SlotState.UNKNOWN, None, None

    def confirm(self) -> None:
        """Marks the slot as allocated, because its TaskManager has given it to the job."""
        self.state = SlotState.ALLOCATED

    def order_free(self) -> None:
        """Notes that a FreeSlot call is open."""
        self.free_is_open = True

    def release(self) -> None:
        """Marks the slot as being freed, because its job does not need it any longer."""
        self.state = SlotState.FREEING

    def on_free_answered(self) -> None:
        self.free_is_open = False

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when its state contradicts its allocation."""
        is_empty = self.state in (SlotState.FREE, SlotState.UNKNOWN)
        assert is_empty == (self.allocation_id is None), f"{self.state.value} with allocation {self.allocation_id}"
        owned = self.state not in (SlotState.PENDING, SlotState.ALLOCATED) or self.job_id is not None
        assert owned, f"slot {self.index} is {self.state.value} for no job"
        is_sure = self.state is not SlotState.ALLOCATED or self.contradictions <= CONTRADICTIONS_TOLERATED
        assert is_sure, f"{self.contradictions} reports contradict slot {self.index}"


@dataclass(frozen=True, slots=True)
class FreeIt:
    """A slot holds an allocation that it should not hold: FreeSlot has to be ordered."""

    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class AllocationGone:
    """An allocation does not exist any longer, and the tasks in it are lost."""

    allocation_id: AllocationId
    job_id: JobId


Correction = FreeIt | AllocationGone


def decide_report(slot: Slot, reported: ReportedSlot) -> list[Correction]:
    """Corrects one slot by the report of its TaskManager; returns what has to be done about it."""
    if slot.state is SlotState.PENDING:
        return []
    if slot.state is SlotState.ALLOCATED:
        if reported.allocation_id == slot.allocation_id:
            slot.contradictions = 0
            return []
        slot.contradictions += 1
        if slot.contradictions <= CONTRADICTIONS_TOLERATED:
            return []
        assert slot.allocation_id is not None
        assert slot.job_id is not None
        gone = AllocationGone(slot.allocation_id, slot.job_id)
        slot.forget()
        return [gone, *decide_report(slot, reported)]
    if reported.allocation_id is None:
        slot.vacate()
        return []
    slot.state, slot.allocation_id, slot.job_id = SlotState.FREEING, reported.allocation_id, reported.job_id
    return [] if slot.free_is_open else [FreeIt(reported.allocation_id)]
