"""The ResourceManager: which TaskManagers are registered, whether they are alive, and which of their slots are free.

    REGISTERED ──its connection breaks──▶ SUSPENDED ──reconnect-timeout · its process is gone──▶ lost
        ▲  │                                  │
        │  └──silent for heartbeat.timeout────┼──────────────────────────────────────────────────▶ lost
        └──registration or heartbeat──────────┘   (nothing is placed there meanwhile)

It is also lost when another process registers under its name. Follows Flink's ``ResourceManager.java``; registration again with
the same session changes nothing, with another session it replaces the old one, whose tasks are lost first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tidegate.jobmanager.machines.command_buffer import CallKind, CommandBuffer, OpenCall
from tidegate.jobmanager.machines.commands import AllocateSlot, CloseTaskManager, FreeSlot
from tidegate.jobmanager.machines.events import ReportedSlot, TaskManagerRegistered
from tidegate.jobmanager.machines.resources.slots import AllocationGone, FreeIt, Slot, SlotState, decide_report
from tidegate.jobmanager.machines.settings import ClusterSettings
from tidegate.model.ids import AllocationId, JobId, TaskManagerId

HEARTBEAT_TIMER = "heartbeat"
STOOD_STILL_MS = 1_000
"""If the timeout timer fires later than this, in ms, the JobManager itself was suspended, and the TaskManager gets more time.

Chosen, not measured: a busy machine delays a timer by tenths of a second.
"""


@dataclass(slots=True)
class RegisteredTaskManager:
    """A registered TaskManager with its slots."""

    registration: TaskManagerRegistered
    slots: dict[int, Slot]
    registered_ms: int
    last_heartbeat_ms: int
    expires_ms: int = 0
    """When the TaskManager is lost, unless a heartbeat comes before."""
    broken: str = ""
    """Why its connection broke; empty while it is connected."""
    is_draining: bool = False
    """Whether it is about to be stopped, so that no slot of it is allocated."""

    @property
    def free_slots(self) -> list[Slot]:
        if self.is_draining or self.broken:
            return []
        return [slot for slot in self.slots.values() if slot.state is SlotState.FREE]

    @property
    def is_empty(self) -> bool:
        """Tells whether all its slots are free, as far as is known."""
        return all(slot.state is SlotState.FREE for slot in self.slots.values())

    def drain(self) -> None:
        self.is_draining = True

    def suspend(self, reason: str) -> None:
        self.broken = reason or "no reason is known"

    def resume(self, now_ms: int) -> None:
        self.last_heartbeat_ms, self.broken = now_ms, ""

    def expire_at(self, at_ms: int) -> None:
        self.expires_ms = at_ms


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of an allocated slot: its TaskManager, and its index there."""

    task_manager_id: TaskManagerId
    slot_index: int


