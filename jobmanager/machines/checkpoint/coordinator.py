"""The CheckpointCoordinator of one job: from a request to the confirmation, or to the abort.

Laws (docs/architecture.md, "The seven laws"): only ``_start`` triggers, and only the tasks of the plan without a
running predecessor; ``_confirm`` needs a ``CommitPermit``; an abort is possible until the last acknowledgement, later only
the storage decides; acknowledgements of attempts outside the plan change nothing.

Methods that can make the job fail return the failure, otherwise ``None``. Follows Flink's ``CheckpointCoordinator.java``.
"""

from __future__ import annotations

from collections.abc import Collection

from tidegate.jobmanager.machines.checkpoint.commands import CheckpointCommands
from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.checkpoint.failure import FailureCounter, FailureReason, failure_text
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import Inventory
from tidegate.jobmanager.machines.checkpoint.options import decide_options
from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import AckResult, CommitPermit, PendingCheckpoint
from tidegate.jobmanager.machines.checkpoint.pending_checkpoints import PendingCheckpoints
from tidegate.jobmanager.machines.checkpoint.plan import PlanRefused, decide_plan
from tidegate.jobmanager.machines.checkpoint.requests import CheckpointRequests
from tidegate.jobmanager.machines.checkpoint.retention import RetainedCheckpoints
from tidegate.jobmanager.machines.checkpoint.shared_state import SharedStateRegistry
from tidegate.jobmanager.machines.checkpoint.statistics import CheckpointStatistics
from tidegate.jobmanager.machines.checkpoint.stop_with_savepoint import NEEDS_CHECKPOINTS, StopWithSavepoint
from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.events import (
    CheckpointDiscarded,
    LocationCreated,
    ManifestWriteFailed,
    ManifestWritten,
    RestoreFrom,
    SharedFilesDiscarded,
    SnapshotRequested,
    SubtaskAcknowledged,
    SubtaskDeclined,
)
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import CheckpointFilesMissing, ErrorInfo, InternalError, UnknownAttempt
from tidegate.model.ids import AttemptId, CheckpointId
from tidegate.model.options import ClaimMode
from tidegate.model.states import JobState


