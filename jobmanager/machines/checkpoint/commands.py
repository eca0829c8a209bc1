"""Builds the commands of a checkpoint: one message per TaskManager and phase, whatever the number of its subtasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import CommitPermit, PendingCheckpoint
from tidegate.jobmanager.machines.command_buffer import CallKind, CommandBuffer, OpenCall
from tidegate.jobmanager.machines.commands import (
    AbortCheckpoint,
    ConfirmCheckpoint,
    CreateLocation,
    ReadBackManifest,
    ReportSnapshot,
    TriggerCheckpoint,
    WriteManifest,
)
from tidegate.jobmanager.machines.scheduling.execution import RUNNING_OR_FINISHED
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.checkpoint import CheckpointManifest, CheckpointOptions, SnapshotType
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AttemptId, CheckpointId, TaskManagerId


class CheckpointCommands:
    """Builds the commands of one job's checkpoints for its TaskManagers."""

    def __init__(self, graph: ExecutionGraph, buffer: CommandBuffer) -> None:
        self._graph = graph
        self._job_id = graph.graph.job_id
        self._buffer = buffer

    def create_location(self, pending: PendingCheckpoint) -> None:
        request = pending.request
        self._buffer.emit(
            CreateLocation(self._job_id, pending.checkpoint_id, request.snapshot_type, request.target_directory)
        )

    def trigger(self, pending: PendingCheckpoint, options: CheckpointOptions) -> None:
        for task_manager_id, attempts in self._placed(pending.plan.trigger):
            call_id = self._call(CallKind.TRIGGER, task_manager_id, pending.checkpoint_id)
            self._buffer.emit(
                TriggerCheckpoint(
                    call_id,
                    task_manager_id,
                    self._job_id,
                    attempts,
                    pending.checkpoint_id,
                    pending.timestamp_ms,
                    options,
                    advance_to_end_of_event_time=pending.request.snapshot_type is SnapshotType.TERMINATE,
                )
            )

    def write_manifest(self, pending: PendingCheckpoint, manifest: CheckpointManifest) -> None:
        self._buffer.emit(WriteManifest(self._job_id, pending.checkpoint_id, pending.location, manifest))

    def tell_not_removed(self, what: str, error: ErrorInfo | None) -> None:
        if error is not None:
            self._buffer.log("WARN", f"{what} could not be removed: {error.message}", job=self._job_id)

    def read_back(self, pending: PendingCheckpoint) -> None:
        self._buffer.emit(ReadBackManifest(self._job_id, pending.checkpoint_id, pending.location))

    def confirm(self, permit: CommitPermit, *, lets_finish: bool) -> None:
        """Confirms a checkpoint to its tasks.

        ``lets_finish``: whether subtasks at their end of data may finish; false while another checkpoint needs every running subtask.
        """
        checkpoint_id = permit.manifest.checkpoint_id
        may_finish = self._may_finish(permit) if lets_finish else frozenset()
        for task_manager_id, attempts in self._placed(permit.confirm):
            self._buffer.emit(
                ConfirmCheckpoint(
                    self._call(CallKind.CONFIRM, task_manager_id, checkpoint_id),
                    task_manager_id,
                    self._job_id,
                    attempts,
                    checkpoint_id,
                    permit.manifest.timestamp_ms,
                    tuple(a for a in attempts if a in may_finish),
                )
            )

    def abort(self, pending: PendingCheckpoint, latest: CompletedCheckpoint | None) -> None:
        for task_manager_id, attempts in self._placed(pending.plan.wait_for):
            self._buffer.emit(
                AbortCheckpoint(
                    self._call(CallKind.ABORT, task_manager_id, pending.checkpoint_id),
                    task_manager_id,
                    self._job_id,
                    attempts,
                    pending.checkpoint_id,
                    latest.checkpoint_id if latest else None,
                )
            )

    def confirm_again(
        self, checkpoint: CompletedCheckpoint, attempts: Iterable[AttemptId], may_finish: frozenset[AttemptId]
    ) -> None:
        """Confirms a checkpoint that an earlier JobManager completed to attempts that may not have received the confirmation."""
        for attempt in may_finish:
            self._graph.let_finish(self._graph[attempt.subtask_id])
        manifest = checkpoint.manifest
        for task_manager_id, placed in self._placed(attempts):
            call_id = self._call(CallKind.CONFIRM, task_manager_id, manifest.checkpoint_id)
            let_finish = tuple(a for a in placed if a in may_finish)
            self._buffer.emit(
                ConfirmCheckpoint(
                    call_id,
                    task_manager_id,
                    self._job_id,
                    placed,
                    manifest.checkpoint_id,
                    manifest.timestamp_ms,
                    let_finish,
                )
            )

    def abort_begun(
        self, checkpoint_id: CheckpointId, attempts: Iterable[AttemptId], latest: CompletedCheckpoint | None
    ) -> None:
        """Aborts a checkpoint that an earlier JobManager started and did not complete."""
        latest_id = latest.checkpoint_id if latest else None
        for task_manager_id, placed in self._placed(attempts):
            call_id = self._call(CallKind.ABORT, task_manager_id, checkpoint_id)
            self._buffer.emit(AbortCheckpoint(call_id, task_manager_id, self._job_id, placed, checkpoint_id, latest_id))

    def report(self, request_id: str, checkpoint_id: CheckpointId | None, failure: str, path: str) -> None:
        error = ErrorInfo("checkpoint-failed", "external", failure) if failure else None
        self._buffer.emit(ReportSnapshot(request_id, checkpoint_id, path, error))

    def _may_finish(self, permit: CommitPermit) -> frozenset[AttemptId]:
        """Returns the subtasks that may finish. Those of a vertex finish together: if one is being restarted, the others wait for its new attempt."""
        broken = {a.vertex_id for a in permit.confirm if not self._goes_on(a)}
        may_finish = frozenset(a for a in permit.may_finish if a.vertex_id not in broken)
        for attempt in may_finish:
            self._graph.let_finish(self._graph[attempt.subtask_id])
        return may_finish

    def _goes_on(self, attempt: AttemptId) -> bool:
        execution = self._graph.current(attempt)
        return execution is not None and execution.state in RUNNING_OR_FINISHED

    def _placed(self, attempts: Iterable[AttemptId]) -> Iterator[tuple[TaskManagerId, tuple[AttemptId, ...]]]:
        """Groups attempts by TaskManager. Attempts that have ended and lost TaskManagers are left out."""
        placed: dict[TaskManagerId, list[AttemptId]] = {}
        for attempt in attempts:
            execution = self._graph.current(attempt)
            if execution is not None and execution.is_deployed and execution.task_manager_id is not None:
                placed.setdefault(execution.task_manager_id, []).append(attempt)
        for task_manager_id, on_it in placed.items():
            if self._buffer.is_connected(task_manager_id):
                yield task_manager_id, tuple(on_it)

    def _call(self, kind: CallKind, task_manager_id: TaskManagerId, checkpoint_id: CheckpointId) -> int:
        return self._buffer.open_call(OpenCall(kind, task_manager_id, job_id=self._job_id, checkpoint_id=checkpoint_id))
