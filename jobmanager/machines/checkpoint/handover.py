"""Settles the checkpoints of an earlier JobManager with the subtasks that were adopted: the newest completed one is confirmed again, and
those that were begun later are aborted.

The earlier JobManager may have let only some subtasks of a vertex finish before it died. The others are let finish too, since a vertex
finishes as a whole. Follows the second half of Flink's ``CheckpointCoordinator.completePendingCheckpoint``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.jobmanager.machines.checkpoint.commands import CheckpointCommands
from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.ids import AttemptId, CheckpointId, VertexId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import ExecutionState


def hand_over(
    graph: ExecutionGraph,
    buffer: CommandBuffer,
    newest: CompletedCheckpoint | None,
    incomplete: Iterable[CheckpointId],
    adopted: Sequence[AttemptReport],
) -> None:
    """Confirms the newest checkpoint again to adopted subtasks and aborts later ones that had started.

    ``newest``: the checkpoint that the job would be restored from. ``incomplete``: ids of incomplete checkpoints in the storage.
    """
    commands = CheckpointCommands(graph, buffer)
    running = [report for report in adopted if report.state is ExecutionState.RUNNING]
    newest_id = newest.checkpoint_id if newest else CheckpointId(0)
    if newest is not None:
        late = _let_finish_late(graph, adopted)
        untold = [r.attempt for r in running if r.confirmed_id < newest_id or r.attempt in late]
        commands.confirm_again(newest, untold, late)
    begun = {*incomplete, *(CheckpointId(n) for report in adopted for n in _begun(report))}
    for checkpoint_id in sorted(n for n in begun if n > newest_id):
        commands.abort_begun(checkpoint_id, [report.attempt for report in running], newest)


def _begun(report: AttemptReport) -> tuple[int, ...]:
    return (report.newest_id, *(checkpoint_id for checkpoint_id, _ in report.acknowledged))


def _let_finish_late(graph: ExecutionGraph, adopted: Sequence[AttemptReport]) -> frozenset[AttemptId]:
    """Returns the attempts that may finish because another subtask of their vertex may. Vertices of which not all subtasks were adopted are left out."""
    by_vertex: dict[VertexId, list[AttemptReport]] = {}
    for report in adopted:
        by_vertex.setdefault(report.attempt.vertex_id, []).append(report)
    late: set[AttemptId] = set()
    for vertex_id, reports in by_vertex.items():
        is_whole = len(reports) == graph.vertices[vertex_id].parallelism
        if is_whole and any(report.may_finish for report in reports):
            late.update(r.attempt for r in reports if r.state is ExecutionState.RUNNING and not r.may_finish)
    return frozenset(late)
