"""The plan of a checkpoint: which subtasks are triggered, must acknowledge, are confirmed, and had finished before.

Triggered are the running subtasks without a running predecessor: the sources, as long as none has finished. Every running
subtask must acknowledge and is confirmed. ``may_finish`` are the subtasks whose whole vertex was at its end of data when the
checkpoint was triggered. Follows Flink's ``DefaultCheckpointPlanCalculator.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.ids import AttemptId, SubtaskId, VertexId
from tidegate.model.states import ExecutionState


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The subtasks that take part in a checkpoint, by what each has to do."""

    trigger: tuple[AttemptId, ...]
    wait_for: tuple[AttemptId, ...]
    finished: frozenset[SubtaskId]
    may_finish: frozenset[AttemptId]


@dataclass(frozen=True, slots=True)
class PlanRefused:
    """The result when no checkpoint can be taken now. ``message`` names the task that prevents it."""

    message: str


def decide_plan(graph: ExecutionGraph, *, after_tasks_finish: bool) -> CheckpointPlan | PlanRefused:
    """Decides which subtasks take part in a checkpoint. Linear in the number of subtasks."""
    if not graph.all_running_or_finished:
        late = next(e for e in graph if e.state not in (ExecutionState.RUNNING, ExecutionState.FINISHED))
        return PlanRefused(f"{graph.describe(late)} is {late.state.value}, and not RUNNING")
    finished_count = graph.count(ExecutionState.FINISHED)
    if finished_count == len(graph):
        return PlanRefused("all tasks have finished")
    if finished_count and not after_tasks_finish:
        return PlanRefused("some tasks have finished (execution.checkpointing.checkpoints-after-tasks-finish is false)")
    running = [e for e in graph if e.state is ExecutionState.RUNNING]
    return CheckpointPlan(
        trigger=tuple(e.attempt for e in running if not _has_running_producer(graph, e)),
        wait_for=tuple(e.attempt for e in running),
        finished=frozenset(e.subtask_id for e in graph if e.state is ExecutionState.FINISHED or e.finished_on_restore),
        may_finish=_may_finish(graph, running),
    )


def _has_running_producer(graph: ExecutionGraph, execution: Execution) -> bool:
    for edge in graph.inputs_of(execution.attempt.vertex_id):
        running = graph.count_of(edge.source, ExecutionState.RUNNING)
        if running == 0:
            continue
        if not edge.partitioner.is_pointwise or running == graph.vertices[edge.source].parallelism:
            return True
        producers = graph.producers(edge, execution.attempt.subtask)
        if any(graph[SubtaskId(edge.source, p)].state is ExecutionState.RUNNING for p in producers):
            return True
    return False


def _may_finish(graph: ExecutionGraph, running: list[Execution]) -> frozenset[AttemptId]:
    at_end: set[VertexId] = {v for v in graph.vertices if graph.is_wholly_at_end(v)}
    return frozenset(e.attempt for e in running if e.attempt.vertex_id in at_end)