class CheckpointCoordinator:
    """Triggers the checkpoints of one job, and collects their acknowledgements until each is completed or aborted."""

    def __init__(
        self,
        graph: ExecutionGraph,
        operators: OperatorCoordinators,
        settings: CheckpointSettings,
        buffer: CommandBuffer,
    ) -> None:
        self._graph = graph
        self._operators = operators
        self._settings = settings
        self._buffer = buffer
        self._commands = CheckpointCommands(graph, buffer)
        self.stop = StopWithSavepoint(graph.graph.job_id, self._commands)
        self._requests = CheckpointRequests(graph.graph.job_id, operators, settings, buffer)
        self._pending = PendingCheckpoints(graph.graph.job_id, settings.timeout_ms, buffer)
        self._retention = RetainedCheckpoints(graph.graph.job_id, settings, buffer)
        self._failures = FailureCounter(settings.tolerable_failures)
        self.stats = CheckpointStatistics(settings.history)
        self._must_be_full = False
        """Whether the next checkpoint must be full: nothing may refer to the files that the job started from, or some of which are missing."""
        self._ended: JobState | None = None

    # ---- what others ask ---------------------------------------------------------------------------------------------

    @property
    def latest(self) -> CompletedCheckpoint | None:
        return self._retention.latest

    @property
    def completed(self) -> tuple[CompletedCheckpoint, ...]:
        """Returns the retained checkpoints, oldest first."""
        return self._retention.completed

    @property
    def shared_files(self) -> SharedStateRegistry:
        return self._retention.shared_files

    @property
    def is_settling(self) -> bool:
        """Tells whether a ``_metadata`` file is being written, so that it is not known yet which checkpoint is the latest."""
        return self._pending.is_settling

    @property
    def is_idle(self) -> bool:
        """Tells whether no checkpoint is pending and no files are being deleted."""
        return self._pending.is_idle and self._retention.is_idle

    # ---- life of the job ---------------------------------------------------------------------------------------------

    def start_from(self, restore: RestoreFrom | None, inventory: Inventory) -> None:
        """Takes over the checkpoints that the job starts with.

        ``restore`` (``run -s``) is deleted by this job only if it was claimed; ``inventory``: checkpoints found of an earlier JobManager.
        """
        self._retention.begin(restore, inventory)
        has_own = any(checkpoint.is_ours for checkpoint in inventory.completed)
        self._must_be_full = restore is not None and restore.claim_mode is ClaimMode.NO_CLAIM and not has_own
        origin_id = restore.manifest.checkpoint_id if restore else 0
        self._pending.count_from(CheckpointId(max(inventory.next_id, origin_id + 1)))

    def on_restored(self, checkpoint: CompletedCheckpoint) -> None:
        self.stats.on_restored(checkpoint, self._buffer.now_ms)

    def activate(self) -> None:
        """Starts periodic checkpoints: the job is running and every task is RUNNING or FINISHED."""
        if not (self._requests.is_active or self._ended is not None or self.stop.is_active):
            self._requests.activate()

    def deactivate(self, reason: FailureReason, cause: ErrorInfo | None = None) -> None:
        """Stops periodic checkpoints and aborts queued requests and pending checkpoints, because some task or the job is not running any longer."""
        for request in self._requests.deactivate():
            self._report(request, None, failure_text(reason, cause))
        for pending in self._pending:
            self._abort(pending, reason, cause)

    def withdraw(self) -> None:
        """Aborts pending checkpoints before an intended restart, such as a rescale; counted as a failure only if a user requested the checkpoint."""
        for request in self._requests.deactivate():
            self._report(request, None, failure_text(FailureReason.JOB_FAILOVER_REGION, None))
        for pending in self._pending:
            is_failure = pending.request.request_id is not None
            self._abort(pending, FailureReason.JOB_FAILOVER_REGION, is_failure=is_failure)

    @property
    def others(self) -> tuple[str, ...]:
        """Returns the locations of older retained checkpoints and of savepoints in the history, newest first, without the latest checkpoint."""
        kept = {c.location: c.checkpoint_id for c in self._retention.completed[:-1]}
        found = {**self.stats.savepoints, **kept}
        return tuple(sorted(found, key=lambda location: found[location], reverse=True))

    def fall_back(self, whole: Collection[str]) -> CompletedCheckpoint | None:
        """Drops retained checkpoints that are newer than the newest one among ``whole``, and returns that one; without such a one it drops
        none and returns ``None``.
        """
        found = self._retention.fall_back(whole)
        if found is not None:
            self._operators.reshape(found.manifest)
        return found

    def keep_everything(self) -> None:
        """Keeps all retained checkpoints when the job ends, because the latest one cannot be read."""
        self._retention.keep_everything()

    def close(self, state: JobState) -> None:
        """Ends the coordinator with the job. Checkpoints are deleted or kept once the storage has answered all writes."""
        self.stop.on_job_ended(state)
        self.deactivate(FailureReason.COORDINATOR_SHUTDOWN)
        self._ended = state
        self._sweep()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def on_trigger_timer(self) -> ErrorInfo | None:
        return self._request(request) if (request := self._requests.on_timer()) else None

    def on_end_of_data(self) -> ErrorInfo | None:
        """Starts the final checkpoint, now or after the one in progress: all subtasks are at their end of data."""
        return self.take_checkpoint() if self._requests.is_periodic and not self.stop.is_active else None

    def on_snapshot_requested(self, event: SnapshotRequested) -> ErrorInfo | None:
        request = self._requests.of_user(event)
        if refusal := self._refusal(event.snapshot_type):
            self._commands.report(event.request_id, None, refusal, "")
            return None
        if event.snapshot_type.is_synchronous:
            self.deactivate(FailureReason.COORDINATOR_SUSPEND)
            self.stop.begin(request)
        return self._request(request)

    def take_checkpoint(self) -> ErrorInfo | None:
        """Requests a checkpoint for the job itself, not for a user; it starts now or after the one in progress."""
        return self._request(self._requests.own(is_periodic=False))

    def on_timeout(self, checkpoint_id: CheckpointId) -> ErrorInfo | None:
        return self._abort(pending, FailureReason.EXPIRED) if (pending := self._pending.expire(checkpoint_id)) else None

    def on_trigger_failed(self, checkpoint_id: CheckpointId, error: ErrorInfo) -> ErrorInfo | None:
        """Aborts a checkpoint whose trigger failed. If the attempt is unknown there, it has ended and its final state is on the way."""
        is_gone = error.code == UnknownAttempt.code
        reason = FailureReason.DECLINED_TASK_CLOSING if is_gone else FailureReason.TRIGGER_CHECKPOINT_FAILURE
        return self._abort(pending, reason, error) if (pending := self._pending.get(checkpoint_id)) else None

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def is_last(self, event: SubtaskAcknowledged) -> bool:
        """Tells whether this is the last acknowledgement that its checkpoint waits for: only this one can complete it."""
        pending = self._pending.get(event.checkpoint_id)
        return pending is not None and pending.is_waiting_only_for(event.attempt)

    def on_acknowledged(self, event: SubtaskAcknowledged) -> ErrorInfo | None:
        size = event.snapshot.size_bytes
        pending = self._pending.get(event.checkpoint_id)
        result = pending.acknowledge(event.attempt, event.snapshot) if pending else AckResult.DISCARDED
        if result in (AckResult.SUCCESS, AckResult.DISCARDED):
            acknowledged_ms = self._buffer.now_ms - event.held_ms
            self.stats.on_acknowledged(event.attempt, event.checkpoint_id, acknowledged_ms, event.metrics, size)
        counts = pending is not None and result is AckResult.SUCCESS
        if pending is not None and result is AckResult.UNKNOWN:
            self._retention.on_stray(event.checkpoint_id, pending.location, event.snapshot)
        elif result is not AckResult.DUPLICATE:
            self._retention.on_acknowledged(event.checkpoint_id, event.snapshot, is_late=not counts)
        if pending is None and self._pending.has_expired(event.checkpoint_id):
            text = f"received late message for now expired checkpoint attempt {event.checkpoint_id}"
            self._buffer.log("WARN", text, attempt=event.attempt)
        if pending is not None and counts and pending.is_fully_acknowledged:
            return self._seal(pending)
        return None

    def on_declined(self, event: SubtaskDeclined) -> ErrorInfo | None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or event.attempt not in pending.plan.wait_for:
            return None
        return self._abort(pending, FailureReason.of_decline(event.reason), event.error, on_task_side=True)

    def on_task_finished(self, attempt: AttemptId) -> ErrorInfo | None:
        """Aborts checkpoints that still wait for a finished attempt, then starts the next request if it may start now."""
        for pending in self._pending.waiting_for(attempt):
            if failure := self._abort(pending, FailureReason.DECLINED_TASK_CLOSING):
                return failure
        return self._try_next()

    # ---- storage -----------------------------------------------------------------------------------------------------

    def on_located(self, event: LocationCreated) -> ErrorInfo | None:
        pending = self._pending.on_located(event.checkpoint_id)
        if pending is None:
            if event.error is None:
                self._retention.on_aborted(event.checkpoint_id, event.location)
            self._sweep()
            return self._try_next()
        if event.error is not None:
            return self._abort(pending, FailureReason.IO_EXCEPTION, event.error)
        pending.on_located(event.location)
        self.stats.on_sent(event.checkpoint_id, event.location, self._buffer.now_ms)
        oldest_base_id, must_be_full = self._retention.hold(pending.checkpoint_id), self._must_be_full
        options = decide_options(self._settings, pending.request, event, oldest_base_id, must_be_full=must_be_full)
        self._retention.on_triggered(pending.checkpoint_id, options.shared_location)
        pending.on_triggered(self._operators.snapshot(pending.checkpoint_id))
        self._commands.trigger(pending, options)
        if pending.request.snapshot_type.is_synchronous:
            self.stop.on_triggered()
        return self._try_next()

    def on_manifest_written(self, event: ManifestWritten) -> ErrorInfo | None:
        pending = self._pending.settling(event.checkpoint_id)
        return self._complete(pending, pending.on_manifest_written(event)) if pending else None

    def on_manifest_failed(self, event: ManifestWriteFailed) -> ErrorInfo | None:
        pending = self._pending.settling(event.checkpoint_id)
        if pending is None:
            return None
        if event.outcome_unknown:
            pending.on_manifest_unknown()
            self._commands.read_back(pending)
            return None
        pending.on_manifest_missing()
        return self._failed(pending, FailureReason.FINALIZE_CHECKPOINT_FAILURE, event.error)

    def on_discarded(self, event: CheckpointDiscarded) -> ErrorInfo | None:
        self._retention.on_discarded(event.checkpoint_id)
        if event.error is None:
            self.stats.on_discarded(event.checkpoint_id)
        self._commands.tell_not_removed(f"checkpoint {event.checkpoint_id}", event.error)
        return self._try_next()

    def on_shared_discarded(self, event: SharedFilesDiscarded) -> ErrorInfo | None:
        self._retention.on_shared_discarded()
        self._commands.tell_not_removed(f"shared files of checkpoint {event.checkpoint_id}", event.error)
        return None

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _refusal(self, snapshot_type: SnapshotType) -> str:
        """Returns why a user's request cannot be accepted now; empty when it can."""
        if self._ended is not None:
            return f"{FailureReason.COORDINATOR_SHUTDOWN.text} Cause: the job is {self._ended.value}"
        if self.stop.is_active:
            return f"{FailureReason.COORDINATOR_SUSPEND.text} Cause: the job is being stopped with a savepoint"
        return NEEDS_CHECKPOINTS if snapshot_type.is_synchronous and not self._requests.is_periodic else ""

    def _request(self, request: CheckpointRequest) -> ErrorInfo | None:
        evicted = self._requests.add(request)
        if evicted is not None:
            self._report(evicted, None, FailureReason.TOO_MANY_CHECKPOINT_REQUESTS.text)
        return self._try_next()

    def _try_next(self) -> ErrorInfo | None:
        """Starts queued requests that may start now. None may while subtasks are finishing, because they would not answer."""
        while self._ended is None and not self._graph.is_anyone_leaving:
            request = self._requests.take_next(
                is_triggering=self._pending.is_triggering, pending=len(self._pending), cleaning=self._retention.cleaning
            )
            if request is None:
                return None
            failure = self._start(request)
            if failure is not None:
                return failure
        return None

    def _start(self, request: CheckpointRequest) -> ErrorInfo | None:
        if request.is_periodic and not self._requests.is_active:
            return self._refused(request, FailureReason.PERIODIC_SCHEDULER_SHUTDOWN, None)
        plan = decide_plan(self._graph, after_tasks_finish=self._settings.after_tasks_finish)
        if isinstance(plan, PlanRefused):
            cause = ErrorInfo.of(InternalError(plan.message))
            return self._refused(request, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, cause)
        pending = self._pending.begin(request, plan)
        kind, now_ms, subtasks = request.snapshot_type, self._buffer.now_ms, len(plan.wait_for)
        self.stats.on_started(pending.checkpoint_id, kind, now_ms, subtasks, is_periodic=request.is_periodic)
        self._commands.create_location(pending)
        return None

    def _refused(self, request: CheckpointRequest, reason: FailureReason, cause: ErrorInfo | None) -> ErrorInfo | None:
        text = failure_text(reason, cause)
        self.stats.on_failed(None, self._buffer.now_ms, text)
        self._report(request, None, text)
        return self._failures.judge(reason, None, request.snapshot_type, cause, on_task_side=False)

    def _seal(self, pending: PendingCheckpoint) -> ErrorInfo | None:
        closing = pending.union_state_closing(self._graph.graph)
        if closing is not None:
            cause = ErrorInfo.of(InternalError(f"only some subtasks of {closing.name} have finished"))
            return self._abort(pending, FailureReason.DECLINED_TASK_CLOSING, cause)
        self.stats.on_sealed(pending.checkpoint_id, self._buffer.now_ms)
        self._commands.write_manifest(pending, pending.seal(self._graph.graph, self._buffer.generation))
        return None

    def _complete(self, pending: PendingCheckpoint, permit: CommitPermit) -> ErrorInfo | None:
        checkpoint_id, now_ms = pending.checkpoint_id, self._buffer.now_ms
        newest = self._retention.latest
        is_newest = newest is None or newest.checkpoint_id < checkpoint_id
        self._pending.forget(pending)
        self._requests.on_completed()
        self._failures.on_success(checkpoint_id)
        self.stats.on_completed(checkpoint_id, now_ms, permit.written.size_bytes)
        self._report(pending.request, checkpoint_id, "", pending.location)
        kind = pending.request.snapshot_type
        if is_newest and self._ended is None and (kind.is_synchronous or not kind.is_savepoint):
            self._confirm(permit)
            self.stats.on_confirmed(checkpoint_id, now_ms)
        self._retention.on_completed(permit)
        if self.latest is not None:
            self._operators.on_completed(self.latest.checkpoint_id)
        if not kind.is_savepoint:
            self._must_be_full = False
        if kind.is_synchronous or not kind.is_savepoint:
            for older in self._pending.subsumed_by(checkpoint_id):
                self._abort(older, FailureReason.SUBSUMED)
        self._sweep()
        return self._try_next()

    def _confirm(self, permit: CommitPermit) -> None:
        """Confirms a checkpoint to its tasks. They may finish only if no checkpoint is pending whose tasks are not triggered yet; otherwise
        another checkpoint is requested.
        """
        lets_finish = not self._pending.is_any_untold
        self._commands.confirm(permit, lets_finish=lets_finish)
        if not lets_finish and self._graph.all_at_end_of_data:
            self._requests.add(self._requests.own(is_periodic=False))

    def _abort(
        self,
        pending: PendingCheckpoint,
        reason: FailureReason,
        cause: ErrorInfo | None = None,
        *,
        on_task_side: bool = False,
        is_failure: bool = True,
    ) -> ErrorInfo | None:
        if not pending.abort():
            return None
        return self._failed(pending, reason, cause, on_task_side=on_task_side, is_failure=is_failure)

    def _failed(
        self,
        pending: PendingCheckpoint,
        reason: FailureReason,
        cause: ErrorInfo | None,
        *,
        on_task_side: bool = False,
        is_failure: bool = True,
    ) -> ErrorInfo | None:
        text = failure_text(reason, cause)
        checkpoint_id = pending.checkpoint_id
        self._pending.forget(pending)
        if is_failure:
            self.stats.on_failed(checkpoint_id, self._buffer.now_ms, text)
        else:
            self.stats.on_withdrawn(checkpoint_id)
        how = "failed" if is_failure else "is given up"
        self._buffer.log("INFO", f"checkpoint {checkpoint_id} {how}: {text}", job=self._graph.graph.job_id)
        self._report(pending.request, checkpoint_id, text)
        if pending.is_triggered:
            self._commands.abort(pending, self._retention.latest)
        self._retention.on_aborted(checkpoint_id, pending.location)
        self._sweep()
        kind = pending.request.snapshot_type
        if reason is not FailureReason.SUBSUMED:
            self._requests.on_failed(is_urgent=self._graph.all_at_end_of_data)
        if cause is not None and cause.code == CheckpointFilesMissing.code and self.latest is not None:
            self._must_be_full = True
            self._buffer.log("WARN", f"checkpoint {checkpoint_id}: {cause.message}", job=self._graph.graph.job_id)
            return self._try_next()
        failure = self._failures.judge(reason, checkpoint_id, kind, cause, on_task_side=on_task_side)
        return failure or self._try_next()

    def _sweep(self) -> None:
        """Applies the retention rule once the job has ended and no checkpoint is pending."""
        if self._ended is not None and not len(self._pending):
            self._retention.close(self._ended)

    def _report(
        self, request: CheckpointRequest, checkpoint_id: CheckpointId | None, failure: str, path: str = ""
    ) -> None:
        if request.snapshot_type.is_synchronous:
            self.stop.on_savepoint(checkpoint_id, failure, path)
        elif request.request_id is not None:
            self._commands.report(request.request_id, checkpoint_id, failure, path)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the coordinator or one of its parts contradicts itself or another. Called between events."""
        for part in (self.stop, self._requests, self._pending, self._retention, self._failures):
            part.check_invariants()
        assert len(self._pending) == self.stats.in_progress, f"{len(self._pending)} of {self.stats.in_progress} pending"
        assert self._ended is None or not self._requests.is_active, f"{self._ended}, and the periodic timer runs"
        early = [pending.checkpoint_id for pending in self._pending if pending.state.is_abortable]
        assert self._ended is None or not early, f"{self._ended}, and checkpoints {early} can still be aborted"
