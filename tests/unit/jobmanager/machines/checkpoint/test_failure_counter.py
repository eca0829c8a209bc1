"""A job that fails for its checkpoints has the code of what made them fail, when that lasts."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.machines.checkpoint.failure import FailureCounter, FailureReason
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import ErrorInfo, StateTooLarge, StorageError, StorageUnusable, TidegateError
from tidegate.model.ids import CheckpointId


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (StateTooLarge("too much"), "state-too-large"),
        (StorageUnusable("full"), "storage-unusable"),
        (StorageError("timed out"), "checkpoint-failures"),
        (None, "checkpoint-failures"),
    ],
)
def test_the_code_says_whether_a_restart_can_help(cause: TidegateError | None, code: str) -> None:
    info = None if cause is None else ErrorInfo.of(cause, "map (1/2)")
    counter = FailureCounter(0)
    kind = SnapshotType.CHECKPOINT
    failure = counter.judge(FailureReason.ASYNC_EXCEPTION, CheckpointId(1), kind, info, on_task_side=True)
    assert failure is not None
    assert failure.code == code
    assert failure.retriable, "the restart strategy decides, as in Flink"
    assert failure.message.startswith("Exceeded checkpoint tolerable failure threshold.")
    assert cause is None or cause.message in failure.message
