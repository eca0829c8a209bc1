"""Deploys subtasks of pipelined jobs: a batch waits until all its slots are confirmed, then all of it is submitted.

All slots of a batch are requested or none, so that two jobs never wait for each other's.
Follows Flink's ``PipelinedRegionSchedulingStrategy.java`` and ``PhysicalSlotRequestBulkCheckerImpl.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.scheduling.deployments import Deployments
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.job_slots import JobSlots
from tidegate.jobmanager.machines.scheduling.port import SLOT_REQUEST_TIMER
from tidegate.jobmanager.machines.scheduling.slot_sharing import SharedSlot, SlotSharing
from tidegate.jobmanager.machines.settings import JobSettings
from tidegate.model.errors import ErrorInfo, NoResourceAvailable
from tidegate.model.ids import AllocationId, SubtaskId, TaskManagerId
from tidegate.model.states import ExecutionState


@dataclass(slots=True)
class _Batch:
    number: int
    subtasks: dict[SubtaskId, None]
    slots: dict[SharedSlot, None]
    unready: dict[SharedSlot, None]
    """Those of ``slots`` that no TaskManager has confirmed yet."""


class Scheduler:
    """The scheduler of a pipelined job, whose subtasks all run at the same time."""

    def __init__(
        self,
        graph: ExecutionGraph,
        settings: JobSettings,
        deployments: Deployments,
        resources: ResourceManager,
        buffer: CommandBuffer,
    ) -> None:
        self._graph = graph
        self._job_id = graph.graph.job_id
        self._settings = settings
        self._resources = resources
        self._buffer = buffer
        self._sharing = SlotSharing(graph.graph)
        self._slots = JobSlots(graph, settings, deployments, resources, buffer)
        self._pool = self._slots.pool
        self._batches: dict[int, _Batch] = {}
        self._last_batch = 0

    @property
    def waiting_for(self) -> str:
        """Returns what the job waits for, such as ``2 of 4 slots``; empty when it waits for nothing."""
        wanted = self._wanted_slots()
        missing = len(self._pool.missing(wanted))
        return f"{max(1, missing - self._resources.free_slot_count)} of {len(wanted)} slots" if missing else ""

    @property
    def wanted_slots(self) -> int:
        """Returns how many slots the job needs in total, without those in which everything has finished."""
        return sum(not self._is_idle(slot) for slot in self._sharing.slots)

    @property
    def missing_slots(self) -> int:
        """Returns how many of the needed slots the job does not hold."""
        return sum(not self._is_idle(slot) for slot in self._pool.missing(self._sharing.slots))

    @property
    def held_slots(self) -> int:
        return len(self._pool)

    @property
    def waiting_batches(self) -> list[int]:
        """Returns the numbers of batches that lack a slot."""
        return [number for number, batch in self._batches.items() if self._pool.missing(batch.slots)]

    def schedule(self, subtasks: Iterable[SubtaskId]) -> None:
        """Schedules CREATED executions as one batch, to be deployed together."""
        self._last_batch += 1
        batch = _Batch(self._last_batch, dict.fromkeys(subtasks), {}, {})
        for subtask in batch.subtasks:
            batch.slots[self._sharing.slot_of(subtask)] = None
            self._graph.move(self._graph[subtask], ExecutionState.SCHEDULED, self._buffer.now_ms)
        self._batches[batch.number] = batch
        self._buffer.start_timer(
            self._slots.timer(SLOT_REQUEST_TIMER, batch.number), self._settings.slot_request_timeout_ms
        )
        self.advance()

    def adopt(self, execution: Execution) -> None:
        """Takes over an execution that runs or has finished in a slot which an earlier JobManager allocated."""
        allocation_id, task_manager_id = execution.allocation_id, execution.task_manager_id
        assert allocation_id is not None, execution.attempt
        placement = self._resources.held_by(self._job_id).get(allocation_id)
        assert placement is not None, f"{execution.attempt} is in no slot of the job"
        assert placement.task_manager_id == task_manager_id, f"{execution.attempt} is not on {task_manager_id}"
        if self._pool.find(allocation_id) is None:
            self._pool.add(self._sharing.slot_of(execution.subtask_id), allocation_id, placement).confirm()

    def close_adoption(self) -> None:
        """Gives slots back: at once those in which nothing was adopted, and after the idle timeout those in which everything has finished."""
        for allocation_id in self._resources.held_by(self._job_id):
            if self._pool.find(allocation_id) is None:
                self._resources.free(allocation_id, "no subtask of the job goes on in it")
        for execution in self._graph:
            if execution.state is ExecutionState.FINISHED:
                self.on_finished(execution)

    def unschedule(self, subtask: SubtaskId) -> None:
        """Removes a subtask that is canceled before it was deployed."""
        for batch in list(self._batches.values()):
            if batch.subtasks.pop(subtask, 0) is None and not batch.subtasks:
                self._close(batch)

    def advance(self) -> None:
        """Requests slots that are free now, and deploys batches whose slots are all confirmed."""
        for batch in list(self._batches.values()):
            batch.unready = dict.fromkeys(self._pool.unready(batch.slots))
            missing = self._pool.missing(batch.unready)
            if missing:
                self._ask(missing)
            self._deploy_if_ready(batch)

    def on_no_slots(self, number: int, why: str = "") -> tuple[ErrorInfo, tuple[SubtaskId, ...]] | None:
        """Returns the error of a batch that waited too long or will not get slots (``why``), and its subtasks; ``None`` if the batch does not
        wait.
        """
        batch = self._batches.get(number)
        if batch is None:
            return None
        return self._no_resources(batch, why), tuple(batch.subtasks)

    def on_allocated(self, allocation_id: AllocationId) -> None:
        allocation = self._pool.find(allocation_id)
        if allocation is None:
            return
        allocation.confirm()
        for batch in list(self._batches.values()):
            batch.unready.pop(allocation.slot, None)
            self._deploy_if_ready(batch)

    def on_allocation_lost(self, allocation_id: AllocationId) -> list[Execution]:
        """Removes a slot that was refused, freed or lost; returns the executions that ran there."""
        allocation = self._pool.remove(allocation_id)
        if allocation is None:
            return []
        for batch in self._batches.values():
            if allocation.slot in batch.slots:
                batch.unready[allocation.slot] = None
        executions = [self._graph[s] for s in self._sharing.subtasks_of(allocation.slot)]
        return [e for e in executions if e.is_deployed and e.allocation_id == allocation_id]

    def on_task_manager_lost(self, task_manager_id: TaskManagerId) -> list[Execution]:
        lost: list[Execution] = []
        for allocation in self._pool.on_task_manager(task_manager_id):
            lost.extend(self.on_allocation_lost(allocation.allocation_id))
        return lost

    def executions_on(self, task_manager_id: TaskManagerId) -> list[Execution]:
        """Returns the executions that are deployed on a TaskManager now."""
        return [
            execution
            for allocation in self._pool.on_task_manager(task_manager_id)
            for execution in map(self._graph.__getitem__, self._sharing.subtasks_of(allocation.slot))
            if execution.is_deployed and execution.task_manager_id == task_manager_id
        ]

    def on_finished(self, execution: Execution) -> None:
        """Marks the slot as idle if everything in it has finished: it is given back after ``slot.idle.timeout``."""
        slot = self._sharing.slot_of(execution.subtask_id)
        allocation = self._pool.of(slot)
        if allocation is None or not self._is_idle(slot):
            return
        self._slots.rest(allocation)

    def on_idle_timeout(self) -> None:
        for allocation in self._pool.allocations:
            if allocation.idle_since_ms is not None and self._is_idle(allocation.slot):
                self._slots.give_back(allocation.allocation_id, "idle")

    def reshape(self) -> None:
        """Adapts to a changed parallelism, before anything of it is deployed; slots that are not needed are given back."""
        assert not self._batches, f"batches {list(self._batches)} of the old shape wait for slots"
        self._sharing = SlotSharing(self._graph.graph)
        needed = set(self._sharing.slots)
        for allocation in self._pool.allocations:
            if allocation.slot not in needed:
                self._slots.give_back(allocation.allocation_id, "the job has another shape now")

    def ends_finished_work(self, failure: ErrorInfo) -> bool:
        """Returns ``False``: the state of finished subtasks is in a checkpoint."""
        return False

    def close(self) -> None:
        """Gives every slot back, because the job has ended."""
        for batch in list(self._batches.values()):
            self._close(batch)
        self._slots.close()

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when what waits for slots contradicts the states of the executions."""
        self._slots.check_invariants()
        batched = [subtask for batch in self._batches.values() for subtask in batch.subtasks]
        waiting = {execution.subtask_id for execution in self._graph if execution.state is ExecutionState.SCHEDULED}
        assert len(batched) == len(set(batched)), f"some wait in two batches: {batched}"
        assert set(batched) == waiting, f"{batched} wait in batches, SCHEDULED are {waiting}"
        for batch in self._batches.values():
            assert batch.unready, f"batch {batch.number} has all of its slots, and is not deployed"
            assert batch.unready.keys() <= batch.slots.keys(), f"batch {batch.number} waits for slots of others"

    def _ask(self, missing: list[SharedSlot]) -> None:
        placements = self._resources.decide_placement(len(missing), map(self._pool.previous, missing))
        for slot, placement in zip(missing, placements or (), strict=False):
            self._slots.request(placement, slot)

    def _deploy_if_ready(self, batch: _Batch) -> None:
        if batch.unready:
            return
        self._close(batch)
        placed = []
        for subtask in batch.subtasks:
            allocation = self._pool.of(self._sharing.slot_of(subtask))
            assert allocation is not None, subtask
            placed.append((self._graph[subtask], allocation))
        self._slots.deploy(placed)

    def _close(self, batch: _Batch) -> None:
        del self._batches[batch.number]
        self._buffer.cancel_timer(self._slots.timer(SLOT_REQUEST_TIMER, batch.number))

    def _is_idle(self, slot: SharedSlot) -> bool:
        return all(self._graph[s].state is ExecutionState.FINISHED for s in self._sharing.subtasks_of(slot))

    def _wanted_slots(self) -> list[SharedSlot]:
        return [slot for batch in self._batches.values() for slot in batch.slots]

    def _no_resources(self, batch: _Batch, why: str) -> ErrorInfo:
        missing = len(self._pool.missing(batch.slots)) or len(batch.unready)
        short = max(1, missing - self._resources.free_slot_count)
        managers = list(self._resources)
        total = sum(len(tm.slots) for tm in managers)
        there = f"{len(managers)} TaskManager{'' if len(managers) == 1 else 's'} with {total} slot{'' if total == 1 else 's'}"
        subtasks = (self._graph[s] for slot in batch.slots for s in self._sharing.subtasks_of(slot))
        advice = (
            f"start a TaskManager, lower the parallelism, or raise slot.request.timeout "
            f"({self._settings.slot_request_timeout_ms} ms)"
        )
        error = ErrorInfo.of(
            NoResourceAvailable(
                f"{short} of {len(batch.slots)} slots are missing; registered: {there if managers else 'no TaskManager'}; "
                f"{why or advice}"
            )
        )
        # A job that never had its slots does not wait for them for ever, however patient its restart strategy: the user
        # gets an error. (Flink passes this to the strategy, too.)
        return replace(error, retriable=any(execution.attempt.attempt > 0 for execution in subtasks))