class ResourceManager:
    """Registers TaskManagers and allocates their slots. ``take_news`` tells whether a slot became free, so that waiting jobs can ask again."""

    def __init__(self, settings: ClusterSettings, buffer: CommandBuffer) -> None:
        self._settings = settings
        self._buffer = buffer
        self._task_managers: dict[TaskManagerId, RegisteredTaskManager] = {}
        self._slot_of: dict[AllocationId, tuple[TaskManagerId, Slot]] = {}
        self._has_news = False

    def __iter__(self) -> Iterator[RegisteredTaskManager]:
        return iter(self._task_managers.values())

    def find(self, task_manager_id: TaskManagerId, session: str | None = None) -> RegisteredTaskManager | None:
        """Returns a registered TaskManager; ``None`` when there is none, or when ``session`` is given and differs."""
        found = self._task_managers.get(task_manager_id)
        return found if found and session in (None, found.registration.session) else None

    def register(self, event: TaskManagerRegistered, awaiting: Collection[JobId] = ()) -> list[AllocationGone]:
        """Registers a TaskManager; returns allocations that turned out to be gone.

        An earlier session of this id must have been removed (``lose``). ``awaiting``: jobs of an earlier JobManager that keep the
        slots that they hold there.
        """
        known = self._task_managers.get(event.task_manager_id)
        if known is None:
            self._buffer.log(
                "INFO",
                f"TaskManager {event.task_manager_id} registered with {len(event.slots)} slots",
                address=event.address,
                session=event.session,
            )
            slots = {s.index: Slot(s.index, SlotState.UNKNOWN) for s in event.slots}
            known = RegisteredTaskManager(event, slots, self._buffer.now_ms, self._buffer.now_ms)
            self._task_managers[event.task_manager_id] = known
            self._buffer.connect(event.task_manager_id)
            for reported in event.slots:
                job_id, allocation_id = reported.job_id, reported.allocation_id
                if allocation_id is not None and job_id is not None and job_id in awaiting:
                    self._claim(event.task_manager_id, slots[reported.index], allocation_id, job_id)
        return self.on_report(event.task_manager_id, event.slots)

    def lose(self, task_manager_id: TaskManagerId, reason: str) -> None:
        """Removes a lost TaskManager. The caller notifies the jobs."""
        lost = self._task_managers.pop(task_manager_id)
        for slot in lost.slots.values():
            if slot.allocation_id is not None:
                self._slot_of.pop(slot.allocation_id, None)
        self._buffer.disconnect(task_manager_id)
        self._buffer.cancel_timer(f"{HEARTBEAT_TIMER}/{task_manager_id}")
        self._buffer.emit(CloseTaskManager(task_manager_id, lost.registration.session, reason))
        level = "INFO" if lost.is_draining else "WARN"
        self._buffer.log(level, f"TaskManager {task_manager_id} is lost: {reason}")

    def suspend(self, task_manager_id: TaskManagerId, reason: str) -> bool:
        """Handles a broken connection; returns whether the TaskManager may reconnect. Until then its tasks are not lost, and none of its slots
        is allocated.
        """
        if self._settings.reconnect_timeout_ms == 0:
            return False
        task_manager = self._task_managers[task_manager_id]
        if not task_manager.broken:
            limit_ms = min(self._settings.reconnect_timeout_ms, self._settings.heartbeat_timeout_ms)
            text = (
                f"the connection of TaskManager {task_manager_id} broke ({reason}); it has {limit_ms} ms to reconnect"
            )
            self._buffer.log("WARN", text)
            self.expect(task_manager, limit_ms)
        task_manager.suspend(reason)
        return True

    def wait_for_silent(self, task_manager_id: TaskManagerId) -> None:
        """Gives a TaskManager whose process is suspended, so that it cannot reconnect, until ``heartbeat.timeout``."""
        task_manager = self._task_managers[task_manager_id]
        until_ms = task_manager.last_heartbeat_ms + self._settings.heartbeat_timeout_ms
        if task_manager.broken and until_ms > task_manager.expires_ms:
            within_ms = until_ms - self._buffer.now_ms
            text = f"the process of TaskManager {task_manager_id} does not respond; it is lost in {within_ms} ms (heartbeat.timeout)"
            self._buffer.log("WARN", text)
            self.expect(task_manager, within_ms)

    def on_timeout(self, task_manager_id: TaskManagerId) -> str | None:
        """Handles the timeout of a TaskManager. Returns why it is lost; ``None`` when this JobManager was suspended itself and gives it more time."""
        task_manager = self._task_managers[task_manager_id]
        late_ms = self._buffer.now_ms - task_manager.expires_ms
        if late_ms > STOOD_STILL_MS and self._settings.reconnect_timeout_ms > 0:
            text = f"this JobManager was paused for {late_ms} ms, so TaskManager {task_manager_id} gets more time to reconnect"
            self._buffer.log("WARN", text)
            self.expect(task_manager, self._settings.reconnect_timeout_ms)
            return None
        if not task_manager.broken:
            return "it sent no heartbeat (heartbeat.timeout)"
        is_silent = self._buffer.now_ms >= task_manager.last_heartbeat_ms + self._settings.heartbeat_timeout_ms
        limit = "heartbeat.timeout" if is_silent else "tidegate.taskmanager.reconnect-timeout"
        return f"its connection broke ({task_manager.broken}), and it did not reconnect ({limit})"

    def drain(self, task_manager_id: TaskManagerId) -> None:
        """Stops allocating slots of a TaskManager. No-op for one that is not registered."""
        if task_manager_id in self._task_managers:
            self._task_managers[task_manager_id].drain()

    def on_report(self, task_manager_id: TaskManagerId, report: Iterable[ReportedSlot]) -> list[AllocationGone]:
        """Handles a heartbeat or registration with the slots of a TaskManager. Returns the allocations that turned out to be gone."""
        task_manager = self._task_managers[task_manager_id]
        was_broken = bool(task_manager.broken)
        if was_broken:
            self._buffer.log("INFO", f"TaskManager {task_manager_id} is back")
        task_manager.resume(self._buffer.now_ms)
        self._has_news |= was_broken and bool(task_manager.free_slots)
        self.expect(task_manager, self._settings.heartbeat_timeout_ms)
        gone: list[AllocationGone] = []
        for reported in report:
            slot = task_manager.slots.setdefault(reported.index, Slot(reported.index, SlotState.UNKNOWN))
            was_free, held = slot.state is SlotState.FREE, slot.allocation_id
            for correction in decide_report(slot, reported):
                if isinstance(correction, FreeIt):
                    self._order_free(task_manager_id, slot, correction.allocation_id, "not known to the JobManager")
                else:
                    gone.append(correction)
            if held is not None and slot.allocation_id != held:
                self._slot_of.pop(held, None)
            self._has_news |= slot.state is SlotState.FREE and not was_free
        return gone

    def held_by(self, job_id: JobId) -> dict[AllocationId, Placement]:
        """Returns the allocated slots of a job, with where they are."""
        return {
            allocation_id: Placement(task_manager_id, slot.index)
            for allocation_id, (task_manager_id, slot) in self._slot_of.items()
            if slot.job_id == job_id and slot.state is SlotState.ALLOCATED
        }

    @property
    def free_slot_count(self) -> int:
        return sum(len(tm.free_slots) for tm in self._task_managers.values())

    def free_on_one(self, task_manager_id: TaskManagerId | None) -> list[Placement]:
        """Returns the free slots of this TaskManager; ``None``: of the one that has most of them."""
        found = [tm for tm in self if task_manager_id in (None, tm.registration.task_manager_id)]
        best = max(found, key=lambda tm: len(tm.free_slots), default=None)
        if best is None:
            return []
        return [Placement(best.registration.task_manager_id, slot.index) for slot in best.free_slots]

    def decide_placement(self, wanted: int, preferred: Iterable[Placement | None]) -> list[Placement] | None:
        """Returns a free slot for each of ``wanted`` requests, or ``None`` if there are too few. ``preferred``: the slot that each had before."""
        free = {Placement(tm.registration.task_manager_id, s.index): None for tm in self for s in tm.free_slots}
        if len(free) < wanted:
            return None
        chosen: list[Placement | None] = []
        for before in preferred:
            chosen.append(before if before in free else None)
            if chosen[-1] is not None:
                del free[chosen[-1]]
        rest = iter(self._spread(list(free)) if self._settings.spread_out else list(free))
        return [placement or next(rest) for placement in chosen]

    def allocate(self, placement: Placement, job_id: JobId, allocation_id: AllocationId) -> None:
        slot = self._task_managers[placement.task_manager_id].slots[placement.slot_index]
        slot.assign(allocation_id, job_id)
        self._slot_of[allocation_id] = (placement.task_manager_id, slot)
        tm = placement.task_manager_id
        call_id = self._buffer.open_call(OpenCall(CallKind.ALLOCATE, tm, job_id=job_id, allocation_id=allocation_id))
        self._buffer.emit(AllocateSlot(call_id, tm, job_id, allocation_id, placement.slot_index))

    def on_allocate_answered(self, allocation_id: AllocationId, *, success: bool) -> None:
        found = self._slot_of.get(allocation_id)
        if found is None or found[1].state is not SlotState.PENDING:
            return
        if success:
            found[1].confirm()
            return
        del self._slot_of[allocation_id]
        found[1].forget()
        self._order_free(found[0], found[1], allocation_id, "allocation was not confirmed")

    def free(self, allocation_id: AllocationId, reason: str) -> None:
        """Frees an allocation that its job does not need any longer."""
        found = self._slot_of.get(allocation_id)
        if found is None or found[1].state is SlotState.FREEING:
            return
        found[1].release()
        self._order_free(found[0], found[1], allocation_id, reason)

    def on_free_answered(self, allocation_id: AllocationId, task_manager_id: TaskManagerId) -> None:
        """Notes that a FreeSlot call is over. The slot is free when SlotFreed arrives; a failed call is repeated at the next report that shows
        the allocation.
        """
        task_manager = self._task_managers.get(task_manager_id)
        for slot in task_manager.slots.values() if task_manager else ():
            if slot.free_is_open and slot.allocation_id in (allocation_id, None):
                slot.on_free_answered()

    def on_freed(self, task_manager_id: TaskManagerId, allocation_id: AllocationId) -> AllocationGone | None:
        """Handles SlotFreed; returns the allocation that a job has lost by it, or ``None`` when the job had released it."""
        task_manager = self._task_managers.get(task_manager_id)
        slots = task_manager.slots.values() if task_manager else ()
        slot = next((s for s in slots if s.allocation_id == allocation_id), None)
        if slot is None:
            return None
        was, job_id = slot.state, slot.job_id
        self._slot_of.pop(allocation_id, None)
        slot.vacate()
        self._has_news = True
        lost = was in (SlotState.PENDING, SlotState.ALLOCATED) and job_id is not None
        return AllocationGone(allocation_id, job_id) if lost and job_id else None

    def take_news(self) -> bool:
        """Tells whether a slot became free since the last call."""
        news, self._has_news = self._has_news, False
        return news

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when slots and allocations contradict each other."""
        held: dict[AllocationId, tuple[TaskManagerId, int]] = {}
        for task_manager_id, task_manager in self._task_managers.items():
            assert self._buffer.is_connected(task_manager_id), f"{task_manager_id} is registered, and cannot be called"
            for slot in task_manager.slots.values():
                slot.check_invariants()
                if slot.allocation_id is not None and slot.state in (SlotState.PENDING, SlotState.ALLOCATED):
                    assert slot.allocation_id not in held, f"allocation {slot.allocation_id} is in two slots"
                    held[slot.allocation_id] = (task_manager_id, slot.index)
        known = {allocation: (tm, slot.index) for allocation, (tm, slot) in self._slot_of.items()}
        missing = {allocation: place for allocation, place in held.items() if known.get(allocation) != place}
        assert not missing, f"allocations {missing} are not where they are looked up: {known}"

    def expect(self, task_manager: RegisteredTaskManager, within_ms: int) -> None:
        """Starts the timeout after which the TaskManager is lost unless a heartbeat comes before."""
        task_manager.expire_at(self._buffer.now_ms + within_ms)
        self._buffer.start_timer(f"{HEARTBEAT_TIMER}/{task_manager.registration.task_manager_id}", within_ms)

    def _claim(self, tm: TaskManagerId, slot: Slot, allocation_id: AllocationId, job_id: JobId) -> None:
        if allocation_id not in self._slot_of:
            slot.claim(allocation_id, job_id)
            self._slot_of[allocation_id] = (tm, slot)

    def _order_free(self, tm: TaskManagerId, slot: Slot, allocation_id: AllocationId, reason: str) -> None:
        slot.order_free()
        call_id = self._buffer.open_call(OpenCall(CallKind.FREE, tm, allocation_id=allocation_id))
        self._buffer.emit(FreeSlot(call_id, tm, allocation_id, reason))

    def _spread(self, free: list[Placement]) -> list[Placement]:
        """Orders free slots so that each is of the TaskManager with the smallest used share at that point."""
        by_manager: dict[TaskManagerId, list[Placement]] = {}
        for placement in free:
            by_manager.setdefault(placement.task_manager_id, []).append(placement)
        ranked: list[tuple[float, int, Placement]] = []
        for order, (task_manager_id, placements) in enumerate(by_manager.items()):
            total = len(self._task_managers[task_manager_id].slots)
            used = total - len(placements)
            ranked.extend(((used + taken) / total, order, p) for taken, p in enumerate(placements))
        return [placement for _, _, placement in sorted(ranked, key=lambda r: r[:2])]
