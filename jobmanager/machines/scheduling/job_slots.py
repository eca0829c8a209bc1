"""The slots of one job: requests them, deploys into them, and gives them back, whichever scheduler decides."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.resources.task_managers import Placement, ResourceManager
from tidegate.jobmanager.machines.scheduling.deployments import Deployments
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.port import SLOT_IDLE_TIMER
from tidegate.jobmanager.machines.scheduling.slot_pool import Allocation, SlotPool
from tidegate.jobmanager.machines.scheduling.slot_sharing import SharedSlot
from tidegate.jobmanager.machines.settings import JobSettings
from tidegate.model.ids import AllocationId, hex_id
from tidegate.model.states import ExecutionState


class JobSlots:
    """Requests, uses and frees the slots of one job. ``pool``: the slots that are held or requested."""

    def __init__(
        self,
        graph: ExecutionGraph,
        settings: JobSettings,
        deployments: Deployments,
        resources: ResourceManager,
        buffer: CommandBuffer,
    ) -> None:
        self.pool = SlotPool()
        self._graph = graph
        self._job_id = graph.graph.job_id
        self._idle_timeout_ms = settings.slot_idle_timeout_ms
        self._deployments = deployments
        self._resources = resources
        self._buffer = buffer
        self._last_allocation = 0

    def timer(self, kind: str, number: int | None = None) -> str:
        """Returns the name of a timer of the job, such as that of a batch."""
        return f"job/{self._job_id}/{kind}" + ("" if number is None else f"/{number}")

    def request(self, placement: Placement, slot: SharedSlot | None = None) -> None:
        """Requests a slot of a TaskManager under a new allocation id; without ``slot`` one that no other subtask shares."""
        self._last_allocation += 1
        name = hex_id("allocation", self._buffer.generation, self._job_id, str(self._last_allocation))
        allocation_id = AllocationId(name)
        self.pool.add(slot or SharedSlot("", self._last_allocation), allocation_id, placement)
        self._resources.allocate(placement, self._job_id, allocation_id)

    def deploy(self, placed: Iterable[tuple[Execution, Allocation]]) -> None:
        """Deploys SCHEDULED executions into confirmed slots; all are submitted together."""
        executions = []
        for execution, allocation in placed:
            allocation.use()
            execution.assign(allocation.allocation_id, allocation.placement.task_manager_id)
            self._graph.move(execution, ExecutionState.DEPLOYING, self._buffer.now_ms)
            executions.append(execution)
        if executions:
            self._deployments.submit(executions)
            self._buffer.changed(self._job_id)

    def rest(self, allocation: Allocation) -> None:
        """Marks a slot as idle: it is given back after ``slot.idle.timeout`` unless it is used again."""
        allocation.rest_since(self._buffer.now_ms)
        self._buffer.start_timer(self.timer(SLOT_IDLE_TIMER), self._idle_timeout_ms)

    def give_back(self, allocation_id: AllocationId, reason: str) -> None:
        """Returns a slot to its TaskManager."""
        self.pool.remove(allocation_id)
        self._resources.free(allocation_id, reason)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the pool contradicts itself."""
        self.pool.check_invariants()

    def close(self) -> None:
        """Gives every slot back, because the job has ended."""
        self._buffer.cancel_timer(self.timer(SLOT_IDLE_TIMER))
        for allocation in self.pool.allocations:
            self.give_back(allocation.allocation_id, "the job has ended")
