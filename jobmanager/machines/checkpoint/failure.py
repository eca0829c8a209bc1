"""Why checkpoints fail, and when that fails the job.

Texts and the counted reasons are Flink's (``CheckpointFailureReason.java``, ``CheckpointFailureManager.java``): only
consecutive failures of distinct checkpoints count, a success resets the count, reports for older ids mean nothing.
"""

from __future__ import annotations

from enum import Enum

from tidegate.model.checkpoint import DeclineReason, SnapshotType
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import CheckpointId


class FailureReason(Enum):
    """Flink's reasons for a failed checkpoint: ``(text, whether it counts as a failure)``. Those of blocking edges and of channel state files
    that subtasks share never occur here.
    """

    PERIODIC_SCHEDULER_SHUTDOWN = ("Periodic checkpoint scheduler is shut down.", False)
    TOO_MANY_CHECKPOINT_REQUESTS = ("The maximum number of queued checkpoint requests exceeded", False)
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = (
        "The minimum time between checkpoints is still pending. Checkpoint will be triggered after the minimum time.",
        False,
    )
    NOT_ALL_REQUIRED_TASKS_RUNNING = ("Not all required tasks are currently running.", False)
    IO_EXCEPTION = ("An Exception occurred while triggering the checkpoint. IO-problem detected.", True)
    BLOCKING_OUTPUT_EXIST = ("Blocking output edge exists in running tasks.", False)
    ASYNC_EXCEPTION = ("Asynchronous task checkpoint failed.", True)
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = (
        "The checkpoint was aborted due to exception of other subtasks sharing the ChannelState file.",
        False,
    )
    EXPIRED = ("Checkpoint expired before completing.", True)
    SUBSUMED = ("Checkpoint has been subsumed.", False)
    DECLINED = ("Checkpoint was declined.", True)
    DECLINED_TASK_NOT_READY = ("Checkpoint was declined (tasks not ready)", False)
    DECLINED_TASK_CLOSING = ("Checkpoint was declined (task is closing)", False)
    DECLINED_SUBSUMED = (
        "Checkpoint was canceled because a barrier from newer checkpoint was received.",
        False,
    )
    DECLINED_ON_CANCELLATION_BARRIER = ("Task received cancellation from one of its inputs", False)
    DECLINED_INPUT_END_OF_STREAM = (
        "Checkpoint was declined because one input stream is finished",
        False,
    )
    COORDINATOR_SHUTDOWN = ("CheckpointCoordinator shutdown.", False)
    COORDINATOR_SUSPEND = ("Checkpoint Coordinator is suspending.", False)
    JOB_FAILOVER_REGION = ("FailoverRegion is restarting.", False)
    TASK_FAILURE = ("Task has failed.", False)
    TASK_CHECKPOINT_FAILURE = ("Task local checkpoint failure.", False)
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = ("Unknown task for the checkpoint to notify.", False)
    FINALIZE_CHECKPOINT_FAILURE = ("Failure to finalize checkpoint.", True)
    TRIGGER_CHECKPOINT_FAILURE = ("Trigger checkpoint failure.", False)

    def __init__(self, text: str, counts: bool) -> None:
        self.text = text
        self.counts = counts

    @staticmethod
    def of_decline(reason: DeclineReason) -> FailureReason:
        return _OF_DECLINE[reason]


_OF_DECLINE = {
    DeclineReason.TASK_NOT_READY: FailureReason.DECLINED_TASK_NOT_READY,
    DeclineReason.TASK_CLOSING: FailureReason.DECLINED_TASK_CLOSING,
    DeclineReason.SUBSUMED: FailureReason.DECLINED_SUBSUMED,
    DeclineReason.ON_CANCELLATION_BARRIER: FailureReason.DECLINED_ON_CANCELLATION_BARRIER,
    DeclineReason.INPUT_END_OF_STREAM: FailureReason.DECLINED_INPUT_END_OF_STREAM,
    DeclineReason.ASYNC_EXCEPTION: FailureReason.ASYNC_EXCEPTION,
    DeclineReason.TASK_FAILURE: FailureReason.TASK_FAILURE,
    DeclineReason.DECLINED: FailureReason.DECLINED,
}


def failure_text(reason: FailureReason, cause: ErrorInfo | None) -> str:
    """Returns the text of a reason and of its cause."""
    if cause is None:
        return reason.text
    origin = f" ({cause.origin})" if cause.origin else ""
    return f"{reason.text} Cause: {cause.message}{origin}"


class FailureCounter:
    """Counts consecutive checkpoint failures. ``tolerable``: how many the job survives."""

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._count = 0
        self._counted_ids: set[CheckpointId] = set()
        self._last_succeeded = CheckpointId(0)

    def on_success(self, checkpoint_id: CheckpointId) -> None:
        if checkpoint_id > self._last_succeeded:
            self._last_succeeded = checkpoint_id
            self._reset()

    def on_failure(
        self,
        reason: FailureReason,
        checkpoint_id: CheckpointId | None,
        snapshot_type: SnapshotType,
        *,
        on_task_side: bool,
    ) -> bool:
        """Counts a failure; returns whether the job has to fail, and then resets the count. Restarts for other reasons do not reset it.

        ``checkpoint_id`` is ``None`` before an id was assigned.
        """
        if snapshot_type.is_synchronous or (snapshot_type.is_savepoint and not on_task_side):
            return False
        if not reason.counts or (checkpoint_id is not None and checkpoint_id <= self._last_succeeded):
            return False
        if checkpoint_id is not None:
            if checkpoint_id in self._counted_ids:
                return False
            self._counted_ids.add(checkpoint_id)
        self._count += 1
        if self._count <= self._tolerable:
            return False
        self._reset()
        return True

    def judge(
        self,
        reason: FailureReason,
        checkpoint_id: CheckpointId | None,
        snapshot_type: SnapshotType,
        cause: ErrorInfo | None,
        *,
        on_task_side: bool,
    ) -> ErrorInfo | None:
        """Counts a failure; returns the job's failure when there are too many, otherwise ``None``.

        When the cause is lasting, the failure carries its code: the job may restart as often as its strategy allows, but operators see
        that restarting will not help.
        """
        if not self.on_failure(reason, checkpoint_id, snapshot_type, on_task_side=on_task_side):
            return None
        text = failure_text(reason, cause)
        message = "Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to " + text
        if cause is not None and cause.is_lasting:
            return ErrorInfo(cause.code, cause.domain, message, details=cause.details)
        return ErrorInfo("checkpoint-failures", "external", message)

    def _reset(self) -> None:
        self._count = 0
        self._counted_ids.clear()

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the count contradicts the tolerable number."""
        assert 0 <= self._count <= self._tolerable, (
            f"{self._count} failures are counted, {self._tolerable} are tolerable"
        )
        assert len(self._counted_ids) <= self._count, f"{sorted(self._counted_ids)} are {self._count} failures"
        old = [n for n in self._counted_ids if n <= self._last_succeeded]
        assert not old, f"failures of {old} count, and {self._last_succeeded} succeeded after them"
