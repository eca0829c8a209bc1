"""The scheduler of a job with blocking exchanges: deploys a subtask when its producers have finished, in any free slot of the job.

A job therefore needs one slot, and runs faster with more.

    CREATED ──producers FINISHED──▶ SCHEDULED ──a slot is free──▶ deployed ──over──▶ the slot takes the next one

Laws: one subtask in a slot; all slots are of one TaskManager, whose Spark stores the output of its subtasks, and at least one is kept until the
job ends, since the stored output is lost with the last. When that TaskManager is lost everything runs again. Follows Flink's
``PipelinedRegionSchedulingStrategy.java`` for blocking edges, where slots may be anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.scheduling.deployments import Deployments
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.job_slots import JobSlots
from tidegate.jobmanager.machines.scheduling.port import SLOT_REQUEST_TIMER
from tidegate.jobmanager.machines.scheduling.slot_pool import Allocation
from tidegate.jobmanager.machines.settings import JobSettings
from tidegate.model.errors import ErrorInfo, NoResourceAvailable, OutputLost
from tidegate.model.ids import AllocationId, SubtaskId, TaskManagerId
from tidegate.model.states import ExecutionState

_BATCH = 1
"""The number of the only batch: all waiting subtasks, any of which a slot can serve."""
_FINISHED = ExecutionState.FINISHED


class StagedScheduler:
    """Implements ``tidegate.jobmanager.machines.scheduling.port.SubtaskScheduler``."""

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
        self._slots = JobSlots(graph, settings, deployments, resources, buffer)
        self._pool = self._slots.pool
        self._occupants: dict[AllocationId, SubtaskId] = {}
        self._held_back: dict[SubtaskId, None] = {}
        """Subtasks that are CREATED, because a producer of theirs has not finished."""
        self._ready: dict[SubtaskId, None] = {}
        """Subtasks that are SCHEDULED and wait for a slot, oldest first."""
        self._has_lost_slots = False

    @property
    def waiting_for(self) -> str:
        return "1 of 1 slots" if self.missing_slots else ""

    @property
    def wanted_slots(self) -> int:
        return max(len(self._pool), self.missing_slots)

    @property
    def missing_slots(self) -> int:
        return int(bool(self._ready) and not len(self._pool))

    @property
    def held_slots(self) -> int:
        return len(self._pool)

    @property
    def waiting_batches(self) -> list[int]:
        return [_BATCH] if self.missing_slots else []

    def schedule(self, subtasks: Iterable[SubtaskId]) -> None:
        self._has_lost_slots = False
        self._held_back.update(dict.fromkeys(subtasks))
        self.advance()

    def reshape(self) -> None:
        raise AssertionError("a job with blocking exchanges cannot be rescaled")

    def adopt(self, execution: Execution) -> None:
        raise AssertionError(
            f"{execution.attempt} cannot be adopted: a new JobManager restarts a job with blocking exchanges from its beginning"
        )

    def close_adoption(self) -> None:
        raise AssertionError("a new JobManager restarts a job with blocking exchanges from its beginning")

    def unschedule(self, subtask: SubtaskId) -> None:
        self._held_back.pop(subtask, None)
        self._ready.pop(subtask, None)
        self._watch_the_time()

    def advance(self) -> None:
        for subtask in [subtask for subtask in self._held_back if self._may_begin(subtask)]:
            del self._held_back[subtask]
            self._ready[subtask] = None
            self._graph.move(self._graph[subtask], ExecutionState.SCHEDULED, self._buffer.now_ms)
        self._deploy()
        pending = sum(not allocation.is_ready for allocation in self._pool.allocations)
        if len(self._ready) > pending:
            self._ask(len(self._ready) - pending)
        self._watch_the_time()

    def on_no_slots(self, number: int, why: str = "") -> tuple[ErrorInfo, tuple[SubtaskId, ...]] | None:
        if not self.missing_slots:
            return None
        advice = f"start a TaskManager, or raise slot.request.timeout ({self._settings.slot_request_timeout_ms} ms)"
        managers = len(list(self._resources))
        error = NoResourceAvailable(
            f"the job needs a slot, and none is free on the {managers} registered TaskManagers; {why or advice}"
        )
        return ErrorInfo.of(error), tuple(self._ready)

    def on_allocated(self, allocation_id: AllocationId) -> None:
        allocation = self._pool.find(allocation_id)
        if allocation is not None:
            allocation.confirm()
            self._deploy()

    def on_allocation_lost(self, allocation_id: AllocationId) -> list[Execution]:
        if self._pool.remove(allocation_id) is None:
            return []
        self._has_lost_slots = not len(self._pool)
        occupant = self._occupants.pop(allocation_id, None)
        execution = None if occupant is None else self._graph[occupant]
        return [execution] if execution is not None and self._lives_in(execution, allocation_id) else []

    def on_task_manager_lost(self, task_manager_id: TaskManagerId) -> list[Execution]:
        found = self._pool.on_task_manager(task_manager_id)
        return [execution for one in found for execution in self.on_allocation_lost(one.allocation_id)]

    def executions_on(self, task_manager_id: TaskManagerId) -> list[Execution]:
        here = [allocation.allocation_id for allocation in self._pool.on_task_manager(task_manager_id)]
        placed = [(found, self._graph[self._occupants[found]]) for found in here if found in self._occupants]
        return [execution for found, execution in placed if self._lives_in(execution, found)]

    def on_finished(self, execution: Execution) -> None:
        self.advance()
        for allocation in self._idle():
            self._slots.rest(allocation)

    def on_idle_timeout(self) -> None:
        for allocation in self._idle():
            if allocation.idle_since_ms is not None and len(self._pool) > 1:
                self._occupants.pop(allocation.allocation_id, None)
                self._slots.give_back(allocation.allocation_id, "idle")

    def ends_finished_work(self, failure: ErrorInfo) -> bool:
        return self._has_lost_slots or failure.code == OutputLost.code

    def close(self) -> None:
        self._ready.clear()
        self._held_back.clear()
        self._watch_the_time()
        self._occupants.clear()
        self._slots.close()

    def check_invariants(self) -> None:
        self._slots.check_invariants()
        waiting = {execution.subtask_id for execution in self._graph if execution.state is ExecutionState.SCHEDULED}
        assert set(self._ready) == waiting, f"{list(self._ready)} wait for slots, SCHEDULED are {waiting}"
        late = [subtask for subtask in self._held_back if self._may_begin(subtask)]
        assert not late, f"{late} could begin, and are held back"
        managers = {allocation.placement.task_manager_id for allocation in self._pool.allocations}
        assert len(managers) <= 1, f"the slots are of {managers}: what one stores the others cannot read"
        assert not self._ready or not self._idle(), f"{list(self._ready)} wait, and {self._idle()} are free"

    def _may_begin(self, subtask: SubtaskId) -> bool:
        for edge in self._graph.inputs_of(subtask.vertex_id):
            if not edge.partitioner.is_pointwise:
                if self._graph.count_of(edge.source, _FINISHED) < self._graph.vertices[edge.source].parallelism:
                    return False
                continue
            producers = (SubtaskId(edge.source, index) for index in self._graph.producers(edge, subtask.index))
            if any(self._graph[producer].state is not _FINISHED for producer in producers):
                return False
        return True

    def _deploy(self) -> None:
        placed = list(zip(list(self._ready), self._idle(), strict=False))
        for subtask, allocation in placed:
            del self._ready[subtask]
            self._occupants[allocation.allocation_id] = subtask
        self._slots.deploy((self._graph[subtask], allocation) for subtask, allocation in placed)

    def _idle(self) -> list[Allocation]:
        """Returns confirmed slots without a subtask."""
        return [a for a in self._pool.allocations if a.is_ready and not self._is_occupied(a.allocation_id)]

    def _is_occupied(self, allocation_id: AllocationId) -> bool:
        occupant = self._occupants.get(allocation_id)
        return occupant is not None and self._lives_in(self._graph[occupant], allocation_id)

    def _lives_in(self, execution: Execution, allocation_id: AllocationId) -> bool:
        return execution.is_deployed and execution.allocation_id == allocation_id

    def _ask(self, count: int) -> None:
        """Requests ``count`` slots: of the TaskManager that has the job's other slots, or, without any, of the one with the most free slots."""
        host = next((allocation.placement.task_manager_id for allocation in self._pool.allocations), None)
        for placement in self._resources.free_on_one(host)[:count]:
            self._slots.request(placement)

    def _watch_the_time(self) -> None:
        """Runs the timer of ``slot.request.timeout`` while the job has no slot at all: with one slot it can finish."""
        timer = self._slots.timer(SLOT_REQUEST_TIMER, _BATCH)
        if not self.missing_slots:
            self._buffer.cancel_timer(timer)
        elif not self._buffer.is_armed(timer):
            self._buffer.start_timer(timer, self._settings.slot_request_timeout_ms)
