"""The parts of a JobMaster, put together, and what must hold between them."""

from __future__ import annotations

from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import decide_origin
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.events import JobRecovered, JobSubmitted
from tidegate.jobmanager.machines.job.adoption import Adoption
from tidegate.jobmanager.machines.job.asked_before import AskedBefore
from tidegate.jobmanager.machines.job.job_status import JobStatusHistory
from tidegate.jobmanager.machines.job.moving import Moving
from tidegate.jobmanager.machines.job.rescaling import JobNow, Rescaling
from tidegate.jobmanager.machines.job.task_invariants import check_tasks
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.restore.restore import Restoring
from tidegate.jobmanager.machines.scheduling.attempts import Attempts
from tidegate.jobmanager.machines.scheduling.deployments import Deployments
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.failover import Failover
from tidegate.jobmanager.machines.scheduling.restart import make_restart_strategy
from tidegate.jobmanager.machines.scheduling.schedulers import make_scheduler
from tidegate.jobmanager.machines.settings import JobSettings
from tidegate.model.graph import JobGraph
from tidegate.model.ids import SubtaskId
from tidegate.model.states import JobState

_J = JobState


class JobParts:
    """What a JobMaster is made of."""

    def __init__(
        self,
        event: JobSubmitted | JobRecovered,
        settings: JobSettings,
        resources: ResourceManager,
        buffer: CommandBuffer,
    ) -> None:
        self._buffer, self._resources = buffer, resources
        origin = decide_origin(event, settings.checkpoints)
        self._origin, graph = origin, origin.graph
        self.configuration, self.job_id = dict(origin.submitted.configuration), graph.job_id
        self.executions = ExecutionGraph(graph, settings.attempts_history, buffer.now_ms, origin.first_attempt)
        self.operators = OperatorCoordinators(self.executions, origin.newest_manifest, buffer)
        self.coordinator = CheckpointCoordinator(self.executions, self.operators, settings.checkpoints, buffer)
        self._deployments = Deployments(self.executions, self.configuration, buffer)
        self.scheduler = make_scheduler(self.executions, settings, self._deployments, resources, buffer)
        self._attempts = Attempts(self.executions, self.scheduler, buffer)
        self._restoring = Restoring(self.executions, self.coordinator, self.operators, settings.checkpoints, buffer)
        restarts = make_restart_strategy(settings.restart, buffer.random)
        self._failover = Failover(self.executions, restarts, regional=settings.regional_failover)
        self.life = JobStatusHistory(self.job_id, graph.name, buffer)
        self._is_reported_terminated, self._asked = False, AskedBefore(event, buffer)
        asked = event.asked if isinstance(event, JobRecovered) else ()
        self.rescaling = Rescaling(self.executions, origin.submitted.graph, asked, settings.elastic, buffer)
        self.moving = Moving(self.executions, self.rescaling, buffer)
        self.takes_checkpoints = settings.checkpoints.interval_ms is not None
        self._adoption_timeout_ms = settings.adoption_timeout_ms if isinstance(event, JobRecovered) else 0
        self._adoption: Adoption | None = None  # set while the job is RECONCILING

    @property
    def slots(self) -> int:
        """How many the job could have: those that it holds, and those that are free."""
        return self.scheduler.held_slots + self._resources.free_slot_count

    @property
    def _now(self) -> JobNow:
        """What its shape depends on."""
        newest = self.coordinator.latest
        return JobNow(
            self.life.state,
            self.executions.all_running_or_finished,
            bool(self.scheduler.waiting_batches),
            self.slots,
            newest.checkpoint_id if newest else None,
            self.coordinator.stats.failed,
            takes_checkpoints=self.takes_checkpoints,
            is_being_stopped=self.coordinator.stop.is_active,
            restarts_all=self._failover.is_of_all,
        )

    def _reshape(self, graph: JobGraph, first_attempt: int) -> tuple[SubtaskId, ...]:
        """Nothing lives. Returns all subtasks of the new shape."""
        self.executions.reshape(graph, first_attempt, self._buffer.now_ms)
        self._deployments.reshape()
        self.operators.reshape(self.coordinator.latest.manifest if self.coordinator.latest else None)
        self.scheduler.reshape()
        return tuple(execution.subtask_id for execution in self.executions)

    @property
    def wanted_slots(self) -> int:
        """How many it needs all in all, also for the shape that it is to take."""
        return max(self.scheduler.wanted_slots, self.rescaling.wanted_slots)

    @property
    def missing_slots(self) -> int:
        """How many of them it does not hold."""
        return max(self.scheduler.missing_slots, self.rescaling.wanted_slots - self.scheduler.held_slots)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the state of the job contradicts one of its parts; between events."""
        own = (self.life, self.executions, self.operators, self.coordinator, self.scheduler, self._failover)
        for part in (*own, self.rescaling, self.moving, self._asked, self._adoption or self.life):
            part.check_invariants()
        state = self.life.state
        assert (self._adoption is not None) == (state is _J.RECONCILING), f"{state.value} is a mistake"
        assert (restart := self._failover.is_pending) == (state is _J.RESTARTING), f"{state.value}, restart: {restart}"
        check_tasks(state, self.executions)
        assert self._is_reported_terminated or not (state.is_terminal and self.coordinator.is_idle), "not reported over"
        assert state.is_terminal or not self._is_reported_terminated, f"{state.value}, and reported over"

    def _timer(self, kind: str) -> str:
        return f"job/{self.job_id}/{kind}"
