"""Builds the views that clients and REST show from the state of the machines. It only reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.jobmanager.machines.resources.slots import SlotState
from tidegate.jobmanager.machines.resources.task_managers import RegisteredTaskManager, ResourceManager
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.views import (
    AttemptView,
    CheckpointsView,
    CheckpointView,
    ClusterView,
    EarlierAttempt,
    JobHistory,
    JobSummary,
    JobView,
    SlotView,
    SubtaskView,
    TaskManagerView,
    VertexSummary,
    VertexView,
    WorkerView,
)
from tidegate.model.ids import Generation, VertexId
from tidegate.model.states import ExecutionState

if TYPE_CHECKING:
    from tidegate.jobmanager.machines.job.job_master import JobMaster
    from tidegate.jobmanager.machines.worker_supply import WorkerSupply


def job_view(job: JobMaster, resources: ResourceManager, supply: WorkerSupply) -> JobView:
    """Builds the full view of a job. Linear in the number of subtasks."""
    graph = job.executions.graph
    lifecycle = job.lifecycle
    return JobView(
        job_id=job.job_id,
        name=graph.name,
        state=lifecycle.state,
        start_ms=min(lifecycle.timestamps_ms.values()),
        end_ms=lifecycle.timestamps_ms[lifecycle.state] if lifecycle.state.is_terminal else None,
        state_timestamps_ms=dict(lifecycle.timestamps_ms),
        restarts=lifecycle.restarts,
        failure=lifecycle.failures[-1].error if lifecycle.failures else None,
        failures=tuple(lifecycle.failures),
        waiting_for=_waiting_for(job, supply),
        starting_since_ms=supply.starting_since_ms if job.scheduler.waiting_for else None,
        vertices=tuple(_vertex_view(job, v.vertex_id, resources) for v in graph.vertices),
        checkpoints=checkpoints_view(job),
        graph=graph,
        configuration=job.configuration,
        bounds=job.rescaling.bounds,
        rescales=job.rescaling.rescales,
        rescale_history=job.rescaling.history.view(),
    )


def job_summary(job: JobMaster, supply: WorkerSupply) -> JobSummary:
    graph, lifecycle = job.executions.graph, job.lifecycle
    return JobSummary(
        job_id=job.job_id,
        name=graph.name,
        state=lifecycle.state,
        start_ms=min(lifecycle.timestamps_ms.values()),
        end_ms=lifecycle.timestamps_ms[lifecycle.state] if lifecycle.state.is_terminal else None,
        state_timestamps_ms=dict(lifecycle.timestamps_ms),
        restarts=lifecycle.restarts,
        failure=lifecycle.failures[-1].error if lifecycle.failures else None,
        waiting_for=_waiting_for(job, supply),
        starting_since_ms=supply.starting_since_ms if job.scheduler.waiting_for else None,
        vertices=tuple(
            VertexSummary(v.vertex_id, v.name, v.parallelism, job.executions.counts_of(v.vertex_id))
            for v in graph.vertices
        ),
        checkpoints=checkpoints_view(job),
    )


def job_history(job: JobMaster) -> JobHistory:
    """Builds the history of a job that is stored for later JobManagers. Linear in the number of remembered checkpoints."""
    shown = checkpoints_view(job)
    whole = replace(
        shown,
        history=tuple(_without_subtasks(one) for one in shown.history),
        beyond=tuple(_without_subtasks(one) for one in shown.beyond),
        last_completed=shown.last_completed and _without_subtasks(shown.last_completed),
        last_failed=shown.last_failed and _without_subtasks(shown.last_failed),
        last_savepoint=shown.last_savepoint and _without_subtasks(shown.last_savepoint),
        last_restored=shown.last_restored and _without_subtasks(shown.last_restored),
    )
    lifecycle = job.lifecycle
    attempts = tuple(EarlierAttempt(e.attempt, dict(e.timestamps_ms)) for e in job.executions if e.was_deployed)
    return JobHistory(
        min(lifecycle.timestamps_ms.values()), lifecycle.restarts, tuple(lifecycle.failures), whole, attempts
    )


def _without_subtasks(checkpoint: CheckpointView) -> CheckpointView:
    return replace(checkpoint, subtasks=())


def checkpoints_view(job: JobMaster) -> CheckpointsView:
    latest = job.coordinator.latest
    return job.coordinator.stats.view(latest.checkpoint_id if latest else None)


def cluster_view(
    resources: ResourceManager, supply: WorkerSupply, generation: Generation, start_ms: int
) -> ClusterView:
    managers = tuple(_task_manager_view(tm) for tm in resources)
    return ClusterView(
        generation=generation,
        start_ms=start_ms,
        task_managers=managers,
        slots_total=sum(len(tm.slots) for tm in managers),
        slots_free=sum(s.state == SlotState.FREE.value for tm in managers for s in tm.slots),
        workers=tuple(WorkerView(w.worker_id, w.state.value, w.since_ms, w.reason) for w in supply.workers),
    )


def _waiting_for(job: JobMaster, supply: WorkerSupply) -> str:
    """Describes what a job waits for, such as ``6 of 9 slots; 2 TaskManagers starting``; empty when it waits for nothing."""
    waiting, outlook = job.scheduler.waiting_for, supply.explain()
    return f"{waiting}; {outlook}" if waiting and outlook else waiting


def _vertex_view(job: JobMaster, vertex_id: VertexId, resources: ResourceManager) -> VertexView:
    vertex = job.executions.vertices[vertex_id]
    return VertexView(
        vertex_id=vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        subtasks=tuple(
            SubtaskView(
                index,
                _attempt_view(execution, resources),
                tuple(_attempt_view(old, resources) for old in job.executions.history(execution.subtask_id)),
            )
            for index, execution in enumerate(job.executions.executions_of(vertex_id))
        ),
        tasks=job.executions.counts_of(vertex_id),
    )


def _attempt_view(execution: Execution, resources: ResourceManager) -> AttemptView:
    task_manager = resources.find(execution.task_manager_id) if execution.task_manager_id else None
    times = execution.timestamps_ms
    return AttemptView(
        attempt=execution.attempt,
        state=execution.state,
        task_manager_id=execution.task_manager_id,
        host=task_manager.registration.host if task_manager else "",
        start_ms=times.get(ExecutionState.DEPLOYING),
        end_ms=times[execution.state] if execution.state.is_terminal else None,
        state_timestamps_ms=dict(times),
        failure=execution.failure,
        at_end_of_data=execution.at_end_of_data,
        allocation_id=execution.allocation_id,
        data_address=execution.address or "",
    )


def _task_manager_view(task_manager: RegisteredTaskManager) -> TaskManagerView:
    registration = task_manager.registration
    return TaskManagerView(
        task_manager_id=registration.task_manager_id,
        session=registration.session,
        address=registration.address,
        host=registration.host,
        pid=registration.pid,
        memory_bytes=registration.memory_bytes,
        slots=tuple(SlotView(s.index, s.state.value, s.allocation_id, s.job_id) for s in task_manager.slots.values()),
        registered_ms=task_manager.registered_ms,
        last_heartbeat_ms=task_manager.last_heartbeat_ms,
    )
